"""Data preparation: properties that hold for any random numbers.

Values named `..._error` measure how far an identity is from true; they are 0 in a correct engine.
"""

import numpy as np


def _off(difference):
    """The largest difference, rounded so that floating-point error does not show."""
    return round(float(np.abs(difference).max()), 9)


def batches_of_an_epoch(lib):
    """Every sample occurs once per epoch, with its own target, in a new order each time."""
    x = np.random.default_rng(0).standard_normal((10, 2))
    loader = lib.data.DataLoader(x, x.sum(1), batch_size=4, rng=np.random.default_rng(1))
    before = x
    for _ in range(3):
        batches = list(loader)
        inputs, targets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        same = inputs.shape == x.shape
        yield {
            "batches": len(batches),
            "missing_error": _off(np.sort(inputs, 0) - np.sort(x, 0)) if same else 1.0,
            "pairing_error": _off(inputs.sum(1) - targets),
            "order_error": float(np.array_equal(inputs, before)),
        }
        before = inputs


def worker_draws(lib):
    """Three workers draw different random numbers."""
    workers = lib.data.worker_generators(0, 3)
    for _ in range(3):
        drawn = [worker.random() for worker in workers]
        yield {"draws": np.array(drawn), "repeated_error": 1 - len(set(drawn)) / len(drawn)}


def statistics_of_training_rows(lib):
    """A scaler and an imputer use only the rows that they were fitted to."""
    rng = np.random.default_rng(2)
    train, test = rng.standard_normal((12, 2)), 5.0 + rng.standard_normal((6, 2))
    scaler = lib.data.StandardScaler().fit(train)
    holed = np.where(test > 5.0, np.nan, test)
    imputer = lib.data.MeanImputer().fit(train)
    for rows in (test, train):
        scaled = (rows - train.mean(0)) / train.std(0)
        filled = imputer.transform(holed)[np.isnan(holed)]
        expected = np.broadcast_to(train.mean(0), holed.shape)[np.isnan(holed)]
        yield {
            "rows": len(rows),
            "scale_error": _off(scaler.transform(rows) - scaled),
            "fill_error": _off(filled - expected),
        }


def refuse_missing_values(lib):
    """A scaler is fitted to rows with a missing value, whose mean would be NaN."""
    scaler = lib.data.StandardScaler().fit(np.array([[1.0], [np.nan], [3.0]]))
    yield {"mean": scaler.mean}


def _scaled(lib, x, y):
    """Scale `x`, see how well it is scaled, and fit a linear law with a bias to `y` by descent.

    The steps are those until weights and bias are right to a thousandth, at the best constant rate:
    2 by the sum of the least and the greatest curvature.
    """
    scaled = lib.data.StandardScaler().fit(x).transform(x)
    rows = np.column_stack([scaled, np.ones(len(x))])
    best = np.linalg.lstsq(rows, y, rcond=None)[0]
    curvatures = np.linalg.eigvalsh(2 * rows.T @ rows / len(x))
    weights, steps = np.zeros_like(best), 0
    while np.linalg.norm(weights - best) > 1e-3 * np.linalg.norm(best) and steps < 20_000:
        slope = 2 * rows.T @ (rows @ weights - y) / len(x)
        weights, steps = weights - 2 / (curvatures[0] + curvatures[-1]) * slope, steps + 1
    yield {
        "deviations": scaled.std(0),
        "condition": curvatures[-1] / curvatures[0],
        "steps": steps,
        "mean_error": _off(scaled.mean(0)),
        "spread_error": _off(scaled.std(0) - 1),
    }


def _columns(deviations, means):
    """64 rows of two uncorrelated columns with these deviations and means."""
    x = np.column_stack([np.ones(64), np.random.default_rng(3).standard_normal((64, 2))])
    orthogonal = np.linalg.qr(x)[0][:, 1:]  # also to the column of ones: their mean is 0
    return 8 * orthogonal * np.array(deviations) + np.array(means)


def scale_uneven_columns(lib):
    """Two columns around 0, one 30 times as wide as the other."""
    x = _columns([1.0, 30.0], [0.0, 0.0])
    yield from _scaled(lib, x, x[:, 0] - 0.1 * x[:, 1])


def scale_far_columns(lib):
    """Two columns of deviation 1, one of them around 5."""
    x = _columns([1.0, 1.0], [0.0, 5.0])
    yield from _scaled(lib, x, x[:, 0] - x[:, 1])
