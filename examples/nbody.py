"""Bodies under gravity, leapfrog steps, positions and velocities written in place."""

import numpy as np


def acceleration(mass, position, softening):
    dx = position[None, :, :] - position[:, None, :]
    r2 = (dx**2).sum(axis=2) + softening**2
    inverse = r2**-1.5
    return (dx * (mass[None, :, None] * inverse[:, :, None])).sum(axis=1)


def main(mass, position, velocity, dt, steps, softening):
    """Moves the bodies; gives the energy of motion after each step."""
    energy = np.empty(steps)
    a = acceleration(mass, position, softening)
    for k in range(steps):
        velocity += 0.5 * dt * a
        position += dt * velocity
        a = acceleration(mass, position, softening)
        velocity += 0.5 * dt * a
        energy[k] = 0.5 * np.sum(mass * np.sum(velocity**2, axis=1))
    return energy


def make_arguments(scale):
    """A cloud of bodies at rest in the mean."""
    rng = np.random.default_rng(3)
    n = 6 * scale
    mass = rng.uniform(0.5, 2.0, n)
    velocity = rng.normal(size=(n, 3))
    velocity -= np.average(velocity, axis=0, weights=mass)
    return mass, rng.normal(size=(n, 3)), velocity, 0.01, 5 * scale, 0.3
