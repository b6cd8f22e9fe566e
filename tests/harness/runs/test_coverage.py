"""Probes that cannot reach a patch are skipped, with the same result."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.report import Report
from harness.engines.engine import Dialect, Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import add_stages, run_lab
from harness.experiment.patching import prepare
from harness.pages.catalogue import open_catalogue
from harness.pages.probe import read_probes
from harness.runs.cache import Cache, open_cache
from harness.runs.protocol import JobStep
from harness.runs.recorder import changed_functions
from tests.harness.tiny import patched

ENGINE = """\
def shift(n=1 + 1):
    return n


START = shift()


class Tensor:
    rate = 3

    def __init__(self, data, requires_grad=False):
        self.data, self.grad, self.leaf = data, None, None

    def double(self):
        out = Tensor(self.data * 2)
        out.leaf, out.factors = self, [two + 0 for two in (2,)]
        out.rule = lambda g: g * 2
        return out

    def triple(self):
        out = Tensor(self.data * 3)

        def rule(g):
            return g * 3

        out.leaf, out.rule = self, rule
        return out

    def backward(self, cotangent):
        self.leaf.grad = self.rule(cotangent)


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def late():
    return 7
"""
CLEAN = Engine("tiny", Dialect(module="tiny"), Path("/nowhere"), {"tiny.py": ENGINE})
PROBES = read_probes(
    '''
def doubled(a=[1.0, -2.0]):
    """Twice."""
    return a.double()


def tripled(a=[1.0, -2.0]):
    """Thrice."""
    return a.triple()


def to_the_end_of_the_stack(lib, a=[1.0]):
    """A probe that uses all the stack there is, and another function after that."""
    try:
        lib.deep(10**6)
    except RecursionError:
        lib.late()
    return a.double()
''',
    "probes.py",
)


def broken(tmp_path: Path, diff: str) -> Engine:
    return patched(CLEAN, diff, tmp_path)


def result(tmp_path: Path, diff: str) -> list[str] | None:
    """The names of the functions that a patch changes, None for what the import executes."""
    named = changed_functions(CLEAN.root, CLEAN.sources, broken(tmp_path, diff).sources)
    return None if named is None else sorted(name.rpartition(":")[2] for name in named)


@pytest.mark.parametrize(
    ("diff", "names"),
    [
        ("@@ Tensor.double @@\n-self.data * 2\n+self.data * 5", ["double"]),
        ("@@ Tensor.double @@\n-$g * 2\n+$g * 5", ["double"]),
        ("@@ Tensor.triple.rule @@\n-g * 3\n+g", ["triple"]),
        ("@@ Tensor.triple @@\n-$x * 3\n+$x", ["triple"]),
        ("@@ Tensor.triple @@\n-out.leaf, out.rule = self, rule", ["triple"]),
        ("@@ Tensor.triple @@\n+self.data += 1\n out.leaf, out.rule = self, rule", ["triple"]),
        ("@@ Tensor @@\n-rate = 3\n+rate = 4", None),
        ("@@ @@\n-START = shift()\n+START = 0", None),
    ],
)
def test_a_patch_changes_the_outermost_functions_around_its_sites(
    tmp_path: Path, diff: str, names: list[str] | None
) -> None:
    assert result(tmp_path, diff) == names


def items_wanted(tmp_path: Path, diff: str) -> set[str]:
    """The probes that are run for a patch."""
    baseline = Baseline(Cache(None), diagnostics=(), select=True)
    engine = broken(tmp_path, diff)
    return {PROBES[step.probe].name for step in baseline.reaching(CLEAN, engine.sources, PROBES)}


def test_only_probes_that_call_a_changed_function_are_run(tmp_path: Path) -> None:
    wanted = items_wanted(tmp_path, "@@ Tensor.triple.rule @@\n-g * 3\n+g")
    # Of the last one nothing is known: the stack had no room for the watcher.
    assert wanted == {"tripled", "to-the-end-of-the-stack"}


def test_a_copy_of_the_engine_elsewhere_calls_functions_of_its_own(tmp_path: Path) -> None:
    baseline = Baseline(Cache(None), diagnostics=(), select=True)
    clean = broken(tmp_path, "@@ Tensor.triple.rule @@\n-g * 3\n+g")
    for root in ("/nowhere", "/elsewhere"):
        engine = replace(clean, root=Path(root))
        original = replace(CLEAN, root=Path(root))
        assert baseline.reaching(original, engine.sources, PROBES[:2]) == (
            *(JobStep(1, loss) for loss in PROBES[1].losses),
        )


def test_what_the_import_calls_is_in_every_run(tmp_path: Path) -> None:
    wanted = items_wanted(tmp_path, "@@ shift @@\n-return n\n+return n + 1")
    assert wanted == {probe.name for probe in PROBES}


def test_what_is_called_after_the_stack_was_used_up_is_run(tmp_path: Path) -> None:
    assert "to-the-end-of-the-stack" in items_wanted(tmp_path, "@@ late @@\n-return 7\n+return 8")


@pytest.mark.parametrize(
    "page",
    [
        "skip-unbroadcast",
        *(
            pytest.param(page, marks=pytest.mark.slow)
            for page in ("dropout-always-on", "no-seed", "keep-int-dtype", "accumulate-in-place")
        ),
    ],
)
@pytest.mark.usefixtures("without_oracles")
def test_the_lab_finds_the_same_with_and_without_selection(page: str) -> None:
    catalogue = open_catalogue()
    names = list({*list(catalogue.shared_probes)[::7], "dropout-share"})
    experiment = prepare(catalogue.page(page), catalogue, find_engine(), probes=sorted(names))
    some, every = (
        run_lab(experiment, Baseline(open_cache(), select=select)) for select in (True, False)
    )
    assert observed(some) == observed(every)
    assert {run.outcome for run in some.runs} > {"not-reached"}


@pytest.mark.parametrize(
    "page", ["skip-unbroadcast", pytest.param("mul-ignore-upstream", marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("without_oracles")
def test_stages_that_selection_leaves_open_can_be_told(page: str) -> None:
    catalogue = open_catalogue()
    names = list(catalogue.shared_probes)[::7]
    experiment = prepare(catalogue.page(page), catalogue, find_engine(), probes=names)
    baseline = Baseline(open_cache(), select=True)
    some, every = run_lab(experiment, baseline), run_lab(experiment, Baseline(open_cache()))
    silent = {r.probe for r in every.runs if r.outcome == "disguised-correct" and not r.caught_by}
    assert {run.probe for run in some.runs if run.stage is None} == silent != set()
    recorded = add_stages(experiment, baseline, some)
    assert stages(recorded) == stages(every)


def stages(report: Report) -> list[object]:
    return [(run.probe, run.loss, run.stage, run.why) for run in report.runs]


def observed(report: Report) -> list[object]:
    return [(run.probe, run.loss, run.outcome, run.evidence, run.alarms) for run in report.runs]
