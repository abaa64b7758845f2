"""Shallow water in a basin: Lax-Friedrichs steps of height and two momenta, walls all around."""

import numpy as np


def walls(h, hu, hv):
    for field, across, along in ((h, 1.0, 1.0), (hu, -1.0, 1.0), (hv, 1.0, -1.0)):
        field[:, 0] = across * field[:, 1]
        field[:, -1] = across * field[:, -2]
        field[0, :] = along * field[1, :]
        field[-1, :] = along * field[-2, :]


def half(q, f, g, c):
    middle = 0.25 * (q[1:-1, 2:] + q[1:-1, :-2] + q[2:, 1:-1] + q[:-2, 1:-1])
    return middle - c * (f[1:-1, 2:] - f[1:-1, :-2]) - c * (g[2:, 1:-1] - g[:-2, 1:-1])


def main(h, hu, hv, dx, steps, gravity):
    """Moves the water in place, as fast as is stable; the time that has passed."""
    time = 0.0
    for _ in range(steps):
        walls(h, hu, hv)
        u, v = hu / h, hv / h
        speed = np.max(np.maximum(np.abs(u), np.abs(v)) + np.sqrt(gravity * h))
        dt = 0.4 * dx / speed
        pressure = 0.5 * gravity * h**2
        c = 0.5 * dt / dx
        new = half(h, hu, hv, c)
        new_u = half(hu, hu * u + pressure, hu * v, c)
        new_v = half(hv, hv * u, hv * v + pressure, c)
        h[1:-1, 1:-1] = new
        hu[1:-1, 1:-1] = new_u
        hv[1:-1, 1:-1] = new_v
        time += dt
    return time


def make_arguments(scale):
    """A drop that has just fallen."""
    n = 6 + 10 * scale
    y, x = np.mgrid[:n, :n] / n
    h = 1.0 + 0.4 * np.exp(-60.0 * ((x - 0.4) ** 2 + (y - 0.6) ** 2))
    return h, np.zeros((n, n)), np.zeros((n, n)), 1.0 / n, 8 * scale, 9.81
