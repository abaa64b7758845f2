"""Loops whose turns are products of a vector and a matrix become products of matrices."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.panels import BLOCK
from tailorbird.lower.steps import Gemm, inner_steps
from tailorbird.pipeline import run_stages

R = np.random.default_rng(5)


def triangle(x, out):
    for i in range(x.shape[1] - 1):
        out[i + 1 :, i] = out[i, i + 1 :] = x[:, i] @ x[:, i + 1 :]


def with_diagonal(x, out, by):
    m = out.shape[0]
    for i in range(m):
        out[i:m, i] = out[i, i:m] = x[:, i] @ x[:, i:m] / (by - 1.0)


def lower_triangle(x, y, out):
    for i in range(x.shape[0]):
        out[i, : i + 1] = y[: i + 1] @ x[i]


def added_to(x, y, out):
    for i in range(x.shape[0]):
        out[i] += x[i] @ y


def by_elements(x, y, out):
    for i in range(x.shape[0]):
        for j in range(y.shape[1]):
            out[i, j] = np.dot(x[i], y[:, j]) + out[i, j] * 0.5


def last_turn_empty(x, out):
    for i in range(x.shape[1]):
        out[i, i + 1 :] = x[:, i] @ x[:, i + 1 :]


def computed_factor(x, y, out, a):
    for i in range(y.shape[1]):
        out[i, i:] = (x[i] * a + y[0]) @ y[:, i:]


def many_at_once(x, y, out):
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            out[b, i] = x[b, i] @ y[b]


def moving_left(x, out):
    n = out.shape[0]
    for i in range(n):
        out[i, : n - i] = x[:, i] @ x[:, n - 1 - i : 2 * n - 1 - 2 * i]


def in_place(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i] @ y


# Products that a loop adds up


def rank_one_updates(x, out, a, b):
    for i in range(x.shape[0]):
        out[i, : i + 1] *= b
        for k in range(x.shape[1]):
            out[i, : i + 1] += a * x[i, k] * x[: i + 1, k]


def of_two(x, y, out, a):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[i, : i + 1] += x[: i + 1, k] * a * y[i, k] + y[: i + 1, k] * a * x[i, k]


def taken_away(x, y, out):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[i] -= x[i, k] * y[k]


def as_scalars(x, y, out):
    for i in range(x.shape[0]):
        for j in range(y.shape[1]):
            for k in range(x.shape[1]):
                out[i, j] += x[i, k] * y[k, j]


def of_what_is_added_to(out):
    for i in range(1, out.shape[0]):
        for k in range(out.shape[1]):
            out[i] += out[i - 1, k] * out[i - 1]


def no_products(x, out):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[i] += x[i, k] / (x[k] + 4.0)


# Turns that need each other


def sums_of_what_was_stored(x):
    for i in range(1, x.shape[0]):
        x[i] = x[i - 1] @ x


def other_rows_in_place(x, y):
    for i in range(x.shape[0] - 1):
        x[i + 1] = x[i] @ y


def windows(x, out):
    n = out.shape[1]
    for i in range(out.shape[0]):
        for r in range(n):
            out[i, r] = np.dot(x[i : i + 3], x[r : r + 3])


def stopped(x, y, out):
    for i in range(x.shape[0]):
        if x[i, 0] > 2.0:
            break
        out[i] = x[i] @ y


def square(n, m=None):
    return R.standard_normal((n, n if m is None else m))


SIZES = (0, 1, 2, 3, 8, 9, 33, BLOCK, BLOCK + 1, 2 * BLOCK + 5)
# function, its arguments for a size, whether it becomes products
CASES = [
    (triangle, lambda n: (square(n + 3, n), square(n)), True),
    (with_diagonal, lambda n: (square(n + 3, n + 2), square(n), 7.0), True),
    (lower_triangle, lambda n: (square(n, 5), square(n, 5), square(n)), True),
    (added_to, lambda n: (square(n, 6), square(6, 7), square(n, 7)), True),
    (by_elements, lambda n: (square(n, 4), square(4, 9), square(n, 9)), True),
    (last_turn_empty, lambda n: (square(n + 3, n), square(n)), True),
    (computed_factor, lambda n: (square(n), square(n), square(n), 3.0), True),
    (many_at_once, lambda n: (R.random((2, n, 5)), R.random((2, 5, 6)), R.random((2, n, 6))), True),
    (moving_left, lambda n: (square(4, 2 * n), square(n)), None),
    (in_place, lambda n: (square(n, 6), square(6)), None),
    (rank_one_updates, lambda n: (square(n, 5), square(n), 1.5, 0.5), True),
    (of_two, lambda n: (square(n, 5), square(n, 5), square(n), 1.5), True),
    (taken_away, lambda n: (square(n, 4), square(4, 7), square(n, 7)), True),
    (as_scalars, lambda n: (square(n, 4), square(4, 7), square(n, 7)), None),
    (of_what_is_added_to, lambda n: (square(min(n, 20), 3) / 9,), False),
    (no_products, lambda n: (R.random((n, n)), square(n)), False),
    (sums_of_what_was_stored, lambda n: (square(n) / (n + 1),), False),
    (other_rows_in_place, lambda n: (square(n, 4), square(4) / 4), False),
    (windows, lambda n: (R.random(n + 9), square(n, 4)), False),
    (stopped, lambda n: (square(n, 6), square(6, 7), square(n, 7)), False),
]


@pytest.mark.parametrize("function, make, products", CASES, ids=[f.__name__ for f, *_ in CASES])
def test_what_a_loop_of_products_comes_to_is_what_it_was(function, make, products):
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(function, background=False)
        for n in SIZES[::-1]:
            agrees(f, function, make(n))
    assert any(variant.hits for variant in f.variants)
    if products is not None:
        assert has_product(function, make(33)) == products


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "layout", [lambda x: x, lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x[:, ::-1]]
)
def test_matrices_that_lie_in_other_ways(layout, dtype):
    with knobs.scope(race=False, cache=False):
        for function in (triangle, added_to):
            f = tb.tailor(function, background=False)
            for n in (2, 17, BLOCK + 3):
                x = layout(square(2 * n).astype(dtype))
                more = (square(x.shape[1]),) if function is added_to else ()
                out = np.zeros((x.shape[0] if more else x.shape[1], x.shape[1]), dtype)
                agrees(f, function, (x, *(y.astype(dtype) for y in more), out), 2e-4, dtype)


def test_what_is_not_finite_stays_where_it_is():
    x = square(5, BLOCK + 9)
    x[2, 3], x[1, 70], x[0, 130] = np.nan, np.inf, -np.inf
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(triangle, background=False)
        agrees(f, triangle, (x, square(BLOCK + 9)))


def test_an_argument_that_is_the_result_as_well():
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(triangle, background=False)
        for n in (3, 40):
            one, other = (np.arange(n * n, dtype="f8").reshape(n, n) / n**2 for _ in range(2))
            f(one, one)
            triangle(other, other)
            np.testing.assert_allclose(one, other, rtol=1e-11)


def agrees(f, function, arguments, bound=1e-11, dtype="f8"):
    """The same arguments behind a call, but for how sums are rounded."""
    bound = bound if dtype == "f4" else 1e-11
    ours = [x.copy("K") if isinstance(x, np.ndarray) else x for x in arguments]
    theirs = [x.copy("K") if isinstance(x, np.ndarray) else x for x in arguments]
    f(*ours)
    function(*theirs)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=bound, atol=bound * 10)


def has_product(function, arguments):
    names = list(inspect.signature(function).parameters)
    work = run_stages(function, dict(zip(names, arguments)), names, "lower")
    return any(isinstance(step, Gemm) for step in inner_steps(work.program.steps))


def test_integers_are_added_up_in_place():
    x, out = R.integers(-9, 9, (40, 30)), R.integers(-9, 9, (40, 40))
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(rank_one_updates, background=False)
        ours, theirs = out.copy(), out.copy()
        f(x, ours, 3, 2)
        rank_one_updates(x, theirs, 3, 2)
    np.testing.assert_array_equal(ours, theirs)
    assert not has_product(rank_one_updates, (x, out, 3, 2))


def test_what_a_loop_adds_nothing_to_stays_as_it_is():
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(taken_away, background=False)
        for k in (5, 0):
            out = np.full((4, 3), -0.0)
            f(np.zeros((4, k)), np.zeros((k, 3)), out)
            assert k or np.signbit(out).all()
