"""What reads itself the other way round, written where it lies: every length and every type."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tests.api_kit import promotes_by_value

LENGTHS = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 127, 200)


def grows(y, a, turns):
    """All lengths in one call."""
    for k in range(len(y)):
        y[:k] += a * np.flip(y[:k])
    return y


def in_the_middle(y, a, turns):
    for _ in range(turns):
        y[1:-1] = y[1:-1][::-1] - y[1:-1] * a
    return y


def with_positions(y, a, turns):
    for k in range(turns):
        y[:] = y[::-1] * a + np.arange(len(y)).astype(y.dtype) * (k + 1)
    return y


def reversed_alone(y, a, turns):
    for _ in range(turns):
        y[:] = y[::-1]
    return y


def shifted(y, a, turns):
    """Not quite the opposite point."""
    for k in range(1, len(y)):
        y[:-1] += a * y[1:][::-1]
        y[:k] -= a * y[-k:][::-1]
    return y


def planes(z, a, turns):
    for _ in range(turns):
        z += z[::-1] * a
        z -= z[:, ::-1] * a
        z += z[::-1, ::-1]
    return z.sum(axis=0)


@pytest.mark.parametrize(
    "function", [grows, in_the_middle, with_positions, reversed_alone, shifted]
)
@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "i2", "u1", "c16"])
def test_both_ends_at_once(function, kind):
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(function, background=False)
        for n in LENGTHS:
            x = np.arange(1, n + 1).astype(kind)
            if kind[0] in "fc":
                x /= n + 1
                x[5:6], x[11:12] = np.nan, -np.inf
            room = [np.zeros(2 * n + 4, kind) for _ in range(2)]
            for part in (slice(1, n + 1), slice(0, 2 * n, 2), slice(n, 0, -1)):
                given, wanted = (r[part] for r in room)
                given[:] = wanted[:] = x[: len(given)]
                a = x.dtype.type(1) / 2 if kind[0] in "fc" else x.dtype.type(3)
                found, known = f(given, a, 3), function(wanted, a, 3)
                np.testing.assert_array_equal(found, known)
                np.testing.assert_array_equal(room[0], room[1])
    assert f.variants or promotes_by_value(kind)


def test_along_each_axis():
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(planes, background=False)
        for shape in ((0, 3), (1, 1), (2, 5), (3, 8), (4, 17), (5, 40)):
            for order in "CF":
                z = np.arange(float(np.prod(shape))).reshape(shape, order=order)
                given, wanted = z.copy(order), z.copy(order)
                np.testing.assert_allclose(f(given, 0.5, 3), planes(wanted, 0.5, 3), rtol=1e-12)
                np.testing.assert_array_equal(given, wanted)
    assert f.variants


def test_no_temporary_is_made():
    def once(y, turns):
        for _ in range(turns):
            y[1:] += y[1:][::-1]

    with knobs.scope(race=False, cache=False):
        f = tb.tailor(once, background=False)
        y = np.arange(-1.0, 100.0)
        f(y, 3)
        np.testing.assert_array_equal(y[1:], np.full(100, 99.0 * 4))
    (v,) = f.variants
    assert not [b for b in v.program.buffers if b.shape]


def test_backward_stores():
    def turned(x):
        out = np.empty_like(x)
        out[::-1] = x + 1
        return out

    with knobs.scope(race=False, cache=False):
        for kind in ("f8", "f4", "i2", "b1", "c8"):
            f = tb.tailor(turned, background=False)
            for n in LENGTHS:
                x = np.arange(n).astype(kind)
                x = x[: n // 2] if kind == "f4" else x
                np.testing.assert_array_equal(f(x), turned(x))
