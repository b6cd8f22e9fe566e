"""Layers, losses and optimizers, and a training that PyTorch repeats."""

from typing import Any

import numpy as np
import pytest
import torch

from minigrad import Tensor, losses, nn, optim


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


class Mlp(nn.Module):
    """Two layers, one of them in a list."""

    def __init__(self, dtype: Any = np.float64) -> None:
        generator = rng()
        self.first = nn.Linear(3, 8, rng=generator, dtype=dtype)
        self.rest = [nn.Linear(8, 2, rng=generator, dtype=dtype)]

    def forward(self, x: Tensor) -> Tensor:
        return self.rest[0](self.first(x).tanh())


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_a_training_takes_the_same_steps_as_torch(dtype: Any, tolerance: float) -> None:
    x = rng().standard_normal((16, 3)).astype(dtype)
    y = np.stack([x.sum(1), x[:, 0] * x[:, 1]], axis=1)
    model = Mlp(dtype)
    twins = [torch.tensor(p.data, requires_grad=True) for p in model.parameters()]
    ours, theirs = optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(twins, lr=0.1)
    for _ in range(50):
        ours.zero_grad()
        losses.mse(model(Tensor(x)), Tensor(y)).backward()
        ours.step()

        theirs.zero_grad()
        w, b, v, c = twins
        output = (torch.from_numpy(x) @ w.T + b).tanh() @ v.T + c
        torch.nn.functional.mse_loss(output, torch.from_numpy(y)).backward()
        theirs.step()
    for parameter, twin in zip(model.parameters(), twins, strict=True):
        np.testing.assert_allclose(
            parameter.data, twin.detach().numpy(), tolerance, tolerance, strict=True
        )


# ----- nn -----


def test_linear_starts_uniform_within_its_bound() -> None:
    layer = nn.Linear(400, 300, rng=rng())
    assert layer.bias is not None
    assert layer.weight.shape == (300, 400)
    assert layer.bias.shape == (300,)
    for parameter in layer.parameters():
        assert 0.045 < np.abs(parameter.data).max() <= 0.05
        assert abs(parameter.data.mean()) < 0.01


def test_the_generator_decides_the_parameters() -> None:
    one, same = (nn.Linear(3, 2, rng=rng()) for _ in range(2))
    np.testing.assert_array_equal(one.weight.data, same.weight.data)
    generator = rng()
    nn.Linear(3, 2, rng=generator)
    assert (nn.Linear(3, 2, rng=generator).weight.data != one.weight.data).all()


def test_linear_works_on_the_last_axis_and_on_arrays() -> None:
    layer = nn.Linear(3, 2, rng=rng())
    x = rng().standard_normal((5, 4, 3))
    assert layer.bias is not None
    expected = np.einsum("bti,oi->bto", x, layer.weight.data) + layer.bias.data
    np.testing.assert_allclose(layer(x).data, expected, rtol=1e-12, strict=True)


def test_linear_can_do_without_a_bias() -> None:
    layer = nn.Linear(3, 2, bias=False, rng=rng())
    assert layer.parameters() == [layer.weight]
    np.testing.assert_array_equal(layer(Tensor(np.zeros((1, 3)))).data, np.zeros((1, 2)))


def test_parameters_come_in_order_from_lists_too_and_shared_ones_once() -> None:
    model = Mlp()
    first, last = model.first, model.rest[0]
    model.tied = model.first  # type: ignore[attr-defined]
    model.cache = model(Tensor(np.ones((1, 3))))  # type: ignore[attr-defined]
    model.constant = Tensor(1.0)  # type: ignore[attr-defined]
    assert model.parameters() == [first.weight, first.bias, last.weight, last.bias]


# ----- losses -----


def test_mse_is_the_mean_over_all_elements() -> None:
    prediction = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    loss = losses.mse(prediction, np.array([[1.0, 0.0], [3.0, 0.0]]))
    assert loss.item() == 5
    loss.backward()
    assert prediction.grad is not None
    np.testing.assert_array_equal(prediction.grad, [[0.0, 1.0], [0.0, 2.0]])


def test_mse_does_not_broadcast() -> None:
    message = r"prediction has shape \(3, 1\), but the target has shape \(3,\): reshape one"
    with pytest.raises(ValueError, match=message):
        losses.mse(Tensor(np.ones((3, 1))), Tensor(np.ones(3)))


# ----- optim -----


def test_a_step_leaves_the_old_array_and_parameters_without_a_gradient_alone() -> None:
    moved, unused = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    before, idle = moved.data, unused.data
    optimizer = optim.SGD([moved, unused], lr=0.5)
    moved.sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(moved.data, [0.5, 1.5])
    np.testing.assert_array_equal(before, [1.0, 2.0])
    assert unused.data is idle


def test_a_numpy_learning_rate_does_not_change_the_dtype() -> None:
    parameter = Tensor([1.0], requires_grad=True, dtype=np.float32)
    parameter.sum().backward()
    optim.SGD([parameter], lr=np.float64(0.5)).step()
    np.testing.assert_array_equal(parameter.data, np.array([0.5], np.float32), strict=True)


def test_zero_grad_forgets() -> None:
    parameter = Tensor([1.0], requires_grad=True)
    optimizer = optim.SGD(iter([parameter]), lr=0.5)
    parameter.sum().backward()
    optimizer.zero_grad()
    assert parameter.grad is None
    optimizer.step()
    np.testing.assert_array_equal(parameter.data, [1.0])
