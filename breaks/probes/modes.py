"""Layers that differ between training and evaluation, alone and inside others.

The harness reserves the names `module_...`: it switches the layer to training, evaluation and back.
The leaf `x` is the layer's input, and the probe returns the layer.
"""

import numpy as np


def module_dropout(lib, x=(64, 64)):
    """Dropout alone; `p` is a quarter, so that `p` and `1 - p` differ."""
    return lib.nn.Dropout(0.25, rng=np.random.default_rng(0))


def module_batch_norm(lib, x=(8, 3)):
    """Batch normalisation alone: by batch statistics in training, by running ones in evaluation."""
    return lib.nn.BatchNorm1d(3)


def module_layer_norm(lib, x=(4, 3)):
    """Layer normalisation: the same in both modes, separately for each row."""
    return lib.nn.LayerNorm(3)


def module_sequential(lib, x=(8, 3)):
    """A linear layer, dropout and batch normalisation, one after the other."""
    rng = np.random.default_rng(0)
    return lib.nn.Sequential(
        lib.nn.Linear(3, 4, rng=rng), lib.nn.Dropout(0.25, rng=rng), lib.nn.BatchNorm1d(4)
    )


def module_nested(lib, x=(8, 4)):
    """Dropout two levels down: in a residual block in a sequence."""
    rng = np.random.default_rng(0)
    block = lib.nn.Sequential(lib.nn.Linear(4, 4, rng=rng), lib.nn.Dropout(0.25, rng=rng))
    return lib.nn.Sequential(lib.nn.Residual(block), lib.nn.Tanh())


def dropout_in_training(lib, x=(4, 5)):
    """The gradient through a mask: 0 for dropped elements, scaled up for the others."""
    return lib.nn.Dropout(0.25, rng=np.random.default_rng(0))(x * x)


def batch_norm_in_training(lib, x=(6, 3)):
    """The gradient through batch normalisation, which also flows through mean and variance."""
    return lib.nn.BatchNorm1d(3, dtype=x.dtype)(x * x)


def batch_norm_in_evaluation(lib, x=(6, 3)):
    """The gradient with fixed statistics, separately for each row."""
    layer = lib.nn.BatchNorm1d(3, dtype=x.dtype)
    layer.running_mean[:] = 0.5
    layer.running_var[:] = 4.0
    layer.eval()
    return layer(x * x)


def batch_norm_running_mean(lib, x=(8, 3)):
    """The running mean over 3 batches and the outputs in training; `x` is the first batch."""
    layer = lib.nn.BatchNorm1d(3, momentum=0.2, dtype=x.dtype)
    for step in range(3):
        output = layer((step + 1) * x + step)
        yield {"output": output, "layer.running_mean": layer.running_mean}


def batch_norm_settles(lib, x=(8, 3)):
    """Running statistics converge to those of a batch that is repeated 60 times.

    The variance may have Bessel's correction or not: both conventions are in use.
    """
    layer = lib.nn.BatchNorm1d(3, momentum=0.5, dtype=x.dtype)
    for _ in range(60):
        layer(x)
    yield _errors(layer, x, 1.0)


def batch_norm_first_batch(lib, x=(8, 3)):
    """By default, the running statistics move a tenth of the way from 0 and 1 to the first batch's.

    The variance may have Bessel's correction or not.
    """
    layer = lib.nn.BatchNorm1d(3, dtype=x.dtype)
    layer(x)
    yield _errors(layer, x, 0.1)


def _errors(layer, x, share):
    """How far running statistics are from the `share` of the way to a batch's."""
    batch = x.detach().numpy()
    low, high = (1 - share + share * batch.var(0, ddof=ddof) for ddof in (0, 1))
    mean, variance = (np.asarray(part) for part in (layer.running_mean, layer.running_var))
    outside = np.maximum(low / variance, variance / high) - 1
    return {
        "mean_error": round(float(np.abs(mean - share * batch.mean(0)).max()), 9),
        "variance_error": round(float(max(outside.max(), 0.0)), 9),
    }


def dropout_share(lib, x=(64, 64)):
    """Dropout with `p` = 0.25 drops about a quarter, and divides what it keeps by 0.75.

    The share may differ from a quarter by 5 standard deviations.
    """
    seed = {} if hasattr(lib, "manual_seed") else {"rng": np.random.default_rng(0)}
    factor = np.asarray(lib.nn.Dropout(0.25, **seed)(x).detach()) / x.detach().numpy()
    off = abs(float((factor == 0).mean()) - 0.25)
    yield {
        "share_error": off if off > 5 * (0.25 * 0.75 / factor.size) ** 0.5 else 0.0,
        "scale_error": round(abs(float(factor.max()) * 0.75 - 1), 6),
    }
