"""A plasma of charges on a line: deposit on a grid, solve the field, push, and around again."""

import numpy as np


def deposit(x, cells, dx):
    rho = np.zeros(cells)
    for p in range(x.size):
        at = x[p] / dx
        left = int(at)
        part = at - left
        rho[left % cells] += 1.0 - part
        rho[(left + 1) % cells] += part
    return rho * (cells / x.size)


def field(rho, dx):
    """Minus the integral of the charge, with mean zero."""
    e = np.cumsum(1.0 - rho) * dx
    return e - e.mean()


def main(x, v, cells, length, dt, steps):
    """Moves the charges in place; gives the energy of the field after each step."""
    dx = length / cells
    energy = np.zeros(steps)
    for k in range(steps):
        e = field(deposit(x, cells, dx), dx)
        index = np.floor(x / dx).astype(np.int64) % cells
        part = x / dx - np.floor(x / dx)
        v -= dt * ((1.0 - part) * e[index] + part * e[(index + 1) % cells])
        x += dt * v
        x %= length
        energy[k] = 0.5 * dx * np.sum(e**2)
    return energy


def make_arguments(scale):
    """Two streams through each other."""
    rng = np.random.default_rng(29)
    n = 60 * scale
    x = np.sort(rng.uniform(0.0, 10.0, n))
    v = np.where(np.arange(n) % 2 == 0, 1.0, -1.0) + 0.05 * rng.normal(size=n)
    return x, v, 16 * scale, 10.0, 0.05, 4
