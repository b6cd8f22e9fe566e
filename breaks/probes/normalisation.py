"""Layers that give their input a fixed scale."""


def layer_norm(lib, x=[[1.0, 2.0, 6.0], [0.0, 4.0, 8.0]]):
    """A layer norm of rows whose variance is far above its epsilon."""
    return _layer_norm(lib, x)


def layer_norm_small_variance(lib, x=[[1.0, 1.001, 1.003]]):
    """A layer norm of a row whose variance is below its epsilon."""
    return _layer_norm(lib, x)


def layer_norm_constant_row(lib, x=[[2.0, 2.0, 2.0]]):
    """A layer norm of a constant row."""
    return _layer_norm(lib, x)


def _layer_norm(lib, x):
    return lib.nn.LayerNorm(x.shape[-1], dtype=x.dtype)(x)
