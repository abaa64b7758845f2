"""What lies apart and is read again and again is copied side by side: all sizes, types, orders."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.steps import inner_steps
from tests.api_kit import promotes_by_value

SHAPES = ((0, 0), (1, 9), (9, 1), (8, 3), (20, 33), (33, 20), (70, 5))


def distances(x, y):
    gaps = [x[:, None, k] - y[None, :, k] for k in range(3)]
    return np.sqrt(gaps[0] ** 2 + gaps[1] ** 2 + gaps[2] ** 2).sum(axis=1)


def columns(x, y):
    out = np.zeros((len(x), len(y)), x.dtype)
    for k in range(3):
        out += x[:, k, None] * y[:, k]
    return out


def of_a_loop(x, y):
    out = np.zeros((len(x), len(y)), x.dtype)
    for i in range(len(x)):
        for j in range(len(y)):
            out[i, j] = x[i, 0] * 2 + y[j, 1] - y[j, 2]
    return out


def moves(x, y):
    """What is copied changes from turn to turn."""
    total = x[:, 0] * 0
    for k in range(4):
        y += k
        total += (x[:, None, 0] - y[None, :, 1]).sum(axis=1)
        y[:, 1] *= 2
    return total


PROGRAMS = (distances, columns, of_a_loop, moves)


def copies(f):
    return [b for v in f.variants for b in v.program.buffers if b.name[0] == "t"]


def agree(f, function, x, y):
    given, wanted = ([x.copy(), y.copy("K")] for _ in range(2))
    with np.errstate(all="ignore"):
        p, q = f(*given), function(*wanted)
    exact = q.dtype.kind not in "fc"
    room = 0 if exact else 300 * np.finfo(q.dtype).eps
    assert p.dtype == q.dtype and p.shape == q.shape
    np.testing.assert_allclose(p, q, rtol=room, atol=room * 100, equal_nan=True)
    np.testing.assert_array_equal(given[1], wanted[1])


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "c16"])
def test_pairs(function, kind):
    if function is distances and kind == "i8":
        kind = "i4"
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(function, background=False)
        for n, m in reversed(SHAPES):
            x = np.arange(n * 3.0).reshape(n, 3).astype(kind)
            y = (np.arange(m * 3.0)[::-1] / 7).reshape(m, 3).astype(kind)
            if kind[0] == "f" and m > 8:
                y[3, 1], y[5, 0], y[m - 1, 2] = np.nan, np.inf, -0.0
            agree(f, function, x, y)
            agree(f, function, np.asfortranarray(x), y[::-1])
            agree(f, function, x[:, ::-1], np.asfortranarray(y))
    assert f.variants or promotes_by_value(kind)


def test_copies_are_made_where_they_are_read_again():
    def once(x, y):
        return x[:, 0] + y[:, 1]

    with knobs.scope(race=False, cache=False):
        for function, some in ((distances, True), (moves, True), (once, False)):
            f = tb.tailor(function, background=False)
            x = np.ones((40, 3))
            f(x, x.copy())
            assert bool(copies(f)) == some


def test_nothing_is_read_where_there_are_no_turns():
    def reach(x, n, m):
        total = np.zeros(n)
        for i in range(n):
            for j in range(m):
                total[i] += x[3 * j] * i
        return total

    with knobs.scope(race=False, cache=False):
        f = tb.tailor(reach, background=False)
        np.testing.assert_allclose(f(np.ones(60), 20, 20), reach(np.ones(60), 20, 20))
        np.testing.assert_array_equal(f(np.ones(3), 0, 1 << 40), np.zeros(0))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_share_a_copy(threads):
    def each(x, y):
        out = np.zeros((len(x), len(y)))
        for i in range(len(x)):
            z = y[:, :, None] * x[i]
            for j in range(len(y)):
                out[i, j] = (z[j, :, None, 0] - z[j, None, :, 1]).max()
        return out

    with knobs.scope(race=False, cache=False, threads=threads, parallel=1):
        f = tb.tailor(each, background=False)
        x, y = np.arange(90.0).reshape(30, 3), np.arange(200.0).reshape(20, 10) % 7
        for _ in range(5):
            np.testing.assert_allclose(f(x, y), each(x, y))
    assert list(inner_steps(step for v in f.variants for step in v.program.steps))


def test_fewer_turns_than_none():
    def some(x, n, m):
        total = np.zeros(20)
        for i in range(20):
            for j in range(n, m):
                total[i] += x[3 * j] * i
            for j in range(m):
                total[i] -= x[2 * j]
        return total

    with knobs.scope(race=False, cache=False):
        f = tb.tailor(some, background=False)
        x = np.arange(300.0)
        for n, m in ((0, 100), (5, 9), (7, 7), (9, 3), (90, -9)):
            np.testing.assert_allclose(f(x, n, m), some(x, n, m))
    assert f.variants
