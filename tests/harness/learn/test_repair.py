"""Judging a repair: what counts as right, and what is said about one that is not."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import PageError, UsageError
from harness.diagnostics.crash import CRASH
from harness.diagnostics.gradcheck import GRADCHECK
from harness.diagnostics.shape import SHAPE
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.patching import put
from harness.learn.repair import LENGTHS, Repair, fresh, judge_copy, repair_task
from harness.learn.scratch_copy import CopyOrigin, ScratchCopy, digest_of
from harness.pages.catalogue import Catalogue
from harness.pages.probe import read_probes
from harness.runs.cache import open_cache
from harness.runs.recorder import changed_functions
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.tiny import tiny_engine

PROBES = '''\
def square(a=[1.0, 2.0, 3.0]):
    """A square."""
    return a.square()


def square_drawn(a=(2, 5)):
    """A drawn square."""
    return a.square()


def elsewhere(lib):
    """Nothing of the engine that is changed."""
    yield {"loss": lib.np.zeros(())}
'''
PAGE = """\
+++
id = "half"
kind = "break"
family = "values"
level = 1
why = "The factor is missing."

[expect]
square = "silent-corruption"
+++
# A title

## The break

```diff
@@ backward @@
-2 * $x
+$x
```
"""
DIAGNOSTICS = (CRASH, SHAPE, GRADCHECK)
GRADIENT = "2 * self.parent.data * cotangent"
BROKEN = "self.parent.data * cotangent"

# ----- With an engine of twenty lines -----


@pytest.fixture
def context(tmp_path: Path) -> OpenContext:
    root = tmp_path / "pages"
    (root / "probes").mkdir(parents=True)
    (root / "probes" / "squares.py").write_text(PROBES, encoding="utf-8")
    (root / "half.md").write_text(PAGE, encoding="utf-8")
    return OpenContext(Catalogue((root,)), tiny_engine(), Baseline(open_cache(), DIAGNOSTICS))


def judged(context: OpenContext, folder: Path, *changes: tuple[str, str]) -> Repair:
    """The verdict on a copy after these changes in the broken file."""
    page = context.catalogue.page("half")
    digest = digest_of(context.engine)
    copy = ScratchCopy(folder / "copy", CopyOrigin("half", "", "/", (), digest))
    if not copy.folder.exists():
        copy.write(repair_task(page, context).experiment.broken.sources)
    path = copy.folder / "tiny.py"
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")
    return judge_copy(copy, page, context, random.Random(1))


pytestmark = pytest.mark.usefixtures("without_oracles")


def test_the_damage_has_a_symptom_and_the_files_to_open(context: OpenContext) -> None:
    found = repair_task(context.catalogue.page("half"), context)
    assert (found.symptom.probe, found.symptom.computes) == ("square", "a.square()")
    assert str(found.symptom.evidence) == "a.grad is [1, 2, 3], expected [2, 4, 6]"
    assert found.in_folder(Path("f")).files == ["tiny.py"]


def test_a_copy_that_nobody_changed_is_not_repaired(context: OpenContext, tmp_path: Path) -> None:
    repair = judged(context, tmp_path)
    assert (repair.state, repair.judged, repair.why) == ("unrepaired", 0, "")


def test_the_original_code_is_a_right_repair_without_a_difference(
    context: OpenContext, tmp_path: Path
) -> None:
    repair = judged(context, tmp_path, (BROKEN, GRADIENT))
    assert (repair.state, repair.diff, repair.differences) == ("right", "", [])
    assert repair.why == "The factor is missing."
    assert repair.judged == 0  # nothing has to be run


def test_comments_and_layout_do_not_make_another_code(context: OpenContext, tmp_path: Path) -> None:
    repair = judged(
        context, tmp_path, (BROKEN, f"(\n            {GRADIENT}  # repaired\n        )")
    )
    assert (repair.state, repair.judged) == ("right", 0)
    assert "# repaired" in repair.diff


@pytest.mark.parametrize(
    "code",
    [
        "(self.parent.data + self.parent.data) * cotangent",
        "cotangent * self.parent.data / 0.5",
        "np.einsum('...,...->...', 2 * cotangent, self.parent.data)",
    ],
)
def test_any_repair_that_behaves_rightly_counts(
    context: OpenContext, tmp_path: Path, code: str
) -> None:
    repair = judged(context, tmp_path, (BROKEN, code))
    assert repair.state == "right"
    assert repair.judged == 3  # `square`, `square_drawn`, and the latter with another shape
    assert (
        f"-        self.parent.grad = {GRADIENT}\n+        self.parent.grad = {code}" in repair.diff
    )


def test_a_wrong_repair_is_told_the_first_probe_that_differs(
    context: OpenContext, tmp_path: Path
) -> None:
    repair = judged(context, tmp_path, (BROKEN, "3 * self.parent.data * cotangent"))
    assert repair.state == "wrong"
    first = repair.differences[0]
    assert (first.probe, first.loss, first.outcome) == ("square", "uniform", "silent-corruption")
    assert str(first.evidence) == "a.grad is [3, 6, 9], expected [2, 4, 6]"
    assert (repair.diff, repair.why) == ("", "")


def test_another_shared_probe_judges_too(context: OpenContext, tmp_path: Path) -> None:
    code = "(2 if self.parent.data.ndim == 1 else 1) * self.parent.data * cotangent"
    repair = judged(context, tmp_path, (BROKEN, code))
    assert repair.state == "wrong"
    assert repair.differences[0].probe == "square-drawn"
    assert repair.differences[0].drawn == {}


def test_other_lengths_than_those_of_the_probes_judge_too(
    context: OpenContext, tmp_path: Path
) -> None:
    known = "self.parent.data.shape in ((3,), (2, 5))"
    code = f"(2 if {known} else 1) * self.parent.data * cotangent"
    repair = judged(context, tmp_path, (BROKEN, code))
    assert repair.state == "wrong"
    first = repair.differences[0]
    assert first.probe == "square-drawn"
    assert set(first.drawn["a"]) <= set(LENGTHS)
    assert first.drawn["a"] != (2, 5)


def test_a_diagnostic_that_raises_an_alarm_judges_too(context: OpenContext, tmp_path: Path) -> None:
    """On whole numbers the value and the gradient are right; in between, the value is not."""
    rounded = "Tensor(np.round(self.data) ** 2 if self.data.ndim == 1 else self.data**2)"
    repair = judged(context, tmp_path, (BROKEN, GRADIENT), ("Tensor(self.data**2)", rounded))
    assert repair.state == "wrong"
    first = repair.differences[0]
    assert (first.probe, first.outcome, first.diagnostic) == (
        "square",
        "disguised-correct",
        "gradcheck",
    )


def test_damage_elsewhere_is_seen(context: OpenContext, tmp_path: Path) -> None:
    """The only probe that uses NumPy does not run the break."""
    repair = judged(context, tmp_path, (BROKEN, GRADIENT), ("import numpy as np", ""))
    assert repair.state == "wrong"
    assert [difference.probe for difference in repair.differences] == ["elsewhere"]


@pytest.mark.parametrize(
    ("code", "evidence"),
    [
        ("[][0]", "IndexError in the backward pass"),
        ("exit(3)", "SystemExit in the backward pass"),
        ("__import__('os')._exit(3)", "ProcessExit in the run: the process ended with status 3"),
    ],
)
def test_a_copy_that_crashes_or_exits_is_wrong(
    context: OpenContext, tmp_path: Path, code: str, evidence: str
) -> None:
    repair = judged(context, tmp_path, (BROKEN, code))
    assert (repair.state, repair.differences[0].outcome) == ("wrong", "crash")
    assert str(repair.differences[0].evidence).startswith(evidence)


@pytest.mark.slow
def test_a_copy_that_hangs_costs_its_own_limit(context: OpenContext, tmp_path: Path) -> None:
    brief = Baseline(context.baseline.cache, DIAGNOSTICS, Limits(cpu_seconds=1))
    hanging = (f"        self.parent.grad = {BROKEN}", "        while 1: 1")
    repair = judged(replace(context, baseline=brief), tmp_path, hanging)
    assert repair.state == "wrong"
    assert "ProcessorTimeLimit" in str(repair.differences[0].evidence)


def test_a_helper_may_be_added_and_a_file_may_not_be_missing(
    context: OpenContext, tmp_path: Path
) -> None:
    helper = ("import numpy as np", "import numpy as np\nfrom helper import double")
    judged(context, tmp_path)
    (tmp_path / "copy" / "helper.py").write_text("def double(x):\n    return x + x\n")
    repair = judged(context, tmp_path, helper, (BROKEN, "double(self.parent.data) * cotangent"))
    assert repair.state == "right"
    assert "+++ b/helper.py" in repair.diff
    (tmp_path / "copy" / "helper.py").unlink()
    page = context.catalogue.page("half")
    copy = ScratchCopy(
        tmp_path / "copy", CopyOrigin("half", "", "/", (), digest_of(context.engine))
    )
    repair = judge_copy(copy, page, context)
    assert "ModuleNotFoundError in the import" in str(repair.differences[0].evidence)


def test_a_mistake_in_the_syntax_is_shown(context: OpenContext, tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"tiny\.py:16: the file is not Python: .*\n.*\n +\^"):
        judged(context, tmp_path, (BROKEN, "2 * self.parent.data cotangent"))


def test_an_engine_that_has_changed_needs_a_new_copy(context: OpenContext, tmp_path: Path) -> None:
    judged(context, tmp_path)
    copy = ScratchCopy(tmp_path / "copy", CopyOrigin("half", "", "/", (), "another"))
    with pytest.raises(UsageError, match=r"tiny has changed since .*\n.*--again"):
        judge_copy(copy, context.catalogue.page("half"), context)


def test_what_cannot_be_repaired_is_refused(context: OpenContext) -> None:
    ours = OpenContext(CATALOGUE, find_engine(), Baseline(open_cache(), ()))
    with pytest.raises(UsageError, match="is an exercise, not a break"):
        repair_task(CATALOGUE.page("squares-only"), ours)
    training = min(CATALOGUE.many_seeded)
    with pytest.raises(UsageError, match="shows only in whole training runs"):
        repair_task(CATALOGUE.page(training), ours)
    (context.catalogue.roots[0] / "half.md").write_text(
        PAGE.replace("-2 * $x\n+$x", "-2 * $x\n+($x + $x)"), encoding="utf-8"
    )
    with pytest.raises(UsageError, match="no probe shows the bug"):
        repair_task(context.catalogue.page("half"), context)


# ----- Which probes judge -----


def changed(before: str, after: str) -> set[str] | None:
    names = changed_functions(Path("/e"), {"e.py": before}, {"e.py": after})
    return None if names is None else {name.removeprefix("/e/e.py:") for name in names}


def test_a_change_inside_a_function_concerns_its_callers_only() -> None:
    body = (
        "def f():\n    return 1\n\n\nclass A:\n    @property\n    def g(self):\n        return 1\n"
    )
    assert changed(body, body) == set()
    assert changed(body, body.replace("1", "2", 1)) == {"1:f"}
    assert changed(body, f"{body.replace('return 1', 'return  1  # a comment')}") == set()
    assert changed(body, body[::-1].replace("1", "2", 1)[::-1]) == {"6:g"}
    assert changed(body, f"{body}\n\ndef new():\n    return 1\n") == set()
    assert changed(body, body.partition("\n\n\n")[2]) == {"1:f"}


def test_a_change_outside_functions_concerns_every_probe() -> None:
    assert changed("x = 1\n", "x = 2\n") is None
    assert changed("class A:\n    x = 1\n", "class A:\n    x = 2\n") is None
    assert changed_functions(Path("/e"), {"e.py": ""}, {}) is None


def test_fresh_shapes_keep_what_is_equal() -> None:
    text = 'def f(a=(4, 3), b=(3, 1, 0), c=[1.0]):\n    """All."""\n    return a + b\n'
    (probe,) = read_probes(text, "p.py")
    for seed in range(5):
        drawn = fresh(probe, random.Random(seed))
        assert drawn is not None
        a, b, c = drawn.leaves
        assert a.shape is not None
        assert b.shape == (a.shape[1], 1, 0)
        assert c == probe.leaves[2]
        assert set(a.shape) <= set(LENGTHS)
        assert drawn.name != probe.name


@pytest.mark.parametrize("text", ["def f(a=[1.0]):", "def module_f(a=(3,)):", "def f(a=(3,) * 1):"])
def test_a_probe_without_drawn_gradients_has_no_fresh_shape(text: str) -> None:
    source = f'{text.replace("(3,) * 1", "(9, 8, 7, 6, 5, 4)")}\n    """One."""\n    return a\n'
    (probe,) = read_probes(source, "p.py")
    assert fresh(probe, random.Random(1)) is None


# ----- With minigrad -----


@pytest.mark.slow
def test_a_correct_rewrite_is_a_right_repair(tmp_path: Path) -> None:
    """The last digit of a tanh may differ, and what amplifies it must not count."""
    page_id, variant = "dropout-no-inverse-scale", "tanh-by-expm1"
    engine = find_engine()
    context = OpenContext(CATALOGUE, engine, Baseline(open_cache(), DIAGNOSTICS))
    copy = ScratchCopy(tmp_path / "copy", CopyOrigin(page_id, "", "/", (), digest_of(engine)))
    copy.write(put(CATALOGUE.page(variant), engine).sources)
    assert judge_copy(copy, CATALOGUE.page(page_id), context).state == "right"
