"""Diagnostics that a catalogue brings: read here, executed in a child, controlled like ours."""

import re
import sys
import textwrap
from pathlib import Path

import pytest

import breaks
from harness.check import Finding
from harness.check.pages import check_pages
from harness.core.errors import PageError
from harness.core.report import Report
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.crash import CRASH
from harness.diagnostics.own import from_catalogue, read_own
from harness.diagnostics.shape import SHAPE
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.matrix.plan import choose, evaluate_all, plan_matrix
from harness.matrix.verdict import judge_matrix
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.checks import read_diagnostic
from harness.runs.cache import Cache
from harness.sandbox.limits import Limits
from tests.harness.matrix.tiny import ENGINE, write_pages
from tests.harness.tiny import tiny_engine

HEAD = 'SEES = "a slope that is not 2 a"\nBLIND_TO = "the shape"\nFORWARD_PASSES = 3\n'
SLOPE = f"""\
import numpy as np

{HEAD}

def check(trial, run):
    a, cotangent = run.leaves["a"].numpy(), run.cotangent.numpy()
    gradient = run.gradients["a"].numpy().ravel()
    assert gradient.size == a.size, "the sizes differ"
    assert np.allclose(gradient, 2 * a * cotangent), f"the slope is {{gradient[0]:.3g}}"
    return gradient.size
"""
BRIEF = Limits(cpu_seconds=1, seconds=5)


def body(*lines: str) -> str:
    """The text of a diagnostic whose check consists of these lines."""
    return HEAD + "\n\ndef check(trial, run):\n" + "".join(f"    {line}\n" for line in lines)


def catalogue(root: Path, text: str, name: str = "slope") -> Catalogue:
    if not root.exists():
        write_pages(root)
    (root / "diagnostics").mkdir(exist_ok=True)
    (root / "diagnostics" / f"{name}.py").write_text(text, encoding="utf-8")
    return Catalogue((root,))


def baseline(pages: Catalogue, cache: Cache | None = None, *, select: bool = False) -> Baseline:
    own = [from_catalogue(each) for each in read_own(pages)[0]]
    return Baseline(cache or Cache(None), (CRASH, SHAPE), BRIEF, select=select, own=own)


def report(pages: Catalogue, page: str, cache: Cache | None = None) -> Report:
    experiment = prepare(pages.page(page), pages, tiny_engine(ENGINE), probes=["square"])
    return run_lab(experiment, baseline(pages, cache))


def findings(pages: Catalogue) -> list[Finding]:
    context = OpenContext(pages, tiny_engine(ENGINE), baseline(pages))
    names = [path.stem for path in pages.diagnostic_files]
    return [finding for check in check_pages(context, names) for finding in check.findings]


def verdict(pages: Catalogue) -> Verdict:
    """The verdict on the unbroken engine."""
    probe = pages.shared_probes["square"]
    return (
        baseline(pages).clean(tiny_engine(ENGINE), [probe])["square", "uniform"].verdicts["slope"]
    )


def test_it_has_a_column_beside_ours_and_the_same_controls(tmp_path: Path) -> None:
    pages = catalogue(tmp_path / "pages", SLOPE)
    plan = plan_matrix(choose(pages, tiny_engine(ENGINE), ids=["half", "flat"]), Cache(None))
    matrix = judge_matrix(plan, evaluate_all(plan, baseline(pages, select=True), processes=1), 0.0)
    rows = {row.break_: row for row in matrix.breaks}
    assert [row.name for row in matrix.diagnostics] == ["crash", "shape", "slope"]
    assert list(rows["half"].caught_by) == ["slope"]
    assert list(rows["flat"].caught_by) == ["shape"]
    assert "slope" in rows["flat"].missed_by
    assert str(rows["half"].messages["slope"]) == "the slope is 1"
    assert [control.control for control in matrix.controls if control.problems] == []


def test_a_diagnostic_that_never_alarms_violates_the_control(tmp_path: Path) -> None:
    pages = catalogue(tmp_path / "pages", body("return 1"))
    plan = plan_matrix(choose(pages, tiny_engine(ENGINE), ids=["half"]), Cache(None))
    matrix = judge_matrix(plan, evaluate_all(plan, baseline(pages, select=True), processes=1), 0.0)
    (violated,) = [control for control in matrix.controls if control.problems]
    assert violated.problems == ["slope raises no alarm on any probe"]


def test_a_report_lists_it_among_those_that_caught_and_missed(tmp_path: Path) -> None:
    pages = catalogue(tmp_path / "pages", SLOPE)
    assert {name for run in report(pages, "half").runs for name in run.caught_by} == {"slope"}
    assert all("slope" in run.missed_by for run in report(pages, "flat").runs)


def test_what_a_page_of_another_folder_states_is_not_about_it(tmp_path: Path) -> None:
    write_pages(tmp_path / "pages")
    (tmp_path / "mine").mkdir()
    pages = Catalogue((tmp_path / "pages", *catalogue(tmp_path / "mine", SLOPE).roots))
    assert pages.diagnostics_elsewhere(pages.page("half")) == {"slope"}
    found = report(pages, "half")
    assert any(run.caught_by for run in found.runs)
    assert not any(run.caught_by for run in found.without({"slope"}).runs)


def test_a_text_that_changes_is_another_diagnostic(tmp_path: Path) -> None:
    cache = Cache(None)
    assert any(r.caught_by for r in report(catalogue(tmp_path / "p", SLOPE), "half", cache).runs)
    lenient = catalogue(tmp_path / "p", body("return 1"))
    assert not any(r.caught_by for r in report(lenient, "half", cache).runs)


# ----- What it may do -----


def test_its_file_is_never_executed_by_this_process(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = f"import pathlib, sys\nsys.modules['was_here'] = sys\n{SLOPE}"
    text += (
        f"\ntry:\n    pathlib.Path({str(marker)!r}).write_text('x')\nexcept OSError:\n    pass\n"
    )
    pages = catalogue(tmp_path / "pages", text)
    assert findings(pages) == []
    assert any(run.caught_by for run in report(pages, "half").runs)
    assert "was_here" not in sys.modules
    assert not marker.exists()


def test_it_sees_neither_the_places_of_the_patch_nor_other_measurements(tmp_path: Path) -> None:
    seen = "run.reached, run.trail, run.measured, run.called, run.trace"
    pages = catalogue(tmp_path / "pages", body(f"assert not any([{seen}])", "return 1"))
    runs = report(pages, "half").runs
    assert all("slope" in run.no_alarm for run in runs), [run.alarms for run in runs]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["return 0"], "it compared nothing"),
        (["return 'the leaf is a \\x1b[31mnumber'"], r"the leaf is a \x1b[31mnumber"),
        (["return None"], "`check` returned NoneType, not the number of compared entries"),
        (["return True"], "`check` returned bool, not the number of compared entries"),
        (["return 1 / 0"], "ZeroDivisionError in line 7 of diagnostics/slope: division by zero"),
        (["raise SystemExit(0)"], "SystemExit in line 7 of diagnostics/slope"),
        (["import os", "os._exit(0)"], "ProcessExit in the run"),
        (["while run.loss == 'uniform': pass"], "TimeLimit in the run"),
        (["import time", "time.sleep(60 * (run.loss == 'uniform'))"], "TimeLimit in the run"),
        (["return lambda: 1"], "`check` returned function"),
        (
            ["import harness.runs.job as job", "job.encode_or_fail = lambda run: b'forged'"],
            "`check` returned NoneType",
        ),
        (["run.measured['torch'] = 1", "return 0"], "it compared nothing"),
    ],
)
def test_what_is_no_verdict_is_declined_and_leaves_the_outcome_alone(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    pages = catalogue(tmp_path / "pages", body(*lines))
    found = verdict(pages)
    assert isinstance(found, Declined)
    if "harness.runs" not in lines[0]:
        assert said in str(found.reason)
    runs = report(pages, "half").runs
    assert {run.outcome for run in runs} == {"silent-corruption"}
    assert not any("slope" in run.caught_by for run in runs)


def test_an_alarm_is_text_that_the_run_chose(tmp_path: Path) -> None:
    pages = catalogue(tmp_path / "pages", body("assert False, '\\x1b[2J' + 'x' * 5000"))
    found = verdict(pages)
    assert isinstance(found, Alarm)
    assert str(found.message).isprintable()
    assert len(str(found.message)) <= 1000


def test_an_alarm_without_a_text_quotes_its_line(tmp_path: Path) -> None:
    found = verdict(catalogue(tmp_path / "pages", body("assert run.output is None")))
    assert isinstance(found, Alarm)
    assert str(found.message) == "it does not hold: assert run.output is None"


@pytest.mark.parametrize(
    ("count", "compared"), [("3", 3), ("10**400", 2**53), ("run.output.numpy().size", 3)]
)
def test_what_was_compared_is_counted(tmp_path: Path, count: str, compared: int) -> None:
    found = verdict(catalogue(tmp_path / "pages", body(f"return {count}")))
    assert isinstance(found, Silent)
    assert found.compared == compared


# ----- The check -----


def test_a_good_one_passes_its_check(tmp_path: Path) -> None:
    assert findings(catalogue(tmp_path / "pages", SLOPE)) == []


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (body("assert False, 'always'"), 6, "raises a false alarm on the unbroken engine with"),
        (body("return 1"), 6, "raises no alarm on `sabotage`, an engine that is wrong everywhere"),
        (body("return 'no'"), 6, "judges no run of any shared probe: no"),
        (body("return run.nothing"), 6, "AttributeError in line 7 of diagnostics/slope"),
        (SLOPE.replace("SEES", "SAW"), 1, "`SEES` is not a text"),
        (SLOPE.replace('"the shape"', "str(1)"), 4, "`BLIND_TO` is not a text"),
        (SLOPE.replace("PASSES = 3", "PASSES = -1"), 5, "`FORWARD_PASSES` is not a positive"),
        (SLOPE + 'KINDS = ["no-such"]\n', 14, "`KINDS` is not a list of kinds of probes"),
        (SLOPE.replace("def check", "def judge"), 1, "it defines no function `check`"),
        (SLOPE.replace("(trial, run)", "(run)"), 8, "`check` does not take exactly two arguments"),
        (SLOPE.replace("def check(", "def check(("), 8, "the diagnostic is not Python"),
    ],
)
def test_each_mistake_is_a_finding_with_its_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    found = findings(catalogue(tmp_path / "pages", text))
    assert any(problem in each.problem and each.line == line for each in found), found


def test_an_alarm_on_a_correct_rewrite_is_a_finding(tmp_path: Path) -> None:
    text = body(
        "import inspect",
        "code = type(trial.leaves(run.values())['a']).square.__code__",
        "assert '**' not in str(code.co_consts) and 2 in code.co_consts, 'another text'",
        "return 1",
    )
    (found,) = findings(catalogue(tmp_path / "pages", text))
    assert "raises a false alarm on the correct engine `squared-by-hand`" in found.problem


def test_the_name_of_one_of_ours_is_refused(tmp_path: Path) -> None:
    pages = catalogue(tmp_path / "pages", SLOPE, "gradcheck")
    (found,) = findings(pages)
    assert "the diagnostic `gradcheck` is also defined in harness/diagnostics" in found.problem
    assert read_own(pages)[0] == []


def test_a_file_name_that_is_no_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "My Check.py").write_text(SLOPE, encoding="utf-8")
    with pytest.raises(PageError, match="cannot be the name of a diagnostic"):
        read_diagnostic(tmp_path / "My Check.py")


GUIDE = Path(breaks.__file__).parent / "README.md"
EXAMPLE = re.search(r"^    SEES = .*\n(?:    .*\n|\n(?=\n*    ))+", GUIDE.read_text("utf-8"), re.M)


def test_the_example_of_the_guide_judges_our_engine(tmp_path: Path) -> None:
    """Silent on the clean engine; it catches a break of scale, and misses a proportional one."""
    assert EXAMPLE
    folder = tmp_path / "diagnostics"
    folder.mkdir()
    (folder / "doubled_loss.py").write_text(textwrap.dedent(EXAMPLE[0]), encoding="utf-8")
    pages = open_catalogue([tmp_path])
    (own,), mistakes = read_own(pages)
    assert (own.name, mistakes) == ("doubled-loss", [])
    with_own = Baseline(Cache(None), (CRASH,), own=[from_catalogue(own)])
    probes = [pages.shared_probes[name] for name in ("mul", "log", "sum-all")]
    verdicts = [
        key.verdicts["doubled-loss"] for key in with_own.clean(find_engine(), probes).values()
    ]
    assert all(isinstance(each, Silent) for each in verdicts), verdicts
    sabotage = prepare(
        pages.page("sabotage"), pages, find_engine(), probes=[p.name for p in probes]
    )
    assert any("doubled-loss" in run.caught_by for run in run_lab(sabotage, with_own).runs)
