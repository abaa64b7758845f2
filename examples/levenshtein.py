"""The edit distance of two words, with two rows of the table."""

import numpy as np


def main(a, b):
    """How many letters must be put in, taken out or changed."""
    previous = np.arange(b.size + 1)
    current = np.zeros(b.size + 1, np.int64)
    for i in range(a.size):
        current[0] = i + 1
        for j in range(b.size):
            change = previous[j] + (0 if a[i] == b[j] else 1)
            current[j + 1] = min(change, previous[j + 1] + 1, current[j] + 1)
        previous, current = current, previous
    return int(previous[b.size])


def make_arguments(scale):
    """A word and a misspelling of it."""
    rng = np.random.default_rng(61)
    a = rng.integers(97, 123, 20 * scale).astype(np.uint8)
    b = np.delete(a, slice(3, None, 9))
    b[::5] = 120
    return a, b
