"""Ops that work element by element, away from kinks; the numbers are large or small on purpose."""

import numpy as np


def mul(a=(4, 3), b=(4, 3)):
    """A product of two tensors of equal shape."""
    return a * b


def square(a=(3,)):
    """A tensor times itself: both operands of one product are the same."""
    return a * a


def sub(a=(4, 3), b=(4, 3)):
    """A difference of two tensors of equal shape."""
    return a - b


def minus_itself(a=(4, 3)):
    """A tensor minus itself: the gradient is 0."""
    return a - a


def over_itself(a=[0.5, 2.0, -3.0]):
    """A tensor divided by itself, plus itself: the gradient is 1."""
    return a / a + a


def number_minus(a=(3,)):
    """A number on the left of a minus: 2 - a."""
    return 2 - a


def div(a=(3,), b=[0.5, 2.0, -3.0]):
    """A quotient, with denominators away from 0 and 1."""
    return a / b


def cube(a=[-1.0, 0.5, 2.0]):
    """The third power."""
    return a**3


def first_power(a=[-1.0, 0.5, 2.0]):
    """The power 1, the identity."""
    return a**1


def powers(zero=[0.0, 1.0, -2.0], a=[-1.0, 0.5, 2.0]):
    """The power 0, also of 0, times the power -1."""
    return zero**0 * a**-1


def number_power(a=[-1.0, 0.5, 2.0]):
    """A number to the power of a tensor: 2.5 ** a."""
    return _power(2.5, a)


def tensor_power(a=[0.5, 1.5, 2.0], b=[2.0, -1.0, 0.5]):
    """A positive tensor to the power of another tensor."""
    return _power(a, b)


def _power(base, exponent):
    """`base ** exponent`; minigrad takes only numbers as exponents, as many engines do."""
    if not hasattr(exponent, "__rpow__"):
        return (exponent * (base.log() if hasattr(base, "log") else np.log(base))).exp()
    try:
        return base**exponent
    except (AttributeError, TypeError) as error:
        if isinstance(base, float):
            raise
        raise NotImplementedError("the exponent is a number") from error


def exp(a=(4, 3)):
    """An exponential."""
    return a.exp()


def log(a=[0.5, 2.0, 4.0]):
    """A natural logarithm of positive numbers."""
    return a.log()


def log_of_one(a=[1.0, 1.0, 1.0]):
    """A natural logarithm at 1, where x and 1/x agree."""
    return a.log()


def log_of_small_numbers(a=[0.05, 0.1, 1.0]):
    """A logarithm of numbers as small as 0.05."""
    return a.log()


def sqrt(a=[0.25, 2.0, 9.0]):
    """A square root of positive numbers."""
    return a.sqrt()


def tanh(a=[-1.0, 0.5, 2.0]):
    """A hyperbolic tangent where it is curved."""
    return a.tanh()


def tanh_tiny(a=[-1e-9, 1e-9, 2e-9]):
    """A hyperbolic tangent so close to 0 that it is nearly the identity."""
    return a.tanh()


def sigmoid(a=[-1.0, 0.5, 2.0]):
    """A logistic function where it is curved."""
    return a.sigmoid()


def sigmoid_far_out(a=[-1000.0, 0.0, 1000.0]):
    """A logistic function of arguments whose exponential overflows."""
    return a.sigmoid()


def tanh_far_out(a=[-1000.0, 0.0, 1000.0]):
    """A hyperbolic tangent of arguments whose exponential overflows."""
    return a.tanh()


def gelu(lib, a=[-1.0, 0.5, 2.0]):
    """The exact GELU where it is curved."""
    return lib.nn.GELU()(a)


def gelu_tanh(lib, a=[-1.0, 0.5, 2.0]):
    """The tanh approximation of the GELU where it is curved."""
    return lib.nn.GELU(approximate="tanh")(a)


def gelu_tanh_function(lib, a=[-1.0, 0.5, 2.0]):
    """The tanh approximation of the GELU, as a function."""
    function = lib.nn.functional.gelu if hasattr(lib, "manual_seed") else lib.gelu
    return function(a, approximate="tanh")


def _silu(lib, a, beta):
    """`a` times the logistic function of `beta * a`."""
    return lib.silu(a, beta) if hasattr(lib, "silu") else a * (beta * a).sigmoid()


def silu_learned_beta(lib, a=[[1.0, -2.0], [3.0, -0.5]], beta=[2.0, -1.0]):
    """A SiLU with a learned beta for each column."""
    return _silu(lib, a, beta)


def silu_row_of_inputs(lib, a=[1.0, -2.0], beta=[[0.5], [2.0], [-1.0]]):
    """The same inputs for each of three learned betas."""
    return _silu(lib, a, beta)


def relu_away_from_zero(a=[-2.0, -0.5, 0.5, 3.0]):
    """A ReLU of numbers on both sides of 0, none near it."""
    return a.relu()


def relu_of_positives(a=[0.5, 1.0, 3.0]):
    """A ReLU of positive numbers only."""
    return a.relu()


def relu_infinite_upstream(a=[-1.0, 1.0, 4.0]):
    """A square root of a ReLU: elements set to 0 by the ReLU receive an infinite cotangent."""
    return a.relu().sqrt()


def abs_away_from_zero(a=[-2.0, -0.5, 0.5, 3.0]):
    """An absolute value of numbers on both sides of 0, none near it."""
    return a.abs()


def clamp_inside_and_outside(a=[-2.0, -0.5, 0.5, 3.0]):
    """A clamp to the interval from -1 to 1; two of four numbers are outside."""
    return a.clamp(-1, 1)


def maximum_of_two(lib, a=[-1.0, 0.5, 2.0], b=[0.0, -0.5, 3.0]):
    """The larger of two tensors, element by element, with no ties."""
    return lib.maximum(a, b)


def minimum_of_two(lib, a=[-1.0, 0.5, 2.0], b=[0.0, -0.5, 3.0]):
    """The smaller of two tensors, element by element, with no ties."""
    return lib.minimum(a, b)


def where(lib, a=(4,), b=(4,)):
    """A choice between two tensors by a mask that selects two elements of each."""
    return lib.where(lib.tensor([True, False, True, False]), a, b)


def where_infinite_upstream(lib, a=[-1.0, 1.0, 4.0]):
    """A square root of a `where`: elements that were not selected receive an infinite cotangent."""
    return lib.where(a > 0, a, 0.0).sqrt()


def two_layers(x=(2, 3), w=(3, 4), v=(4, 2)):
    """Two products of matrices with a tanh between: each op is inside a graph."""
    return (x @ w).tanh() @ v
