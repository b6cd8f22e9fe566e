"""Data on its way into a training: what must hold whatever is drawn.

What ends in `_error` is how far off an identity is; it is 0 in a correct engine.
"""

import numpy as np


def _off(difference):
    """The largest difference; no rounding shows."""
    return round(float(np.abs(difference).max()), 9)


def batches_of_an_epoch(lib):
    """Every sample comes once an epoch, with its own target, in another order each time."""
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
    """Three workers draw, and none draws the numbers of another."""
    workers = lib.data.worker_generators(0, 3)
    for _ in range(3):
        drawn = [worker.random() for worker in workers]
        yield {"draws": np.array(drawn), "repeated_error": 1 - len(set(drawn)) / len(drawn)}


def statistics_of_training_rows(lib):
    """Scaler and imputer know the rows that they were fitted to, and take nothing from others."""
    rng = np.random.default_rng(2)
    train, test = rng.standard_normal((12, 2)), 5.0 + rng.standard_normal((6, 2))
    scaler = lib.data.StandardScaler().fit(train)
    holed = np.where(test > 5.0, np.nan, test)
    imputer = lib.data.MeanImputer().fit(train)
    for rows in (test, train):
        right = (rows - train.mean(0)) / train.std(0)
        filled = imputer.transform(holed)[np.isnan(holed)]
        expected = np.broadcast_to(train.mean(0), holed.shape)[np.isnan(holed)]
        yield {
            "rows": len(rows),
            "scale_error": _off(scaler.transform(rows) - right),
            "fill_error": _off(filled - expected),
        }


def refuse_missing_values(lib):
    """A scaler is fitted to rows of which one has no value; a mean of it would be NaN."""
    scaler = lib.data.StandardScaler().fit(np.array([[1.0], [np.nan], [3.0]]))
    yield {"mean": scaler.mean}
