"""Folds of what a mask picks: no element that it leaves out counts, however the lanes fall."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import inner_steps
from tests.api_kit import promotes_by_value


def sums(x, m):
    return x[m].sum(), x[m].sum() / (np.count_nonzero(m) + 1), (x[m] * 2 + 1).sum()


def extremes(x, m):
    return x.min(where=m, initial=9), x[m].max(initial=-9), (x[m] > 0).any(), (x[m] > 0).all()


def products(x, m):
    return (x[m] * x[m]).sum(), np.dot(x[m], x[::-1][m]), (x[m] * 0 + 1).prod()


def dear(x, m):
    return np.exp(np.sin(x[m])).sum()


def of_itself(x, m):
    return x[x > 0].sum(), np.where(x > 0, x, 0).sum(), (x > 0).sum()


def two_masks(x, m):
    n = ~m
    return x[m].sum() - x[n].sum(), x[n].min(initial=3), m.sum()


def by_rows(x, m):
    y = x.reshape(-1, 1) * np.arange(1.0, 41.0).astype(x.dtype)
    return np.where(m[:, None], y, 0).sum(axis=1), np.where(m[:, None], y, 0).sum(axis=0)


def under_masks(x, m):
    some = np.where(m, x * x, 0).sum(), np.where(m, 0, x).sum(), m.sum(), m.mean()
    return *some, np.where(m, x, -x * 0).sum(), m.astype("f4").sum(), np.where(m, 1, 0).sum()


def in_turns(x, m):
    out = np.zeros(9)
    for i in range(9):
        picked = x[np.logical_and(x >= i - 5, x < i - 4)]
        out[i] = picked.sum() + len(picked)
    return out, m


PROGRAMS = (sums, extremes, products, dear, of_itself, two_masks, by_rows, under_masks, in_turns)
FILLS = {"none": 0.0, "few": 0.01, "some": 0.4, "most": 0.99, "all": 1.0}


def arguments(n, kind, fill):
    rng = np.random.default_rng(n)
    x = (rng.normal(size=2 * n) * 3).astype(kind)
    if np.dtype(kind).kind == "f" and n > 60:
        x[n // 3] = np.nan
        x[n // 2] = np.inf
    return x, rng.random(2 * n) < FILLS[fill]


def agree(found, wanted, kind="f8"):
    eps = np.finfo(kind if kind[0] == "f" else "f8").eps
    for p, q in zip(found, wanted, strict=True):
        assert type(p) is type(q) and np.asarray(p).dtype == np.asarray(q).dtype
        room = 300 * eps if np.asarray(p).dtype.kind == "f" else 0
        np.testing.assert_allclose(p, q, rtol=room, atol=room * 100, equal_nan=True)


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "i8"])
def test_folds_of_what_is_picked(function, kind):
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        tailored = tb.tailor(function, background=False)
        for n in (1, 3, 4, 8, 31, 32, 33, 500, 4099):
            for fill in FILLS:
                x, m = arguments(n, kind, fill)
                for a, b in ((x[:n], m[:n]), (x[::2], m[::2]), (x[n:][::-1], m[:n])):
                    agree(as_tuple(tailored(a, b)), as_tuple(function(a, b)), kind)
    assert tailored.variants or promotes_by_value(kind)


def test_a_sum_adds_under_its_mask_where_the_machine_can():
    """One instruction, not a choice and then an addition; a sum of nothing is 0.0, not -0.0."""

    def of_some(x):
        return np.where(x < 0, x, -0.0).sum(), (x < 0).sum()

    with knobs.scope(race=False, cache=False):
        f = tb.tailor(of_some, background=False)
        for x in (np.ones(100), np.full(100, -0.0), np.linspace(-1, 1, 1000)):
            found, wanted = f(x), of_some(x)
            agree(found, wanted)
            assert np.signbit(found[0]) == np.signbit(wanted[0])


@pytest.mark.parametrize("function", [sums, products, extremes])
def test_folds_of_nothing(function):
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(function, background=False)
        x, m = np.ones(0), np.ones(0, bool)
        tailored(np.ones(3), np.ones(3, bool))
        agree(tailored(x, m), function(x, m))


@pytest.mark.parametrize(
    ("function", "wanted"), [(sums, True), (dear, True), (of_itself, False), (in_turns, False)]
)
def test_a_branch_is_made_where_it_saves_work(function, wanted):
    x, m = arguments(100, "f8", "some")
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(function, background=False)
        tailored(x, m)
    steps = inner_steps(step for v in tailored.variants for step in v.program.steps)
    nests = [step for step in steps if isinstance(step, Nest)]
    assert any(f.mask for n in nests for stage in n.stages for f in stage.folds) == wanted
