"""Accuracy, running means and early stopping."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import Tensor, metrics, nn
from tests.minigrad.modules import normal, public_names, rng


def test_every_public_name_is_known_here() -> None:
    assert public_names(metrics) == {"accuracy", "RunningMean", "EarlyStopping"}


# ----- Accuracy -----


def test_accuracy_is_the_share_of_hits() -> None:
    assert metrics.accuracy(np.array([0, 1, 2, 1]), np.array([0, 2, 2, 1])) == 0.75
    assert metrics.accuracy(Tensor([[1], [0]]), np.array([[1], [1]])) == 0.5


def test_accuracy_does_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"^predictions of shape \(2, 1\), targets of \(2,\)$"):
        metrics.accuracy(np.array([[0], [1]]), np.array([0, 1]))


# ----- Running means -----


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(0, 99))
def test_means_over_batches_give_the_mean_over_all(sizes: list[int], seed: int) -> None:
    values = normal(sum(sizes), seed=seed)
    running = metrics.RunningMean()
    for batch in np.split(values, np.cumsum(sizes)[:-1]):
        running.update(batch.mean(), len(batch))
    assert running.value() == pytest.approx(values.mean(), rel=1e-9, abs=1e-12)


def test_a_mean_of_tensors_is_a_number_without_a_graph() -> None:
    running, leaf = metrics.RunningMean(), Tensor(2.0, requires_grad=True)
    running.update(leaf * 3.0, 2)
    running.update(leaf, 1)
    assert type(running.value()) is float
    assert running.value() == pytest.approx(14 / 3)


def test_there_is_no_mean_of_nothing() -> None:
    with pytest.raises(ValueError, match="no sample so far"):
        metrics.RunningMean().value()


# ----- Early stopping -----


def watch(losses: list[float], patience: int) -> tuple[int, float]:
    """After how many epochs a training stops, and the weight it goes back to: its epoch."""
    model = nn.Linear(1, 1, bias=False, rng=rng())
    stopping = metrics.EarlyStopping(model, patience)
    for epoch, loss in enumerate(losses, start=1):
        model.weight.data = np.full((1, 1), float(epoch))
        if stopping.update(loss):
            break
    stopping.restore()
    return epoch, model.weight.item()


@pytest.mark.parametrize(
    ("losses", "patience", "stops", "best"),
    [
        ([3, 2, 1], 1, 3, 3),
        ([3, 2, 4, 1], 1, 3, 2),
        ([3, 2, 4, 1], 2, 4, 4),
        ([3, 4, 2, 4, 1, 4, 4, 0], 2, 7, 5),
        ([3, 3, 3], 2, 3, 1),
        ([3, math.nan, 2, math.nan, math.nan], 2, 5, 3),
    ],
)
def test_stopping_waits_and_goes_back_to_the_best(
    losses: list[float], patience: int, stops: int, best: float
) -> None:
    assert watch(losses, patience) == (stops, best)


def test_a_training_that_was_never_good_goes_back_to_its_start() -> None:
    model = nn.Linear(1, 1, rng=rng())
    start = model.weight.item()
    stopping = metrics.EarlyStopping(model, 1)
    model.weight.data = model.weight.data + 1
    assert stopping.update(math.inf)
    stopping.restore()
    assert model.weight.item() == start


def test_patience_is_at_least_1() -> None:
    with pytest.raises(ValueError, match="a patience of 0: at least 1"):
        metrics.EarlyStopping(nn.Linear(1, 1, rng=rng()), 0)
