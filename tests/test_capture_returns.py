"""What a loop gives beside the arrays that it changes: results from inside, tuples of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import captured, check, refused, run_captured, same

from tailorbird.ir.promote import LEGACY


def returns_a_carried_array(x, s, steps):
    last = x * 0
    for turn in range(steps + 4):
        new = np.sqrt(np.abs(x + last))
        if new.sum() > s:
            return new, last, turn
        last = new
    return last, x + 1, -1


def returns_an_array_of_its_own(x, s):
    for k in range(x.shape[0]):
        if x[k] > s:
            found = np.zeros(3)
            found[1] = x[k]
            return found * 2
    return np.ones(3)


def returns_the_argument(x, s):
    for k in range(x.shape[0]):
        x[k] += s
        if x[k] > 1:
            return x
    return x


def returns_twice_of_one(x, s):
    y = x * 2
    for k in range(x.shape[0]):
        y[k] += 1
        if y[k] > s:
            return y[::-1], k
    return y[::-1], -1


def returns_from_two_loops(x, s):
    best = x * 1
    for i in range(x.shape[0]):
        for j in range(i + 1):
            best[j] = best[i] + x[j]
            if best[j] > 3 * s:
                return best, (i, j)
        best = best + 1
    return best, (-1, 0)


def returns_in_while(x, s):
    low, high = x * 0, x + 1
    while True:
        middle = (low + high) / 2
        if np.abs(high - low).max() < 1e-3:
            return middle, high
        up = middle.sum() < s
        if up:
            low = middle
        else:
            high = middle


def _first_above(x, s):
    for k in range(x.shape[0]):
        if x[k] > s:
            return x[k] * np.ones(2), k
    return np.zeros(2), -1


def calls_what_returns(x, s):
    total = np.zeros(2)
    for t in range(5):
        found, where = _first_above(x, s + t / 4)
        total += found * where
    return total


def returns_words(x, s):
    for k in range(x.shape[0]):
        if x[k] > s:
            return (x[k], (k, "found"), None)
    return (x[0] * 0, (-1, "found"), None)


def carries_a_pair(x):
    best, where = x[0], (0, 0)
    for i in range(x.shape[0]):
        for j in range(i):
            if x[i] - x[j] > best:
                best, where = x[i] - x[j], (i, j)
    return best, where


def carries_state(x, s):
    state = (x * 0, 0.0, (1, s))
    for _ in range(6):
        arrays, total, (n, scale) = state
        state = (arrays + x, total + scale, (n * 2, scale / 2))
    return state


def keeps_a_tuple(x):
    shape = (x.shape[0], 2)
    for _ in range(9):
        x[0] += shape[1]
        shape = (shape[0], 2)
    return np.zeros(shape) + x[0]


def largest_of_integers(a, b):
    best = 0
    table = np.zeros(a.shape[0], np.int32)
    for i in range(a.shape[0]):
        value = max(0, table[i - 1] + a[i], b[i])
        table[i] = value
        if value > best:
            best = value
    return int(best), table


ROWS = [
    (returns_a_carried_array, "f64[n] float int"),
    (returns_an_array_of_its_own, "f64[n] float"),
    (returns_the_argument, "f64[n] float"),
    (returns_twice_of_one, "f64[n] float"),
    (returns_from_two_loops, "f64[n] float"),
    (returns_in_while, "f64[n] float"),
    (calls_what_returns, "f64[n] float"),
    (returns_words, "f64[n] float"),
    (carries_a_pair, "f64[n]"),
    (carries_state, "f64[n] float"),
    (keeps_a_tuple, "f64[n]"),
    (largest_of_integers, "i32[n] i32[n]"),
]


@pytest.mark.parametrize(("function", "spec"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_it_is_what_python_gives(function, spec):
    check(function, spec)


def one_of_two_structures(x, s):
    for k in range(x.shape[0]):
        if x[k] > s:
            return x * 2, k
    return x * 2


def nine_parts(x):
    for k in range(9 * x.shape[0]):
        if x[k % x.shape[0]] > 9:
            return k, k, k, k, k, k, k, k, k
    return 1, 2, 3, 4, 5, 6, 7, 8, 9


@pytest.mark.parametrize(
    ("function", "spec", "code"),
    [
        (one_of_two_structures, "f64[n] float", "joined_value"),
        (nine_parts, "f64[n]", "loop_shape"),
    ],
)
def test_what_is_no_one_result_is_refused(function, spec, code):
    assert refused(function, spec) == code


def large_int_or_int32(a, b, n):
    s = n
    for i in range(a.shape[0]):
        if a[i] > 3:
            s = a[i]
    return b + s


@pytest.mark.skipif(LEGACY, reason="NumPy 1.26 promotes by value here")
def test_a_python_int_that_does_not_fit_is_not_wrapped():
    small = [np.array([1, 5, 2], np.int32), np.zeros(2), 7]
    large = [np.array([1, 1, 2], np.int32), np.zeros(2), 10**10]
    found = captured(large_int_or_int32, small)
    assert same(large_int_or_int32(*small), run_captured(found, large_int_or_int32, small))
    from tailorbird.errors import GuardMissed, Refused

    with pytest.raises(GuardMissed):
        run_captured(found, large_int_or_int32, large)
    with pytest.raises(Refused):
        captured(large_int_or_int32, large)
