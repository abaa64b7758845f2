"""The Mandelbrot set point by point, each with a loop that ends when it escapes."""

import numpy as np


def escape(cx, cy, most):
    x = 0.0
    y = 0.0
    n = 0
    while n < most and x * x + y * y <= 4.0:
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        n += 1
    return n


def main(xs, ys, most):
    """How many steps each point takes to escape."""
    steps = np.zeros((ys.size, xs.size), np.int32)
    for j in range(ys.size):
        for i in range(xs.size):
            steps[j, i] = escape(xs[i], ys[j], most)
    return steps


def make_arguments(scale):
    """The usual frame."""
    return np.linspace(-2.0, 0.5, 8 * scale), np.linspace(-1.2, 1.2, 6 * scale), 15 * scale
