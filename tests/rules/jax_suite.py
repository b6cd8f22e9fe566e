"""Tests of `jax_rules.py` with some gaps: a plain sum, no look at one gradient, a traced rule."""

import jax
import jax.numpy as jnp
from jax_rules import mul, power


def test_mul():
    x, y = jnp.array([1.0, -2.0]), jnp.array([3.0, 0.5])
    gradients = jax.grad(lambda x, y: mul(x, y).sum(), argnums=(0, 1))(x, y)
    assert jnp.allclose(gradients[0], y)


def test_power_where_it_is_compiled():
    x = jnp.array([1.0, -2.0])
    gradient = jax.jit(jax.grad(lambda x: power(x, 2).sum()))(x)
    assert jnp.allclose(gradient, 2 * x)
