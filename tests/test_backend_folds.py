"""Reductions and scans of every dtype, axis, layout and size, against NumPy.

Integers, bools and positions are exact. Sums and products of floats are held against an exact
reference: the error may be twice NumPy's plus two units in the last place of the sum of sizes.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tailorbird.ir.ops import OPS
from tailorbird.ir.types import LONG
from tests.backend_kit import agree, compile_graph, graph_of

FOLDS = ("sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "mean", "count_nonzero")
SHAPES = ((3, 5), (1, 7), (17, 33), (64, 1), (5, 1000), (1000, 5))
EMPTY = ((0, 3), (3, 0), (0, 0))


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
        allowed = 2 * numpy_error + 2 * np.finfo(values.dtype).eps * size
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
        agree(got, wanted, 0 if x.dtype.kind != "c" else 4, False, note)
    elif op == "sum":
        check_sum(got, x, axis, keepdims, note)
    else:
        rtol = 64 * np.finfo(wanted.dtype).eps
        scale = np.abs(wanted) + np.abs(x).max(initial=0.0)
        assert (np.abs(got - wanted) <= rtol * scale).all(), note
    return native


@pytest.mark.parametrize("op", FOLDS)
@pytest.mark.parametrize("short", LONG)
def test_two_axes(op, short):
    x = numbers(short, (3, 5))
    for axis in axes_of(2):
        if op in ("argmin", "argmax") and len(axis) not in (1, 2):
            continue
        native = check_fold(op, x, axis, False)
        for shape in SHAPES:
            if 1 not in shape:
                check_fold(op, numbers(short, shape), axis, False, native)
        if op in ("sum", "prod", "any", "all", "count_nonzero"):
            for shape in EMPTY:
                check_fold(op, numbers(short, shape), axis, False, native)
