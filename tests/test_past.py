"""Stores past the caches: wherever what is stored begins, however long it is."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower import schedule
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import inner_steps

FROM = 1 << 10  # bytes, in place of those of a cache


@pytest.fixture(autouse=True)
def small_cache(monkeypatch):
    monkeypatch.setattr(schedule, "LAST", FROM)
    with knobs.scope(race=False, cache=False):
        yield


def goes_past(f):
    steps = inner_steps(step for v in f.variants for step in v.program.steps)
    return any(step.schedule.past for step in steps if isinstance(step, Nest))


def same(found, wanted):
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    for p, q in zip(found, wanted, strict=True):
        assert p.dtype == q.dtype
        np.testing.assert_array_equal(p, q)


def compute(x, y):
    return np.clip(x, 2, 10) * 4 + y * 3 + 9


def several(x, y):
    return x + y, x - y, x * y


def into(x, y):
    y[:] = x + 1


def of_itself(x, y):
    y[:] = y + x


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "i2", "c16"])
@pytest.mark.parametrize("function", [compute, several])
def test_maps_of_every_length(function, kind):
    f = tb.tailor(function, background=False)
    f(np.ones(1 << 17, kind), np.ones(1 << 17, kind))
    if kind != "c16":
        assert goes_past(f)
    for n in (0, 1, 7, 31, 64, 1000, 4099, (1 << 20) + 5):
        x = np.arange(n).astype(kind)
        y = x[::-1].copy()
        if kind[0] != "i" and n > 9:
            x[3], x[5], y[7] = np.nan, np.inf, -0.0
        with np.errstate(all="ignore"):
            if kind == "c16" and function is compute:
                x, y = x.real.copy(), y.real.copy()
            same(f(x, y), function(x, y))


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_stored_may_begin_anywhere(threads):
    with knobs.scope(threads=threads, parallel=1):
        f, g = (tb.tailor(function, background=False) for function in (into, of_itself))
        for dtype in ("f8", "f4", "u1"):
            room = np.zeros(200_000, dtype)
            x = np.arange(150_001).astype(dtype)
            for start in (0, 1, 2, 3, 4, 5, 8, 31):
                y = room[start : start + len(x)]
                f(x, y)
                same(y, x + np.ones(1, dtype))
                g(x, y)
                same(y, x + x + np.ones(1, dtype))
                assert not room[:start].any() and not room[start + len(x) :].any()
                room[:] = 0
        assert goes_past(f) and not goes_past(g)


def test_maps_inside_of_loops():
    def turns(x, y):
        for k in range(3):
            y[k] = x * k
            x += y[k].sum()
        return x

    f = tb.tailor(turns, background=False)
    for n in (1 << 16, 0, 5, 1000):
        given, wanted = ([np.arange(1.0, n + 1), np.zeros((3, n + 1))[:, 1:]] for _ in range(2))
        np.testing.assert_allclose(f(*given), turns(*wanted), rtol=1e-12)
        np.testing.assert_allclose(given[1], wanted[1], rtol=1e-12)
    assert goes_past(f)


def test_what_fits_a_cache_stays_there(monkeypatch):
    f = tb.tailor(compute, background=False)
    x = np.ones(10_000)
    monkeypatch.setattr(schedule, "LAST", 3 * x.nbytes)
    same(f(x, x), compute(x, x))
    assert not goes_past(f)
