"""Functions of JAX with rules of their own."""

from functools import partial

import jax


@jax.custom_vjp
def mul(x, y):
    return x * y


def mul_fwd(x, y):
    return mul(x, y), (x, y)


def mul_bwd(residuals, g):
    x, y = residuals
    return g * y, g * x


mul.defvjp(mul_fwd, mul_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def power(x, k):
    return x**k


def power_fwd(x, k):
    return power(x, k), x


def power_bwd(k, x, g):
    return (g * k * x ** (k - 1),)


power.defvjp(power_fwd, power_bwd)
