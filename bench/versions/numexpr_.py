"""The functions with numexpr: expressions for the elementwise parts, NumPy for row reductions."""

from __future__ import annotations

from typing import Any

import numexpr
import numpy as np


def three_ops(x: Any, y: Any) -> Any:
    return numexpr.evaluate("(x + y) * x - y")


def chain(x: Any, a: float, b: float) -> Any:
    # Constants carry the array's dtype, or numexpr would compute in float64 throughout.
    a, b, k = x.dtype.type(a), x.dtype.type(b), x.dtype.type(0.01)
    return numexpr.evaluate("tanh(a * x + b) * exp(-x * x) + where(x > 0, x, k * x)")


def softmax(x: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    e = numexpr.evaluate("exp(x - m)")
    s = e.sum(axis=1, keepdims=True)
    return numexpr.evaluate("e / s")


def logsumexp(x: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    return np.log(numexpr.evaluate("exp(x - m)").sum(axis=1)) + m[:, 0]


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(axis=1, keepdims=True)
    factor = 1 / np.sqrt(x.var(axis=1, keepdims=True) + x.dtype.type(1e-5))
    return numexpr.evaluate("(x - mean) * factor * scale + shift")


def variance(x: Any) -> Any:
    mean = x.mean()
    return numexpr.evaluate("sum((x - mean) ** 2)") / x.size


def sum_of_squares(x: Any) -> Any:
    return numexpr.evaluate("sum(x * x)")


def ten_ops(x: Any, y: Any) -> Any:
    u = numexpr.evaluate("exp(-x * x)")
    v = numexpr.evaluate("tanh(y + u)")
    return numexpr.evaluate("(u * v - x) / (1 + v * v) + 0.5 * y")


_PLAIN = (three_ops, chain, softmax, logsumexp, layernorm, variance, sum_of_squares, ten_ops)
FUNCTIONS = {function.__name__: function for function in _PLAIN}
