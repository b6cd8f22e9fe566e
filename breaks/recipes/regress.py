"""A regression with occasional outliers in its targets, trained by SGD with momentum."""

import numpy as np


def regress(lib, seed=0):
    """Four layers, a cosine learning rate schedule, and gradient clipping."""
    data_rng, split_rng, model_rng, order_rng = lib.data.worker_generators(seed, 4)
    x, y, _ = _harvest(240, data_rng)
    later_x, _, later_y = _harvest(1000, data_rng)

    train, held_out = lib.data.train_test_split(len(x), 0.25, rng=split_rng)
    inputs = lib.data.StandardScaler().fit(x[train])
    targets = lib.data.StandardScaler().fit(y[train])
    x, later_x = inputs.transform(x), inputs.transform(later_x)
    y, later_y = targets.transform(y), targets.transform(later_y)

    model = lib.nn.Sequential(
        lib.nn.Linear(4, 32, rng=model_rng),
        lib.nn.ReLU(),
        lib.nn.Linear(32, 32, rng=model_rng),
        lib.nn.ReLU(),
        lib.nn.Linear(32, 32, rng=model_rng),
        lib.nn.ReLU(),
        lib.nn.Linear(32, 1, rng=model_rng),
    )
    epochs, max_norm = 24, 1.0
    batches = lib.data.DataLoader(x[train], y[train], batch_size=16, shuffle=True, rng=order_rng)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = epochs * len(batches)
    scheduler = lib.optim.Scheduler(optimizer, lambda step: lib.optim.cosine(step, steps))

    yield {"first_loss": _error(lib, model, x[train], y[train])}
    for _ in range(epochs):
        losses, norms = [], []
        for some_x, some_y in batches:
            optimizer.zero_grad()
            loss = lib.losses.mse(model(lib.tensor(some_x)), some_y)
            loss.backward()
            norms.append(lib.optim.clip_grad_norm_(model.parameters(), max_norm))
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        held_out_loss = _error(lib, model, x[held_out], y[held_out])
        yield {"loss": np.mean(losses), "validation_loss": held_out_loss, "grad_norm": max(norms)}
    yield {"deployed_loss": _error(lib, model, later_x, later_y)}


def _harvest(count, rng):
    """Measurements in different units, the measured harvest, and the harvest without errors."""
    x = rng.standard_normal((count, 4))
    truth = np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    errors = 0.3 * rng.standard_t(2.5, (count, 1))
    x = x * [1.0, 100.0, 0.01, 10.0] + [0.0, 300.0, 0.0, 50.0]
    return x, 200 + 50 * (truth + errors), 200 + 50 * truth


def _error(lib, model, x, y):
    """The mean squared error, without training."""
    with lib.no_grad():
        return lib.losses.mse(model(lib.tensor(x)), y).item()
