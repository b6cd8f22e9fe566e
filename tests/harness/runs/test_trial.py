"""What a trial asks of a library, and what it has no need to ask again."""

import numpy as np
import pytest

import minigrad
from harness.core.run import Measured
from harness.diagnostics import DIAGNOSTICS
from harness.diagnostics.gradcheck import GRADCHECK
from harness.engines.engine import Dialect
from harness.engines.library import Library
from harness.pages.catalogue import open_catalogue
from harness.pages.probe import Probe, read_probes
from harness.runs.observer import observe
from harness.runs.trial import ReplyCache, Trial

LIBRARY = Library(Dialect(module="minigrad"), minigrad)
NAMES = ("add-new-axis", "relu-at-kinks", "causal-two-heads", "sum-rows", "reused-interior-node")
SHARED = open_catalogue().shared_probes

COUNTED = """\
CALLS = []


def counted(a=[1.0, 2.0]):
    '''How often it is called.'''
    CALLS.append(1)
    return a * a
"""


def counted() -> tuple[Trial, list[int]]:
    """A trial, and the list that grows with each call of its probe."""
    trial = Trial(LIBRARY, read_probes(COUNTED, "counted.py")[0])
    return trial, trial.function.__globals__["CALLS"]


def test_the_same_question_is_asked_once() -> None:
    trial, calls = counted()
    here, there = {"a": np.array([1.0, 2.0])}, {"a": np.array([1.0, 3.0])}
    assert trial.output(here).tolist() == [1.0, 4.0]
    assert trial.output({"a": np.array([1.0, 2.0])}).tolist() == [1.0, 4.0]
    assert len(calls) == 1
    assert trial.output(there).tolist() == [1.0, 9.0]
    assert len(calls) == 2
    assert trial.gradients(here, np.ones(2))[1]["a"].tolist() == [2.0, 4.0]  # type: ignore[union-attr]
    assert trial.gradients(here, np.ones(2))[1]["a"].tolist() == [2.0, 4.0]  # type: ignore[union-attr]
    assert len(calls) == 3
    assert trial.gradients(here, np.zeros(2))[1]["a"].tolist() == [0.0, 0.0]  # type: ignore[union-attr]
    assert len(calls) == 4


@pytest.mark.parametrize(
    "other",
    [np.array([1.0, 2.0], np.float32), np.array([[1.0, 2.0]]), np.array([1.0, np.nan])],
    ids=["another dtype", "another shape", "another value"],
)
def test_numbers_that_are_not_quite_the_same_are_another_question(other: np.ndarray) -> None:  # type: ignore[type-arg]
    trial, calls = counted()
    trial.output({"a": np.array([1.0, 2.0])})
    trial.output({"a": other})
    assert len(calls) == 2


def test_neither_the_caller_nor_the_engine_can_change_cached_values() -> None:
    trial, _ = counted()
    values = {"a": np.array([1.0, 2.0])}
    with pytest.raises(ValueError, match="read-only"):
        trial.output(values)[0] = 7.0
    values["a"][0] = 5.0
    assert trial.output({"a": np.array([1.0, 2.0])}).tolist() == [1.0, 4.0]


@pytest.mark.parametrize("name", NAMES)
def test_what_losses_share_makes_no_difference_to_any_diagnostic(name: str) -> None:
    probe, shared = SHARED[name], ReplyCache()
    for loss in probe.losses:
        together, apart = Trial(LIBRARY, probe, shared), Trial(LIBRARY, probe)
        run = observe(apart, loss)
        for each in DIAGNOSTICS:
            if each.measure and probe.kind in each.kinds:
                assert each.measure(together, run) == each.measure(Trial(LIBRARY, probe), run)


def test_the_second_loss_costs_no_more_finite_differences() -> None:
    probe, shared = read_probes(COUNTED, "counted.py")[0], ReplyCache()
    calls = [calls_of_gradcheck(probe, loss, shared) for loss in ("uniform", "weighted")]
    assert calls[0] == 2 * 2 + 1  # two an element, and one to see that it answers alike
    assert calls[1] == 0


def calls_of_gradcheck(probe: Probe, loss: str, shared: ReplyCache) -> int:
    run = observe(Trial(LIBRARY, probe), loss)  # type: ignore[arg-type]
    trial = Trial(LIBRARY, probe, shared)
    assert GRADCHECK.measure
    measured = GRADCHECK.measure(trial, run)
    assert isinstance(measured, Measured)
    assert not measured.problem
    return len(trial.function.__globals__["CALLS"])


COMPLEX = """\
import numpy as np


def steps(a=[1.0]):
    "Two steps."
    yield {"loss": 1.0}
    yield {"loss": np.array(1.0) + 0j}


class Layer:
    def train(self): ...
    eval = train
    def __call__(self, x): return x.data + 0j
    def state_dict(self): return {}
    def modules(self): return [self]


def module_complex(lib, x=(2, 3)):
    "A layer."
    return Layer()
"""


def test_a_complex_loss_ends_the_run() -> None:
    steps, module = read_probes(COMPLEX, "complex.py")
    run = observe(Trial(LIBRARY, steps), None)
    assert str(run.failure) == "TypeError in step 1: the loss is complex"
    assert len(run.log) == 1
    run = observe(Trial(LIBRARY, module), None)
    assert str(run.failure) == "TypeError in train: the output is complex"
