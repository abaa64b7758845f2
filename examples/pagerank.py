"""PageRank over a graph in compressed rows, by loops over pages and their links."""

import numpy as np


def main(start, links, damping, tolerance):
    """The ranks, and how many rounds it took."""
    n = start.size - 1
    rank = np.full(n, 1.0 / n)
    change = 1.0
    rounds = 0
    while change > tolerance:
        new = np.full(n, (1.0 - damping) / n)
        lost = 0.0
        for page in range(n):
            first, last = start[page], start[page + 1]
            if first == last:
                lost += rank[page]
                continue
            share = damping * rank[page] / (last - first)
            for k in range(first, last):
                new[links[k]] += share
        new += damping * lost / n
        change = np.abs(new - rank).sum()
        rank = new
        rounds += 1
    return rank, rounds


def make_arguments(scale):
    """A random graph, some pages without a link."""
    rng = np.random.default_rng(17)
    n = 12 * scale
    counts = rng.integers(0, 5, n)
    start = np.concatenate([[0], np.cumsum(counts)])
    return start, rng.integers(0, n, start[-1]), 0.85, 1e-6
