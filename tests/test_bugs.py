"""Bugs that were found, each with the smallest program that showed it.

A test is named for the bug. `agrees` runs a function plain and tailored on equal arguments and
compares everything that `hunt_compare.py` compares.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np

import tailorbird as tb
from tailorbird import knobs
from tests.hunt_compare import difference, run


def agrees(function, *calls, native=True):
    """The tailored function, after every call (a tuple of arguments) gave the same."""
    with knobs.scope(race=False, cache=False, background=False):
        tailored = tb.tailor(function, background=False)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for arguments in calls:
                names = [f"argument{k}" for k in range(len(arguments))]
                mine, yours = (dict(zip(names, copy.deepcopy(arguments))) for _ in range(2))
                plain = run(lambda **kw: function(*kw.values()), mine)
                found = run(lambda **kw: tailored(*kw.values()), yours)
                assert not difference(plain, found, list)
    whys = [str(r.why) for r in tailored._tiers.records.values() if r.why is not None]
    assert not any("bug of Tailorbird" in w for w in whys), whys
    assert not native or tailored.variants, whys
    return tailored


def test_linspace_of_float32_is_float32():
    def ends(x):
        return np.linspace(x[0], 2, 5), np.linspace(2, np.float32(0.5), x.size)

    agrees(ends, (np.ones(3, np.float32),), (np.ones(4, np.float32),))


def test_einsum_of_one_array_without_sums_is_a_view():
    def turned(x):
        return np.einsum("ij->ji", x)

    def diagonal(x):
        return np.einsum("ii->i", x) * 2

    def written(x):
        np.einsum("ii->i", x)[...] = 0
        return x + 1

    square = np.arange(9.0).reshape(3, 3)
    agrees(turned, (square,), native=False)
    agrees(diagonal, (square,))
    agrees(written, (square,), native=False)


def test_divmod_of_arrays_is_compiled():
    def parts(x, y):
        return divmod(x, y)

    agrees(parts, (np.arange(-5.0, 5.0), np.float64(3)), (np.arange(4.0), np.float64(-0.75)))


def test_a_written_reshape_keeps_its_shape():
    def doubled(y):
        out = np.repeat(y, 2)
        out[::-2] = 1
        return out

    agrees(doubled, (np.array([4, 9, 3]),))


def test_the_norm_of_an_array_of_rank_0():
    agrees(lambda x: np.linalg.norm(x), (np.array(-3),), (np.array(2.5),))


def test_a_written_argument_of_rank_0_stays_plain():
    def doubled(x, y):
        x *= 2
        return y + x

    agrees(doubled, (np.array(2.5), np.ones(3)), native=False)


def test_python_complex_takes_a_float64_literal_for_a_float():
    agrees(lambda s: s / np.float64(0.25), (1 - 0.75j,))


def test_the_reciprocal_of_small_complex_numbers():
    tiny = np.array([1e-40j, 1e-40, 0, -0.0, 1 + 1j, -0.0 - 2j, np.inf, complex(0, np.nan)])

    agrees(lambda x: x**-1, (tiny,), (tiny.astype(np.complex64),))


def test_an_empty_axis_does_not_make_strides_of_0():
    def centred(y):
        e = np.exp(y - y.max(axis=0, keepdims=True))
        e = e / e.sum(axis=0, keepdims=True)
        p = e[::-1, 2::3]
        return p - p.sum(axis=1, keepdims=True)

    agrees(centred, (np.array([[9.0]]),), (np.array([[9.0, 2.0]]),))


def test_column_stack_of_arrays_of_rank_0():
    agrees(lambda x: np.column_stack((x, x)) + 3, (np.array(2.5),))


def test_ascontiguousarray_has_an_axis():
    agrees(lambda x: np.square(np.ascontiguousarray(x)), (np.array(2.5),), (np.array(-1.0),))


def test_shapes_are_compared_item_by_item():
    def by_shape(x, y):
        assert x.shape == y.shape or x.shape != [*y.shape]
        if x.shape == y.shape:
            return x + y
        return x - 1 if x.shape < (4, 9) else x - 2

    def by_constant(x):
        return x + 1 if (x.shape, 2) == ((5,), 2) else x - 1

    five, six = np.ones(5), np.ones(6)
    agrees(by_shape, (five, five), (six, six), (five, np.ones(1)), (np.ones(3), np.ones(1)))
    agrees(by_constant, (five,), (six,), (np.ones((5, 1)),))
