"""Writes that read a row or a column of what they write: saved before, and not the whole of it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from api_kit import answers, hits, native

from tailorbird.lower.several import TURNS
from tailorbird.lower.steps import Loop, inner_steps
from tailorbird.pipeline import run_stages

R = np.random.default_rng(5)


def paths(d):
    for k in range(d.shape[0]):
        d[:] = np.minimum(d[:], np.add.outer(d[:, k], d[k, :]))


def eliminated(a):
    for k in range(a.shape[0]):
        a[1:, :] = a[1:, :] - np.outer(a[1:, k], a[k, :]) * 0.01


def pivot_inside(a):
    for k in range(a.shape[0]):
        a[:] = a[:] * a[k, k] + a[:, k : k + 1]


def rolled(a):
    for _ in range(3):
        a[1:] = a[:-1] + a[1:]


def both_kinds(a):
    for k in range(1, a.shape[0]):
        a[1:] = a[:-1] + a[k]


def rows_of_the_other(a, b):
    for k in range(a.shape[0]):
        b[:] = b[:] + a[k, :]
        a[:] = a[:] - b[:, k : k + 1] * a[k, :]


def turned(a):
    for k in range(a.shape[0]):
        a[:] = a[::-1, :] + a[k, :]


def whole_numbers(a):
    b = (a * 1000).astype(np.int32)
    for k in range(1, b.shape[0]):
        b[:] = b * 3 - b[k] * k + b[:, k - 1 : k]
    a[:] = b


def three_saved(a):
    for k in range(a.shape[0] - 1):
        a[:] = np.maximum(a - a[k] * 0.5, a[:, k : k + 1]) + a[k + 1, k] * 0.25


def nothing_saved(a, b):
    for k in range(a.shape[0] - 3):
        a[:] = a * 0.5 + b[k]


def last_saved(a, b):
    row = a[0].copy()
    for k in range(a.shape[0]):
        row[:] = a[k]
        a[:] = a * 0.5 + row
    b[0] = row


def a_part_saved(a, b):
    for k in range(a.shape[0]):
        b[0, :k] = a[k, :k]
        a[:] = a * 0.5 + b[0]


def of_the_sum(a, b):
    for k in range(a.shape[0]):
        b[:] = a + a[k]
        a[:] = a - b * 0.5


def matrix(n):
    return R.standard_normal((n, n)) * 0.3


# function, its matrices, temporaries as large as one that are left
CASES = [
    (paths, 1, 0),
    (eliminated, 1, 0),
    (pivot_inside, 1, 0),
    (rolled, 1, 1),
    (both_kinds, 1, 1),
    (rows_of_the_other, 2, 0),
    (turned, 1, 1),
    (whole_numbers, 1, 1),
    (three_saved, 1, 0),
    (nothing_saved, 2, 0),
    (last_saved, 2, 0),
    (a_part_saved, 2, 0),
    (of_the_sum, 2, 0),
]
SIZES = (1, 2, 3, 4, 5, 7, 8, 33, 64)


def lowered(function, arguments):
    names = list(inspect.signature(function).parameters)
    return run_stages(function, dict(zip(names, arguments)), names, "lower").program


def wholes(function, arguments):
    """Temporaries as large as a matrix."""
    program = lowered(function, arguments)
    return sum(len(b.shape) == 2 and b.role == "temp" for b in program.buffers)


@pytest.mark.parametrize("function, count, left", CASES, ids=[f.__name__ for f, *_ in CASES])
def test_only_what_other_points_read_is_saved(function, count, left):
    f = native(function)
    for n in (*SIZES[::-1], *SIZES):
        arguments = [matrix(n) for _ in range(count)]
        if n > 1:
            arguments[0][0, 1], arguments[0][1, 0] = np.inf, np.nan
        answers(f, *arguments)
    assert hits(f)
    assert wholes(function, [matrix(8) for _ in range(count)]) == left


@pytest.mark.parametrize(
    "function, count, steps",
    [
        (paths, 1, {1, TURNS}),
        (pivot_inside, 1, {1, TURNS}),
        (three_saved, 1, {1, TURNS}),
        (nothing_saved, 2, {1}),
        (eliminated, 1, {1}),
        (turned, 1, {1}),
        (last_saved, 2, {1}),
        (a_part_saved, 2, {1}),
        (of_the_sum, 2, {1}),
    ],
)
def test_several_turns_go_over_the_array_together(function, count, steps):
    program = lowered(function, [matrix(8) for _ in range(count)])
    assert {s.step for s in inner_steps(program.steps) if isinstance(s, Loop)} == steps
