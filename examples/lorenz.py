"""The Lorenz system by the classical Runge-Kutta method."""

import numpy as np

CHAOTIC = True


def slope(state, sigma, rho, beta):
    x, y, z = state
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def main(state, dt, steps, sigma, rho, beta):
    """The trajectory, the first point included."""
    path = np.empty((steps + 1, 3))
    path[0] = state
    for k in range(steps):
        s = path[k]
        k1 = slope(s, sigma, rho, beta)
        k2 = slope(s + 0.5 * dt * k1, sigma, rho, beta)
        k3 = slope(s + 0.5 * dt * k2, sigma, rho, beta)
        k4 = slope(s + dt * k3, sigma, rho, beta)
        path[k + 1] = s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return path


def make_arguments(scale):
    """Not far from the attractor."""
    return np.array([1.0, 1.0, 20.0]), 0.01, 60 * scale, 10.0, 28.0, 8.0 / 3.0
