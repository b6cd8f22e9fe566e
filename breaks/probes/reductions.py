"""Sums, means, maxima and normalisations by them, without ties."""

import numpy as np


def sum_all(a=(2, 3)):
    """A sum over all elements."""
    return a.sum()


def sum_rows(a=(2, 3)):
    """A sum over the last axis: one number per row."""
    return a.sum(1)


def sum_columns(a=(2, 3)):
    """A sum over the first axis: one number per column."""
    return a.sum(0)


def sum_of_number(a=2.0):
    """A sum of a tensor without axes."""
    return a.sum()


def sum_negative_axes(a=(2, 3, 4)):
    """A sum over the second axis from the end, then over the last one."""
    return a.sum(-2).sum(-1)


def sum_two_axes(a=(2, 3, 4)):
    """A sum over the first and the last axis at once."""
    return a.sum((0, 2))


def sum_rows_of_square(a=(3, 3)):
    """A sum over the last axis of a square matrix."""
    return a.sum(1)


def mean_all(a=(2, 3)):
    """A mean over all elements."""
    return a.mean()


def mean_rows(a=(2, 3)):
    """A mean over the last axis."""
    return a.mean(1)


def mean_negative_axes(a=(2, 3, 4)):
    """A mean over the second axis from the end, then over the last one."""
    return a.mean(-2).mean(-1)


def mean_two_axes(a=(2, 3, 4)):
    """A mean over the first and the last axis at once."""
    return a.mean((0, 2))


def var_rows(a=[[1.0, 2.0, 6.0], [0.0, 4.0, 8.0]]):
    """The variance of each row, unbiased."""
    return a.var(1)


def var_far_from_zero(a=[[100000.1, 100001.3, 100005.7]]):
    """The variance of three numbers near a hundred thousand."""
    return a.var(1)


def norm_rows(a=[[3.0, 4.0], [5.0, 12.0]]):
    """The Euclidean norm of each row."""
    return a.norm(dim=1)


def max_rows(a=[[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]]):
    """The maximum of each row, without ties."""
    return a.amax(1)


def min_rows(a=[[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]]):
    """The minimum of each row, without ties."""
    return a.amin(1)


def var_of_kept(a=(2, 3, 2)):
    """The variance over two axes that are kept, then over the third."""
    return a.var((0, -1), keepdim=True).var(1)


def norm_of_kept(a=(2, 3, 2)):
    """The Euclidean norm over the last axis, which is kept, then over two axes."""
    return a.norm(dim=-1, keepdim=True).norm(dim=(1, 2))


def max_of_kept(a=(2, 3, 2)):
    """The maximum over two axes that are kept, then over the third."""
    return a.amax((0, -1), keepdim=True).amax(1)


def min_of_kept(a=(2, 3, 2)):
    """The minimum over two axes that are kept, then over the third."""
    return a.amin((0, -1), keepdim=True).amin(1)


def logsumexp_thrice(a=(2, 3, 4)):
    """Logarithms of sums of exponentials over one axis, two that are kept, and one of length 1."""
    return a.logsumexp(-2).logsumexp((0, -1), keepdim=True).logsumexp(0)


def softmax_rows(a=[[0.0, 1.0, 2.0], [1.0, 0.0, -1.0]]):
    """The softmax of each row."""
    return a.softmax(1)


def softmax_vector(a=[0.0, 1.0, 2.0]):
    """The softmax of a vector, which has only one axis."""
    return a.softmax(0)


def softmax_one_row(a=[[0.0, 1.0, 2.0]]):
    """The softmax along the last axis of a batch of one."""
    return a.softmax(1)


def softmax_equal_scores(a=[[1.0, 1.0], [3.0, 3.0]]):
    """The softmax of rows of equal scores: every probability is 0.5."""
    return a.softmax(1)


def softmax_large_logits(a=[[1000.0, 999.0, 0.0]]):
    """The softmax of scores whose exponentials overflow."""
    return a.softmax(1)


def log_softmax_rows(a=[[0.0, 1.0, 2.0], [1.0, 0.0, -1.0]]):
    """The logarithm of the softmax of each row."""
    return a.log_softmax(1)


def log_softmax_of_targets(a=[[0.0, 1.0, 2.0], [1.0, 0.0, -1.0]]):
    """The negative log-probability of one class per row: the cotangent of a row sums to -1."""
    return -a.log_softmax(1)[[0, 1], [2, 0]].sum()


def log_softmax_large_logits(a=[[1000.0, 999.0, 0.0]]):
    """The logarithm of the softmax of scores whose exponentials overflow."""
    return a.log_softmax(1)


def train_softmax(lib):
    """A linear classifier of three clusters with an explicit softmax, 300 full batches."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]], 40, axis=0)
    classes = np.repeat([0, 1, 2], 40)
    inputs = lib.tensor(centres + 0.8 * rng.standard_normal((120, 2)))
    weight = lib.tensor(0.1 * rng.standard_normal((2, 3)), requires_grad=True)
    for _ in range(301):
        scores = inputs @ weight
        loss = -(scores.softmax(1)[np.arange(120), classes].log()).mean()
        correct = np.asarray(scores.data).argmax(1) == classes
        yield {"loss": loss, "accuracy": correct.mean(), "mean score": scores.mean()}
        weight.grad = None
        loss.backward()
        weight.data = weight.data - 0.5 * weight.grad


# ----- Along one axis, which stays -----


def cumulative_sums(a=(2, 3)):
    """The sums so far, along each axis."""
    return a.cumsum(1) * a.cumsum(0)


def cumulative_products(a=[[2.0, -0.5, 3.0], [0.5, 4.0, -1.5]]):
    """The products so far, along each axis; no element is 0."""
    return a.cumprod(1) + a.cumprod(0)


def cumulative_product_with_zero(a=[2.0, 0.0, -3.0, 0.5]):
    """The products so far of numbers of which the second is 0."""
    return a.cumprod(0)


# ----- Products over an axis -----


def product_of_columns(a=[[2.0, -0.5, 3.0], [0.5, 4.0, -1.5]]):
    """The product of each column, times the product of all; no element is 0."""
    return a.prod(0) * a.prod() + a.prod(-1, keepdim=True)


def product_with_zeros(a=[[2.0, 0.0, -3.0], [0.0, 4.0, 0.0]]):
    """The product of each row: one holds a 0, the other two of them."""
    return a.prod(1)
