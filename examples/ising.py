"""The Ising model by Metropolis' rule; sites and random numbers are drawn beforehand."""

import numpy as np


def main(spins, sites, numbers, beta):
    """Flips spins in place; gives the magnetisation after each sweep."""
    rows, columns = spins.shape
    sweeps, flips = numbers.shape
    history = np.zeros(sweeps)
    for s in range(sweeps):
        for k in range(flips):
            i, j = sites[s, k]
            around = (
                spins[(i + 1) % rows, j]
                + spins[i - 1, j]
                + spins[i, (j + 1) % columns]
                + spins[i, j - 1]
            )
            cost = 2 * spins[i, j] * around
            if cost <= 0 or numbers[s, k] < np.exp(-beta * cost):
                spins[i, j] = -spins[i, j]
        history[s] = spins.mean()
    return history


def make_arguments(scale):
    """A random start a little below the critical temperature."""
    rng = np.random.default_rng(47)
    n, sweeps = 4 + 3 * scale, 3 * scale
    spins = rng.choice(np.array([-1, 1]), (n, n))
    sites = rng.integers(0, n, (sweeps, n * n, 2))
    return spins, sites, rng.random((sweeps, n * n)), 0.46
