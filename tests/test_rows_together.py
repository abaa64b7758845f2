"""Rows that run together: every number of them that is left over, and rows of every length."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import inner_steps


def agrees(function, *calls):
    """Tailored, the same but for how sums are rounded; arguments too."""
    with knobs.scope(race=False, cache=False), np.errstate(all="ignore"):
        f = tb.tailor(function, background=False)
        for given in calls:
            ours, theirs = list(given), [np.array(x) for x in given]
            found, wanted = outcome(f, ours), outcome(function, theirs)
            assert len(found) == len(wanted)
            for p, q in zip([*found, *ours], [*wanted, *theirs], strict=True):
                assert type(p) is type(q) and p.dtype == q.dtype and p.shape == q.shape
                exact = p.dtype.kind not in "f"
                room = 0 if exact else 200 * np.finfo(p.dtype).eps
                np.testing.assert_allclose(p, q, rtol=room, atol=room * 100, equal_nan=True)
    assert f.variants


def outcome(function, arguments):
    try:
        result = function(*arguments)
    except ValueError:
        return []
    return list(result) if isinstance(result, tuple) else [result]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm(x):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1)


def extremes(x):
    return x.min(axis=1), x.argmax(axis=1), (x > 0).any(axis=1), x.sum(axis=1)


def distances(x, y):
    return np.abs(x[:, None] - y[None, :]).min(axis=1)


def in_place(x):
    x -= x.mean(axis=1, keepdims=True)
    return x.max(axis=1)


def deep(x):
    return x.reshape(x.shape[0], -1, 1, x.shape[1]).sum(axis=(1, 3))


def schedules(f):
    steps = inner_steps(step for v in f.variants for step in v.program.steps)
    return [step.schedule for step in steps if isinstance(step, Nest)]


def matrix(rows, columns, dtype):
    rng = np.random.default_rng(rows * 1000 + columns)
    x = rng.normal(size=(rows, columns)) * 3
    if np.dtype(dtype).kind == "f" and x.size > 4:
        x.flat[:: max(x.size // 3, 1)] = np.nan
        x.flat[1 :: max(x.size // 2, 2)] = -np.inf
    return x.astype(dtype)


@pytest.mark.parametrize("function", (extremes, softmax, layernorm, in_place, deep))
@pytest.mark.parametrize("length", (1, 16, 33, 511, 700, 4097))
def test_rows_that_are_left_over(function, length):
    whole = function is extremes
    dtypes = ("f4", "f8", "i4", "i1") if whole else ("f4", "f8")
    for dtype in dtypes:
        agrees(function, *[(matrix(rows, length, dtype),) for rows in (0, 1, 2, 3, 4, 5, 8, 11)])


def test_rows_that_share_what_they_read():
    for n, m in ((1, 1), (3, 50), (9, 5000), (130, 7)):
        x, y = np.linspace(0, 1, n), np.linspace(-1, 1, m)
        agrees(distances, (x, y), (x[::-1], y))


def test_rows_that_do_not_lie_side_by_side():
    x = matrix(40, 60, "f8")
    agrees(layernorm, (x[::3],), (x[::-1],))
    agrees(layernorm, (np.asfortranarray(x),), (x.T,))


def test_long_rows_run_alone():
    with knobs.scope(race=False, cache=False):
        for length, many in ((100, 4), (1000, 2), (100_000, 1)):
            f = tb.tailor(layernorm, background=False)
            f(np.ones((3, length)))
            assert [s.together for s in schedules(f)] == [many]


def below(x, y):
    out = np.empty((len(x), 3))
    for i in range(len(x)):
        some = y < x[i]
        out[i, 0] = some.sum()
        out[i, 1] = y[some].mean()
        out[i, 2] = (y * x[i]).sum()
    return out


@pytest.mark.parametrize(("length", "many"), [(130_000, 4), (140_003, 8)])
def test_more_rows_run_together_where_what_they_share_comes_from_far(length, many):
    y = np.random.default_rng(0).normal(size=length)
    y[-1] = np.nan
    agrees(below, *((np.linspace(-3, 3, rows), y) for rows in (512, 521, 7, 0)))
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(below, background=False)
        f(np.linspace(-3, 3, 512), y)
        assert [s.together for s in schedules(f) if s.width > 1] == [many]


def test_rows_of_several_stages_read_ahead():
    def norms(x):
        return np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))

    def sums(x):
        return x.sum(axis=1)

    with knobs.scope(race=False, cache=False):
        for function, length, ahead in (
            (layernorm, 100, True),
            (layernorm, 100_000, False),  # what comes would push out what is in use
            (norms, 100_000, True),  # nothing is in use while the last stage runs
            (sums, 100, False),  # the hardware follows
        ):
            f = tb.tailor(function, background=False)
            f(np.ones((3, length)))
            assert [s.ahead for s in schedules(f)] == [ahead]


def rough(x):
    middle = x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]
    down = middle[1:] - middle[:-1]
    return np.where(down * (x[2:-1, 1:-1] - x[1:-2, 1:-1]) > 0, 0, down)


def bends(x):
    once = 3 * x[:, :-2] - 2 * x[:, 1:-1] + x[:, 2:]
    return once[:, :-2] - 2 * once[:, 1:-1] + once[:, 2:] - once[:, 1:-1] * once[:, :-2]


def test_a_stencil_of_a_stencil_is_computed_again_where_rows_share_it():
    for function, stored in ((rough, 0), (bends, 1)):  # along a row nothing is shared
        agrees(function, *[(matrix(n, m, "f8"),) for n, m in ((5, 5), (9, 40), (30, 17), (4, 6))])
        with knobs.scope(race=False, cache=False):
            f = tb.tailor(function, background=False)
            f(np.ones((30, 30)))
            temporaries = [b for v in f.variants for b in v.program.buffers if b.role == "temp"]
            assert len(temporaries) == stored
