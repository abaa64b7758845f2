"""Gauss-Seidel sweeps over a grid in place, until the largest change is small."""

import numpy as np


def main(u, f, h, tolerance, most):
    """How many sweeps it took; `u` is solved in place."""
    rows, columns = u.shape
    for sweep in range(most):
        change = 0.0
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                new = 0.25 * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - h * h * f[i, j]
                )
                change = max(change, abs(new - u[i, j]))
                u[i, j] = new
        if change < tolerance:
            return sweep + 1
    return most


def make_arguments(scale):
    """A warm edge and a source in the middle."""
    n = 5 + 4 * scale
    u = np.zeros((n, n))
    u[0] = 1.0
    f = np.zeros((n, n))
    f[n // 2, n // 2] = -4.0
    return u, f, 1.0 / (n - 1), 1e-4, 200
