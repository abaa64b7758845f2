"""Integers that lie close together are counted: the same answers, and NumPy's for all others."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailorbird.dispatch import counting
from tailorbird.emit.counting import SPAN
from tests.api_kit import hits, is_same, native

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
RNG = np.random.default_rng(8)
MANY = counting.SMALLEST


def close_together(dtype, low, span, count):
    numbers = RNG.integers(0, span, count).astype("u8") + np.uint64(low % 2**64)
    return numbers.astype(dtype)


def with_counts(f):
    return lambda x: f(x, return_counts=True)


PAIRS = {
    "sort": (counting.sort, np.sort),
    "unique": (counting.unique, np.unique),
    "unique with counts": (with_counts(counting.unique), with_counts(np.unique)),
    "median": (counting.median, np.median),
    "argsort": (
        lambda x: counting.argsort(x, kind="stable"),
        lambda x: np.argsort(x, kind="stable"),
    ),
}


def is_exactly(a, b):
    if isinstance(b, tuple):
        return len(a) == len(b) and all(map(is_exactly, a, b))
    return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("where", ["bottom", "around 0", "top"])
@pytest.mark.parametrize("count", [MANY, MANY + 1, MANY + 777])
def test_it_is_what_numpy_gives(name, dtype, where, count):
    ends, span = np.iinfo(dtype), min(100, SPAN)
    low = {"bottom": ends.min, "around 0": max(-50, ends.min), "top": ends.max - span + 1}[where]
    x = close_together(dtype, low, span, count)
    assert counting.count(x) is not None
    ours, numpys = PAIRS[name]
    assert is_exactly(ours(x), numpys(x))


@settings(max_examples=50, deadline=None)
@given(
    span=st.sampled_from([1, 2, SPAN - 1, SPAN, SPAN + 1, 2 * SPAN]),
    at=st.integers(0, MANY + 99),
    apart=st.integers(-3, 3),
    data=st.data(),
)
def test_the_edge_of_what_is_counted(span, at, apart, data):
    """One element decides, wherever it stands."""
    dtype = data.draw(st.sampled_from(["i2", "i4", "i8", "u2", "u8"]))
    low = 5000
    x = np.full(MANY + 100, low, dtype)
    x[at] = low + span - 1
    x[at - 1] = low + max(0, span - 1 + apart) if at else x[at - 1]
    counted = counting.count(x)
    assert (counted is not None) == (int(x.max()) - int(x.min()) < SPAN)
    for ours, numpys in PAIRS.values():
        assert is_exactly(ours(x), numpys(x))


def test_numbers_at_both_ends_are_far_apart():
    x = np.zeros(MANY, "i8")
    x[5], x[-5] = np.iinfo("i8").min, np.iinfo("i8").max
    assert counting.count(x) is None
    y = np.zeros(MANY, "u8")
    y[-1] = 2**64 - 1
    assert counting.count(y) is None


OTHERS = {
    "few": np.arange(10),
    "floats": np.arange(9000.0),
    "bools": np.arange(9000) % 2 == 0,
    "swapped": (np.arange(9000) % 9).astype(">i4"),
    "in steps": (np.arange(20_000) % 9)[::2],
    "rows": (np.arange(20_000) % 9).reshape(100, 200),
    "empty": np.zeros(0, int),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_counted_is_numpys(name):
    x = OTHERS[name]
    for ours, numpys in list(PAIRS.values())[: 3 if name == "empty" else 5]:
        assert is_exactly(ours(x), numpys(x))


OPTIONS = [
    (counting.sort, np.sort, {"axis": 0}),
    (counting.sort, np.sort, {"kind": "stable"}),
    (counting.argsort, np.argsort, {"axis": 0, "kind": "stable"}),
    (counting.unique, np.unique, {"return_index": True}),
    (counting.unique, np.unique, {"return_inverse": True}),
    (counting.median, np.median, {"axis": 0}),
    (counting.median, np.median, {"keepdims": True}),
]


@pytest.mark.parametrize("ours, numpys, options", OPTIONS)
def test_options_are_numpys(ours, numpys, options):
    x = RNG.integers(0, 50, MANY + 3)
    assert is_exactly(ours(x, **options), numpys(x, **options))


def test_a_thread_that_writes_meanwhile_breaks_nothing():
    """Whatever comes out, nothing is written outside; the answer is right again afterwards."""
    x = RNG.integers(0, 99, 400_000)
    stop = threading.Event()

    def disturb():
        k = 0
        while not stop.is_set():
            k += 1
            x[k % 97 :: 97] = 10**12 if k % 2 else -(10**12)
            x[:] = 5

    other = threading.Thread(target=disturb)
    other.start()
    for _ in range(60):
        for ours, _numpys in PAIRS.values():
            ours(x)
    stop.set()
    other.join()
    for ours, numpys in PAIRS.values():
        assert is_exactly(ours(x), numpys(x))


# Whole functions


def spread(x):
    return np.sort(x) - x.min()


def modes(x):
    values, counts = np.unique(x, return_counts=True)
    return values * 2, counts.sum()


def middle(x):
    return np.median(x) + 1


@pytest.mark.parametrize("function", [spread, modes, middle])
def test_functions_that_call_them(function):
    tailored = native(function)
    for x in (RNG.integers(-9, 99, MANY), RNG.integers(0, 10**9, MANY), RNG.integers(0, 9, 50)):
        kept = x.copy()
        assert is_same(tailored(x), function(x)) and np.array_equal(x, kept)
    assert hits(tailored) == 3
    assert "are counted" in str(tailored.explain(x))


def test_arrays_go_to_python_and_back_as_they_are():
    """Neither what is handed on nor what comes back is copied; both are the caller's own."""
    tailored = native(lambda x: np.sort(x))
    x = RNG.integers(0, 10**9, MANY)
    found = tailored(x)
    assert found.flags.owndata and found.flags.writeable and not np.shares_memory(found, x)
    found[:] = 0
    assert is_same(tailored(x), np.sort(x))
    twice = native(lambda x: (np.sort(x), np.sort(x)))
    a, b = twice(x)
    assert a is not b and not np.shares_memory(a, b)


def test_a_short_hunt_over_data():
    from tests.hunt_data import hunt

    assert hunt(300, 7) == 0
