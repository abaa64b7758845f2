"""Rows and slices at positions that arrays give: native code against NumPy.

Each row is a function and calls of one kind; one compilation must answer all of them, and what
NumPy raises, the tailored function raises.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs


def rows(x, at):
    y = x[at[0]]
    x[at[1]] = 7
    x[at[2], 1:] += 1
    return y * 2 + x[at[0], ::-1].sum()


def rows_written(x, at):
    for i in range(len(at)):
        row = x[at[i]]
        row += i
        row *= x[at[-i]]


def sparse_product(ends, columns, values, x):
    y = np.empty(len(ends) - 1)
    for i in range(len(ends) - 1):
        which = columns[ends[i] : ends[i + 1]]
        y[i] = values[ends[i] : ends[i + 1]] @ x[which]
    return y


def products(ends, columns, values, x):
    y = np.zeros((len(ends) - 1, 4))
    for i in range(len(ends) - 1):
        v, w = values[ends[i] : ends[i + 1]], x[ends[i] : ends[i + 1]]
        y[i, 0] = np.dot(v, w)
        y[i, 1] = np.vdot(v, w)
        y[i, 2] = np.inner(v, w)
        y[i, 3] = np.einsum("i,i->", v, w)
    return y


def changed_slices(ends, columns, values, x):
    y = np.zeros(len(ends) - 1)
    for i in range(len(ends) - 1):
        v = values[ends[i] : ends[i + 1]] * 2
        v[:1] = x[0]
        v[1:] += v[:-1].copy()
        y[i] = v.sum()
    return y


def row_calls(kind):
    x = np.random.default_rng(0).random((6, 4))
    more = [[-1, 2, -6], [-7, 2, -6]] if kind[0] == "i" else []
    return [(x, np.array(at, kind)) for at in ([1, 2, 1], [5, 0, 5], [5, 0, 6], *more)]


def ragged_calls(kind):
    rng = np.random.default_rng(1)
    ends = np.array([0, 2, 2, 5, 9], kind)
    columns, values = rng.integers(0, 5, 9).astype(kind), rng.random(9)
    lengths = ((9, 9, 9), (9, 9, 5), (9, 8, 5), (7, 7, 7))
    return [(ends, columns[:a], values[:b], rng.random(c)) for a, b, c in lengths]


ROWS = [(rows, row_calls), (rows_written, row_calls)]
ROWS += [(f, ragged_calls) for f in (sparse_product, products, changed_slices)]


def outcome(function, args):
    try:
        return function(*args)
    except (IndexError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("kind", ("i8", "i4", "u4"))
@pytest.mark.parametrize(("function", "calls"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_positions_from_arrays(function, calls, kind):
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(function, background=False)
        for args in calls(kind):
            plain, own = copy.deepcopy(args), copy.deepcopy(args)
            expected, found = outcome(function, plain), outcome(tailored, own)
            assert tailored.variants, str(tailored.explain(*args))
            assert type(found) is type(expected)
            if isinstance(expected, np.ndarray):
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            else:
                assert found == expected
            for a, b in zip(plain, own):
                np.testing.assert_allclose(b, a, rtol=1e-12)
