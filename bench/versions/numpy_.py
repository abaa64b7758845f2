"""The functions as plain NumPy: the meaning, and what Tailorbird is given."""

from __future__ import annotations

import numpy as np


def three_ops(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Three operations: what a call costs when there is next to nothing to compute."""
    return (x + y) * x - y


def chain(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """The fused chain."""
    return np.tanh(a * x + b) * np.exp(-x * x) + np.where(x > 0, x, 0.01 * x)


def softmax(x: np.ndarray) -> np.ndarray:
    """Rows that sum to one."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def logsumexp(x: np.ndarray) -> np.ndarray:
    """The logarithm of each row's sum of exponentials."""
    m = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=1)) + m[:, 0]


def layernorm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Each row brought to mean 0 and variance 1, then scaled and shifted."""
    mean = x.mean(axis=1, keepdims=True)
    var = x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * scale + shift


def variance(x: np.ndarray) -> np.floating:
    """The variance of all elements."""
    return x.var()


def sum_of_squares(x: np.ndarray) -> np.floating:
    """The sum of the squares of all elements."""
    return (x * x).sum()


def ten_ops(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ten operations, two of them elementary functions: what compiling costs."""
    u = np.exp(-x * x)
    v = np.tanh(y + u)
    return (u * v - x) / (1.0 + v * v) + 0.5 * y


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows times columns."""
    return x @ y


def turned(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The second matrix lies transposed."""
    return x @ y.T


def turned_left(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The first matrix lies transposed."""
    return x.T @ y


def every_other_row(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows of the first matrix lie apart."""
    return x[::2] @ y


def gram(x: np.ndarray) -> np.ndarray:
    """A matrix and its own transpose: a symmetric result."""
    return x.T @ x


FUNCTIONS = {
    f.__name__: f
    for f in (
        *(three_ops, chain, softmax, logsumexp),
        *(layernorm, variance, sum_of_squares, ten_ops),
        *(product, turned, turned_left, every_other_row, gram),
    )
}
