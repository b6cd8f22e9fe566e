"""A deep plain network, trained by Adam with a warm-up to a high learning rate."""

import numpy as np


def deep(lib, seed=0):
    """Six layers without normalisation or shortcuts, which must survive the first steps."""
    data_rng, model_rng, order_rng = lib.data.worker_generators(seed, 3)
    x, y, _ = _waves(200, data_rng)
    held_out_x, held_out_y, _ = _waves(100, data_rng)
    later_x, _, later_y = _waves(1000, data_rng)

    layers = [lib.nn.Linear(4, 32, rng=model_rng), lib.nn.ReLU()]
    for _ in range(4):
        layers += [lib.nn.Linear(32, 32, rng=model_rng), lib.nn.ReLU()]
    model = lib.nn.Sequential(*layers, lib.nn.Linear(32, 1, rng=model_rng))
    epochs, warmup_steps = 20, 100
    batches = lib.data.DataLoader(x, y, batch_size=20, shuffle=True, rng=order_rng)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.05)
    steps = epochs * len(batches)
    scheduler = lib.optim.Scheduler(
        optimizer, lambda step: lib.optim.warmup_cosine(step, warmup_steps, steps)
    )
    for _ in range(epochs):
        losses = []
        for some_x, some_y in batches:
            optimizer.zero_grad()
            loss = lib.losses.mse(model(lib.tensor(some_x)), some_y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        yield {
            "loss": np.mean(losses),
            "validation_loss": _error(lib, model, held_out_x, held_out_y),
        }
    yield {"deployed_loss": _error(lib, model, later_x, later_y)}


def _waves(count, rng):
    """Four inputs, a target that depends on three of them, and the target without its noise."""
    x = rng.standard_normal((count, 4))
    truth = np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return x, truth + 0.3 * rng.standard_normal((count, 1)), truth


def _error(lib, model, x, y):
    """The mean squared error, without training."""
    with lib.no_grad():
        return lib.losses.mse(model(lib.tensor(x)), y).item()
