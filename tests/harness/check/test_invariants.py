"""The check of invariants and questions: both are run on clean, correct and broken engines."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.check import controls
from harness.check import pages as check_module
from harness.check.controls import check_invariant, prepare_invariants
from harness.check.pages import check_page, check_pages
from harness.core.run import Run
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.page import Page, read_page
from harness.pages.probe import Probe
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.proven_page import INVARIANT, QUESTION, proven
from tests.harness.sound_page import write_page

BASELINE = Baseline(open_cache())
VARIANTS = ("accumulate-in-place", "float32-data", "relu-mask-ge")

pytestmark = pytest.mark.usefixtures("without_oracles")


def context_of(folder: Path, baseline: Baseline = BASELINE) -> OpenContext:
    """Return a context whose pages are those of an instructor's folder, and three variants."""
    for name in VARIANTS:
        shutil.copy(CATALOGUE.path(name), folder)
    return OpenContext(Catalogue((folder,)), find_engine(), baseline)


def findings(folder: Path, text: str, baseline: Baseline = BASELINE) -> list[str]:
    """Return the findings about the invariant of a page."""
    path = write_page(folder, text)
    found = check_invariant(read_page(path), context_of(folder, baseline), applies=True)
    return [f"{finding.line}: {finding.problem}" for finding in found]


def all_findings(folder: Path, text: str) -> list[str]:
    """Return the findings about the whole page, beside the bundled ones."""
    write_page(folder, text)
    context = OpenContext(open_catalogue([folder]), find_engine(), BASELINE)
    check = check_page("log-slope-one", context)
    return [f"{finding.line}: {finding.problem}" for finding in check.findings]


def line_of(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


def function(*body: str) -> str:
    return "\n".join(["def f(lib, rng):", *(f"    {line}" for line in body), ""])


def test_a_proven_page_passes(tmp_path: Path) -> None:
    assert all_findings(tmp_path, proven()) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (["assert 2 < 1"], "fails on the unbroken engine: AssertionError in the test, at `asse"),
        (["assert lib.no_such_name"], "fails on the unbroken engine: AttributeError"),
        (["assert rng.uniform() < 0.9, 'now and then'"], "fails on the unbroken engine"),
        (["assert lib"], "never runs the changed code (seed 0)"),
        (
            ["a = lib.tensor([2.0], requires_grad=True)", "a.log().backward()", "assert a.grad"],
            "holds on the broken engine (seed 0)",
        ),
        (
            [
                "a = lib.tensor([2.0], requires_grad=True)",
                "a.log().backward()",
                "assert a.grad == 0.5 or rng.uniform() < 0.9",
            ],
            "holds on the broken engine (seed 0)",
        ),
        (
            [
                "a = lib.tensor([2.0], requires_grad=True)",
                "a.log().backward()",
                "assert [1][int(a.grad[0])] if a.grad[0] >= 1 else True",
            ],
            "stops on the broken engine before an assertion fails: IndexError",
        ),
    ],
)
def test_an_invariant_that_proves_nothing_is_a_finding(
    tmp_path: Path, body: Sequence[str], problem: str
) -> None:
    text = proven(function(*body))
    (finding,) = findings(tmp_path, text)
    assert finding.startswith(f"{line_of(text, 'def f(lib')}: the invariant {problem}")


def test_a_block_that_is_not_an_invariant_is_one_finding(tmp_path: Path) -> None:
    text = proven("def f(lib):\n    assert lib\n")
    assert findings(tmp_path, text) == [
        f"{line_of(text, 'def f(lib')}: `def f(lib)` is not an invariant"
    ]


def test_an_invariant_outside_its_section_is_a_finding(tmp_path: Path) -> None:
    text = (
        proven()
        .replace("## Diagnostic\n", "")
        .replace("## Lesson", "## Diagnostic\n\nIt.\n\n## Lesson")
    )
    assert "block outside the section `Diagnostic`" in "".join(all_findings(tmp_path, text))


def test_an_invariant_that_hangs_on_the_broken_engine_ends_before_it_asserts(
    tmp_path: Path,
) -> None:
    text = proven(
        function(
            "import time",
            "a = lib.tensor([2.0], requires_grad=True)",
            "a.log().backward()",
            "while a.grad[0] > 0.6:",
            "    time.sleep(1)",
            "assert a.grad[0] == 0.5",
        )
    )
    limited = Baseline(open_cache(), limits=Limits(seconds=0.5))
    (finding,) = findings(tmp_path, text, limited)
    assert "stops on the broken engine before an assertion fails: TimeLimit" in finding


# ----- Variants -----

LEAF_KEPT = function(
    "a = lib.tensor([2.0], requires_grad=True)",
    "a.log().backward()",
    "kept = a.grad",
    "a.log().backward()",
    "assert kept[0] == 0.5",
)
"""It holds on an engine that replaces gradients, but not on one that adds to them in place."""


def test_an_invariant_that_fails_on_a_correct_rewrite_is_a_finding(tmp_path: Path) -> None:
    text = proven(LEAF_KEPT)
    problems = findings(tmp_path, text)
    place = f"{line_of(text, 'def f(lib')}: the invariant fails on the correct variant "
    assert any(f"{place}`accumulate-in-place`" in problem for problem in problems)
    assert all(problem.startswith(place) for problem in problems)


def test_an_exception_is_for_a_variant_that_needs_it(tmp_path: Path) -> None:
    failing = [problem.split("`")[1] for problem in findings(tmp_path, proven(LEAF_KEPT))]
    reasons = ", ".join(f'{name} = "It adds in place."' for name in failing)
    assert findings(tmp_path, proven(LEAF_KEPT, keys=f"except = {{ {reasons} }}\n")) == []


def test_an_exception_that_is_not_needed_or_unknown_is_a_finding(tmp_path: Path) -> None:
    text = proven(keys='except = { accumulate-in-place = "No.", nobody = "No." }\n')
    line = line_of(text, "except =")
    assert findings(tmp_path, text) == [
        f"{line}: `except` names `accumulate-in-place`, on which the invariant holds",
        f"{line}: `except` names `nobody`, which is not a variant",
    ]


def test_exceptions_need_an_invariant(tmp_path: Path) -> None:
    text = proven("", keys='except = { accumulate-in-place = "No." }\n')
    line = line_of(text, "except =")
    assert findings(tmp_path, text) == [f"{line}: `except` on a page that has no invariant"]


def test_a_page_cannot_have_an_invariant_and_none(tmp_path: Path) -> None:
    text = proven(keys='no_invariant = "None is cheap."\n')
    line = line_of(text, "no_invariant")
    assert findings(tmp_path, text) == [f"{line}: `no_invariant` on a page that has an invariant"]
    assert findings(tmp_path, proven("", keys='no_invariant = "None is cheap."\n')) == []


# ----- Questions -----


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"a.grad[0]"', '"a.gard[0]"', "the answer `a.gard[0]` asks for `gard`"),
        ('"a.grad[0]"', '"a.grad[7]"', "the answer `a.grad[7]` has no item `7`"),
        ('"log-of-powers"', '"log-of-power"', "is about `log-of-power`, which is not a probe"),
        ("because", 'choices = ["2", "0.5"]\nbecause', "is 1, which is not one of the choices"),
    ],
)
def test_a_question_without_an_answer_is_a_finding_at_its_line(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    second = QUESTION.replace(old, new)
    text = proven(questions=f"{QUESTION}\n{second}")
    (finding,) = all_findings(tmp_path, text)
    line = text[: text.rindex("answer   =")].count("\n") + 1
    assert finding.startswith(f"{line}: ")
    assert problem in finding


# ----- Many pages -----


def three_pages(folder: Path) -> list[Page]:
    bodies = {"one": INVARIANT, "two": function("assert 2 < 1"), "three": function("lib")}
    return [
        read_page(write_page(folder, proven(body).replace("log-slope-one", name), f"{name}.md"))
        for name, body in bodies.items()
    ]


def test_the_invariants_of_many_pages_are_run_at_once_on_each_correct_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = three_pages(tmp_path)
    jobs: list[list[str]] = []
    original = Baseline.broken

    def broken(self: Baseline, clean: Engine, engine: Engine, probes: Sequence[Probe]) -> list[Run]:
        jobs.append([probe.name for probe in probes])
        return original(self, clean, engine, probes)

    monkeypatch.setattr(Baseline, "broken", broken)
    context = context_of(tmp_path)
    prepare_invariants(context.catalogue.pages[0], context)
    assert jobs == [[f"one-{seed}" for seed in range(5)]] * len(VARIANTS)
    problems = [
        [finding.problem for finding in check_invariant(page, context, applies=True)]
        for page in pages
    ]
    assert problems[0] == []
    assert problems[1][0].startswith("the invariant fails on the unbroken engine: Assertion")
    assert problems[2] == ["`f` asserts nothing"]
    assert len(jobs) == len(VARIANTS) + 1  # on the broken engine of the first page


def test_one_page_that_hangs_leaves_the_results_of_the_others(tmp_path: Path) -> None:
    one = three_pages(tmp_path)[0]
    hanging = proven(function("import time", "time.sleep(60)", "assert lib"))
    two = read_page(write_page(tmp_path, hanging.replace("log-slope-one", "two"), "two.md"))
    limits = Limits(seconds=1)
    context = context_of(tmp_path, Baseline(open_cache(enabled=False), (), limits))
    prepare_invariants([two, one], context)
    (finding,) = check_invariant(two, context, applies=True)
    assert "fails on the unbroken engine: TimeLimit" in finding.problem
    assert list(check_invariant(one, context, applies=True)) == []


def test_a_check_of_all_pages_runs_their_invariants_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_pages(tmp_path)
    prepared: list[Sequence[Page]] = []
    monkeypatch.setattr(check_module, "prepare_invariants", lambda pages, _: prepared.append(pages))
    context = OpenContext(open_catalogue([tmp_path]), find_engine(), BASELINE)
    next(check_pages(context, only=[tmp_path]))
    assert [page.id for page in prepared[0]] == ["one", "three", "two"]


def test_an_invariant_that_was_run_before_prepares_no_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(tmp_path, proven()) == []
    monkeypatch.setattr(controls, "rewrites", None)
    assert findings(tmp_path, proven().replace("times `a` is 1.", "times `a` is one.")) == []


def test_only_bundled_invariants_may_share_a_process(tmp_path: Path) -> None:
    own = read_page(write_page(tmp_path, proven()))
    assert not CATALOGUE.is_bundled(own)
    assert all(CATALOGUE.is_bundled(page) for page in bundled_pages())
