"""Sums over what earlier turns have made: every number of turns, whatever is left over."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.steps import inner_steps
from tests.api_kit import promotes_by_value

COUNTS = (100, 0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 66, 131)


def solve(a, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


def two_sums(a, x, b):
    """Two sums, one of them weighted by the turn."""
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        x[i] = b[i] + 0.1 * (a[i, :i] * x[:i] * i).sum() / (i + 1) ** 2
        y[i] = b[i] - 0.1 * (a[i, :i] * y[:i]).sum() / (i + 1)
    return y


def with_steps(a, x, b):
    for i in range(b.shape[0]):
        x[2 * i + 1] = b[i] + 0.01 * np.dot(a[:i, i], x[1 : 2 * i + 1 : 2])
    return x


def too_soon(a, x, b):
    """What the turn itself finds there is read too."""
    for i in range(x.shape[0]):
        x[i] = b[i] + 0.01 * (a[i, : i + 1] @ x[: i + 1])
    return x


def from_the_second(a, x, b):
    for i in range(1, x.shape[0]):
        x[i] = b[i] - 0.01 * (a[i, :i] @ x[:i])
    return x


def until_found(a, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
        if x[i] > 0.019:
            break
    return x


PROGRAMS = (solve, two_sums, with_steps, too_soon, from_the_second, until_found)


def given(n, kind, function, order="C"):
    rng = np.random.default_rng(n)
    a = np.asarray(rng.normal(size=(n + 2, n + 5)) + 60 * np.eye(n + 2, n + 5), kind, order)
    b = rng.normal(size=n).astype(kind)
    wide = 2 * n + 1 if function is with_steps else n
    return [a, np.ones(wide, kind), b]


def in_blocks(f):
    buffers = (b for v in f.variants for b in v.program.buffers)
    return any(b.name[0] == "t" and b.shape == (4,) for b in buffers)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["f8", "f4", "c16", "i8"])
def test_every_number_of_turns(function, kind):
    if kind in ("c16", "i8") and function in (until_found, solve):
        return
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(function, background=False)
        for order in "CF":
            for n in COUNTS:
                ours, theirs = (given(n, kind, function, order) for _ in range(2))
                found, wanted = f(*ours), function(*theirs)
                room = 3e-4 if kind == "f4" else 1e-10
                for p, q in zip([found, *ours], [wanted, *theirs], strict=True):
                    np.testing.assert_allclose(p, q, rtol=room, atol=room)
    assert f.variants or promotes_by_value(kind)


@pytest.mark.parametrize(
    ("function", "some"), [(solve, True), (too_soon, False), (until_found, False)]
)
def test_what_is_summed_ahead(function, some):
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(function, background=False)
        f(*given(200, "f8", function))
        assert in_blocks(f) == some
        g = tb.tailor(function, background=False)
        g(*given(20, "f8", function))
        assert not in_blocks(g)
    assert list(inner_steps(f.variants[0].program.steps))


def test_numbers_that_are_none():
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(solve, background=False)
        for at, value in ((3, np.nan), (66, np.inf), (70, -np.inf)):
            ours, theirs = given(90, "f8", solve), given(90, "f8", solve)
            ours[2][at] = theirs[2][at] = value
            np.testing.assert_allclose(f(*ours), solve(*theirs), rtol=1e-10, atol=1e-12)


def test_one_array_as_both():
    """A row of the matrix is what is solved for."""
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(solve, background=False)
        f(*given(100, "f8", solve))
        ours, theirs = (given(100, "f8", solve)[0][:100, :100].copy() for _ in range(2))
        f(ours, ours[99], np.ones(100))
        solve(theirs, theirs[99], np.ones(100))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
