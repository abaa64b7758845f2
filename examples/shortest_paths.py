"""All shortest paths (Floyd and Warshall), with the next stop on every way."""

import numpy as np


def main(weights):
    """Distances, and the first stop on the way from i to j, -1 where there is none."""
    n = weights.shape[0]
    distance = weights.copy()
    stop = np.where(np.isfinite(weights), np.arange(n)[None, :], -1)
    for k in range(n):
        through = distance[:, k : k + 1] + distance[k : k + 1, :]
        better = through < distance
        distance = np.where(better, through, distance)
        stop = np.where(better, stop[:, k : k + 1], stop)
    return distance, stop


def make_arguments(scale):
    """A random road map, a third of the roads there."""
    rng = np.random.default_rng(31)
    n = 8 * scale
    weights = rng.integers(1, 50, (n, n)).astype(float)
    weights[rng.random((n, n)) > 0.35] = np.inf
    np.fill_diagonal(weights, 0.0)
    return (weights,)
