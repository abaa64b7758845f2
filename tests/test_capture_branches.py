"""Branches that data decides, and the ways to leave a loop: the graph takes the same path."""

from __future__ import annotations

import math

import pytest
from capture_kit import check
from test_capture_loops import SIZES

# Branches


def clips(x):
    for i in range(len(x)):
        if x[i] > 1:
            x[i] = 1
        elif x[i] < -1:
            x[i] = -1
        else:
            x[i] *= 0.5


def largest(x):
    best = x[0]
    at = 0
    for i in range(1, len(x)):
        if x[i] > best:
            best = x[i]
            at = i
    return best, at


def chooses(x, s):
    y = x * 2 if s > 1.0 else x - 1
    z = x[0] if x[0] > x[1] else x[1]
    return y + z + max(x[0], x[1]) - min(x[0], 0.5) + abs(x[1])


def short_circuits(x):
    total = 0.0
    for i in range(len(x)):
        if i + 1 < len(x) and x[i + 1] > 0.5:
            total += x[i + 1]
        if i == 0 or x[i - 1] < 0:
            total -= 1
        if not (0 < x[i] < 1):
            total *= 0.5
    return total


def joins_arrays(x, s):
    if s > 1.2:
        y = x + 1
        y[0] = 3
    else:
        y = x * 2
    y[1] = 5
    return y


def parts_of_either_type(x, z):
    e, f = 1 + 2j, 1 - 1j
    if x[0] > 0:
        e = e * 1j + z[0]
    for i in range(len(x)):
        f = f * complex(x[i], 1)
    return e.imag * z.real, e.real + z[0], f.imag, f.real * 2


def asserts(x):
    assert x[0] > -100
    if x[0] > 1e9:
        raise ValueError("large")
    return x * 2


def maths(x, s):
    total = 0.0
    for i in range(len(x)):
        total += math.sqrt(abs(x[i])) + math.sin(s) + math.exp(float(x[i]))
    return total


# Exits


def breaks(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 1.5:
            break
        total += x[i]
    return total


def finds_a_pair(x, k):
    found = False
    for i in range(k):
        for j in range(k):
            if x[(i + j) % len(x)] > 1.5:
                found = True
                break
        if found:
            break
    return i, j, found


def returns_from_a_loop_of_one_round(x):
    for i in range(len(x)):
        for j in range(i, i + 1):
            x[i] -= 1
            if x[j] > 0:
                return i, x * 2
        x[i] += 1
    return -1, x * 1


def continues(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            continue
        total += x[i]
        x[i] = -1
    return total


def returns_inside(x, s):
    for i in range(len(x)):
        if x[i] > s:
            return i
    return -1


def returns_deep(x):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 1.8:
                return x[i, j] * 2
        x[i, 0] = 7
    return -1.0


def returns_early(x):
    if x[0] > 1:
        return x * 2
    x[0] = 1
    if x[1] < 0:
        if x[2] > 0:
            return x + 1
        x[1] = 2
    return x - 1


def for_else(x):
    for i in range(len(x)):
        if x[i] > 1.9:
            break
    else:
        x[0] = 100
    for _ in range(len(x)):
        x[1] += 1
    else:
        x[1] *= 2


def halves(x, s):
    steps = 0
    while s > 0.01 and steps < 50:
        s = s / 2
        steps += 1
    return x * s, steps


def while_walks(x):
    i = 0
    total = 0.0
    while i < len(x) and x[i] < 1.5:
        total += x[i]
        i += 1
    return total, i


def while_breaks(x):
    i = 0
    while True:
        if i >= len(x) or x[i] > 1:
            break
        x[i] += 1
        i += 2
    return i


def newton(x):
    y = 1.0
    while abs(y * y - abs(x[0])) > 1e-9:
        y = 0.5 * (y + abs(x[0]) / y)
    return y


def while_else(x):
    i = 0
    while i < len(x):
        if x[i] > 1.9:
            break
        i += 1
    else:
        i = -1
    return i


ROWS = [
    (clips, "f64[n]"),
    (largest, "f64[n]"),
    (chooses, "f64[n] float"),
    (short_circuits, "f64[n]"),
    (joins_arrays, "f64[n] float"),
    (asserts, "f64[n]"),
    (maths, "f64[n] float"),
    (breaks, "f64[n]"),
    (finds_a_pair, "f64[n] int"),
    (returns_from_a_loop_of_one_round, "f64[n]"),
    (parts_of_either_type, "f64[n] c128[n]"),
    (continues, "f64[n]"),
    (returns_inside, "f64[n] float"),
    (returns_deep, "f64[n,m]"),
    (returns_early, "f64[n]"),
    (for_else, "f64[n]"),
    (halves, "f64[n] float"),
    (while_walks, "f64[n]"),
    (while_breaks, "f64[n]"),
    (newton, "f64[n]"),
    (while_else, "f64[n]"),
]


@pytest.mark.parametrize(("function", "spec"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_the_graph_takes_the_path_that_python_takes(function, spec):
    check(function, spec, SIZES)
