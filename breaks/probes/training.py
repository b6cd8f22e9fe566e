"""Small trainings that keep the log a person would keep."""

import numpy as np


def _regression(samples, features):
    """Inputs and noisy targets of a linear law, the same every time."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((samples, features))
    targets = inputs @ rng.standard_normal((features, 1)) + 0.5
    return inputs, targets + 0.3 * rng.standard_normal((samples, 1))


def _train(lib, batches, steps):
    """Train a linear layer by SGD on the batches in turn; yields model and loss at each step."""
    model = lib.nn.Linear(3, 1, rng=np.random.default_rng(1))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps + 1):
        loss = sum(lib.losses.mse(model(lib.tensor(x)), lib.tensor(y)).item() for x, y in batches)
        yield model, {"loss": loss / len(batches), "weight": model.weight, "bias": model.bias}
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        lib.losses.mse(model(lib.tensor(x)), lib.tensor(y)).backward()
        optimizer.step()


def _mini_batches():
    """32 samples of 3 features, cut into 2 mini-batches of 16."""
    inputs, targets = _regression(32, 3)
    return list(zip(np.split(inputs, 2), np.split(targets, 2), strict=True))


def train_with_bias(lib):
    """A regression with a bias: 32 samples, batches of 16, 200 steps."""
    for _, logged in _train(lib, _mini_batches(), steps=200):
        yield logged


def predict_another_batch_size(lib):
    """The same training, then a prediction for 7 new samples."""
    for model, logged in _train(lib, _mini_batches(), steps=200):  # noqa: B007  used after the loop
        yield logged
    inputs, _ = _regression(7, 3)
    prediction = model(lib.tensor(inputs))
    yield {"prediction": prediction}
