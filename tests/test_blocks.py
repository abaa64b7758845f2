"""Loops whose turns come back to the same points run block by block; others run turn by turn."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import Loop, inner_steps


def iterated(x, y, k):
    z = x.copy()
    for i in range(k):
        z = z * y + np.sin(z) * i
    return z


def in_place(x, y, k):
    for _ in range(k):
        x += y
        y *= 0.5


def under_a_mask(x, y, k):
    n = np.zeros(x.shape, np.int64)
    for i in range(k):
        near = abs(x) < 2
        n[near] = i
        x[near] = x[near] ** 2 + y[near]
    return n


def complex_ones(x, y, k):
    z = x + 1j * y
    c = z.copy()
    n = np.zeros(z.shape, np.int64)
    for i in range(k):
        near = abs(z) < 2
        n[near] = i
        z[near] = z[near] ** 2 + c[near]
    return z, n


def with_positions(x, y, k):
    z = np.zeros(x.shape)
    for i in range(k - 1, -1, -1):
        z = z + np.arange(len(x)) * i + x
    return z


def of_planes(x, y, k):
    z = np.zeros((len(x), 3))
    for i in range(k):
        z = z * 0.5 + x[:, None] + i
    return z


def with_what_turns_bring(x, y, k):
    z = np.zeros(len(x))
    for i in range(k):
        z += x * y[i % len(y)]
    return z


BLOCKED = (iterated, in_place, under_a_mask, complex_ones, with_positions)


def of_neighbours(x, y, k):
    for _ in range(k):
        x[1:-1] = 0.5 * (x[:-2] + x[2:]) + y[1:-1]


def backwards(x, y, k):
    for _ in range(k):
        x[:] = x[::-1] + y


def until_small(x, y, k):
    for _ in range(k):
        x *= 0.5
        if x.sum() < y.sum():
            break


def growing_parts(x, y, k):
    for i in range(k):
        x[: len(x) // (i + 1)] += y[: len(x) // (i + 1)]


OTHERS = (of_neighbours, backwards, until_small, growing_parts, with_what_turns_bring, of_planes)


def blocks(tailored):
    steps = [s for v in tailored.variants for s in inner_steps(v.program.steps)]
    return [s for s in steps if isinstance(s, Loop) and s.var.name.endswith("_block")]


@pytest.mark.parametrize("function", (*BLOCKED, *OTHERS), ids=lambda f: f.__name__)
def test_blocks_give_what_turns_give(function):
    rng = np.random.default_rng(3)
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(function, background=False)
        for n in (700, 5000, 64, 63, 1, 2, 0):
            for k in (3, 1, 7):
                if function is with_what_turns_bring and not n:
                    continue
                x, y = rng.uniform(-2, 2, n), rng.uniform(-0.5, 0.5, n)
                for a, b in ((x, y), (x.repeat(2)[::2], y), (x, x[: n // 2].repeat(3)[:n])):
                    if len(b) != n:
                        continue
                    theirs, ours = [np.array(a), np.array(b)], [a.copy(), b.copy()]
                    with np.errstate(all="ignore"):
                        wanted, found = function(*theirs, k), tailored(*ours, k)
                    same(found, wanted)
                    same(tuple(ours), tuple(theirs))
    assert tailored.variants
    assert bool(blocks(tailored)) == (function in BLOCKED)


def same(found, wanted):
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    for a, b in zip(found, wanted, strict=True):
        if a is None:
            assert b is None
        else:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("parallel", [0, 1 << 40])
def test_blocks_are_shared_by_threads(parallel):
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-2, 2, 30000), rng.uniform(-0.5, 0.5, 30000)
    with knobs.scope(race=False, cache=False, parallel=parallel):
        tailored = tb.tailor(complex_ones, background=False)
        for k in (5, 9):
            same(tailored(x, y, k), complex_ones(x, y, k))
        assert [bool(s.divided) for s in blocks(tailored)] == [parallel == 0]
        assert all(isinstance(inner, Nest) for s in blocks(tailored) for inner in s.body[0].body)
