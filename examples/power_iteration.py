"""The largest eigenvalues of a symmetric matrix, one by one, by power iteration and deflation."""

import numpy as np


def main(a, start, count, steps):
    """Eigenvalues and vectors after so many steps each."""
    left = a.copy()
    values = np.zeros(count)
    vectors = np.zeros((count, a.shape[0]))
    for k in range(count):
        v = start / np.linalg.norm(start)
        for _ in range(steps):
            w = left @ v
            v = w / np.linalg.norm(w)
        value = v @ left @ v
        left -= value * np.outer(v, v)
        values[k] = value
        vectors[k] = v
    return values, vectors


def make_arguments(scale):
    """A matrix whose eigenvalues are well apart."""
    rng = np.random.default_rng(73)
    n = 8 * scale
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return q @ np.diag(3.0 ** -np.arange(n)) @ q.T, rng.normal(size=n), 3, 15
