"""The Mandelbrot set with whole arrays: a mask of the points that have not escaped."""

import numpy as np


def main(xs, ys, most):
    """How many steps each point takes to escape."""
    c = xs[None, :] + 1j * ys[:, None]
    z = np.zeros_like(c)
    steps = np.zeros(c.shape, np.int64)
    alive = np.ones(c.shape, bool)
    for _ in range(most):
        z[alive] = z[alive] ** 2 + c[alive]
        alive &= np.abs(z) <= 2.0
        steps[alive] += 1
    return steps


def make_arguments(scale):
    """The usual frame."""
    return np.linspace(-2.0, 0.5, 18 * scale), np.linspace(-1.2, 1.2, 15 * scale), 20 * scale
