"""Exercises: the suite in its child, the judgement of a probe, and the check of a page."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from harness.check import Finding
from harness.check.kinds import check_exercise
from harness.check.pages import check_page
from harness.check.prose import EXERCISE_SECTIONS, check_prose
from harness.check.static import check_names
from harness.core import LARGEST
from harness.core.errors import BreaklabError, PageError
from harness.diagnostics import DIAGNOSTICS
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.grade.exercise import (
    ExerciseReport,
    SuiteFate,
    is_suite_file,
    read_suite,
    run_exercise,
    without_answer,
)
from harness.grade.probes import LARGEST_LEAF, check_soundness, read_submission
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.page import Page, read_page
from harness.runs.cache import Cache, open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.sound_exercise import (
    ANSWER,
    PRODUCT,
    SOUND_EXERCISE,
    exercise_with,
    with_answer,
    with_test,
)
from tests.harness.sound_page import write_page

pytestmark = pytest.mark.usefixtures("without_oracles")

ID = "equal-factors"
ENGINE = find_engine()
ALONE = [each for each in DIAGNOSTICS if not each.library]
"""Diagnostics that ask no library, which would be imported for each test."""

FIRST_LINE = "import numpy as np"


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    """One for all tests, so that what the variants say of one answer is asked once."""
    return Baseline(open_cache(), ALONE)


@pytest.fixture
def quick() -> Baseline:
    return Baseline(open_cache(), ALONE, Limits(cpu_seconds=0.5))


def with_few_variants(catalogue: Catalogue) -> Catalogue:
    """Limit the catalogue to two variants, since the check runs each answer on all of them."""
    few = ("float32-data", "relu-mask-ge")
    pages, mistakes = CATALOGUE.pages
    chosen = tuple(page for page in pages if page.front.kind != "variant" or page.id in few)
    vars(catalogue)["pages"] = chosen, mistakes
    return catalogue


@cache
def few_variants() -> Catalogue:
    return with_few_variants(open_catalogue())


def context(baseline: Baseline) -> OpenContext:
    return OpenContext(few_variants(), ENGINE, baseline)


def page_of(folder: Path, text: str = SOUND_EXERCISE) -> Page:
    """The link to the break's page leads to a file, as it does in the catalogue."""
    (folder / "mul-swapped-operands.md").touch()
    return read_page(write_page(folder, text, f"{ID}.md"))


def found(folder: Path, text: str, baseline: Baseline) -> list[Finding]:
    known, findings = check_names(page_of(folder, text), CATALOGUE)
    return [*findings, *check_exercise(known, context(baseline))]


def attempt(
    folder: Path, probe: str, baseline: Baseline, text: str = SOUND_EXERCISE
) -> ExerciseReport:
    file, page = folder / "mine.py", page_of(folder, text)
    file.write_text(probe, encoding="utf-8")
    if is_suite_file(file):
        return run_exercise(page, context(baseline), suite_file=file)
    return run_exercise(page, context(baseline), read_submission(file))


def probe_that(body: str, arguments: str = "x=[1.0, 2.0]") -> str:
    return f'def mine({arguments}):\n    "Mine."\n    {body}\n'


# ----- The suite -----


def test_the_suite_is_read_with_its_helpers_and_lines(tmp_path: Path) -> None:
    tests = read_suite(page_of(tmp_path))
    assert [(test.name, test.kind, test.losses) for test in tests] == [
        ("test_square", "test", (None,)),
        ("test_mean_square", "test", (None,)),
    ]
    assert SOUND_EXERCISE.splitlines()[tests[0].line - 1] == FIRST_LINE


@pytest.mark.parametrize(
    ("suite", "problem", "at"),
    [
        (
            "def test_square(lib, x):",
            r"`def test_square\(lib, x\)` is not a test",
            "def test_square",
        ),
        ("def test_square():", r"`def test_square\(\)` is not a test", "def test_s"),
        (
            "def test_square(lib=None):",
            r"`def test_square\(lib=None\)` is not a test",
            "def test_sq",
        ),
        ("def square(lib):", r"`def square\(lib\)` is not a test", "def square"),
        ("def test_square(lib:", "the suite is not Python", "def test_square"),
        ("def test_mean_square(lib):", "`test_mean_square` is defined 2 times", FIRST_LINE),
    ],
)
def test_a_function_that_is_not_a_test_is_refused_at_its_line(
    tmp_path: Path, suite: str, problem: str, at: str
) -> None:
    text = exercise_with(("def test_square(lib):", suite))
    with pytest.raises(PageError, match=problem) as raised:
        read_suite(page_of(tmp_path, text))
    assert text.splitlines()[raised.value.line - 1].startswith(at)


def test_each_test_reports_where_the_fault_was_lost(tmp_path: Path, baseline: Baseline) -> None:
    more = """    x = lib.tensor([1.0], requires_grad=True)
    x.exp().backward()
    assert np.allclose(x.grad, np.e)


def test_that_looks_away(lib):
    a = lib.tensor([2.0], requires_grad=True)
    b = lib.tensor([5.0], requires_grad=True)
    (a * b).backward()
    assert a.grad.shape == (1,)"""
    report = run_exercise(page_of(tmp_path, with_test(more)), context(baseline))
    fates = {test.test: test.on["mul-swapped-operands"] for test in report.suite}
    assert [test.failure for test in report.suite] == [None] * 4
    assert {name: (fate.passes, fate.stage) for name, fate in fates.items()} == {
        "test_square": (True, "not-infected"),
        "test_mean_square": (True, "not-infected"),
        "test_more": (True, "not-reached"),
        "test_that_looks_away": (True, "not-revealed"),
    }
    killed = report.suite[0].on["mul-ignore-upstream"], report.suite[1].on["mul-ignore-upstream"]
    assert killed[0] == SuiteFate(True, "not-infected", killed[0].why)
    assert (killed[1].passes, killed[1].stage) == (False, "revealed")
    assert str(killed[1].why).startswith("AssertionError in the test, at `assert np.allclose")
    assert report.agrees
    assert report.killed is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["mul-ignore-upstream"]', '["mul-ignore-upstream", "sub-sign"]'),
        ('["mul-swapped-operands"]', '["mul-swapped-operands", "mean-missing-n"]'),
        ("[6.0]", "[5.0]"),
    ],
)
def test_a_suite_that_does_not_do_what_the_page_says_is_reported(
    tmp_path: Path, baseline: Baseline, old: str, new: str
) -> None:
    page = page_of(tmp_path, exercise_with((old, new)))
    assert not run_exercise(page, context(baseline)).agrees


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("    import os\n    os._exit(3)", "ProcessExit"),
        ("    import os\n    os.kill(os.getpid(), 11)", "SIGSEGV"),
        pytest.param("    while True:\n        pass", "ProcessorTimeLimit", marks=pytest.mark.slow),
        ("    raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_test_that_ends_its_process_fails_and_takes_no_other_with_it(
    tmp_path: Path, quick: Baseline, body: str, failure: str
) -> None:
    text = exercise_with(("def test_mean", f"def test_evil(lib):\n{body}\n\n\ndef test_mean"))
    report = run_exercise(page_of(tmp_path, text), context(quick))
    assert [str(test.failure or "passes").split()[0] for test in report.suite] == [
        "passes",
        failure,
        "passes",
    ]
    assert not report.agrees


# ----- A learner's file -----


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no test and no probe in"),
        ("x = 1\n", "no test and no probe in"),
        ("def _helper():\n    pass\n", "no test and no probe in"),
        ("def mine(:\n", "is not Python"),
        ("def mine(x=(3,)):\n    return x\n", "has no docstring"),
        ("def mine(x):\n    'Mine.'\n    return x\n", "has no shape and no values"),
        (probe_that("return x") + probe_that("return x * x"), "`mine` is defined 2 times"),
        (probe_that("return x", "x=(1000, 1000)"), r"is \(1000, 1000\)"),
        ("x = " + "(" * 500 + ")" * 500, "(is not Python|nested too deeply)"),
        ("x = " + "-" * 60_000 + "1", "(is not Python|nested too deeply)"),
        ("#" * (LARGEST + 1), "is too large"),
        ("def mine(x=(3,)):\n    '''\x00'''\n", r"the control character U\+0000 is not text"),
    ],
)
def test_a_file_that_cannot_be_judged_is_one_message_with_its_remedy(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(BreaklabError, match=problem) as raised:
        read_submission(tmp_path / "mine.py")
    assert raised.value.exit_status == 2
    assert "\n  remedy: " in str(raised.value)


def test_a_path_that_is_not_a_text_file_is_refused_without_being_read(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="No such file"):
        read_submission(tmp_path / "nowhere.py")
    with pytest.raises(PageError, match="is not a regular file"):
        read_submission(tmp_path)
    with pytest.raises(PageError, match="is not a regular file"):
        read_submission(Path("/dev/zero"))
    (tmp_path / "mine.py").write_bytes(b"\xff\xfe")
    with pytest.raises(PageError, match="save it as UTF-8"):
        read_submission(tmp_path / "mine.py")


def test_a_leaf_of_the_largest_size_is_a_probe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(probe_that("return x", f"x=({LARGEST_LEAF},)"))
    assert len(read_submission(tmp_path / "mine.py")) == 1


SUITE = f"""{PRODUCT}

def test_square(lib):
    a = leaf(lib, 3.0)
    (a * a).backward()
    assert a.grad == 6.0
"""


# ----- The judgement -----


def test_the_answer_kills(tmp_path: Path, baseline: Baseline) -> None:
    report = attempt(tmp_path, ANSWER, baseline)
    assert report.killed
    (attack,) = report.attacks
    assert (attack.break_, attack.stage) == ("mul-swapped-operands", "revealed")
    killers = attack.killed_by["two-leaves"]
    assert "gradcheck" in killers
    assert killers == [name for name in (each.name for each in ALONE) if name in killers]
    assert attack.runs[0].margins["gradcheck"] > 6


@pytest.mark.parametrize(
    ("probe", "stage"),
    [
        (probe_that("return x.exp()"), "not-reached"),
        (probe_that("return x * x"), "not-infected"),
        (
            probe_that("return x * x") + probe_that("return x.exp()").replace("mine", "other"),
            "not-infected",  # the furthest of all probes
        ),
        (probe_that("return x * 2.0 - x * 2.0"), "not-propagated"),
        (
            probe_that("(x * x.exp()).sum().backward(); yield {'x': x.grad}"),
            "not-revealed",  # only a library would know
        ),
    ],
)
def test_a_probe_that_does_not_kill_reports_how_far_the_fault_came(
    tmp_path: Path, baseline: Baseline, probe: str, stage: str
) -> None:
    report = attempt(tmp_path, probe, baseline)
    assert not any(one.problems for one in report.probes)
    (attack,) = report.attacks
    assert (report.killed, attack.killed_by, attack.stage) == (False, {}, stage)
    assert attack.why


def test_every_break_has_to_be_killed_and_by_whichever_probe(
    tmp_path: Path, baseline: Baseline
) -> None:
    text = exercise_with(('["mul-swapped-operands"]', '["mul-swapped-operands", "sub-sign"]'))
    assert attempt(tmp_path, ANSWER, baseline, text).killed is False
    both = ANSWER + probe_that("return 1.0 - x")
    report = attempt(tmp_path, both, baseline, text)
    assert report.killed
    assert [list(one.killed_by) for one in report.attacks] == [["two-leaves"], ["mine"]]


def test_tests_kill_one_break_and_the_stage_says_where_the_other_was_lost(
    tmp_path: Path, baseline: Baseline
) -> None:
    text = exercise_with(('["mul-swapped-operands"]', '["mul-swapped-operands", "sub-sign"]'))
    report = attempt(tmp_path, SUITE, baseline, text)
    product, sub = report.attacks
    assert (product.killed_by, product.stage) == ({"test_product": ["test"]}, "revealed")
    assert (product.runs, product.recognised, product.ended) == ([], [], {})
    assert (sub.killed_by, sub.stage) == ({}, "not-reached")
    assert (report.killed, report.score) == (False, 1)


@pytest.mark.parametrize(
    ("body", "stage"),
    [
        ("lib.tensor(1.0)", "not-reached"),
        ("assert x.data == 2.0; (x * x).backward(); assert x.grad == 4.0", "not-infected"),
        ("(x * y).backward(); assert x.grad.shape == ()", "not-revealed"),
        ("(x * y).backward(); assert x.grad == 5.0", "revealed"),
    ],
)
def test_a_test_reports_how_far_the_fault_came(
    tmp_path: Path, baseline: Baseline, body: str, stage: str
) -> None:
    start = "x, y = (lib.tensor(v, requires_grad=True) for v in (2.0, 5.0))"
    text = f"def test_mine(lib):\n    {start}\n    {body}\n"
    (attack,) = attempt(tmp_path, text, baseline).attacks
    assert (attack.stage, bool(attack.killed_by)) == (stage, stage == "revealed")


def test_a_test_that_fails_on_the_unbroken_engine_is_not_judged(
    tmp_path: Path, baseline: Baseline
) -> None:
    report = attempt(tmp_path, SUITE.replace("6.0", "5.0"), baseline)
    (one,) = report.probes
    (problem,) = map(str, one.problems)
    assert one.probe == "test_square"
    assert problem.startswith("it fails on the unbroken engine: AssertionError: assert ")
    assert (report.killed, report.score, report.attacks) == (False, 0, [])


@pytest.mark.parametrize(
    ("probe", "problem"),
    [
        (probe_that("return x @ x @ x"), "fails on the unbroken engine: ValueError"),
        (probe_that("assert False"), "fails on the unbroken engine: AssertionError"),
        (probe_that("import sys; sys.exit()"), "fails on the unbroken engine: SystemExit"),
        (probe_that("import os; os._exit(0)"), "ProcessExit in the run: the process ended with"),
        (probe_that("import os; os.kill(os.getpid(), 9)"), "SIGKILL in the run"),
        (probe_that("yield {}") + "\nwhile True:\n    pass\n", "TimeLimit"),
        (
            probe_that("import numpy as np; return x * np.random.default_rng().random()"),
            "different numbers each time",
        ),
        (
            probe_that("import time; return x * float(time.time_ns() % 1000003)"),
            "different numbers each time",
        ),
        (
            probe_that("import numpy as np; return x * np.random.standard_normal()"),
            "alarm on the unbroken engine: purity: the run drew from NumPy's global generator",
        ),
        (probe_that("return 1.0"), "on the unbroken engine"),
        (
            probe_that("x.data *= 2.0; return x * x"),
            "it raises an alarm on the unbroken engine: .*purity",
        ),
    ],
)
def test_an_unsound_probe_is_not_judged(
    tmp_path: Path, quick: Baseline, probe: str, problem: str
) -> None:
    report = attempt(tmp_path, probe, quick)
    (one,) = report.probes
    assert re.search(problem, "; ".join(map(str, one.problems)))
    assert (report.killed, report.attacks) == (False, [])


def test_a_probe_that_hangs_is_stopped_and_not_run_again(tmp_path: Path, quick: Baseline) -> None:
    report = attempt(tmp_path, probe_that("while True: pass; yield {}"), quick)
    assert "TimeLimit" in str(report.probes[0].problems[0])
    assert report.killed is False


def test_one_unsound_probe_spoils_the_file(tmp_path: Path, baseline: Baseline) -> None:
    report = attempt(tmp_path, ANSWER + probe_that("return x.nothing"), baseline)
    assert [bool(one.problems) for one in report.probes] == [False, True]
    assert (report.killed, report.attacks) == (False, [])


def test_an_expected_refusal_is_sound(tmp_path: Path, baseline: Baseline) -> None:
    text = probe_that("(x * x).backward(); yield {'x': x.grad}").replace("mine", "refuse_mine")
    (tmp_path / "mine.py").write_text(text)
    probes = read_submission(tmp_path / "mine.py")
    assert [one.problems for one in check_soundness(probes, context(baseline))] == [[]]


def test_a_hostile_file_changes_nothing_here(
    tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = f"""
import os, sys
print("noise"); os.write(2, b"noise")
open("litter", "w").close()
import numpy, minigrad
minigrad.tensor = numpy.isfinite = None
{ANSWER}"""
    assert (
        attempt(tmp_path, evil, baseline).probes[0].problems
    )  # it has only harmed its own process
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{ID}.md",
        "mine.py",
        "mul-swapped-operands.md",
    ]
    assert attempt(tmp_path, ANSWER, baseline).killed


# ----- What is found on a page -----


def test_nothing_is_found_on_a_sound_exercise(tmp_path: Path, baseline: Baseline) -> None:
    page_of(tmp_path)
    (tmp_path / "mul-swapped-operands.md").unlink()
    text = exercise_with(
        ("(mul-swapped-operands.md)", f"({CATALOGUE.path('mul-swapped-operands')})")
    )
    assert found(tmp_path, text, baseline) == []


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        (
            exercise_with(('["mul-swapped-operands"]', "[]")),
            "the key `breaks` is missing",
            "breaks",
        ),
        (exercise_with(('["mul-ignore-upstream"]', "[]")), "the key `kills` is missing", "kills"),
        (
            exercise_with(('["mul-ignore-upstream"]', '["mul-swapped-operands"]')),
            "among both `breaks` and `kills`",
            "kills",
        ),
        (
            exercise_with(('["mul-ignore-upstream"]', '["mul-ignore-upstrem"]')),
            "no break `mul-ignore-upstrem`",
            "kills",
        ),
        (
            exercise_with(('["mul-swapped-operands"]', '["accumulate-in-place"]')),
            "`accumulate-in-place` is a variant, not a break",
            "breaks",
        ),
        (
            exercise_with(("## Your task\n", "```diff\n@@ mul @@\n-a\n+b\n```\n\n## Your task\n")),
            "a ```diff block on an exercise",
            "```diff",
        ),
        (
            exercise_with(("[its own value](mul-swapped-operands.md)", "its own value")),
            "`The break` does not link to `mul-swapped-operands`",
            "# Two",
        ),
        (
            exercise_with(("[6.0]", "[5.0]")),
            "`test_square` fails on the unbroken engine: AssertionError",
            FIRST_LINE,
        ),
        (
            with_test(
                "    a = lib.tensor([2.0], requires_grad=True)\n    (3.0 * a).backward()\n"
                "    assert a.grad[0] == 3.0"
            ),
            "`test_more` catches `mul-swapped-operands`, which must pass: AssertionError",
            FIRST_LINE,
        ),
        (
            exercise_with(('["mul-ignore-upstream"]', '["mul-ignore-upstream", "sub-sign"]')),
            "the suite does not catch `sub-sign`",
            "kills",
        ),
        (with_test("    _slope(lib, [2.0])"), "no assertion of `test_more` fails", FIRST_LINE),
        (
            with_test("    lib.tensor([0.0], requires_grad=True).sigmoid().backward()"),
            "no assertion of `test_more` fails",  # it raises where all is wrong
            FIRST_LINE,
        ),
        (
            with_test("    assert lib.tensor([2.0]).shape == (1,)"),
            "no assertion of `test_more` fails",
            FIRST_LINE,
        ),
        (
            with_test("    yield\n    assert False"),
            "no assertion of `test_more` fails",
            FIRST_LINE,
        ),
        (
            with_answer(ANSWER.replace("a * b", "a * b.sum(5)")),
            "the answer `two-leaves` is not a sound probe: it fails on the unbroken engine",
            "def two_leaves",
        ),
        (
            with_answer(ANSWER.replace("a * b", "a * a")),
            "the answer does not kill `mul-swapped-operands`: not-infected",
            "def two_leaves",
        ),
        (
            with_answer(ANSWER + "\n\n" + probe_that("return x.exp()")),
            "the answer `mine` kills none of `breaks`",
            "def two_leaves",
        ),
        (
            with_answer(
                'def two_leaves(lib, a=[2.0], b=[5.0]):\n    "Asserts an accident."\n'
                "    assert a.data.dtype.itemsize == 8\n"
                "    return a * b\n"
            ),
            "`crash` raises an alarm on the correct `float32-data`: AssertionError",
            "def two_leaves",
        ),
    ],
)
def test_each_mistake_is_found_at_its_line(
    tmp_path: Path, baseline: Baseline, text: str, problem: str, at: str
) -> None:
    hits = [one for one in found(tmp_path, text, baseline) if problem in one.problem]
    assert hits, [one.problem for one in found(tmp_path, text, baseline)]
    assert text.splitlines()[hits[0].line - 1].startswith(at)
    assert hits[0].remedy
    assert hits[0].exit_status > 0


def test_an_answer_that_is_not_sound_is_held_against_nothing_more(
    tmp_path: Path, baseline: Baseline
) -> None:
    text = with_answer(ANSWER.replace("a * b", "a * b.sum(5)"))
    assert len(found(tmp_path, text, baseline)) == 1


def test_what_a_missing_library_would_decide_is_only_a_warning(tmp_path: Path) -> None:
    """At a tie there is no derivative, so only a library can raise an alarm."""
    answer = 'def two_leaves(a=[2.0, 2.0]):\n    "A tie."\n    return a.max()\n'
    text = with_answer(answer).replace("mul-swapped-operands", "max-ties-all-ones")
    (finding,) = [
        finding
        for finding in found(tmp_path, text, Baseline(open_cache()))
        if "answer" in finding.problem
    ]
    assert finding.exit_status == 0
    assert "here; not installed: autograd, torch" in finding.problem


def test_an_unknown_break_hides_nothing_of_the_front(tmp_path: Path, baseline: Baseline) -> None:
    text = exercise_with(
        ('["mul-swapped-operands"]', '["nothing-of-the-kind"]'),
        ('["mul-ignore-upstream"]', '["nor-this"]'),
    )
    assert len(found(tmp_path, text, baseline)) == 2


@pytest.mark.parametrize("heading", EXERCISE_SECTIONS)
def test_the_check_of_pages_wants_every_section(
    tmp_path: Path, baseline: Baseline, heading: str
) -> None:
    text = SOUND_EXERCISE.replace(f"## {heading}\n", f"### {heading}\n")
    page_of(tmp_path, text)
    (tmp_path / "mul-swapped-operands.md").unlink()
    catalogue = with_few_variants(open_catalogue([tmp_path]))
    check = check_page(ID, OpenContext(catalogue, ENGINE, baseline))
    assert f"no section `{heading}`" in [finding.problem for finding in check.findings]


def test_the_prose_of_an_exercise_is_checked_as_that_of_every_page(tmp_path: Path) -> None:
    assert check_prose(page_of(tmp_path), CATALOGUE.conventions) == []
    for old, new, problems in (
        ('["std"]', "[]", ["no sources"]),
        (ANSWER, "", []),
        ("## Answer", "```python\npass\n```\n\n## Answer", ["a ```python block outside"]),
        ("## Hints", "```diff\n-a\n+b\n```\n\n## Hints", []),  # the check of exercises says so
    ):
        page = page_of(tmp_path, exercise_with((old, new)))
        seen = [one.problem for one in check_prose(page, CATALOGUE.conventions)]
        assert [said[: len(words)] for said, words in zip(seen, problems, strict=True)] == problems


def test_keys_of_an_exercise_stand_on_no_other_page(tmp_path: Path) -> None:
    text = SOUND_EXERCISE.replace('kind    = "exercise"', 'kind    = "break"')
    with pytest.raises(PageError, match="key `breaks` on a break"):
        page_of(tmp_path, text)


# ----- What is shown -----


def test_answer_and_lesson_are_hidden_also_in_another_language(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    shown = without_answer(page, page).body
    assert "two_leaves" not in shown
    assert "Different things" not in shown
    assert "None but the suite." in shown
    other = page_of(tmp_path, SOUND_EXERCISE.replace("## Answer", "## Respuesta"))
    assert without_answer(other, page).body == shown


def test_show_hides_the_answer_unless_it_is_asked_for() -> None:
    for done in (harness("show", "only-trees"), harness("show", "only-trees", "--json")):
        assert done.returncode == 0
        assert "test_linear_layer" in done.stdout
        assert "used_twice" not in done.stdout
    assert "used_twice" in harness("show", "only-trees", "--answer").stdout


def test_the_command_shows_suite_stages_and_task_and_no_answer() -> None:
    done = harness("exercise", "only-trees")
    assert (done.returncode, done.stderr) == (0, "")
    words = [
        "def test_addition(lib):",
        "On the unbroken engine: the suite passes",
        "With assign-not-accumulate: the suite passes",
        "test_chain_rule   its inputs hide it: all numbers are right",
        "With mul-ignore-upstream: the suite FAILS\n    test_product_rule, test_chain_rule",
        "Your task",
        "harness exercise only-trees mine.py",
    ]
    places = [done.stdout.find(one) for one in words]
    assert places == sorted(places)
    assert places[0] >= 0
    assert "used_twice" not in done.stdout
    assert "Draw the graph" not in done.stdout
    assert "Draw the graph" in harness("exercise", "only-trees", "--hints").stdout


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("return x + x", 0, ["assign-not-accumulate is killed by mine (gradcheck", "Lesson"]),
        ("return x.exp()", 1, ["assign-not-accumulate survives: not-infected: hidden here"]),
        ("return x.nothing()", 1, ["mine is not a sound probe", "AttributeError"]),
    ],
)
def test_the_command_judges_a_file(
    tmp_path: Path, body: str, status: int, words: list[str]
) -> None:
    (tmp_path / "mine.py").write_text(probe_that(body))
    done = harness("exercise", "only-trees", str(tmp_path / "mine.py"))
    assert (done.returncode, done.stderr) == (status, "")
    for one in words:
        assert one in done.stdout
    assert ("Lesson" in done.stdout) == (status == 0)


def test_the_command_judges_tests_and_counts_the_breaks(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SUITE, encoding="utf-8")
    done = harness("exercise", "grad-is-there", str(tmp_path / "mine.py"))
    assert (done.returncode, done.stderr) == (1, "")
    words = " ".join(done.stdout.split())
    assert "mul-swapped-operands is killed by test_product Against" in words
    assert words.endswith("1 of 4 killed")


def test_a_test_that_looks_at_the_code_of_the_engine_is_not_sound(tmp_path: Path) -> None:
    suite = (
        SUITE
        + """

def test_what_the_code_is(lib):
    vjp = lib.elementwise.sub(2.0, 2.0)[1]
    assert vjp.__code__.co_names == ("unbroadcast", "shape")
"""
    )
    (tmp_path / "mine.py").write_text(suite, encoding="utf-8")
    done = harness("exercise", "grad-is-there", str(tmp_path / "mine.py"))
    assert (done.returncode, done.stderr) == (1, "")
    words = " ".join(done.stdout.split())
    assert "test_what_the_code_is is not a sound test" in words
    assert "cannot look at the code of the engine: __code__" in words


def test_bad_input_is_one_message_and_status_2(tmp_path: Path) -> None:
    for arguments in (
        ["only-trees", str(tmp_path / "nowhere.py")],
        ["only-tree"],
        ["skip-unbroadcast"],
    ):
        done = harness("exercise", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("harness: ")
        assert "remedy: " in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["break", "diff"])
def test_an_exercise_is_not_a_break(command: str) -> None:
    done = harness(command, "only-trees")
    assert (done.returncode, done.stdout) == (2, "")
    assert "remedy: `harness exercise only-trees`" in done.stderr


def test_the_json_has_the_suite_and_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(probe_that("return x + x"))
    done = harness("exercise", "only-trees", str(tmp_path / "mine.py"), "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert (report["schema"], report["exercise"], report["killed"]) == (1, "only-trees", True)
    assert report["suite"][0]["on"]["assign-not-accumulate"]["stage"] == "not-infected"
    assert report["attacks"][0]["break"] == "assign-not-accumulate"
    assert json.loads(harness("exercise", "only-trees", "--json").stdout)["killed"] is None


def test_the_matrix_and_the_list_know_exercises_apart() -> None:
    from harness.matrix.plan import choose, plan_matrix

    plan = plan_matrix(choose(CATALOGUE, ENGINE, ids=["skip-unbroadcast"]), Cache(None))
    assert "exercise" not in {entry.page.front.kind for entry in plan.entries}
    listed = harness("list").stdout
    assert listed.index("\nexercise") < listed.index("only-trees")
