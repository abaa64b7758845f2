"""The Haar wavelet transform, small coefficients set to zero, and back again."""

import numpy as np


def forward(signal):
    out = signal.copy()
    n = out.size
    while n > 1:
        even, odd = out[:n:2].copy(), out[1:n:2].copy()
        out[: n // 2] = (even + odd) / np.sqrt(2.0)
        out[n // 2 : n] = (even - odd) / np.sqrt(2.0)
        n //= 2
    return out


def inverse(coefficients):
    out = coefficients.copy()
    n = 2
    while n <= out.size:
        low, high = out[: n // 2].copy(), out[n // 2 : n].copy()
        out[:n:2] = (low + high) / np.sqrt(2.0)
        out[1:n:2] = (low - high) / np.sqrt(2.0)
        n *= 2
    return out


def main(signal, threshold):
    """The cleaned signal, and how many coefficients were kept."""
    coefficients = forward(signal)
    small = np.abs(coefficients) < threshold
    coefficients[small] = 0.0
    return inverse(coefficients), int(np.count_nonzero(~small))


def make_arguments(scale):
    """Steps with noise."""
    rng = np.random.default_rng(41)
    n = 2 ** (4 + scale)
    steps = np.where(np.arange(n) < n // 3, 1.0, -0.5)
    return steps + 0.1 * rng.normal(size=n), 0.3
