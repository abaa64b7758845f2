"""The best local alignment of two sequences (Smith and Waterman), with its end and the table."""

import numpy as np


def main(a, b, match, mismatch, gap):
    """The score, where it is, and the table of scores."""
    table = np.zeros((a.size + 1, b.size + 1), np.int32)
    best = 0
    where = (0, 0)
    for i in range(1, a.size + 1):
        for j in range(1, b.size + 1):
            score = match if a[i - 1] == b[j - 1] else mismatch
            value = max(
                0, table[i - 1, j - 1] + score, table[i - 1, j] + gap, table[i, j - 1] + gap
            )
            table[i, j] = value
            if value > best:
                best = value
                where = (i, j)
    return int(best), where, table


def make_arguments(scale):
    """Two random sequences that share a stretch."""
    rng = np.random.default_rng(23)
    a = rng.integers(0, 4, 20 * scale).astype(np.uint8)
    b = rng.integers(0, 4, 15 * scale).astype(np.uint8)
    b[3 : 3 + 8 * scale] = a[5 : 5 + 8 * scale]
    return a, b, 2, -1, -2
