"""Fixtures of several scopes: a network that is trained once, and what is true of it."""

import numpy as np
import pytest

from minigrad import losses, nn, optim, tensor


@pytest.fixture(scope="session")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    return x, (x[:, 0] * x[:, 1] > 0).astype(int)


@pytest.fixture(scope="module")
def trained(data):
    rng = np.random.default_rng(1)
    network = nn.Sequential(
        nn.Linear(2, 16, rng=rng), nn.ReLU(), nn.Dropout(0.1, rng=rng), nn.Linear(16, 2, rng=rng)
    )
    optimizer = optim.Adam(network.parameters(), lr=0.05)
    history = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = losses.cross_entropy(network(tensor(data[0])), data[1])
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return network, history


@pytest.fixture(params=["train", "eval"])
def mode(request):
    return request.param


def test_the_loss_falls(trained):
    assert trained[1][-1] < 0.5 * trained[1][0]


def test_it_classifies_its_data(trained, data):
    network = trained[0].eval()
    assert np.mean(network(tensor(data[0])).data.argmax(axis=1) == data[1]) > 0.9


def test_parameters_keep_their_shapes(trained):
    shapes = [parameter.shape for parameter in trained[0].parameters()]
    assert shapes == [(2, 16), (16,), (16, 2), (2,)] or shapes == [(16, 2), (16,), (2, 16), (2,)]


def test_the_state_can_be_stored(trained, tmp_path):
    state = {name: np.asarray(value) for name, value in trained[0].state_dict().items()}
    np.savez(tmp_path / "state.npz", **state)
    with np.load(tmp_path / "state.npz") as stored:
        assert all(np.array_equal(stored[name], value) for name, value in state.items())


def test_evaluation_is_repeatable(trained, data, mode):
    network = getattr(trained[0], mode)()
    first, second = (network(tensor(data[0])).data for _ in range(2))
    assert np.array_equal(first, second) == (mode == "eval")
