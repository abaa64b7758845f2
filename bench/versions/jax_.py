"""The functions for JAX: `jax.jit` over `jax.numpy`, library functions where JAX has them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def three_ops(x: Any, y: Any) -> Any:
    return (x + y) * x - y


def chain(x: Any, a: float, b: float) -> Any:
    return jnp.tanh(a * x + b) * jnp.exp(-x * x) + jnp.where(x > 0, x, 0.01 * x)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=1)


def logsumexp(x: Any) -> Any:
    return jax.nn.logsumexp(x, axis=1)


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(axis=1, keepdims=True)
    var = x.var(axis=1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + shift


def variance(x: Any) -> Any:
    return x.var()


def sum_of_squares(x: Any) -> Any:
    return (x * x).sum()


def ten_ops(x: Any, y: Any) -> Any:
    u = jnp.exp(-x * x)
    v = jnp.tanh(y + u)
    return (u * v - x) / (1.0 + v * v) + 0.5 * y


def product(x: Any, y: Any) -> Any:
    return x @ y


def turned(x: Any, y: Any) -> Any:
    return x @ y.T


def turned_left(x: Any, y: Any) -> Any:
    return x.T @ y


def every_other_row(x: Any, y: Any) -> Any:
    return x[::2] @ y


def gram(x: Any) -> Any:
    return x.T @ x


_PLAIN = (
    *(three_ops, chain, softmax, logsumexp, layernorm, variance, sum_of_squares, ten_ops),
    *(product, turned, turned_left, every_other_row, gram),
)
FUNCTIONS = {function.__name__: jax.jit(function) for function in _PLAIN}
