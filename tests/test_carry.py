"""What a turn stores and the next one reads: kept in a register, in memory all the same."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.steps import Control


def forward(a, b, n):
    for i in range(1, n):
        a[i] = a[i - 1] * b[i] + a[i]
    return a[n - 1]


def backward(a, b, n):
    for i in range(n - 2, -1, -1):
        a[i] = (a[i] - b[i] * a[i + 1]) / 2
    return a.sum()


def in_strides(a, b, n):
    for i in range(3, n, 3):
        a[i] += a[i - 3]
        b[i] = a[i]
    return a + b


def two_at_once(a, b, n):
    for i in range(1, n):
        a[i] = a[i - 1] + b[i - 1]
        b[i] = b[i - 1] - 0.5 * a[i - 1]
    return a


def sweep(a, b, n):
    x = np.outer(a, b)
    for _ in range(2):
        for i in range(1, n):
            for j in range(1, n):
                x[i, j] = (x[i, j] + x[i, j - 1] + x[i - 1, j]) / 3
    return x


def read_late(a, b, n):
    for i in range(1, n):
        a[i] = b[i] + 1
        b[i] = a[i - 1] * a[i]
    return a


def stored_twice(a, b, n):
    for i in range(1, n - 1):
        a[i] = a[i - 1] + b[i]
        a[i + 1] = a[i] * 2
    return a


def left_early(a, b, n):
    for i in range(1, n):
        if b[i] > 2:
            break
        a[i] += a[i - 1]
    return a


CARRIED = {forward: 1, backward: 1, in_strides: 1, two_at_once: 2, sweep: 1, read_late: 1}
PROGRAMS = (*CARRIED, stored_twice, left_early)


CASES = [(f, dtype) for f in PROGRAMS for dtype in ("f8", "f4", "c16")]
CASES += [(f, "i8") for f in (forward, in_strides, stored_twice, read_late)]


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_loops_with_what_the_turn_before_stored(function, dtype):
    rng = np.random.default_rng(3)
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(function, background=False)
        for size, n in ((8, 8), (8, 1), (8, 0), (9, 2), (40, 40), (40, 3)):
            given = [(rng.normal(size=size) * 2).astype(dtype) for _ in range(2)]
            ours, theirs = ([x.copy() for x in given] for _ in range(2))
            found, wanted = f(*ours, n), function(*theirs, n)
            for p, q in zip([found, *ours], [wanted, *theirs], strict=True):
                np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-5)
    cells = [
        cell.name
        for v in f.variants
        for step in v.program.steps
        if isinstance(step, Control)
        for cell in step.cells
        if cell.name.startswith("carried")
    ]
    if dtype == "f8":
        assert len(set(cells)) == CARRIED.get(function, 0)
