"""The fast Fourier transform by hand: bit reversal, then butterflies in place."""

import numpy as np


def reverse_bits(n):
    order = np.zeros(n, np.int64)
    half = n // 2
    k = 1
    while k < n:
        order[k : 2 * k] = order[:k] + half
        half //= 2
        k *= 2
    return order


def main(signal):
    """The transform of a signal whose length is a power of two."""
    n = signal.size
    out = signal[reverse_bits(n)].astype(np.complex128)
    span = 1
    while span < n:
        twiddle = np.exp(-1j * np.pi * np.arange(span) / span)
        for start in range(0, n, 2 * span):
            a = out[start : start + span].copy()
            b = out[start + span : start + 2 * span] * twiddle
            out[start : start + span] = a + b
            out[start + span : start + 2 * span] = a - b
        span *= 2
    return out


def make_arguments(scale):
    """Two tones and some noise."""
    rng = np.random.default_rng(43)
    n = 2 ** (4 + scale)
    t = np.arange(n) / n
    return (np.sin(6 * np.pi * t) + 0.5 * np.cos(14 * np.pi * t) + 0.1 * rng.normal(size=n),)
