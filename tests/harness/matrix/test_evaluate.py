"""The matrix end to end, on an engine and a catalogue that fit on a page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import EnvironmentProblem, NotAccepted, PageError, UsageError
from harness.core.vocabulary import Silent
from harness.diagnostics import Diagnostic
from harness.diagnostics.autograd import AUTOGRAD
from harness.diagnostics.crash import CRASH
from harness.diagnostics.gradcheck import GRADCHECK
from harness.diagnostics.shape import SHAPE
from harness.experiment.baseline import Baseline
from harness.experiment.patching import Experiment
from harness.matrix import plan as plan_module
from harness.matrix.committed import read_committed
from harness.matrix.records import Matrix
from harness.matrix.verdict import accept
from harness.pages.catalogue import Catalogue
from harness.pages.probe import read_probes
from harness.runs import cached_runs
from harness.runs.cache import Cache
from harness.runs.protocol import Job
from tests.harness.matrix.tiny import ENGINE, SQUARE, SQUARE_ONE, page, plan, run, write_pages


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return write_pages(tmp_path)


@pytest.fixture
def accepted(catalogue: Catalogue) -> Catalogue:
    """The same, with its matrix committed."""
    assert accept(plan(catalogue), run(plan(catalogue))[0]) == [committed_in(catalogue)]
    return catalogue


def committed_in(catalogue: Catalogue) -> Path:
    return catalogue.roots[0] / "matrix.toml"


def write(catalogue: Catalogue, name: str, *words: str) -> None:
    (catalogue.roots[0] / f"{name}.md").write_text(page(name, *words), encoding="utf-8")


def blind(diagnostic: Diagnostic) -> Diagnostic:
    """The same diagnostic, gone blind: it looks, and never sees anything."""
    return replace(diagnostic, check=lambda _: Silent(1))


def rows(matrix: Matrix) -> dict[str, dict[str, list[str]]]:
    return {row.break_: row.caught_by for row in matrix.breaks}


def differences(matrix: Matrix) -> list[str]:
    return [f"{d.break_} {d.sign} {d.text}" for d in matrix.differences or ()]


BOTH = ["square", "square-one"]


def test_every_break_is_tried_on_every_probe_by_every_diagnostic(catalogue: Catalogue) -> None:
    _, matrix = run(plan(catalogue))
    assert rows(matrix) == {
        "unused": {},
        "flat": {"shape": BOTH, "gradcheck": BOTH},
        "half": {"gradcheck": BOTH},
    }
    assert [row.problems for row in matrix.controls] == [[]] * 5
    assert matrix.problems == ["unused is never reached: no probe runs the patched code"]
    assert (matrix.differences, matrix.clean) == (None, [])
    assert matrix.breaks[-1].witness
    assert matrix.breaks[-1].witness.probe == "square-one"


def test_the_baseline_needs_only_the_runs_that_are_computed_in_parallel(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = plan(catalogue, ids=["half"]).breaks
    assert isinstance(entry.work, Experiment)
    text = SQUARE.replace("square(a", "again(a")
    texts = {"one.py": text, "other.py": text.replace("2.0", "5.0")}  # two probes with one name
    own = [read_probes(text, path) for path, text in texts.items()]
    works = [replace(entry.work, probes=(*entry.work.probes, *probes)) for probes in own]
    baseline = Baseline(Cache(None), (CRASH, AUTOGRAD), select=True)

    def only_these(jobs: Sequence[Job], cache: Cache, processes: int) -> None:
        cached_runs.run_in_parallel(jobs, cache, processes)
        monkeypatch.setattr(cached_runs, "run_isolated", None)

    monkeypatch.setattr(plan_module, "run_in_parallel", only_these)
    plan_module._complete(baseline, works, 1)
    assert baseline.unrepeatable(works[1].clean, works[1].probes) == {}


def test_ids_and_a_family_restrict_the_breaks_and_never_the_controls(catalogue: Catalogue) -> None:
    for selection in ({"ids": ["half"]}, {"family": "values", "ids": ["half", "flat"]}):
        made = plan(catalogue, **selection)
        assert [entry.page.id for entry in made.breaks] == ["half"]
        others = ["no-op", "sabotage", "squared-by-hand"]
        assert [entry.page.id for entry in made.entries] == [*others, "half"]
        assert made.choice.complete == frozenset()
    assert plan(catalogue).choice.complete == frozenset(catalogue.roots)


def test_what_does_not_exist_is_said_before_anything_runs(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="did you mean `half`"):
        plan(catalogue, ids=["hafl"])
    with pytest.raises(UsageError, match="is a variant, not a break"):
        plan(catalogue, ids=["squared-by-hand"])
    with pytest.raises(UsageError, match=r"mean `values`\? the families are shapes, values"):
        plan(catalogue, family="value")


def test_a_page_that_cannot_be_used_ends_it_before_anything_runs(catalogue: Catalogue) -> None:
    (catalogue.roots[0] / "half.md").write_text("no page", encoding="utf-8")
    with pytest.raises(PageError, match="no front matter"):
        plan(catalogue)


def test_a_committed_matrix_that_cannot_be_read_is_reported_before_anything_runs(
    tmp_path: Path,
) -> None:
    catalogue = write_pages(tmp_path)
    (tmp_path / "matrix.toml").symlink_to("/dev/zero")
    with pytest.raises(PageError, match="is not a regular file"):
        plan(catalogue)


def test_on_a_variant_the_variant_is_the_clean_engine(catalogue: Catalogue) -> None:
    write(catalogue, "cube", "break", "values", "@@ square @@\n-self.data * self.data\n+$a**3")
    write(catalogue, "cube", "break", "v", "@@ square @@\n-self.data * self.data\n+self.data**3")
    (catalogue.roots[0] / "no-op.md").unlink()
    made = plan(catalogue, on="squared-by-hand", ids=["cube"])
    assert (made.choice.variants, made.choice.report.variant) == ((), "squared-by-hand")
    experiment = made.breaks[0].work
    assert isinstance(experiment, Experiment)
    assert "-        out = Tensor(self.data * self.data)" in experiment.diff
    evaluations, _ = run(made)
    assert rows(run(made)[1]) == {"cube": {"gradcheck": BOTH}}
    write(catalogue, "no-op", "control", "f", "@@ square @@\n-$a * $b\n+np.multiply($a, $b)")
    made = plan(catalogue, on="squared-by-hand", ids=["cube"])
    accept(made, run(made)[0])
    assert (catalogue.roots[0] / "matrix.squared-by-hand.toml").exists()
    assert not committed_in(catalogue).exists()
    assert evaluations.variants == ()


def test_a_patch_without_a_site_does_not_apply_and_is_not_a_survivor(tmp_path: Path) -> None:
    catalogue = write_pages(tmp_path, ["no-op", "sabotage", "half"])
    write(catalogue, "elsewhere", "break", "f", "@@ cube @@\n-1\n+2")
    _, matrix = run(plan(catalogue))
    assert matrix.breaks[0].fate == "does-not-apply"
    assert matrix.problems == []


def test_a_probe_that_gives_other_numbers_each_time_accuses_nobody(catalogue: Catalogue) -> None:
    path = catalogue.roots[0] / "flat.md"
    probe = "import numpy as np\n\ndef drawn(a=[1.0, 2.0]):\n    'x'\n"
    probe += "    a.data = a.data * np.random.default_rng().random()\n    return a.square()\n"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}\n## Probes\n\n```python\n{probe}```\n", encoding="utf-8")
    _, matrix = run(plan(catalogue, ids=["flat"]))
    assert rows(matrix) == {"flat": {"shape": BOTH, "gradcheck": BOTH}}
    assert [row.problems for row in matrix.controls] == [[]] * 5


def test_an_alarm_about_the_clean_engine_is_seen_though_a_break_silences_it(
    catalogue: Catalogue,
) -> None:
    """The engine itself is wrong here, and the only break puts it right."""
    wrong = ENGINE.replace("2 * self.parent.data", "3 * self.parent.data")
    write(catalogue, "repair", "break", "values", "@@ backward @@\n-3 * $x\n+2 * $x")
    for name in ("half", "flat", "no-op", "sabotage"):
        (catalogue.roots[0] / f"{name}.md").unlink()
    _, matrix = run(plan(catalogue, wrong, ids=["repair"]))
    assert {(alarm.diagnostic, alarm.probe) for alarm in matrix.clean} == {
        ("gradcheck", "square"),
        ("gradcheck", "square-one"),
    }
    assert len(matrix.clean) == 4  # two losses each, once though two pages were evaluation


# ----- Committed -----------------------------------------------------------------------------


def test_an_accepted_matrix_does_not_differ_and_accepting_it_again_changes_nothing(
    accepted: Catalogue,
) -> None:
    evaluations, matrix = run(plan(accepted))
    assert matrix.differences == []
    assert accept(plan(accepted), evaluations) == []
    assert list(read_committed(committed_in(accepted)) or ()) == ["flat", "half", "unused"]


def test_a_diagnostic_that_goes_blind_fails_with_the_catches_it_lost(accepted: Catalogue) -> None:
    _, matrix = run(plan(accepted), (CRASH, blind(SHAPE), GRADCHECK))
    assert differences(matrix) == ["flat - shape no longer catches it with square, square-one"]
    assert not matrix.agrees
    assert matrix.problems[0] == (
        "the control `sabotage` fails: shape raises no alarm on any probe"
    )
    assert matrix.problems[-1].startswith("1 break is not as committed")


def test_a_sole_catcher_that_goes_blind_leaves_a_survivor(accepted: Catalogue) -> None:
    _, matrix = run(plan(accepted, ids=["half"]), (CRASH, SHAPE, blind(GRADCHECK)))
    assert differences(matrix) == [
        "half + survives: no diagnostic catches it any more",
        "half - gradcheck no longer catches it with square, square-one",
    ]
    assert "half survives: no diagnostic catches it with any probe" in matrix.problems


def test_a_diagnostic_that_goes_blind_on_one_probe_is_seen_though_no_control_is_violated(
    accepted: Catalogue,
) -> None:
    """A survivor count would not notice: every break is still caught."""
    seeing = SHAPE.check
    short = replace(SHAPE, check=lambda o: Silent(1) if o.probe.name == "square-one" else seeing(o))
    _, matrix = run(plan(accepted), (CRASH, short, GRADCHECK))
    assert differences(matrix) == ["flat - shape no longer catches it with square-one"]
    assert [row.problems for row in matrix.controls] == [[]] * 5


def test_a_break_that_goes_is_a_difference_only_where_all_are_looked_at(
    accepted: Catalogue,
) -> None:
    (accepted.roots[0] / "flat.md").unlink()
    gone = ["flat - is in the committed matrix, but has no page"]
    assert differences(run(plan(accepted))[1]) == gone
    assert differences(run(plan(accepted, ids=["half"]))[1]) == []


def test_accepting_some_breaks_keeps_the_others(accepted: Catalogue) -> None:
    before = read_committed(committed_in(accepted))
    write(accepted, "half", "break", "values", "@@ backward @@\n-2 * $x\n+(2 * $x)[:, None]")
    some = plan(accepted, ids=["half"])
    accept(some, run(some)[0])
    after = read_committed(committed_in(accepted))
    assert before
    assert after
    assert (after["flat"], after["unused"]) == (before["flat"], before["unused"])
    assert after["half"].caught_by == {"gradcheck": BOTH, "shape": BOTH}


def test_nothing_is_accepted_where_a_control_is_violated(catalogue: Catalogue) -> None:
    evaluations, _ = run(plan(catalogue), (CRASH, blind(SHAPE), GRADCHECK))
    with pytest.raises(NotAccepted, match="`sabotage`: shape raises no alarm"):
        accept(plan(catalogue), evaluations)
    assert not committed_in(catalogue).exists()


def test_nothing_is_accepted_where_a_diagnostic_could_not_be_asked(catalogue: Catalogue) -> None:
    """One that asks a library and needs a kind of probe that this catalogue has none of."""
    idle = replace(SHAPE, name="idle", kinds=("module",), library="autograd")
    evaluations, matrix = run(plan(catalogue), (CRASH, SHAPE, GRADCHECK, idle))
    assert list(matrix.skipped) == ["idle"]
    with pytest.raises(EnvironmentProblem, match="idle could not run"):
        accept(plan(catalogue), evaluations)
    assert not committed_in(catalogue).exists()


def test_each_root_has_its_own_matrix_without_the_probes_of_other_folders(tmp_path: Path) -> None:
    """`square` is in the second folder; the first folder's breaks are evaluated on it too."""
    first, second = tmp_path / "first", tmp_path / "second"
    write_pages(first, ["no-op", "sabotage", "half"], SQUARE_ONE)
    write_pages(second, ["flat"], SQUARE)
    both = plan(Catalogue((first, second)))
    evaluations, matrix = run(both)
    assert rows(matrix)["half"] == {"gradcheck": ["square-one", "square"]}
    assert accept(both, evaluations) == [first / "matrix.toml", second / "matrix.toml"]
    of_first, of_second = (read_committed(root / "matrix.toml") for root in (first, second))
    assert of_first
    assert of_second
    assert of_first["half"].caught_by == {"gradcheck": ["square-one"]}
    assert of_second["flat"].caught_by["shape"] == ["square"]
    assert run(both)[1].differences == []
