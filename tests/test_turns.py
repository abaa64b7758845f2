"""Loops whose turns are independent become axes of nests; those that are not, stay loops."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import Loop, inner_steps
from tailorbird.pipeline import run_stages

R = np.random.default_rng(11)


def rows_times_rows(a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])


def upper(a):
    for i in range(a.shape[0]):
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


def solve(low, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - low[i, :i] @ x[:i]) / low[i, i]


def running(x):
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1]


def ahead(x):
    for i in range(x.shape[0] - 1):
        x[i] += x[i + 1]


def backward(x, y):
    for i in range(x.shape[0] - 1, -1, -1):
        y[i] = x[i] * 2.0 + i


def same_place(x, y):
    for i in range(x.shape[0]):
        y[0] = x[i]


def last_wins(x, y):
    for i in range(x.shape[0]):
        y[i // 2] = x[i]


def every_other(x):
    for i in range(x.shape[0] // 2):
        x[2 * i] = x[2 * i + 1] + 1.0


def overlapping_rows(x):
    for i in range(x.shape[0] - 1):
        x[i : i + 2] += 1.0


def transposed(a):
    for i in range(a.shape[0]):
        a[:, i] = a[i, :].sum()


def normed(a, out):
    for i in range(a.shape[0]):
        m = a[i].max()
        e = np.exp(a[i] - m)
        out[i] = e / e.sum()


def two_folds(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i].sum() - a[i].max() / (a[i].min() + 3.0)


def swapped_through_a_scalar(a, b):
    for i in range(a.shape[0]):
        t = a[i]
        a[i] = b[i]
        b[i] = t


def stale_scalar(a, out):
    s = 0.0
    for i in range(a.shape[0]):
        out[i] = s
        s = a[i].sum()
    return s


def beyond_when_empty(x, y, n):
    for i in range(n):
        y[i] = x[7] * x[i]
    return y


def counted(out, start):
    for i in range(out.shape[0]):
        out[i] = start + 3 * i
    return out


def gathered(x, at, out):
    for i in range(at.shape[0]):
        out[i] = x[at[i]]


def triangle(a, out):
    for i in range(a.shape[0]):
        out[i, : i + 1] = a[i, i] * a[i, : i + 1]


def square(n):
    return R.standard_normal((n, n)) + n * np.eye(n)


def vector(n):
    return R.standard_normal(n)


SIZES = (0, 1, 2, 7, 8, 9, 33, 70)
# function, its arguments for a size, loops that are left
CASES = [
    (rows_times_rows, lambda n: (square(n), R.random((n, n + 3))), 1),
    (upper, lambda n: (square(n),), 1),
    (solve, lambda n: (square(n), vector(n), vector(n)), 1),
    (running, lambda n: (vector(n),), 1),
    (ahead, lambda n: (vector(n),), 1),
    (backward, lambda n: (vector(n), vector(n)), 0),
    (same_place, lambda n: (vector(n), vector(1)), 1),
    (last_wins, lambda n: (vector(n), vector(n)), 1),
    (every_other, lambda n: (vector(n),), 1),
    (overlapping_rows, lambda n: (vector(n),), 1),
    (transposed, lambda n: (square(n),), 1),
    (normed, lambda n: (R.random((n, 5)), R.random((n, 5))), 0),
    (two_folds, lambda n: (R.random((n, 9)), vector(n)), 0),
    (swapped_through_a_scalar, lambda n: (vector(n), vector(n)), 0),
    (stale_scalar, lambda n: (R.random((n, 3)), vector(n)), 1),
    (counted, lambda n: (np.zeros(n, np.int64), 5), 0),
    (gathered, lambda n: (vector(n + 1), R.integers(0, n + 1, n), vector(n)), None),
    (triangle, lambda n: (square(n), square(n)), 1),
]


@pytest.mark.parametrize("function, make, left", CASES, ids=[f.__name__ for f, *_ in CASES])
def test_what_a_loop_comes_to_is_what_it_was(function, make, left):
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(function, background=False)
        for n in (*SIZES[::-1], *SIZES):
            agrees(f, function, make(n))
    assert any(variant.hits for variant in f.variants)
    if left is not None:
        assert loops_left(function, make(33)) == left


def agrees(f, function, arguments):
    """The same results and arguments, but for how sums are rounded."""
    ours = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    theirs = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    got, wanted = outcome(f, ours), outcome(function, theirs)
    for x, y in zip([got, *ours], [wanted, *theirs], strict=True):
        assert type(x) is type(y)
        if isinstance(y, np.ndarray | float):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


def outcome(f, arguments):
    try:
        return f(*arguments)
    except (IndexError, ValueError) as error:
        return type(error)


def lowered(function, arguments):
    names = list(inspect.signature(function).parameters)
    return run_stages(function, dict(zip(names, arguments)), names, "lower").program


def loops_left(function, arguments):
    return sum(isinstance(s, Loop) for s in inner_steps(lowered(function, arguments).steps))


def test_nothing_is_read_for_turns_that_do_not_come():
    # x is empty and its eighth element lies in memory that is not there.
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(beyond_when_empty, background=False)
        long, out = vector(9), np.zeros(9)
        np.testing.assert_array_equal(f(long, out, 9), long[7] * long)
        assert f(np.zeros(0), np.zeros(0), 0).size == 0


def test_a_fold_and_its_use_are_one_nest_and_its_scalar_is_gone():
    program = lowered(solve, (square(9), vector(9), vector(9)))
    nests = [s for s in inner_steps(program.steps) if isinstance(s, Nest)]
    assert len(nests) == 1
    assert not any(not b.shape for b in program.buffers)


def test_lanes_follow_the_turns_of_a_loop_where_these_lie_together():
    program = lowered(rows_times_rows, (square(20), R.random((20, 23))))
    nest = next(s for s in inner_steps(program.steps) if isinstance(s, Nest))
    assert nest.schedule.vector == "@j"


def orthogonal(a, q, r):
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k])) + 1.0
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]


def scaled_by_a_neighbour(a):
    for j in range(a.shape[1] - 1):
        s = np.dot(a[:, j], a[:, j + 1])
        a[:, j] -= a[:, j + 1] * s


def test_a_fold_and_a_map_over_its_points_are_one_nest_of_rows():
    cases = [
        (orthogonal, lambda n: (R.random((n + 2, n)), np.zeros((n + 2, n)), np.zeros((n, n)))),
        (scaled_by_a_neighbour, lambda n: (R.random((n, n)),)),
    ]
    for function, make in cases:
        with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
            f = tb.tailor(function, background=False)
            for n in (33, 8, 2, 1, 0):
                agrees(f, function, make(n))
    assert loops_left(orthogonal, cases[0][1](9)) == 1
    assert loops_left(scaled_by_a_neighbour, cases[1][1](9)) == 1
