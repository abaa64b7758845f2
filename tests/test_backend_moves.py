"""Views, writes, joins, pads, gathers, creations and products, in every layout and size.

Each row of `PROGRAMS` is a graph by hand and the same thing in NumPy. One compilation for a layout
answers every size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tailorbird.ir.expr import apply, symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import Graph, Value, View
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import LONG, Type
from tests.backend_kit import MISS, agree, compile_graph
from tests.layouts import LAYOUTS, laid_out

N, M = symbol("n"), symbol("m")
SIZES = ((1, 1), (3, 4), (7, 15), (16, 17), (31, 33), (2, 1000), (1000, 2))
Make = Callable[..., Any]


def whole(*shape: Any) -> View:
    return View(tuple((0, 1, k) for k in range(len(shape))), shape)


def _transposed(add: Make, x: Value) -> Value:
    return add("read", x, view=View(((0, 1, 1), (0, 1, 0)), (M, N)))


def _flipped(add: Make, x: Value) -> Value:
    return add("read", x, view=View(((N - 1, -1, 0), (M - 1, -1, 1)), (N, M)))


def _diagonal(add: Make, x: Value) -> Value:
    least = apply("min", N, M)
    return add("read", x, view=View(((0, 1, 0), (0, 1, 0)), (least,)))


def _row(add: Make, x: Value) -> Value:
    return add("read", x, view=View(((N - 1, 0, None), (0, 1, 0)), (M,)))


def _spread(add: Make, x: Value) -> Value:
    row = _row(add, x)
    return add("read", row, view=View(((0, 1, 1),), (N, M)))


def _halves(add: Make, x: Value) -> Value:
    half = apply("floordiv", M + 1, 2)
    return add("read", x, view=View(((0, 1, 0), (0, 2, 1)), (N, half)))


def _shifted_sum(add: Make, x: Value) -> Value:
    left = add("read", x, view=View(((0, 1, 0), (0, 1, 1)), (N, M - 1)))
    right = add("read", x, view=View(((0, 1, 0), (1, 1, 1)), (N, M - 1)))
    return add("add", left, right)


def _flat(add: Make, x: Value) -> Value:
    return add("reshape", x, shape=(N * M,))


def _flat_of_transposed(add: Make, x: Value) -> Value:
    return add("reshape", _transposed(add, x), shape=(M * N,))


def _reshaped_map(add: Make, x: Value) -> Value:
    return add("add", add("reshape", add("add", x, x), shape=(M, N)), 1)


def _joined(axis: int) -> Callable[[Make, Value], Value]:
    return lambda add, x: add("concatenate", x, add("add", x, x), x, axis=axis)


def _joined_mixed(add: Make, x: Value) -> Value:
    return add("concatenate", x, add("cast", x, dtype=LONG["c128"]), axis=0)


def _padded(mode: str, width: int) -> Callable[[Make, Value], Value]:
    return lambda add, x: add("pad", x, width=((width, 1), (0, width)), mode=mode)


def _write_row(add: Make, x: Value) -> Value:
    return add("write", x, 1, view=View(((0, 0, None), (0, 1, 0)), (M,)))


def _write_flipped(add: Make, x: Value) -> Value:
    back = View(((N - 1, -1, 0), (0, 1, 1)), (N, M))
    return add("write", add("add", x, x), x, view=back)


def _write_twice(add: Make, x: Value) -> Value:
    first = _write_row(add, add("add", x, x))
    column = View(((0, 1, 0), (0, 0, None)), (N,))
    return add("write", first, add("read", first, view=column), view=column)


def _write_mask(add: Make, x: Value) -> Value:
    return add("write_mask", x, add("not_equal", x, x), 1)


def _taken(add: Make, x: Value) -> Value:
    back = add("arange", M - 1, -1, shape=(M,), dtype=LONG["i64"])
    return add("take", x, back, axis=1)


def _taken_rows(add: Make, x: Value) -> Value:
    negative = add("arange", -1, -1, shape=(N,), dtype=LONG["i32"])
    return add("take", x, negative, axis=0)


def _product(add: Make, x: Value) -> Value:
    return add("matmul", x, _transposed(add, x))


def _product_of_maps(add: Make, x: Value) -> Value:
    return add("matmul", add("add", _transposed(add, x), 1), x)


def _outer(add: Make, x: Value) -> Value:
    column = add("read", x, view=View(((0, 1, 0), (0, 0, None)), (N, 1)))
    row = add("read", x, view=View(((0, 0, None), (0, 1, 1)), (1, M)))
    return add("multiply", column, row)


PROGRAMS: dict[str, Callable[[Make, Value], Value]] = {
    "transposed": _transposed,
    "flipped": _flipped,
    "diagonal": _diagonal,
    "row": _row,
    "spread": _spread,
    "halves": _halves,
    "shifted sum": _shifted_sum,
    "flat": _flat,
    "flat of transposed": _flat_of_transposed,
    "reshaped map": _reshaped_map,
    "joined 0": _joined(0),
    "joined 1": _joined(1),
    "joined mixed": _joined_mixed,
    "edge": _padded("edge", 3),
    "reflect": _padded("reflect", 1),
    "symmetric": _padded("symmetric", 1),
    "wrap": _padded("wrap", 1),
    "write row": _write_row,
    "write flipped": _write_flipped,
    "write twice": _write_twice,
    "write mask": _write_mask,
    "taken": _taken,
    "taken rows": _taken_rows,
    "product": _product,
    "product of maps": _product_of_maps,
    "outer": _outer,
}
# NumPy pads by reflection only what has two elements.
LEAST = {"reflect": 2, "shifted sum": 1}


def make_graph(make: Callable[[Make, Value], Any], dtype: np.dtype) -> Graph:
    x = Value(Type(dtype, (N, M)), name="x")
    graph = Graph("move", [x])

    def add(op: str, *operands: Any, **attrs: Any) -> Value:
        return graph.body.add(op, operands, attrs, infer(op, operands, attrs), "move.py:1")

    graph.results = make(add, x)
    return graph


def numbers(dtype: np.dtype, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(shape)
    x = rng.integers(0, 2 if dtype.kind == "b" else 50, shape)
    if dtype.kind == "c":
        return (x + 1j * rng.integers(-9, 9, shape)).astype(dtype)
    return x.astype(dtype)


def check(name: str, short: str, lay: str) -> None:
    graph = make_graph(PROGRAMS[name], LONG[short])
    native = None
    for shape in SIZES:
        if min(shape) < LEAST.get(name, 1):
            continue
        x = laid_out(numbers(LONG[short], shape), lay)
        if native is None or native(x) is MISS:
            native = compile_graph(graph, [x])
        before = x.copy()
        agree(native(x), run(graph, [before]), 0, False, f"{name} {short} {lay} {shape}")
        np.testing.assert_array_equal(x, before, err_msg="the argument has changed")


@pytest.mark.parametrize("lay", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts(name, lay):
    check(name, "f64", lay)


@pytest.mark.parametrize("short", ("b1", "u8", "i16", "f32", "c64", "c128"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_dtypes(name, short):
    check(name, short, "C")
