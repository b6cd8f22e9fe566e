"""Windows that slide over an image."""

import numpy as np


def conv2d_overlapping(lib, x=(1, 1, 4, 4), w=(1, 1, 2, 2)):
    """A 2x2 kernel with a stride of one: the windows overlap."""
    return _conv2d(lib, x, w)


def conv2d_tiles(lib, x=(1, 1, 4, 4), w=(1, 1, 2, 2)):
    """A 2x2 kernel with a stride of two: the windows tile the image."""
    return _conv2d(lib, x, w, stride=2)


def conv2d_padded(lib, x=(1, 1, 3, 3), w=(1, 1, 3, 3)):
    """A 3x3 kernel on an image padded with one zero on each side."""
    return _conv2d(lib, x, w, padding=1)


def conv2d_batch(lib, x=(2, 2, 2, 2), w=(2, 2, 2, 2)):
    """Two images of two channels: every kernel element is applied to both images."""
    return _conv2d(lib, x, w)


def conv2d_strided(lib, x=(2, 1, 3, 4), w=(3, 1, 2, 2)):
    """No two lengths are equal, a stride of two, and a padding of one."""
    return _conv2d(lib, x, w, stride=2, padding=1)


def max_pool_overlapping(lib, x=[[[[1.0, 2.0, 3.0], [4.0, 9.0, 5.0], [6.0, 7.0, 8.0]]]]):
    """2x2 windows with a stride of one: the element in the middle is the maximum of all four."""
    return lib.nn.MaxPool2d(2, stride=1)(x)


def max_pool_tiles(lib, x=(1, 1, 4, 4)):
    """2x2 windows that tile the image: each element is in only one of them."""
    return lib.nn.MaxPool2d(2)(x)


def avg_pool_tiles(lib, x=(1, 1, 4, 4)):
    """The means of 2x2 windows that tile the image."""
    return lib.nn.AvgPool2d(2)(x)


def avg_pool_padded(lib, x=(2, 1, 3, 4)):
    """The means of overlapping 3x3 windows, without the zeros of the padding."""
    return lib.nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)(x)


def avg_pool_counted(lib, x=(1, 1, 5, 4)):
    """The means of 3x3 windows with a stride of 2, in which the zeros of the padding count."""
    return lib.nn.AvgPool2d(3, stride=2, padding=1)(x)


def _conv2d(lib, x, w, **options):
    """A convolution with the kernels `w` and without a bias."""
    if hasattr(lib, "manual_seed"):  # PyTorch
        return lib.nn.functional.conv2d(x, w, **options)
    layer = lib.nn.Conv2d(
        w.shape[1], w.shape[0], w.shape[2], rng=np.random.default_rng(0), **options
    )
    layer.weight, layer.bias = w, lib.tensor(np.zeros(w.shape[0]), requires_grad=True)
    return layer(x)
