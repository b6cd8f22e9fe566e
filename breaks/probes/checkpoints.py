"""Trainings that stop, and resume with new objects loaded from a checkpoint.

The new objects start from other numbers, so that anything not saved or not loaded shows.
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def _training(lib, seed):
    """The parts of a training, initialised from `seed`."""
    rng = np.random.default_rng(seed)
    data = np.random.default_rng(7)
    x = data.standard_normal((12, 3))
    y = x.sum(1, keepdims=True) + data.standard_normal((12, 1))
    model = lib.nn.Sequential(
        _frozen_bias(lib.nn.Linear(3, 4, rng=rng)),
        lib.nn.BatchNorm1d(4),
        lib.nn.Tanh(),
        lib.nn.Dropout(0.25, rng=rng),
        lib.nn.Linear(4, 1, rng=rng),
    )
    # Not shared with the dropout: the loader's generator is not a part of the model.
    order = np.random.default_rng([seed, 1])
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1 / seed)
    return SimpleNamespace(
        model=model,
        optimizer=optimizer,
        scheduler=lib.optim.Scheduler(optimizer, lambda step: lib.optim.cosine(step, 30)),
        generators={"order": order},
        loader=lib.data.DataLoader(x, y, batch_size=4, rng=order),
    )


def _frozen_bias(linear):
    """The layer with a constant bias: before a batch norm, its gradient would be rounding error."""
    linear.bias.requires_grad = False
    return linear


def _parts(training):
    return {
        "model": training.model,
        "optimizer": training.optimizer,
        "scheduler": training.scheduler,
        "generators": training.generators,
    }


def _resumed(lib, training, step):
    """A fresh training that has loaded the checkpoint of another, and its step."""
    fresh = _training(lib, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "training.npz")
        lib.checkpoint.save(path, step, **_parts(training))
        return fresh, lib.checkpoint.load(path, **_parts(fresh))


def resume_training(lib, resume_at=3):
    """Adam, a schedule, dropout, running statistics and shuffled batches, after a checkpoint."""
    training = _training(lib, seed=1)
    step = 0
    while step < 6:
        if step == resume_at:
            training, step = _resumed(lib, training, step)
        losses = []
        for x, y in training.loader:
            training.optimizer.zero_grad()
            loss = ((training.model(lib.tensor(x)) - y) ** 2).mean()
            loss.backward()
            training.optimizer.step()
            losses.append(loss.item())
        training.scheduler.step()
        step += 1
        yield {
            "loss": np.mean(losses),
            "step": step,
            "lr": training.optimizer.lr,
            **{
                f"model.{name}": value
                for name, value in training.model.state_dict().items()
                if name != "layers.0.bias"  # frozen
            },
            **{f"optimizer.{k}": v for k, v in training.optimizer.state_dict().items()},
        }


def resume_momentum(lib, w=(3, 2), resume_at=3):
    """Momentum restored by hand: the optimizer's state, loaded into a new optimizer."""
    x = lib.tensor(np.random.default_rng(8).standard_normal((6, 3)))
    optimizer = lib.optim.SGD([w], lr=0.05, momentum=0.5)
    for step in range(6):
        if step == resume_at:
            saved = optimizer.state_dict()
            optimizer = lib.optim.SGD([w], lr=0.3, momentum=0.5)
            optimizer.load_state_dict(saved)
        loss = ((x @ w - 4.0) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield {"loss": loss, "w": w}
