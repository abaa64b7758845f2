"""Vectors over one number are rounded as NumPy's quotients are, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from api_kit import native

from tailorbird import knobs

DTYPES = {"f4": ("u4", 23, 127), "f8": ("u8", 52, 1023)}
SPANS = {"near one": 8, "wide": 60, "anything": None}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0, 0.1]


def numbers(dtype, count, span, seed):
    """Random bits, exponents no further from 0 than the span says, and a few special numbers where
    it says nothing.
    """
    whole, mantissa, bias = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, np.iinfo(whole).max, count, dtype=whole, endpoint=True)
    if span is not None:
        exponents = rng.integers(bias - span, bias + span, count).astype(whole)
        field = np.array((2 * bias + 1) << mantissa, dtype=whole)
        return ((bits & ~field) | exponents << np.array(mantissa, dtype=whole)).view(dtype)
    found = bits.view(dtype)
    ends = [np.finfo(dtype).tiny, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal]
    some = np.array([*SPECIAL, *ends], dtype=dtype)
    found[rng.integers(0, count, count // 4)] = rng.choice(some, count // 4)
    return found


def same_bits(found, wanted):
    nan = np.isnan(wanted)
    assert np.array_equal(np.isnan(found), nan)
    whole = f"u{wanted.dtype.itemsize}"
    assert np.array_equal(found.view(whole)[~nan], wanted.view(whole)[~nan])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("above", SPANS)
@pytest.mark.parametrize("below", SPANS)
def test_maps(dtype, above, below):
    tailored = native(lambda x, s: x / s)
    divisors = numbers(dtype, 60, SPANS[below], 1)
    for k, divisor in enumerate(divisors):
        x = numbers(dtype, 40 * k + 9, SPANS[above], k + 2)
        with np.errstate(all="ignore"):
            same_bits(tailored(x, divisor), x / divisor)
    assert tailored.variants


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("above", SPANS)
@pytest.mark.parametrize("columns", [7, 64, 200, 700])
@pytest.mark.parametrize("target", ["", "haswell"])
def test_rows(dtype, above, columns, target):
    """Several vectors of several rows at once, each row over its own largest number."""

    def scaled(x):
        return x / x.max(axis=1, keepdims=True)

    tailored = native(scaled)
    for seed in range(12):
        x = numbers(dtype, 40 * columns, SPANS[above], seed).reshape(40, columns)
        x[np.isnan(x)] = 2
        with np.errstate(all="ignore"), knobs.scope(target=target):
            same_bits(tailored(x), scaled(x))
    assert tailored.variants
