"""Comparisons of lengths of complex numbers, made by squares, say what the lengths say."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb

pytestmark = pytest.mark.filterwarnings("ignore:overflow")

TRIPLES = [
    (3.0, 4.0, 5.0),
    (5.0, 12.0, 13.0),
    (0.0, 1.0, 1.0),
    (-8.0, 15.0, 17.0),
    (20.0, -21.0, 29.0),
]


def compared(z, limit):
    size = abs(z)
    return size < limit, size <= limit, size > limit, limit >= size


@np.errstate(all="ignore")
def plain(function, *args):
    return function(*args)


def by_hypot(z, limit):
    return np.hypot(z.real, z.imag) < limit, limit < np.hypot(z.imag, z.real)


def also_needed(z, limit):
    size = abs(z)
    return np.where(size < limit, size, 0.0), size > limit


def inside(z, limit):
    n = np.zeros(z.shape, np.int64)
    for k in range(5):
        near = abs(z) < limit
        n[near] = k
        z[near] = z[near] ** 2 + 0.25
    return n, z


def near_the_limit(kind, scale):
    """Lengths that are exactly the limit, and those next to it."""
    real = np.dtype(kind).type(0).real.dtype.type
    numbers, limits = [], []
    for a, b, c in TRIPLES:
        a, b, c = (real(x * scale) for x in (a, b, c))
        for x, y in ((a, b), (b, a), (-a, -b)):
            for limit in (c, np.nextafter(c, real(0)), np.nextafter(c, real(np.inf))):
                numbers.append(complex(x, y))
                limits.append(limit)
    return np.array(numbers, kind), np.array(limits, real)


# Absolute values of complex64 are rounded twice by NumPy.
@pytest.mark.parametrize(
    ("function", "kind"), [(compared, "c16"), (by_hypot, "c16"), (by_hypot, "c8")]
)
@pytest.mark.parametrize("power", [0, -1, 9, 60, -60, 510, -520, 1000, -1000])
def test_lengths_at_the_limit(function, kind, power):
    if kind == "c8" and abs(power) > 120:
        power = power // 12
    z, limits = near_the_limit(kind, 2.0**power)
    tailored = tb.tailor(function)
    tailored.warm(z, limits)
    assert tailored.explain(z, limits).tier.startswith("native")
    same(tailored(z, limits), plain(function, z, limits))
    for limit in limits[:9]:
        same(tailored(z, limit), plain(function, z, limit))


ODD = [0.0, -0.0, 1.0, 5e-324, 1e-200, 1e200, 1.7e308, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("function", [compared, by_hypot, also_needed])
@pytest.mark.parametrize("limit", [0.0, -1.0, 2.0, 1e-180, 1e-300, 1e300, np.inf, np.nan, -np.inf])
def test_lengths_of_odd_numbers(function, limit):
    z = np.array([complex(a, b) for a in ODD for b in ODD])
    tailored = tb.tailor(function)
    tailored.warm(z, limit)
    for part in (z, z[::3], z[::-1], z[:7], z[:1], z[:0]):
        same(tailored(part, limit), plain(function, part, limit))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 33, 1000])
def test_what_is_near_goes_on(n):
    rng = np.random.default_rng(n)
    z = rng.uniform(-1.5, 1.5, n) + 1j * rng.uniform(-1.5, 1.5, n)
    z[n // 2 : n // 2 + 1] = np.nan
    tailored = tb.tailor(inside)
    tailored.warm(z.copy(), 2.0)
    for limit in (2.0, 0.0, 9.0):
        mine, wanted = tailored(z.copy(), limit), plain(inside, z.copy(), limit)
        same(mine[:1], wanted[:1])
        np.testing.assert_allclose(mine[1], wanted[1], rtol=1e-13)


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
