"""QR decomposition by the modified process of Gram and Schmidt, in place."""

import numpy as np


def main(a):
    """R; the columns of `a` become Q."""
    n = a.shape[1]
    r = np.zeros((n, n))
    for k in range(n):
        r[k, k] = np.sqrt((a[:, k] ** 2).sum())
        a[:, k] /= r[k, k]
        for j in range(k + 1, n):
            r[k, j] = a[:, k] @ a[:, j]
            a[:, j] -= r[k, j] * a[:, k]
    return r


def make_arguments(scale):
    """A tall random matrix."""
    rng = np.random.default_rng(79)
    return (rng.normal(size=(10 * scale, 5 * scale)),)
