"""Masks, arrays of indices and sizes known at run time: native code against NumPy.

Each row is a function and how its arguments are drawn. One compilation must answer every call of
its kind, also where masks are full or empty; what NumPy raises, the tailored function raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.dispatch.trampoline import is_direct
from tailorbird.dispatch.variant import MISS, native_callable
from tailorbird.errors import Refused
from tailorbird.ir.promote import LEGACY
from tailorbird.pipeline import build_variant
from tests.backend_kit import agree

SIZES = (0, 1, 2, 7, 16, 33, 1000)
FILLS = ("some", "none", "all")
KINDS = ("f64", "f32", "i64", "u8", "b1", "c128", "c64", "i16")
DTYPES = {"f64": "f8", "f32": "f4", "i64": "i8", "u8": "u1", "b1": "?", "c128": "c16"}
DTYPES |= {"c64": "c8", "i16": "i2"}
Rng = np.random.Generator


def numbers(rng: Rng, shape: Any, kind: str = "f64") -> np.ndarray:
    x = rng.integers(0, 2 if kind == "b1" else 60, shape).astype(DTYPES[kind])
    if kind in ("f64", "f32") and x.size > 3:
        x -= 30
        x.reshape(-1)[:3] = np.nan, np.inf, -0.0
    return x + 1j * x[::-1] if kind[0] == "c" else x


def mask(rng: Rng, shape: Any, fill: str) -> np.ndarray:
    return {"some": rng.random(shape) < 0.4, "none": np.zeros(shape, bool)}.get(
        fill, np.ones(shape, bool)
    )


def pick(x, m):
    return x[m]


def pick_maps(x, m):
    y = x[m] * 2
    return y + x[m], y.shape[0], len(x[m])


def pick_computed(x, m):
    return (x + x)[~m]


def pick_folds(x, m):
    return x[m].sum(), x[m].any(), (x[m] * 0 + 1).prod(), np.count_nonzero(m)


def write_scalar(x, m):
    x[m] = 3


def write_maps(x, m):
    y = x.copy()
    y[m] = y[m] + x[m]
    y[~m] += 1
    return y


def write_picked(x, m):
    y = x.copy()
    y[m] = x[m][::-1]
    return y


def positions(x, m):
    return np.nonzero(m), np.flatnonzero(m), np.argwhere(m), np.where(m)


def extracted(x, m):
    return np.extract(m, x), np.compress(m, x), x.compress(m), x[np.flatnonzero(m)]


def sorted_part(x, m):
    return np.sort(x[m]), np.cumsum(x[m])


def put_functions(x, m):
    y = x.copy()
    np.putmask(y, m, 1)
    np.place(y, ~m, 2)
    return y


BY_MASK = (
    pick, pick_maps, pick_computed, pick_folds, write_scalar, write_maps, write_picked, positions,
    extracted, sorted_part, put_functions,
)  # fmt: skip


def native(function: Callable[..., Any], args: list[Any]) -> Callable[..., Any]:
    """The native code for a call, which takes the arguments and gives the leaves or MISS."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    bound = dict(zip(names, args))
    variant, captured = build_variant(function, bound, names)
    variant.open_all()
    direct = is_direct(captured)
    count = len(names) if direct else len(variant.leaves)
    call = native_callable(count, [variant.entry(variant.words)])

    def run(*values: Any) -> Any:
        found = dict(zip(names, values))
        if direct:
            return call(*values)
        return call(*(s.find(function, found, captured.constants) for s in captured.sources))

    return run


def flat(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, tuple | list) else [x]


def compare(function: Callable[..., Any], run: Any, args: list[Any], note: str) -> None:
    copies = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        wanted = flat(function(*copies))
        got = run(*args)
    assert got is not MISS, f"{note}: a miss"
    for a, b in zip(flat(got) if isinstance(got, tuple) else [got], wanted, strict=True):
        if function in (pick_folds, sorted_part):
            np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=note)
        else:
            agree(a, b, 0, False, note)
    for a, b in zip(args, copies):
        agree(a, b, 0, False, f"{note}: an argument")


def compiled(function: Callable[..., Any], args: list[Any]) -> Any:
    try:
        return native(function, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
    except Refused as refused:
        if LEGACY and refused.why.code == "promotion":
            pytest.skip("NumPy 1.26 promotes by value here")
        raise


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", BY_MASK, ids=lambda f: f.__name__)
def test_by_mask(function, kind):
    if (function, kind) in ((write_maps, "b1"), (put_functions, "b1"), (put_functions, "u8")):
        return  # NumPy raises
    rng = np.random.default_rng(1)
    run = compiled(function, [numbers(rng, 33, kind), mask(rng, 33, "some")])
    for size in SIZES:
        if size == 1:
            continue
        for fill in FILLS:
            args = [numbers(rng, size, kind), mask(rng, size, fill)]
            compare(function, run, args, f"{size} {fill}")


@pytest.mark.parametrize("function", BY_MASK, ids=lambda f: f.__name__)
def test_by_mask_of_strided_and_of_two_axes(function):
    rng = np.random.default_rng(2)
    for cut in (np.s_[::2], np.s_[::-1], np.s_[3:]):
        args = [numbers(rng, 70)[cut], mask(rng, 70, "some")[cut]]
        compare(function, compiled_as_it_lies(function, args), args, str(cut))
    if function in (extracted, write_picked, sorted_part):
        return
    run = compiled(function, [numbers(rng, (5, 7)), mask(rng, (5, 7), "some")])
    for shape in ((5, 7), (2, 100), (100, 2), (0, 3), (64, 64)):
        for fill in FILLS:
            compare(function, run, [numbers(rng, shape), mask(rng, shape, fill)], f"{shape} {fill}")
    args = [numbers(rng, (9, 8)).T, mask(rng, (9, 8), "some").T]
    compare(function, compiled_as_it_lies(function, args), args, "transposed")


def compiled_as_it_lies(function: Callable[..., Any], args: list[Any]) -> Any:
    return native(function, [a.copy(order="K") if a.base is None else a for a in args])


@pytest.mark.parametrize("size", (0, 1, 1_000_003))
def test_large_and_tiny(size):
    rng = np.random.default_rng(3)
    args = [numbers(rng, size), mask(rng, size, "some")]
    for function in (pick, write_scalar, write_maps, write_picked, positions):
        run = native(function, [a.copy() for a in args])
        compare(function, run, args, f"{function.__name__} {size}")


# Leading axes, slices beside masks


def rows(x, m):
    return x[m], x[m].sum(axis=0), x[m][:, 1:] * 2, x[m, 0], x[m, 1:]


def columns(x, m):
    return x.T[:, m], x.T[..., m], x.T[1:, m], x[None, m]


def write_rows(x, m):
    y = x.copy()
    y[m] = 1
    y[m, 0] = 5
    y[m] += x[m] * 2
    y[m, 1:] = x[m, :-1]
    y.T[:, m] -= 1
    return y


def write_broadcast(x, m):
    y = x.copy()
    y[m] = x[0]
    y.T[:, m] = x[0][:, None]
    return y


@pytest.mark.parametrize("function", [rows, columns, write_rows, write_broadcast])
def test_masks_of_leading_axes(function):
    rng = np.random.default_rng(4)
    run = compiled(function, [numbers(rng, (9, 4)), mask(rng, 9, "some")])
    for shape in ((9, 4), (2, 2), (1000, 4), (65, 33)):
        for fill in FILLS:
            args = [numbers(rng, shape), mask(rng, shape[0], fill)]
            compare(function, run, args, f"{shape} {fill}")


def extremes(x, m):
    return x[m].max(), x[m].min(), x[m].mean(), x[m].std(), x[m].argmax()


def test_extremes_need_an_element():
    rng = np.random.default_rng(5)
    x, m = rng.normal(size=50), mask(rng, 50, "some")
    run = compiled(extremes, [x, m])
    got = run(x, m)
    np.testing.assert_allclose(got, extremes(x, m), rtol=1e-14)
    assert run(x, mask(rng, 50, "none")) is MISS


# Indices


def take(x, i):
    return x[i], x[i] * 2, np.take(x, i), x.take(i), x[i][::2]


def take_modes(x, i):
    return np.take(x, i, mode="wrap"), np.take(x, i, mode="clip")


def put_at(x, i):
    y = x.copy()
    y[i] = 1
    y[i] += x[i]
    y[i] = np.arange(i.shape[0])
    return y


def put_argument(x, i):
    x[i] = 7
    x[i] += 1


def accumulate(x, i):
    y = x.copy()
    np.add.at(y, i, 2)
    np.subtract.at(y, i, x[i])
    np.maximum.at(y, i, x[i] * 2)
    np.minimum.at(y, i, 50)
    return y


def put_function(x, i):
    y = x.copy()
    np.put(y, i, 5)
    np.put(y, i, i)
    return y


def scalars(x, i):
    y = x.copy()
    y[i[0]] = 3
    y[i[0]] += 1
    return y, y[i[1]] + x[i[0]]


BY_INDEX = (take, take_modes, put_at, put_argument, accumulate, put_function, scalars)


@pytest.mark.parametrize("kind", ("f64", "f32", "i64", "c128"))
@pytest.mark.parametrize("index", ("i8", "i4", "u1"))
@pytest.mark.parametrize("function", BY_INDEX, ids=lambda f: f.__name__)
def test_by_index(function, index, kind):
    if function is accumulate and kind == "c128":
        return
    rng = np.random.default_rng(6)

    def drawn(size: int, count: int) -> list[Any]:
        low = 0 if index == "u1" else -size
        return [numbers(rng, size, kind), rng.integers(low, min(size, 120), count).astype(index)]

    run = compiled(function, drawn(40, 12))
    for size, count in ((40, 12), (2, 2), (500, 1000), (100, 33)):
        compare(function, run, drawn(size, count), f"{size} {count}")


@pytest.mark.parametrize("function", (take, put_at, put_argument, accumulate, put_function))
def test_indices_out_of_range_leave_and_change_nothing(function):
    x, i = np.arange(10.0), np.array([1, 2, 3])
    run = compiled(function, [x, i])
    for wrong in ([0, 10, 1], [-11, 0, 0], [0, 0, 1 << 60]):
        before = x.copy()
        assert run(x, np.array(wrong)) is MISS
        np.testing.assert_array_equal(x, before)
        tailored = tb.tailor(function, background=False)
        tailored(x.copy(), i)
        tailored(x.copy(), i)
        with pytest.raises(IndexError):
            tailored(x.copy(), np.array(wrong))


def mixed(m, i):
    j = i % 3
    return (
        m[i, j], m[i], m[:, j], m[i, 1:], m[i, :, None], m[i][:, j], m[j[:, None], i[None] % 4],
        m[0, j], m[i, -1], m.T[1:, i], m[None, i, j], m[..., i[None] % 5],
    )  # fmt: skip


def mixed_writes(m, i):
    y, j = m.copy(), i % 3
    y[i, j] = 1
    y[:, j] += 2
    y[i, 1:] = m[i, :-1]
    y[i] = m[0]
    y.T[0, i] = -1
    np.add.at(y, (i, j), 1)
    np.add.at(y, i, m[i])
    return y


def separated(x, i):
    return x[i, :, i], x[0, :, i], x[:, i, i], x[i % 2, 1:, None, i]


@pytest.mark.parametrize("function", (mixed, mixed_writes))
def test_indices_among_slices(function):
    rng = np.random.default_rng(7)
    run = compiled(function, [numbers(rng, (8, 5)), rng.integers(0, 5, 6)])
    for shape in ((8, 5), (5, 5), (100, 7)):
        compare(function, run, [numbers(rng, shape), rng.integers(0, 5, 6)], str(shape))


def test_indices_with_a_slice_between_come_first():
    rng = np.random.default_rng(8)
    args = [numbers(rng, (4, 5, 4)), rng.integers(0, 4, 6)]
    compare(separated, compiled(separated, args), args, "")


def along(x, i):
    y = x.copy()
    np.put_along_axis(y, i, 0, axis=1)
    return np.take_along_axis(x, i, axis=1), y


def test_along_an_axis():
    rng = np.random.default_rng(9)
    args = [numbers(rng, (6, 9)), rng.integers(-9, 9, (6, 3))]
    compare(along, compiled(along, args), args, "")


# Counting


def counts(i, w):
    return np.bincount(i), np.bincount(i, w), np.bincount(i, minlength=70), np.bincount(i % 3)


def test_bincount():
    rng = np.random.default_rng(10)
    run = compiled(counts, [rng.integers(0, 9, 20), rng.normal(size=20)])
    for size, most in ((20, 9), (1000, 60), (3, 100_000), (2, 1)):
        args = [rng.integers(0, most, size), rng.normal(size=size)]
        compare(counts, run, args, f"{size} {most}")
    assert run(np.array([1, -1]), np.ones(2)) is MISS


def lengths(x):
    n = np.argmax(x)
    return np.zeros(n), np.ones((n, 2)), np.arange(len(x[x > 0])) * 2


def test_lengths_from_data():
    run = compiled(lengths, [np.array([1.0, 3.0, 2.0])])
    for x in ([1.0, 3.0, 2.0], [5.0], [-1.0, -2.0], [0.0, 1.0, 2.0, 3.0]):
        if len(x) > 1:
            compare(lengths, run, [np.array(x)], str(x))


# What NumPy raises, and what is refused


def assign_array(x, m, v):
    x[m] = v


def test_arrays_of_another_length_are_left_to_numpy():
    x, m = np.arange(6.0), np.array([True, False] * 3)
    run = compiled(assign_array, [x, m, np.ones(3)])
    compare(assign_array, run, [x, m, np.array([7.0, 8.0, 9.0])], "")
    before = x.copy()
    assert run(x, ~m & (x < 3), np.ones(3)) is MISS
    np.testing.assert_array_equal(x, before)
    with pytest.raises(ValueError, match="cannot assign 2 input values"):
        tb.tailor(assign_array, background=False)(x, m, np.ones(2))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (pick, [np.ones(3), np.ones(4, bool)]),
        (pick, [np.ones(3), np.ones((3, 1), bool)]),
        (pick, [np.ones(3), np.ones(2)]),
        (put_argument, [np.ones(3), np.array([0.0])]),
    ],
)
def test_what_numpy_raises(function, args):
    with pytest.raises(IndexError) as plain:
        function(*args)
    with pytest.raises(IndexError) as tailored:
        tb.tailor(function, background=False)(*args)
    assert str(plain.value) == str(tailored.value)
    with pytest.raises(Refused):
        native(function, args)


@pytest.mark.parametrize("function", (pick, pick_maps, write_maps, write_picked, positions, take))
def test_for_avx2(function):
    rng = np.random.default_rng(11)
    second = rng.integers(-40, 40, 33) if function is take else mask(rng, 40, "some")
    with knobs.scope(target="haswell", cache=False):
        args = [numbers(rng, 40), second]
        run = compiled(function, args)
        compare(function, run, args, "avx2")
        if function is not take:
            for fill in FILLS:
                compare(function, run, [numbers(rng, 999), mask(rng, 999, fill)], fill)
