"""Connected components of a mask: every pixel takes the least label around it until none does."""

import numpy as np


def main(mask):
    """Labels from 1 in the order of the first pixel, 0 outside, and how many there are."""
    rows, columns = mask.shape
    none = rows * columns
    labels = np.where(mask, np.arange(none).reshape(rows, columns), none)
    changed = True
    while changed:
        least = labels.copy()
        least[1:, :] = np.minimum(least[1:, :], labels[:-1, :])
        least[:-1, :] = np.minimum(least[:-1, :], labels[1:, :])
        least[:, 1:] = np.minimum(least[:, 1:], labels[:, :-1])
        least[:, :-1] = np.minimum(least[:, :-1], labels[:, 1:])
        least[~mask] = none
        changed = bool((least != labels).any())
        labels = least
    roots = np.unique(labels[mask])
    out = np.zeros((rows, columns), np.int64)
    for number, root in enumerate(roots):
        out[labels == root] = number + 1
    return out, roots.size


def make_arguments(scale):
    """Blots of random shape."""
    rng = np.random.default_rng(53)
    return (rng.random((9 * scale, 8 * scale)) < 0.55,)
