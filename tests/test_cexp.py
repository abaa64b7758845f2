"""The complex exponential: 4 ulp for each part, special values as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs

LIMIT = 4
SPECIAL = (0.0, 1.0, 3.0, 1e-320, 1e-40, 88.0, 88.9, 104.0, 200.0, 709.0, 709.7, 720.0, 746.0)
SPECIAL += (1e10, 1e22, 1e300, np.inf, np.nan)


def exponential(z):
    return np.exp(z)


def tailored(*given):
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(exponential, background=False)
        found = [f(z) for z in given]
    assert f.variants
    return found


def parts(z):
    return np.stack([z.real, z.imag])


def errors(found, z):
    with np.errstate(all="ignore"):
        true = parts(np.exp(z.astype(np.clongdouble)))
    got = parts(found)
    info = np.finfo(got.dtype)
    _, exponent = np.frexp(true)
    unit = np.maximum(
        np.ldexp(np.longdouble(1), exponent - 1 - info.nmant), info.smallest_subnormal
    )
    return np.abs(got - true) / unit


@pytest.mark.parametrize("kind", ["c16", "c8"])
def test_random_numbers(kind):
    rng = np.random.default_rng(1)
    n = 60_003
    reach = 700 if kind == "c16" else 80
    re = np.concatenate([rng.uniform(-reach, reach, n), rng.normal(size=n) * 1e-3])
    im = rng.normal(size=2 * n) * 10.0 ** rng.uniform(-8, 8, 2 * n)
    z = (re + 1j * im).astype(kind)
    (found,) = tailored(z)
    assert found.dtype == z.dtype
    assert errors(found, z).max() <= LIMIT


@pytest.mark.parametrize("kind", ["c16", "c8"])
def test_special_values(kind):
    some = np.array([s * x for x in SPECIAL for s in (1, -1)])
    z = np.empty((len(some), len(some)), kind)
    with np.errstate(over="ignore"):
        z.real, z.imag = some[:, None], some
    with np.errstate(all="ignore"):
        wanted = np.exp(z)
    for found in (tailored(z)[0], np.array([tailored(z[:1])[0][0], *tailored(*z[1:])])):
        got, known = parts(found), parts(wanted)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(known))
        there = ~np.isnan(known)
        np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(known)[there])
        odd = there & (np.isinf(known) | (known == 0))
        np.testing.assert_array_equal(got[odd], known[odd])
        finite = there & ~odd
        room = LIMIT * np.finfo(kind).eps
        tiny = np.finfo(kind).smallest_subnormal * LIMIT
        np.testing.assert_allclose(got[finite], known[finite], rtol=room, atol=tiny)


def test_a_number_does_not_depend_on_its_neighbours():
    z = (np.linspace(-3, 3, 64) + 1j * np.linspace(-9, 7, 64)).astype("c16")
    beside = z.copy()
    beside[::5] = [complex(np.inf, 1)] * len(beside[::5])
    alone, together = tailored(z, beside)
    kept = np.arange(64) % 5 > 0
    np.testing.assert_array_equal(alone[kept], together[kept])
    one_by_one = np.concatenate(tailored(*(z[k : k + 1] for k in range(64))))
    np.testing.assert_array_equal(one_by_one, alone)


def test_in_loops_and_of_scalars():
    def turns(n, x):
        total = 0j
        for k in range(n):
            total += np.exp(2j * k * x) + np.exp(-1j * np.pi * np.arange(n) * k / n).sum()
        return total

    with knobs.scope(race=False, cache=False):
        f = tb.tailor(turns, background=False)
        for n in (0, 1, 7, 40):
            np.testing.assert_allclose(f(n, 0.3), turns(n, 0.3), rtol=1e-12, atol=1e-12)
