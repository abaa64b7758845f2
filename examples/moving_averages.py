"""Averages that move along a series: plain, exponential, and the bands of Bollinger."""

import numpy as np


def plain(series, window):
    out = np.full(series.size, np.nan)
    total = series[:window].sum()
    out[window - 1] = total / window
    for k in range(window, series.size):
        total += series[k] - series[k - window]
        out[k] = total / window
    return out


def exponential(series, alpha):
    out = np.empty_like(series)
    out[0] = series[0]
    for k in range(1, series.size):
        out[k] = alpha * series[k] + (1.0 - alpha) * out[k - 1]
    return out


def main(series, window, alpha):
    """Both averages, the bands, and 1, 0 or -1 for each day."""
    mean = plain(series, window)
    smooth = exponential(series, alpha)
    square = plain(series**2, window)
    width = 2.0 * np.sqrt(np.maximum(square - mean**2, 0.0))
    signal = np.zeros(series.size, np.int8)
    signal[smooth > mean + width] = 1
    signal[smooth < mean - width] = -1
    return mean, smooth, mean - width, mean + width, signal


def make_arguments(scale):
    """A random walk."""
    rng = np.random.default_rng(71)
    return 100.0 + np.cumsum(rng.normal(size=80 * scale)), 10, 0.3
