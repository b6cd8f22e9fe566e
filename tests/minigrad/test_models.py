"""A model recomputed, averaged and replicated, against the plain model and PyTorch."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from minigrad import Tensor, models, nn
from tests.minigrad.modules import normal, public_names, rng


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(3, 4, rng=rng()),
        nn.Dropout(0.5, rng=rng(1)),
        nn.BatchNorm1d(4),
        nn.Linear(4, 2, rng=rng(2)),
    )


def gradients(model: nn.Module) -> list[Any]:
    return [parameter.grad for parameter in model.parameters()]


def test_every_public_name_has_a_test() -> None:
    tested = {"checkpoint", "AveragedModel", "replicate", "data_parallel"}
    assert public_names(models) == tested


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_recomputed_model_is_the_model(requires_grad: bool) -> None:
    plain = network()
    recomputed = copy.deepcopy(plain)
    for step in range(
        2
    ):  # the second shows whether generators and buffers are where they should be
        x, twin = (Tensor(normal(5, 3, seed=step), requires_grad) for _ in range(2))
        output, other = plain(x), models.checkpoint(recomputed, twin)
        np.testing.assert_array_equal(output.data, other.data)
        (output * output).sum().backward()
        (other * other).sum().backward()
        np.testing.assert_equal([twin.grad, *gradients(recomputed)], [x.grad, *gradients(plain)])
        np.testing.assert_equal(recomputed.state_dict(), plain.state_dict())


def test_a_recomputed_model_keeps_no_nodes_in_between() -> None:
    model = network()
    output = models.checkpoint(model, Tensor(normal(5, 3), requires_grad=True))
    assert all(parent.is_leaf for parent in output.parents)
    assert len(output.parents) == 1 + len(model.parameters())


def test_an_average_is_torchs() -> None:
    model, twin = nn.Linear(3, 2, rng=rng()), torch.nn.Linear(3, 2).double()
    twin.load_state_dict({k: torch.from_numpy(v) for k, v in model.state_dict().items()})
    averaged = models.AveragedModel(model, decay=0.75)
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)
    other = torch.optim.swa_utils.AveragedModel(twin, multi_avg_fn=average)
    other.update_parameters(twin)  # its first call copies
    for step in range(3):
        moved = {k: normal(*v.shape, seed=step) for k, v in model.state_dict().items()}
        model.load_state_dict(moved)
        twin.load_state_dict({k: torch.from_numpy(v) for k, v in moved.items()})
        averaged.update_parameters(model)
        other.update_parameters(twin)
        for name, part in averaged.module.state_dict().items():
            expected = other.module.state_dict()[name].numpy()
            np.testing.assert_allclose(part, expected, 1e-12)


def test_an_average_has_the_buffers_of_the_model_and_its_own_weights() -> None:
    model = network()
    averaged = models.AveragedModel(model, 0.9)
    model(Tensor(normal(5, 3)))
    averaged.update_parameters(model)
    buffers = {name for name in model.state_dict() if "running" in name}
    assert buffers
    for name, value in model.state_dict().items():
        np.testing.assert_allclose(averaged.module.state_dict()[name], value, 1e-12)
    model.parameters()[0].data += 1
    assert not np.array_equal(averaged.module.parameters()[0].data, model.parameters()[0].data)


def mean_square(model: nn.Module, x: Any, y: Any) -> Tensor:
    loss: Tensor = ((model(Tensor(x)) - y) ** 2).mean()
    return loss


def test_shards_have_the_gradient_of_the_whole_batch() -> None:
    model, x, y = nn.Linear(3, 2, rng=rng()), normal(7, 3), normal(7, 2, seed=8)
    loss = mean_square(model, x, y)
    loss.backward()
    expected = gradients(model)
    for parameter in model.parameters():
        parameter.grad = None
    shards = [(x[:4], y[:4]), (x[4:6], y[4:6]), (x[6:], y[6:])]
    assert models.data_parallel(mean_square, model, shards) == pytest.approx(loss.item())
    for actual, whole in zip(gradients(model), expected, strict=True):
        np.testing.assert_allclose(actual, whole, 1e-12)


def test_replicas_draw_different_numbers_and_share_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 3, rng=rng()), nn.Dropout(0.5, rng=rng(1)))
    state = rng(1).bit_generator.state
    first, second = models.replicate(model, 2)
    ones = Tensor(np.ones((20, 3)))
    assert not np.array_equal(first(ones).data, second(ones).data)
    assert model.generators()["layers.1.rng"].bit_generator.state == state
    assert not np.shares_memory(first.parameters()[0].data, model.parameters()[0].data)


def test_an_average_of_float16_weights_moves_by_little() -> None:
    """A step of 0.001 is less than half the distance between float16 numbers at 6."""
    model = nn.Linear(1, 1, bias=False, rng=rng(), dtype=np.float16)
    model.weight.data = np.array([[6.0]], np.float16)
    averaged = models.AveragedModel(model, decay=0.999)
    model.weight.data = np.array([[7.0]], np.float16)
    for _ in range(1000):
        averaged.update_parameters(model)
    (average,) = averaged.parameters()
    assert average.dtype == np.float32
    assert average.item() == pytest.approx(7 - 0.999**1000, abs=1e-4)
