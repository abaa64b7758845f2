"""Conjugate gradients on Poisson's equation, the matrix given by what it does."""

import numpy as np


def laplace(u):
    out = 4.0 * u
    out[1:, :] -= u[:-1, :]
    out[:-1, :] -= u[1:, :]
    out[:, 1:] -= u[:, :-1]
    out[:, :-1] -= u[:, 1:]
    return out


def main(b, tolerance, most):
    """The solution, the norm of what is left, and the number of steps."""
    x = np.zeros_like(b)
    r = b - laplace(x)
    p = r.copy()
    rr = np.sum(r * r)
    steps = 0
    while np.sqrt(rr) > tolerance and steps < most:
        Ap = laplace(p)
        alpha = rr / np.sum(p * Ap)
        x += alpha * p
        r -= alpha * Ap
        new = np.sum(r * r)
        p = r + (new / rr) * p
        rr = new
        steps += 1
    return x, np.sqrt(rr), steps


def make_arguments(scale):
    """A charge in two corners; few steps, for rounding decides late ones."""
    n = 8 + 8 * scale
    b = np.zeros((n, n))
    b[n // 4, n // 4] = 1.0
    b[3 * n // 4, 2 * n // 3] = -1.0
    return b, 1e-12, 10
