"""Two nests that run over one array together: what may, what may not, and that nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailorbird as tb
from tailorbird import knobs
from tailorbird.assemble import pool
from tailorbird.lower.steps import Sweep


def twice(a, x):
    return (a @ x) @ a


def both(a, x, y):
    return y @ a, a @ x


def added(a, x, y, u, v):
    u += a @ x
    v += y @ a


def centred(a, x, y):
    return y @ a - x, np.maximum(a, 0).sum(axis=1)


def chained(a, x):
    return a @ (a.T @ x)


def crossed(a, x):
    y = a @ x
    return (y[::-1] @ a, y)


def written(a, x):
    a += 1
    return a @ x, x[: a.shape[0]] @ a


TOGETHER = (twice, both, added, centred)
APART = (chained, crossed, written)


def tailored(function):
    return tb.tailor(function, background=False)


def sweeps(f):
    return sum(isinstance(step, Sweep) for v in f.variants for step in v.program.steps)


def arguments(function, rows, columns, dtype, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {"a": (rows, columns), "x": columns, "y": rows, "u": rows, "v": columns}
    if function is chained:
        sizes["x"] = rows
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return [rng.normal(size=sizes[name]).astype(dtype) for name in names]


def check(function, f, given, exact=False):
    ours, theirs = ([x.copy("K") for x in given] for _ in range(2))
    with np.errstate(all="ignore"):
        found, wanted = f(*ours), function(*theirs)
    found, wanted = (list(r) if isinstance(r, tuple) else [r] for r in (found, wanted))
    for p, q in zip([*found, *ours], [*wanted, *theirs], strict=True):
        if p is None:
            continue
        assert p.dtype == q.dtype and p.shape == q.shape
        scale = np.abs(q[np.isfinite(q)]).max(initial=1)
        room = 0 if exact else scale * np.finfo(p.dtype).eps * 8 * max(given[0].shape, default=1)
        np.testing.assert_allclose(p, q, rtol=0, atol=room)


@pytest.fixture(autouse=True)
def alone():
    with knobs.scope(race=False, cache=False):
        yield


@pytest.mark.parametrize("function", TOGETHER)
@pytest.mark.parametrize("dtype", ("f4", "f8"))
def test_sweeps_agree_with_numpy_at_every_size(function, dtype):
    f = tailored(function)
    for rows, columns in (
        (300, 400),
        (1, 1),
        (7, 5),
        (0, 9),
        (9, 0),
        (3, 1001),
        (2000, 70),
        (5, 70_000),
    ):
        check(function, f, arguments(function, rows, columns, dtype))
    assert sweeps(f)


@pytest.mark.parametrize("function", APART)
def test_what_depends_on_all_rows_runs_apart(function):
    f = tailored(function)
    for rows, columns in ((300, 400), (900, 1200)):
        check(function, f, arguments(function, rows, columns, "f8"))
    assert not sweeps(f)


def test_arrays_that_do_not_lie_row_by_row():
    a = np.random.default_rng(1).normal(size=(600, 500))
    for matrix in (a[::2], a[::-1], np.asfortranarray(a), a.T, a[:, ::3], a[:, ::-1]):
        f = tailored(both)
        check(both, f, [matrix, np.ones(matrix.shape[1]), np.ones(matrix.shape[0])])


def test_infinite_and_nan_stay_in_their_rows_and_columns():
    a, x, y = arguments(both, 700, 600, "f8")
    a[3, 5], a[600, 7], a[2, 2] = np.inf, np.nan, -np.inf
    f = tailored(both)
    with np.errstate(all="ignore"):
        for p, q in zip(f(a, x, y), both(a, x, y)):
            assert (np.isnan(p) == np.isnan(q)).all() and (np.isinf(p) == np.isinf(q)).all()


def test_the_number_of_threads_changes_no_bit():
    given = arguments(twice, 1500, 1100, "f4")
    f = tailored(twice)
    found = []
    try:
        for count in (1, 2, 3):
            with knobs.scope(threads=count):
                pool.refresh()
            found.append(f(*given).tobytes())
    finally:
        pool.refresh()
    assert sweeps(f) and len(set(found)) == 1


def test_an_argument_that_overlaps_the_array_is_left_to_numpy():
    memory = np.random.default_rng(2).normal(size=90_000)
    f = tailored(added)
    given = [memory.reshape(300, 300), *(np.ones(300) for _ in range(2))]
    check(added, f, [*given, np.zeros(300), np.zeros(300)])
    plain = memory.copy()
    ours, theirs = memory.reshape(300, 300), plain.reshape(300, 300)
    f(ours, np.ones(300), np.ones(300), ours[4], np.zeros(300))
    added(theirs, np.ones(300), np.ones(300), theirs[4], np.zeros(300))
    np.testing.assert_allclose(memory, plain, rtol=1e-10)


def test_explain_says_that_two_kernels_share_an_array():
    f = tailored(twice)
    given = arguments(twice, 300, 400, "f8")
    f(*given)
    assert "two kernels over" in str(f.explain(*given))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(TOGETHER + APART),
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from(("f4", "f8")),
    st.integers(0, 1000),
)
def test_any_size(function, rows, columns, dtype, seed):
    if function is written and columns < rows:
        rows, columns = columns, rows
    if function not in ANY:
        ANY[function] = tailored(function)
    check(function, ANY[function], arguments(function, rows, columns, dtype, seed))


ANY: dict = {}
