"""Real and imaginary parts, and reshaped arrays, as views: alive across writes, loops and branches.

A program runs as a graph on several sizes and data, and compiled on two; results and arguments are
compared with plain Python.
"""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import captured, check
from test_capture_loops import SIZES

from tests.bugs_kit import agrees


def of_one_of_two_arrays_in_a_loop(x, z):
    for _ in range(len(x)):
        if x[0] > 0:
            z = z * 1j
        x[:] = z.imag
    return z + 0


def taken_before_a_loop(x, z):
    w = z.imag
    for i in range(len(x)):
        x[i] += w[i]
        z[i] = z[i] * 2j


def written_in_a_loop(x, z):
    z = z + 1
    w, v = z.real, z[::-1].imag
    for i in range(len(x)):
        w[i] = x[i] - v[i]
        v[1:] *= 0.5
    return z


def one_or_the_other(x, z):
    w = z.real if x[0] > 0 else z.imag
    w += x
    return w * 2


def the_same_on_both_paths(x, z):
    if x[0] > 0:
        w, y = z.imag, x.reshape(-1, 1)
    else:
        w, y = z.imag, x.reshape(-1, 1)
    y[0] = w[-1]
    return w * 2, y + w


def a_shape_on_one_path(x, z):
    y = x.reshape(-1, 1)[:, 0] if x[0] > 0 else x[::-1]
    y[0] = 42
    return y * 2


def changing_places(x, z):
    w, v = z.imag, z.real
    for i in range(len(x)):
        x[i] = w[i]
        w, v = v, w
    return x * 2


def gone_over(x, z):
    for k, v in enumerate(z.imag):
        x[k] -= v
        z[-1] = x[k]


def assigned(x, z):
    y = z * 1
    for i in range(len(x)):
        y.imag += x[i]
        z[i:].real = y.imag[i]
    y.real, y.imag = y.imag * 1, 2
    return y


def element_by_element(x, z):
    w, v = z.real, z[::-1].imag
    for i in range(1, len(x)):
        w[i] = v[i - 1] * 0.5
        v[i:] += x[i]


def not_finite(x, z):
    z[0] = np.inf
    z.imag[0] = np.nan
    z.real[1:] = -0.0
    return x


def swapped(x, z):
    y = z * 1
    y.real[:], y.imag[:] = y.imag * 1, y.real * 1
    return y


PROGRAMS = [
    *(of_one_of_two_arrays_in_a_loop, taken_before_a_loop, written_in_a_loop, one_or_the_other),
    *(the_same_on_both_paths, a_shape_on_one_path, changing_places, gone_over, not_finite, swapped),
    *(assigned, element_by_element),
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_captured(function):
    assert check(function, "f64[n] c128[n]", SIZES)


@pytest.mark.parametrize("function", PROGRAMS)
def test_compiled(function):
    rng = np.random.default_rng(3)
    calls = [(rng.normal(size=n), rng.normal(size=n) + 1j * np.arange(n)) for n in (9, 9, 9, 14)]
    agrees(function, *calls)


def test_the_imaginary_part_of_reals_is_read_only():
    def f(x):
        x.imag[0] = 1

    agrees(f, (np.ones(3),), native=False)


def test_a_shape_that_may_be_a_copy_is_not_read_in_a_loop_after_a_write():
    def f(x):
        y = x[::-1].reshape(2, -1)
        x[0] = 9
        s = 0.0
        for i in range(2):
            s = s * 0.5 + y[i, 0] + y[i, -1]
        return s

    agrees(f, (np.arange(8.0),), native=False)


def test_writing_an_element_of_a_part_writes_that_element_alone():
    c = captured(element_by_element, [np.ones(4), np.ones(4) * 1j])
    whole = [n for n in c.graph.body.walk() if n.op == "complex" and n.outputs[0].type.rank]
    assert len(whole) == 1  # of v[i:]
