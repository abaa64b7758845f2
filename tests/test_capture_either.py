"""Names that are one of several arrays, by the path that data takes: captured, and in native code.

A program runs as a graph on several sizes and data, and compiled on two; results and arguments are
compared with plain Python.
"""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import check
from test_capture_loops import SIZES

from tests.bugs_kit import agrees


def written(a, b):
    x = a if a[0] > 0 else b
    x[0] = 42
    return a * 1, x[1:] + b[1:]


def a_view_of_it(a, b):
    x = a if a[0] > 0 else b[::-1]
    v = x[1:]
    v *= 2
    x[0] += v[0]
    return v * 1


def a_reshape_of_it(a, b):
    x = a * 1 if a[0] > 0 else b * 2
    y = x.reshape(-1, 1)
    y += 1
    return x + 0


def swapped(a, b):
    p, q = a, b
    if a[0] < b[0]:
        p, q = q, p
    p -= q
    q[0] = p[-1]
    return p * 1


def from_an_inner_branch(a, b, s):
    x = a
    if s > 0.6:
        y = b * s
        if a[0] > 0:
            x = y
        elif b[0] > 0:
            x = b
        y[0] = 7.0
    x[-1] += 1
    return x + 0


def anew_in_a_loop(x, y):
    for q in range(len(x)):
        if y[q] > 0.5:
            x = y + 0
        x[q] = x[q] * 0.5 + 0.25
    return x * 1


def of_three_in_a_loop(a, b, c):
    x = a
    for i in range(len(a)):
        if a[i] > 0.3:
            x = b
        elif b[i] > 0.3:
            x = c
        x[i] += 1.5
        a[i] -= x[0]
    return x * 2


def swapped_in_a_loop(a, b):
    for i in range(len(a)):
        if a[i] < b[i]:
            a, b = b, a
        a[i] *= 0.5
        b[0] += a[i]
    return a + 0, b - a


def the_best_so_far(a, b):
    best = a
    for k in range(len(a)):
        trial = b * k - a
        if trial.sum() > best.sum():
            best = trial
    return best * 1


def until_it_is_small(a, b):
    d = b * 2
    k = 0
    while k < 5 and a[0] < 50:
        k += 1
        b, d = d, b
        b[:] = a * 0.5 + k
    return d + 0


def in_nested_loops(a, b):
    x = a
    for i in range(len(a)):
        for j in range(i):
            if a[j] > b[i]:
                x = b
            elif b[j] > 1:
                x = x + 1
            x[j] -= 0.25
        x[i] *= 2
    return x - 1


def known_to_be_left(a, n):
    s = a.sum()
    for i in range(n):
        s = float(a[i % 2])
    return a * 2, s


PAIR, TRIPLE = "f64[n] f64[n]", "f64[n] f64[n] f64[n]"
PROGRAMS = [
    (written, PAIR),
    (a_view_of_it, PAIR),
    (a_reshape_of_it, PAIR),
    (swapped, PAIR),
    (from_an_inner_branch, f"{PAIR} float"),
    (anew_in_a_loop, PAIR),
    (of_three_in_a_loop, TRIPLE),
    (swapped_in_a_loop, PAIR),
    (the_best_so_far, PAIR),
    (until_it_is_small, PAIR),
    (in_nested_loops, PAIR),
    (known_to_be_left, "f64[n] int"),
]


@pytest.mark.parametrize(("function", "spec"), PROGRAMS)
def test_captured(function, spec):
    check(function, spec, SIZES)


@pytest.mark.parametrize(("function", "spec"), PROGRAMS)
def test_compiled(function, spec):
    rng = np.random.default_rng(3)
    kinds = {"f64[n]": lambda n: rng.normal(size=n), "float": lambda n: 0.75, "int": lambda n: 3}
    calls = [[kinds[token](n) for token in spec.split()] for n in (9, 9, 9, 14)]
    agrees(function, *map(tuple, calls))
