"""Functions and values in another module than the ones that use them."""

from __future__ import annotations

import numpy as np

GAIN = 2.5
WEIGHTS = np.array([1.0, 2.0, 3.0])
COUNT = 3


def scaled(x, by=2.0, *, shift=0.5):
    return x * by * GAIN + shift


def weighted(x):
    return x[:3] * WEIGHTS


def repeated(x):
    total = x
    for _ in range(COUNT):
        total = total + x
    return total
