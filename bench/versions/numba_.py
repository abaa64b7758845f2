"""The functions as Numba loops; `prange` is `range` unless built parallel.

Accumulators have the array's dtype, which is what lets `fastmath=True` use vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange


def three_ops(x: Any, y: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = (x[i] + y[i]) * x[i] - y[i]
    return out


def chain(x: Any, a: Any, b: Any) -> Any:
    out = np.empty_like(x)
    one = x.dtype.type(1)
    slope = one * x.dtype.type(0.01)
    a_ = x.dtype.type(a)
    b_ = x.dtype.type(b)
    for i in prange(x.size):
        v = x[i]
        leaky = v if v > 0 else slope * v
        out[i] = math.tanh(a_ * v + b_) * math.exp(-v * v) + leaky
    return out


def softmax(x: Any) -> Any:
    out = np.empty_like(x)
    for r in prange(x.shape[0]):
        m = x[r, 0]
        for j in range(x.shape[1]):
            m = max(m, x[r, j])
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            e = math.exp(x[r, j] - m)
            out[r, j] = e
            total += e
        for j in range(x.shape[1]):
            out[r, j] /= total
    return out


def logsumexp(x: Any) -> Any:
    out = np.empty(x.shape[0], x.dtype)
    for r in prange(x.shape[0]):
        m = x[r, 0]
        for j in range(x.shape[1]):
            m = max(m, x[r, j])
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            total += math.exp(x[r, j] - m)
        out[r] = math.log(total) + m
    return out


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    out = np.empty_like(x)
    n = x.dtype.type(x.shape[1])
    tiny = x.dtype.type(1e-5)
    for r in prange(x.shape[0]):
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            total += x[r, j]
        mean = total / n
        squares = x.dtype.type(0)
        for j in range(x.shape[1]):
            d = x[r, j] - mean
            squares += d * d
        factor = x.dtype.type(1) / math.sqrt(squares / n + tiny)
        for j in range(x.shape[1]):
            out[r, j] = (x[r, j] - mean) * factor * scale[j] + shift[j]
    return out


def variance(x: Any) -> Any:
    total = x.dtype.type(0)
    for i in prange(x.size):
        total += x[i]
    mean = total / x.dtype.type(x.size)
    squares = x.dtype.type(0)
    for i in prange(x.size):
        d = x[i] - mean
        squares += d * d
    return squares / x.dtype.type(x.size)


def sum_of_squares(x: Any) -> Any:
    total = x.dtype.type(0)
    for i in prange(x.size):
        total += x[i] * x[i]
    return total


def ten_ops(x: Any, y: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(x.size):
        u = math.exp(-x[i] * x[i])
        v = math.tanh(y[i] + u)
        out[i] = (u * v - x[i]) / (1.0 + v * v) + 0.5 * y[i]
    return out


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


def build(fastmath: bool, parallel: bool) -> dict[str, Callable[..., Any]]:
    """Every function as a Numba dispatcher, compiled when first called."""
    make = numba.njit(fastmath=fastmath, parallel=parallel)
    return {function.__name__: make(function) for function in _PLAIN}
