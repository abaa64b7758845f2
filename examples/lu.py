"""LU decomposition by hand, with partial pivoting, and a solution by substitution."""

import numpy as np


def decompose(a):
    """Overwrites `a` with both factors; the order of the rows, and the sign of that."""
    n = a.shape[0]
    order = np.arange(n)
    sign = 1.0
    for k in range(n):
        pivot = k + np.argmax(np.abs(a[k:, k]))
        if pivot != k:
            a[[k, pivot]] = a[[pivot, k]]
            order[[k, pivot]] = order[[pivot, k]]
            sign = -sign
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            a[i, k + 1 :] -= a[i, k] * a[k, k + 1 :]
    return order, sign


def main(a, b):
    """The solution of a x = b and the determinant; `a` is overwritten."""
    n = a.shape[0]
    order, sign = decompose(a)
    x = b[order]
    for i in range(1, n):
        x[i] -= np.dot(a[i, :i], x[:i])
    for i in range(n - 1, -1, -1):
        x[i] = (x[i] - np.dot(a[i, i + 1 :], x[i + 1 :])) / a[i, i]
    return x, sign * np.prod(np.diag(a))


def make_arguments(scale):
    """A system that wants pivots."""
    rng = np.random.default_rng(37)
    n = 6 * scale
    return rng.normal(size=(n, n)), rng.normal(size=n)
