"""k-means by Lloyd's algorithm, until no point changes its cluster."""

import numpy as np


def main(points, centres, most):
    """The labels, the centres (written in place) and the number of rounds."""
    k = centres.shape[0]
    labels = np.full(points.shape[0], -1)
    for turn in range(most):
        distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        new = np.argmin(distance, axis=1)
        if np.array_equal(new, labels):
            return labels, centres, turn
        labels = new
        for c in range(k):
            mine = labels == c
            if mine.any():
                centres[c] = points[mine].mean(axis=0)
    return labels, centres, most


def make_arguments(scale):
    """Three clouds in the plane, and centres that start among the points."""
    rng = np.random.default_rng(5)
    middles = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
    points = np.concatenate([m + rng.normal(size=(30 * scale, 2)) for m in middles])
    return points, points[:: 30 * scale].copy(), 50
