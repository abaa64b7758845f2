"""Reductions and scans of every dtype, axis, layout and size, against NumPy.

Integers, bools and positions are exact. Sums and products of floats are held against an exact
reference: the error may be twice NumPy's plus two units in the last place of the sum of sizes.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tailorbird import knobs
from tailorbird.ir.ops import OPS
from tailorbird.ir.types import LONG
from tests.backend_kit import agree, compile_graph, graph_of, run_once
from tests.layouts import LAYOUTS, laid_out

FOLDS = ("sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "mean", "count_nonzero")
SHAPES = ((1, 7), (17, 33), (64, 1), (5, 1000), (1000, 5))
EMPTY = ((0, 3), (3, 0), (0, 0))
HAVE_NEUTRAL = frozenset({"sum", "prod", "any", "all", "count_nonzero"})


def numbers(short: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random numbers, with ties and some zeros."""
    rng = np.random.default_rng([seed, *shape])
    dtype = LONG[short]
    if dtype.kind in "biu":
        limits = (0, 2) if dtype.kind == "b" else (np.iinfo(dtype).min // 2, np.iinfo(dtype).max)
        return rng.integers(*limits, shape, dtype="i8" if dtype.kind == "b" else dtype).astype(
            dtype
        )
    x = np.round(rng.normal(size=shape), 2) + rng.choice([0.0, 1.0], shape)
    if dtype.kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def axes_of(rank: int) -> list[tuple[int, ...]]:
    """Every set of axes but none."""
    return [c for n in range(1, rank + 1) for c in itertools.combinations(range(rank), n)]


def exact_sum(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The true sums, rounded to double."""
    rows = np.moveaxis(x, axis, range(-len(axis), 0))
    kept = rows.shape[: x.ndim - len(axis)]
    flat = rows.reshape(math.prod(kept), math.prod(x.shape[k] for k in axis))
    sums = np.array([math.fsum(row.astype("f8")) for row in flat]).reshape(kept)
    return np.expand_dims(sums, axis) if keepdims else sums


def check_sum(
    got: np.ndarray, x: np.ndarray, axis: tuple[int, ...], keepdims: bool, note: str
) -> None:
    """Twice NumPy's error, and two units of the sum of sizes."""
    for part in ("real", "imag") if x.dtype.kind == "c" else ("real",):
        values, ours = getattr(x, part), getattr(np.asarray(got), part)
        true = exact_sum(values, axis, keepdims)
        size = exact_sum(np.abs(values), axis, keepdims)
        numpy_error = np.abs(values.sum(axis=axis, keepdims=keepdims).astype("f8") - true)
        error = np.abs(ours.astype("f8") - true)
        allowed = 2 * numpy_error.max(initial=0) + 2 * np.finfo(values.dtype).eps * size
        assert (error <= allowed).all(), f"{note}: {error.max()} against {numpy_error.max()}"


def check_fold(
    op: str, x: np.ndarray, axis: tuple[int, ...], keepdims: bool, native=None
) -> object:
    attrs = {"axis": axis, "keepdims": keepdims}
    if native is None:
        native = compile_graph(graph_of(lambda add, v: add(op, v, **attrs), [x]), [x])
    with np.errstate(all="ignore"):
        wanted = np.asarray(OPS[op].meaning(x, **attrs))
    got = native(x)
    note = f"{op} {x.dtype}{x.shape} strides {x.strides} axis {axis} keepdims {keepdims}"
    assert isinstance(got, np.ndarray | np.generic), f"{note}: missed"
    got = np.asarray(got)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, note
    if wanted.dtype.kind in "biu" or op in ("min", "max") or not np.isfinite(wanted).all():
        agree(got, wanted, 8 if op in ("sum", "prod", "mean") else 0, False, note)
    elif op == "sum":
        check_sum(got, x, axis, keepdims, note)
    else:
        rtol = (64 + x.size) * np.finfo(wanted.dtype).eps
        scale = np.abs(wanted) + np.abs(x).max(initial=0.0)
        assert (np.abs(got - wanted) <= rtol * scale).all(), note
    return native


@pytest.mark.parametrize("op", FOLDS)
@pytest.mark.parametrize("short", LONG)
def test_two_axes(op, short):
    x = numbers(short, (3, 5))
    for axis in axes_of(2):
        native = check_fold(op, x, axis, False)
        for shape in SHAPES:
            check_fold(op, numbers(short, shape), axis, False, native)
        if op in HAVE_NEUTRAL:
            for shape in EMPTY:
                check_fold(op, numbers(short, shape), axis, False, native)


@pytest.mark.parametrize("lay", LAYOUTS)
@pytest.mark.parametrize("op", ("sum", "max", "argmin", "all"))
def test_layouts(op, lay):
    for short in ("f32", "i16", "c64"):
        for shape in ((17, 33), (3, 4000), (200, 70)):
            for axis in axes_of(2):
                check_fold(op, laid_out(numbers(short, shape), lay), axis, False)


@pytest.mark.parametrize("keepdims", (False, True))
@pytest.mark.parametrize("op", ("sum", "min", "argmax", "any", "mean"))
def test_three_axes(op, keepdims):
    x = numbers("f64", (5, 6, 70))
    for axis in axes_of(3):
        if op != "argmax" or len(axis) != 2:
            check_fold(op, x, axis, keepdims)
            check_fold(op, np.asfortranarray(x), axis, keepdims)


@pytest.mark.parametrize("op", ("sum", "prod", "min", "max", "argmin", "argmax", "any", "all"))
@pytest.mark.parametrize("short", ("f32", "f64"))
def test_special_values(op, short):
    """nan wins, the first nan is the place, infinities of two signs make one."""
    natives: dict[tuple[int, ...], object] = {}
    for at, special in itertools.product((0, 1, 16, 32), (np.nan, np.inf, -np.inf, -0.0)):
        x = numbers(short, (33, 5)) + 2
        x[at] = special
        x[32, 1:3] = np.nan
        for axis in axes_of(2):
            natives[axis] = check_fold(op, x, axis, False, natives.get(axis))


def test_first_of_equals():
    x = np.tile(np.array([1.0, 3.0, 3.0, 1.0]), 100)
    for op in ("argmin", "argmax"):
        check_fold(op, x, (0,), False)
        check_fold(op, x.reshape(40, 10), (0,), False)
        check_fold(op, np.full(1000, np.nan), (0,), False)


def test_sums_of_negative_zero():
    zeros = np.full((20, 40), -0.0)
    for axis in axes_of(2):
        native = check_fold("sum", zeros, axis, False)
        np.testing.assert_array_equal(np.signbit(native(zeros)), np.signbit(zeros.sum(axis=axis)))


@pytest.mark.parametrize("short", ("b1", "i32", "u64", "f32", "f64", "c64", "c128"))
@pytest.mark.parametrize("op", ("cumsum", "cumprod"))
def test_scans(op, short):
    for shape in ((7,), (0,), (1000,), (5, 9), (3, 4, 5), (2, 0)):
        x = np.clip(numbers(short, shape).real, -2, 2).astype(LONG[short])
        for axis in range(len(shape)):
            wanted = getattr(np, op)(x, axis=axis)
            got = run_once(op, [x], axis=axis, dtype=wanted.dtype)
            agree(got, wanted, 0, True, f"{op} {short}{shape} axis {axis}")


@pytest.mark.parametrize("target", ("", "haswell"))
@pytest.mark.parametrize("short", ("f32", "f64"))
def test_long_sums_are_as_accurate_as_numpy(short, target):
    rng = np.random.default_rng(5)
    with knobs.scope(target=target):
        for shape in ((100_000,), (3, 50_000), (50_000, 3)):
            x = (rng.random(shape) + 0.5).astype(LONG[short])
            for axis in axes_of(len(shape)):
                check_fold("sum", x, axis, False)


@pytest.mark.parametrize("target", ("", "haswell"))
@pytest.mark.parametrize("short", ("f32", "f64"))
def test_a_sum_over_rows_shorter_than_a_vector_is_taken_in_short_blocks(short, target):
    x = ((np.random.default_rng(5).integers(0, 10, 60_000) - 4.63) ** 2).astype(LONG[short])
    with knobs.scope(target=target):
        for inner in (1, 2, 3, 9, 31, 33):
            rows = x[: x.size // inner * inner].reshape(inner, -1, order="F")
            check_fold("sum", rows, (0, 1), False)
