"""Losses, under PyTorch's or minigrad's names."""

import numpy as np


def _cross_entropy(lib, logits, targets):
    """The mean over the rows whose target is not -100."""
    if hasattr(lib, "losses"):
        return lib.losses.cross_entropy(logits, np.array(targets))
    return lib.nn.functional.cross_entropy(logits, lib.tensor(targets))


def _mse(lib, prediction, target):
    """The mean of the squared errors."""
    loss = lib.losses.mse if hasattr(lib, "losses") else lib.nn.functional.mse_loss
    return loss(prediction, lib.tensor(np.array(target)))


def xent_of_four_rows(lib, a=(4, 3)):
    """Cross-entropy of 4 rows of scores for 3 classes."""
    return _cross_entropy(lib, a, [2, 0, 1, 1])


def xent_of_one_row(lib, a=(1, 3)):
    """Cross-entropy of a single row."""
    return _cross_entropy(lib, a, [2])


def xent_with_padding(lib, a=(4, 3)):
    """Cross-entropy of 4 rows, 3 of them padding that is ignored."""
    return _cross_entropy(lib, a, [2, -100, -100, -100])


def _three_classes(samples):
    """Reproducible points around three centres, with the index of the centre."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=samples)
    centres = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])
    return centres[classes] + 0.4 * rng.standard_normal((samples, 2)), classes.tolist()


def _train_softmax(lib, batch):
    """Softmax regression, 100 steps of SGD; yields the loss and the parameters before each."""
    points, classes = _three_classes(32)
    weight = lib.tensor(np.zeros((2, 3)), requires_grad=True)
    bias = lib.tensor(np.zeros(3), requires_grad=True)
    optimizer = lib.optim.SGD([weight, bias], lr=0.1)
    for step in range(101):
        start = step * batch % 32
        x, y = lib.tensor(points[start : start + batch]), classes[start : start + batch]
        loss = _cross_entropy(lib, x @ weight + bias, y)
        yield {"loss": loss.item(), "weight": weight, "bias": bias}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train_softmax_regression(lib):
    """Softmax regression on 32 points in batches of 8, 100 steps at a rate of 0.1."""
    yield from _train_softmax(lib, batch=8)


def train_softmax_row_by_row(lib):
    """The same in batches of a single row."""
    yield from _train_softmax(lib, batch=1)


def mse_of_four(lib, p=(4,)):
    """Squared error of 4 predictions against fixed targets."""
    return _mse(lib, p, [0.0, 1.0, 2.0, 3.0])


def mse_and_weight_decay(lib, p=(4,)):
    """Squared error of 4 predictions, and half the sum of their squares."""
    return _mse(lib, p, [0.0, 1.0, 2.0, 3.0]) + 0.5 * (p**2).sum()


def mse_at_the_target_and_weight_decay(lib, p=[0.0, 1.0, 2.0, 3.0]):
    """The same with predictions equal to the targets, so that the gradient of the error is 0."""
    return _mse(lib, p, [0.0, 1.0, 2.0, 3.0]) + 0.5 * (p**2).sum()


def train_with_weight_decay(lib):
    """A regression with one weight, 100 steps of SGD; the loss includes weight decay."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 1))
    y = 2 * x + 1 + 0.1 * rng.standard_normal((16, 1))
    weight = lib.tensor(np.array([[0.5]]), requires_grad=True)
    optimizer = lib.optim.SGD([weight], lr=0.1)
    for _ in range(101):
        loss = _mse(lib, lib.tensor(x) @ weight, y) + 0.1 * (weight**2).sum()
        yield {"loss": loss.item(), "weight": weight}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def xent_of_sure_rows(lib, a=[[0.0, 30.0], [0.0, 2.0], [40.0, 0.0]]):
    """Cross-entropy of confident rows: for the wrong class and for the right one."""
    return _cross_entropy(lib, a, [0, 0, 0])


def _binary_cross_entropy(lib, scores, target):
    target = lib.tensor(np.array(target))
    if hasattr(lib, "losses"):
        return lib.losses.binary_cross_entropy_with_logits(scores, target)
    return lib.nn.functional.binary_cross_entropy_with_logits(scores, target)


def bce_of_four(lib, a=(4,)):
    """Binary cross-entropy of 4 moderate scores, two of each class."""
    return _binary_cross_entropy(lib, a, [1.0, 0.0, 1.0, 0.0])


def bce_of_large_scores(lib, a=[-800.0, 0.5, 800.0]):
    """Binary cross-entropy where the logistic function rounds to 0 and 1; two rows are wrong."""
    return _binary_cross_entropy(lib, a, [1.0, 1.0, 0.0])
