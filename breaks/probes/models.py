"""Losses and models around others: the Huber loss, averaged weights, early stopping, replicas."""

import numpy as np


def huber_within_and_beyond(lib, p=[0.25, -0.5, 3.0, -4.0], t=[0.0, 0.25, -0.5, 1.0]):
    """Huber loss with delta 2, of predictions and targets: two errors within it, two beyond."""
    loss = lib.losses.huber if hasattr(lib, "losses") else lib.nn.functional.huber_loss
    return loss(p, t, delta=2.0)


def _relative_error(actual, expected):
    """The largest deviation, beyond rounding, relative to the largest element."""
    off = float(abs(actual - expected).max() / abs(expected).max())
    return off if off > 1e-5 else 0.0


def average_while_training(lib, x=(6, 3)):
    """A moving average of batch normalisation: its weights averaged, its statistics copied."""
    layer = lib.nn.BatchNorm1d(3, dtype=x.dtype)
    averaged = lib.models.AveragedModel(layer, decay=0.75)
    expected = 1.0
    for _ in range(3):
        layer(x)
        layer.weight.data = layer.weight.data + 1
        expected = 0.75 * expected + 0.25 * layer.weight.data
        averaged.update_parameters(layer)
        yield {
            "output": averaged.eval()(x),
            "weight_error": _relative_error(averaged.module.weight.data, expected),
            "buffer_error": _relative_error(averaged.module.running_var, layer.running_var),
        }


def stop_early(lib):
    """Early stopping, patience 2: no lowest loss in epochs 1 (NaN), 4 and 5; it keeps epoch 3."""
    losses = [0.9, float("nan"), 0.6, 0.4, 0.5, 0.45, 0.3]
    model = lib.nn.Linear(1, 1, bias=False, rng=np.random.default_rng(0))
    stopping = lib.metrics.EarlyStopping(model, patience=2)
    epoch, stop = -1, False
    while not stop:
        epoch += 1
        model.load_state_dict({"weight": np.array([[float(epoch)]])})
        stop = bool(stopping.update(losses[epoch]))
        yield {"epoch": epoch, "stop": int(stop)}
    stopping.restore()
    kept = int(model.weight.item())
    yield {"kept_epoch": kept, "best_error": losses[kept] - np.nanmin(losses[: epoch + 1])}


def replicas_of_unequal_shards(lib, w=(2, 3)):
    """Data parallelism: a batch of 6 in shards of 3, 2 and 1 against the whole batch."""
    layer = lib.nn.Linear(3, 2, bias=False, rng=np.random.default_rng(0), dtype=w.dtype)
    layer.weight.data = w.data
    rng = np.random.default_rng(1)
    x, y = (lib.tensor(rng.standard_normal((6, n)), dtype=w.dtype) for n in (3, 2))

    def mean_square(model, inputs, targets):
        return ((model(inputs) - targets) ** 2).mean()

    mean_square(layer, x, y).backward()
    whole, layer.weight.grad = layer.weight.grad, None
    shards = [(x[part], y[part]) for part in (slice(0, 3), slice(3, 5), slice(5, 6))]
    loss = lib.models.data_parallel(mean_square, layer, shards)
    yield {"loss": loss, "gradient_error": _relative_error(layer.weight.grad, whole)}
