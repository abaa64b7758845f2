"""Dynamic time warping of two series within a band, and the path through the table."""

import numpy as np


def main(a, b, band):
    """The distance and the path, from its start."""
    n, m = len(a), len(b)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(max(1, i - band), min(m, i + band) + 1):
            step = min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
            cost[i, j] = abs(a[i - 1] - b[j - 1]) + step
    path = np.zeros((n + m, 2), np.int64)
    length = 0
    i, j = n, m
    while i > 0 and j > 0:
        path[length, 0] = i - 1
        path[length, 1] = j - 1
        length += 1
        if cost[i - 1, j - 1] <= cost[i - 1, j] and cost[i - 1, j - 1] <= cost[i, j - 1]:
            i -= 1
            j -= 1
        elif cost[i - 1, j] < cost[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return cost[n, m], path[:length][::-1].copy()


def make_arguments(scale):
    """A wave, and the same wave with its time bent."""
    t = np.linspace(0.0, 6.0, 20 * scale)
    return np.sin(t), np.sin(t + 0.4 * np.sin(t)) + 0.05 * np.cos(9 * t), 6 + 2 * scale
