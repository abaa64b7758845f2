"""Arrays whose sizes change from turn to turn: what a mask leaves, until nothing is left."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.capture import capture
from tailorbird.ir.interp import run
from tailorbird.ir.parse import parse
from tailorbird.ir.show import show
from tailorbird.lower.steps import PythonCall, inner_steps


def shrinking(x, k):
    for i in range(k):
        x = x * 1.5 + i
        x = x[x < 40]
    return x


def together(x, k):
    place = np.arange(len(x))
    for _ in range(k):
        x = x * 1.5
        near = abs(x) < 40
        x, place = x[near], place[near]
    return x, place


def until_empty(x, k):
    left = np.zeros(len(x), np.int64)
    place = np.arange(len(x))
    x = x.copy()
    for i in range(k):
        if not len(x):
            break
        np.multiply(x, 1.5, x)
        far = abs(x) > 20
        left[place[far]] = i + 1
        np.logical_not(far, far)
        x = x[far]
        place = place[far]
    return left, len(x)


def as_long_as(x, k):
    n = 0
    while x.size > 2:
        x = x[x > x.min()] * 0.5
        n += 1
    return x.sum(), n, x


def sometimes(x, k):
    y = x[::-1] + 1
    for i in range(k):
        if i % 2:
            x = x[x > i]
        else:
            y = y[y < 3 * i + 30]
    return x, y


def chained(x, k):
    for _ in range(k):
        x = x[x > -3]
        x = (x - 0.5)[x < 30]
    return x * 2


def two_of_them(x, k):
    y = x
    for i in range(k):
        x = x[x > i]
        y = y[y < -i]
    return x, y, len(x) - len(y)


def inside_another(x, k):
    out = np.zeros(k)
    for j in range(k):
        y = x
        for i in range(k):
            y = y[y > i - j]
        out[j] = y.sum() + len(y)
    return out


def of_rows(x, k):
    m = np.stack((x, x * 2, x - 1), axis=1)
    for i in range(k):
        m = m[m[:, 1] > i] + 0.5
    return m


def sieve(x, k):
    numbers = np.arange(2, 50 * len(x) + 2)
    found = 0
    for _ in range(k):
        if numbers.size == 0:
            break
        found += numbers[0]
        numbers = numbers[numbers % numbers[0] != 0]
    return found, numbers


def old_ones_too(x, k):
    total = 0.0
    for i in range(k):
        y = x[x > i]
        total += np.where(x > 0, x, 0.5).sum()
        x = y
    return total, x


def one_before_the_other(x, k):
    c = np.arange(len(x)) * 0.25
    for i in range(k):
        near = x < 30 + i
        before = c
        c = c[near]
        x = (x + before)[near]
        c = c + 1
    return x, c


def masks_of_masks(x, k):
    m = x > 0
    for i in range(k):
        x, m = x[m], m[m]
        m = m & (x > i)
    return x, m


def backwards(x, k):
    for i in range(k):
        x = x[::-1][x > i]
    return x


PROGRAMS = (
    old_ones_too,
    one_before_the_other,
    masks_of_masks,
    backwards,
    shrinking,
    together,
    until_empty,
    as_long_as,
    sometimes,
    chained,
    two_of_them,
    inside_another,
    of_rows,
    sieve,
)


def values(n, fill):
    rng = np.random.default_rng(n)
    x = {"some": rng.normal(size=n) * 20, "all": np.full(n, 0.01), "none": np.full(n, -1e9)}[fill]
    if fill == "some" and n > 9:
        x[n // 2], x[n // 3] = np.nan, np.inf
    return x


def agree(found, wanted):
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    for a, b in zip(found, wanted, strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_arrays_that_shrink(function):
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(function, background=False)
        for n in (33, 1, 2, 3, 8, 9, 500, 0):
            for fill in ("some", "all", "none"):
                for k in (1, 2, 7, 0):
                    for x in (values(n, fill), values(2 * n, fill)[::2]):
                        kept = x.copy()
                        agree(tailored(x, k), function(x.copy(), k))
                        np.testing.assert_array_equal(x, kept)
    assert tailored.variants
    steps = [s for v in tailored.variants for s in inner_steps(v.program.steps)]
    assert not any(isinstance(s, PythonCall) for s in steps)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_the_graph_means_the_same_and_its_text_too(function):
    x = values(40, "all") * 100
    with knobs.scope(strict=True):
        graph = capture(function, {"x": x, "k": 3}).graph
    text = show(graph)
    assert show(parse(text)) == text
    given = {"x": x, "k": 3}
    order = [given[p.name] for p in graph.parameters] + [given[name] for name in graph.ints]
    agree(run(graph, order), function(x, 3))


def growing(x, k):
    for _ in range(k):
        x = np.concatenate((x, x[x > 0]))
    return x


def exchanged(x, k):
    y = x[x > 0]
    x = x[x <= 0]
    for _ in range(k):
        x, y = y[y < 50] - 1, x[x > -50] + 1
    return x, y


@pytest.mark.parametrize("function", [growing, exchanged])
def test_arrays_that_may_grow_are_left_to_python(function):
    x = values(20, "some")
    tailored = tb.tailor(function, background=False)
    for k in (3, 5):
        agree(tailored(x, k), function(x, k))
    assert not tailored.variants
