"""Masses on springs with friction, semi-implicit steps; a spring may break on the way."""

import numpy as np


def main(x, v, ends, rest, stiffness, friction, dt, steps, limit):
    """Moves the masses in place; which springs are whole at the end."""
    whole = np.ones(len(ends), bool)
    for _ in range(steps):
        force = -friction * v
        force[:, 1] -= 9.81
        for s in range(len(ends)):
            if not whole[s]:
                continue
            a, b = ends[s]
            gap = x[b] - x[a]
            length = np.sqrt(np.dot(gap, gap))
            if length > limit * rest[s]:
                whole[s] = False
                continue
            pull = stiffness * (length - rest[s]) / length * gap
            force[a] += pull
            force[b] -= pull
        force[0] = 0.0
        v += dt * force
        x += dt * v
    return whole


def make_arguments(scale):
    """A chain that hangs from its first mass, with a weak place."""
    n = 4 * scale
    x = np.stack([np.linspace(0.0, 1.0, n), np.zeros(n)], axis=1)
    ends = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    rest = np.full(n - 1, 1.0 / (n - 1))
    rest[n // 2] *= 0.6
    return x, np.zeros((n, 2)), ends, rest, 400.0, 0.4, 0.002, 20 * scale, 1.6
