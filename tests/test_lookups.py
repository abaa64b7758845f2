"""Elements of a formula are computed where they are taken, and are what the formula holds there."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.kernel import Load, Nest
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import inner_steps


def of_a_line(i, a, b):
    return np.linspace(a, b, 100)[i]


def of_a_line_clipped(i, a, b):
    return np.take(np.linspace(a, b, 100, endpoint=False), i * 3, mode="clip")


def of_a_formula(i, a, b):
    y = np.arange(100) * a + b
    return np.where(y > 3, np.sqrt(np.abs(y)), -y)[i]


def of_a_grid(i, a, b):
    return np.linspace(a, b, 100, dtype=np.float32)[i.reshape(-1, 1)] * 2


FORMULAS = (of_a_line, of_a_line_clipped, of_a_formula, of_a_grid)


def of_values(i, a, b):
    y = np.linspace(a, b, 100)
    y[50] = 7
    return y[i]


def of_sums(i, a, b):
    return np.cumsum(np.linspace(a, b, 100))[i]


def looks_up(tailored):
    steps = [s for v in tailored.variants for s in inner_steps(v.program.steps)]
    loads = [x for s in steps if isinstance(s, Nest) for x in expressions(s) if isinstance(x, Load)]
    return any(x.computed for x in loads)


ENDS = [(0.0, 1.0), (-3.5, 1e9), (2.0, 2.0), (0.0, 5e-324), (1e-322, 9e-322), (5.0, -5.0)]
ENDS += [(0.0, np.inf), (np.nan, 1.0), (-0.0, 0.0), (1e308, -1e308)]


@pytest.mark.parametrize("function", (*FORMULAS, of_values, of_sums), ids=lambda f: f.__name__)
def test_elements_of_formulas(function):
    rng = np.random.default_rng(5)
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        tailored = tb.tailor(function, background=False)
        for n in (40, 1, 7, 8, 33, 0):
            i = rng.integers(-100, 100, n)
            i[: n // 4] = 99
            for a, b in ENDS:
                for kind in (np.int64, np.int8):
                    found, wanted = (f(i.astype(kind), a, b) for f in (tailored, function))
                    assert found.dtype == wanted.dtype
                    np.testing.assert_array_equal(found, wanted)
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        assert tailored.variants
        assert looks_up(tailored) == (function not in FORMULAS)
        if function is not of_a_line_clipped:
            for bad in (100, -101):
                with pytest.raises(IndexError):
                    tailored(np.array([0, bad]), 0.0, 1.0)


def counted(x, w):
    return np.histogram(x, 7)[0], *np.histogram(x, 7, weights=w)


@pytest.mark.parametrize("kind", ["f8", "f4", "i4"])
def test_histograms_at_their_edges(kind):
    rng = np.random.default_rng(6)
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(counted, background=False)
        for n in (1, 2, 9, 1000):
            for low, high in ((0, 1), (-3, 11), (5, 5), (0, 7e6), (-1e-3, 1e-3)):
                edges = np.linspace(low, high, 8)
                near = np.concatenate((edges, np.nextafter(edges, low), np.nextafter(edges, high)))
                x = np.concatenate((near, rng.uniform(low, high, n))).astype(kind)
                w = rng.integers(0, 9, len(x)).astype(float)
                for found, wanted in zip(tailored(x, w), counted(x, w), strict=True):
                    np.testing.assert_array_equal(found, wanted)
    assert tailored.variants
