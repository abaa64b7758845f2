"""What running sums are good for: ranges, boxes of an image, counts by value."""

import numpy as np


def main(values, first, last, image, size, keys):
    """Sums of ranges, means of boxes, and where each key goes in a stable counting sort."""
    running = np.zeros(values.size + 1)
    running[1:] = np.cumsum(values)
    ranges = running[last] - running[first]

    table = np.zeros((image.shape[0] + 1, image.shape[1] + 1))
    table[1:, 1:] = image.cumsum(axis=0).cumsum(axis=1)
    boxes = table[size:, size:] - table[:-size, size:] - table[size:, :-size]
    boxes = (boxes + table[:-size, :-size]) / (size * size)

    counts = np.zeros(16, np.int64)
    for key in keys:
        counts[key] += 1
    place = np.cumsum(counts) - counts
    order = np.zeros(keys.size, np.int64)
    for k, key in enumerate(keys):
        order[place[key]] = k
        place[key] += 1
    return ranges, boxes, order


def make_arguments(scale):
    """Random values, ranges, image and keys."""
    rng = np.random.default_rng(67)
    n = 40 * scale
    ends = np.sort(rng.integers(0, n, (2, 2 * n)), axis=0)
    image = rng.random((6 + 5 * scale, 9 + 5 * scale))
    return rng.normal(size=n), ends[0], ends[1], image, 3, rng.integers(0, 16, n)
