"""Indices that are surely in range are not checked; others are, and raise what NumPy raises."""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import captured, check, make_arguments

import tailorbird as tb
from tailorbird.ir.show import show

SPEC = "f64[n] i64[n]"
SIZES = {"n": 7}


def clipped(x, i):
    return x[np.clip(i, 0, len(x) - 1)]


def clipped_otherwise(x, i):
    return x[np.minimum(np.maximum(0, i), len(x) - 1)]


def clipped_twice(x, i):
    return np.take(x, np.take(np.clip(i, 0, len(x) - 1), i, mode="clip"))


def of_remainders(x, i):
    return x[i % len(x)]


def of_few_remainders(x, i):
    return x[:4][(i.astype(np.int32) % 4)[::-1]]


def of_either(x, i):
    return x[np.where(x > 0, 0, np.arange(len(x)))]


def of_bools(x, i):
    return x[:2][(x > 0).astype(np.int64)]


def written(x, i):
    out = np.zeros(5)
    np.add.at(out, np.clip(i, 0, 4), x)
    return out


@pytest.mark.parametrize(
    "function",
    [
        clipped,
        clipped_otherwise,
        clipped_twice,
        of_remainders,
        of_few_remainders,
        of_either,
        of_bools,
        written,
    ],
)
def test_indices_that_are_surely_in_range_are_not_checked(function):
    graph = captured(function, make_arguments(SPEC, SIZES, 1)).graph
    assert " check " not in show(graph)
    check(function, SPEC, ({"n": 7}, {"n": 12}, {"n": 4}))


def beyond(x, i):
    return x[np.minimum(np.maximum(i, 0), len(x))]


def below(x, i):
    return x[np.maximum(np.minimum(i, len(x) - 1), -len(x) - 1)]


def one_more(x, i):
    return x[np.clip(i, 0, len(x) - 1) + 1]


def of_small_remainders(x, i):
    return x[:4][i % 5]


def of_narrowed(x, i):
    return x[np.clip(i, 0, 300).astype(np.int8)]


def of_floats(x, i):
    return x[np.where(np.isnan(x), np.nan, 1.0).astype(np.int64)]


@pytest.mark.parametrize(
    "function", [beyond, below, one_more, of_small_remainders, of_narrowed, of_floats]
)
def test_other_indices_are_checked(function):
    x, i = np.arange(7.0), np.zeros(7, np.int64)
    assert " check " in show(captured(function, [x, i]).graph)
    tailored = tb.tailor(function)
    tailored.warm(x, i)
    for values in (i, i + 4, i - 99, i + 99, np.arange(7), np.arange(7) * 60):
        try:
            wanted = function(x, values)
        except IndexError as error:
            with pytest.raises(IndexError, match=str(error)[:20]):
                tailored(x, values)
        else:
            np.testing.assert_array_equal(tailored(x, values), wanted)
