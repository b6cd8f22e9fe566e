"""`check_rule` raises no false alarm on PyTorch's own functions."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as fn  # noqa: E402

from harness import check_rule  # noqa: E402

GENERATOR = torch.Generator().manual_seed(1)
TRUE = torch.tensor([True, False, True])


def r(*shape: int) -> Any:
    """Return random numbers that require a gradient."""
    return c(*shape).requires_grad_()


def c(*shape: int) -> Any:
    """Return random numbers that require no gradient."""
    return torch.randn(shape, generator=GENERATOR, dtype=torch.double)


def p(*shape: int) -> Any:
    """Return positive numbers that require no gradient."""
    return torch.rand(shape, generator=GENERATOR, dtype=torch.double) + 0.3


def i(*values: Any) -> Any:
    """Return integers."""
    return torch.tensor(values)


CASES = {
    "linear": (fn.linear, (r(3, 4), r(2, 4), r(2))),
    "bilinear": (fn.bilinear, (r(3, 2), r(3, 4), r(2, 2, 4), r(2))),
    "conv2d": (fn.conv2d, (r(1, 2, 4, 3), r(3, 2, 2, 2), r(3), 2, 1)),
    "conv_transpose1d": (fn.conv_transpose1d, (r(1, 2, 3), r(2, 2, 2), r(2))),
    "relu": (fn.relu, (r(3, 4),)),
    "relu_": (fn.relu_, (r(3, 4),)),
    "prelu": (fn.prelu, (r(3, 4), p(4).requires_grad_())),
    "elu": (fn.elu, (r(3, 4),)),
    "gelu": (fn.gelu, (r(3, 4),)),
    "silu": (fn.silu, (r(3, 4),)),
    "softplus": (fn.softplus, (r(3, 4),)),
    "glu": (fn.glu, (r(3, 4),)),
    "log_softmax": (lambda x: fn.log_softmax(x, -1), (r(3, 4),)),
    "layer_norm": (fn.layer_norm, (r(3, 4), (4,), r(4), r(4))),
    "rms_norm": (fn.rms_norm, (r(3, 4), (4,), r(4))),
    "batch_norm": (
        lambda x, mean, var, w, b: fn.batch_norm(x, mean, var, w, b, True),
        (r(5, 3), c(3), p(3), r(3), r(3)),
    ),
    "batch_norm in evaluation": (fn.batch_norm, (r(5, 3), c(3), p(3), r(3), r(3))),
    "instance_norm": (fn.instance_norm, (r(2, 3, 4),)),
    "normalize": (fn.normalize, (r(3, 4),)),
    "cross_entropy": (fn.cross_entropy, (r(3, 4), i(0, 3, 1), p(4))),
    "binary_cross_entropy": (
        fn.binary_cross_entropy,
        (torch.sigmoid(c(3, 4)).requires_grad_(), torch.sigmoid(c(3, 4))),
    ),
    "mse_loss": (fn.mse_loss, (r(3, 4), r(3, 4))),
    "huber_loss": (fn.huber_loss, (r(3, 4), r(3, 4))),
    "cosine_similarity": (fn.cosine_similarity, (r(3, 4), r(3, 4))),
    "ctc_loss": (
        lambda x, *others: fn.ctc_loss(x.log_softmax(-1), *others),
        (r(6, 2, 5), i([1, 2], [2, 3]), i(6, 6), i(2, 2)),
    ),
    "embedding": (fn.embedding, (i([0, 2], [2, 1]), r(4, 3))),
    "max_pool2d": (lambda x: fn.max_pool2d(x, 2, return_indices=True), (r(1, 2, 4, 4),)),
    "avg_pool2d": (fn.avg_pool2d, (r(1, 2, 4, 4), 2)),
    "interpolate": (
        lambda x: fn.interpolate(x, scale_factor=2, mode="bilinear"),
        (r(1, 2, 3, 2),),
    ),
    "unfold": (fn.unfold, (r(1, 2, 4, 4), 2)),
    "attention": (
        fn.scaled_dot_product_attention,
        (r(1, 2, 3, 4), r(1, 2, 3, 4), r(1, 2, 3, 4), torch.ones(3, 3).tril().bool()),
    ),
    "dropout in evaluation": (lambda x: fn.dropout(x, 0.5, False), (r(3, 4),)),
    "matmul": (torch.matmul, (r(2, 3, 4), r(4, 2))),
    "add": (torch.add, (r(3, 1), r(4))),
    "div": (torch.div, (r(3, 1), p(4).requires_grad_())),
    "pow": (torch.pow, (p(3, 4).requires_grad_(), r(4))),
    "where": (torch.where, (TRUE, r(3), r(3))),
    "cumprod": (lambda x: x.cumprod(1), (r(3, 4),)),
    "max": (torch.max, (r(3, 4), 1)),
    "topk": (torch.topk, (r(3, 4), 2)),
    "cat": (lambda *parts: torch.cat(parts), (r(2, 3), r(1, 3))),
    "split": (lambda x: torch.split(x, 2), (r(5, 3),)),
    "index_add": (lambda x, n, y: x.index_add(0, n, y), (r(3, 4), i(0, 0), r(2, 4))),
    "masked_fill": (lambda x, mask: x.masked_fill(mask, 0.0), (r(3), TRUE)),
    "indexing": (lambda x, n: x[n], (r(3, 4), i(0, 0, 2))),
    "logsumexp": (torch.logsumexp, (r(3, 4), 1)),
    "solve": (torch.linalg.solve, ((c(3, 3) * 0.2 + torch.eye(3)).requires_grad_(), r(3, 2))),
    "svdvals": (torch.linalg.svdvals, (r(3, 2),)),
    "lstm_cell": (
        lambda x, h, k, v, w: torch.lstm_cell(x, (h, k), v, w),
        (r(2, 3), r(2, 2), r(2, 2), r(8, 3), r(8, 2)),
    ),
    "var_mean": (torch.var_mean, (r(5),)),
    "clamp": (torch.clamp, (r(5), c(1), c(1) + 3)),
    "sign": (torch.sign, (r(5),)),
    "identity": (lambda x: x, (r(5),)),
    "expand": (lambda x: x.expand(3, 4), (r(3, 1),)),
    "mul_": (lambda x, y: x.mul_(y), (r(3), r(3))),
    "sum": (torch.sum, (r(3),)),
    "no elements": (lambda x: x[:0], (r(3),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_pytorch_is_right(name: str) -> None:
    function, inputs = CASES[name]
    assert check_rule(function, inputs)


@pytest.mark.parametrize(
    "function",
    [fn.dropout, fn.gumbel_softmax, lambda x: fn.rrelu(x, training=True)],
)
def test_a_random_function_is_refused(function: Any) -> None:
    with pytest.raises(ValueError, match="fn is random"):
        check_rule(function, (r(3, 4),))
