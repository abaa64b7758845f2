"""Scatters that became one: every bin as NumPy has it, whatever lies between the two."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import inner_steps


def histograms(x, w, k):
    return np.histogram(x, 10)[0], np.histogram(x, 10, weights=w)[0]


def sums(x, w, k):
    count, total = np.zeros(20, int), np.zeros(20)
    np.add.at(count, k, 1)
    np.add.at(total, k, w)
    return total / np.maximum(count, 1), count


def extremes(x, w, k):
    most, least, last = np.zeros(20), np.zeros(20), np.zeros(20)
    np.maximum.at(most, k, x)
    np.minimum.at(least, k, x)
    last[k] = x
    return most, least, last


def one_after_another(x, w, k):
    """The second one adds what the first one left."""
    count, total = np.zeros(20), np.zeros(20)
    np.add.at(count, k, 1.0)
    np.add.at(total, k, count[k] * w)
    return count, total


def into_one(x, w, k):
    total = np.zeros(20)
    np.add.at(total, k, x)
    np.multiply.at(total, k, w)
    return total


def read_between(x, w, k):
    count, total = np.zeros(20), np.zeros(20)
    np.add.at(count, k, w)
    half = count * 0.5
    count[0] = 7
    np.add.at(total, k, x)
    return half, count, total


def of_other_lengths(x, w, k):
    a, b = np.zeros(20), np.zeros(20)
    np.add.at(a, k, w)
    np.add.at(b, k[: len(k) // 2], w[: len(k) // 2])
    return a, b


def in_turns(x, w, k):
    a, b = np.zeros((3, 20)), np.zeros(20)
    for i in range(len(a)):
        np.add.at(a[i], k, w)
        np.add.at(b, k, x * i)
    return a, b


JOINED = (histograms, sums, extremes)
APART = (one_after_another, into_one, read_between, of_other_lengths, in_turns)


def scatters(f):
    steps = inner_steps(step for v in f.variants for step in v.program.steps)
    nests = [step for step in steps if isinstance(step, Nest) and step.scan]
    return [len(n.stages[0].stores) for n in nests if any(s.computed for s in n.stages[0].stores)]


@pytest.mark.parametrize("function", JOINED + APART, ids=lambda f: f.__name__)
def test_scatters(function):
    rng = np.random.default_rng(5)
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(function, background=False)
        for n in (1000, 1, 2, 3, 77, 4099):
            x, w = rng.normal(size=n), rng.normal(size=n)
            k = rng.integers(-20, 20, n)
            if n > 50 and function is not histograms:
                x[7], w[9], x[11] = np.nan, np.inf, -0.0
            for p, q in zip(f(x, w, k), function(x, w, k), strict=True):
                assert p.dtype == q.dtype
                np.testing.assert_allclose(p, q, rtol=1e-12, atol=1e-12)
    assert f.variants
    if function in JOINED:
        assert max(scatters(f)) > 1
    else:
        assert function is in_turns or max(scatters(f)) == 1
