"""Heat on a square plate, explicit steps between two buffers, edges held."""

import numpy as np


def main(u, steps, alpha):
    """The plate after so many steps; `u` is left alone."""
    old = u.copy()
    new = u.copy()
    for _ in range(steps):
        new[1:-1, 1:-1] = old[1:-1, 1:-1] + alpha * (
            old[2:, 1:-1] + old[:-2, 1:-1] + old[1:-1, 2:] + old[1:-1, :-2] - 4.0 * old[1:-1, 1:-1]
        )
        old, new = new, old
    return old


def make_arguments(scale):
    """A hot edge and a cold plate."""
    n = 8 + 12 * scale
    u = np.zeros((n, n))
    u[0, :] = 100.0
    u[:, -1] = np.linspace(0.0, 50.0, n)
    return u, 10 * scale, 0.2
