"""Reductions and scans in terms of sums, products, minima, maxima, any and all.

In: nodes of kind reduce and scan. Out: rows for the walker that follow `numpy/_core/_methods.py`
step by step. What stays folds an operand of the dtype that it folds in, over at least one axis that
is not the literal 1; `any` and `all` fold bools.
"""

from __future__ import annotations

import numpy as np

from tailorbird.ir.expr import Dim, apply, product
from tailorbird.ir.node import Node, Operand, View, type_of
from tailorbird.ir.promote import LEGACY, mean_dtype
from tailorbird.ir.types import BOOL, INT, Type
from tailorbird.rewrite.maps import Inputs, truth
from tailorbird.rewrite.masks import computed
from tailorbird.rewrite.walk import Builder, Row

WIDE = {"c": np.dtype(np.complex128)}
FLOAT = np.dtype(np.float64)
BOOLEAN = {"sum": "any", "prod": "all"}
# NumPy folds from the neutral element: -0.0 sums to 0.0, and a complex inf times 1 has a nan in it.
NEUTRAL = {("sum", "f"): ("add", 0), ("sum", "c"): ("add", 0), ("prod", "c"): ("multiply", 1)}


def _axis(node: Node) -> tuple[int, ...]:
    return node.attrs["axis"]


def _keepdims(node: Node) -> bool:
    return bool(node.attrs.get("keepdims", False))


def _folds_nothing(node: Node, x: Operand) -> bool:
    """Whether every fold is over one element: no axes, or axes of the literal 1."""
    shape = type_of(x).shape
    return all(type(shape[k]) is int and shape[k] == 1 for k in _axis(node))


def _count(node: Node, x: Operand) -> Dim:
    """How many elements each fold takes."""
    shape = type_of(x).shape
    return product(shape[k] for k in _axis(node))


def _fold(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    """sum and prod: in the dtype of the result."""
    (x,) = inputs
    result = node.result.type
    if type_of(x).dtype != result.dtype:
        x = build.cast(x, result.dtype)
        return build.reduce(node.op, x, _axis(node), _keepdims(node), result.dtype)
    if result.dtype == BOOL:
        return build.reduce(BOOLEAN[node.op], x, _axis(node), _keepdims(node))
    if not _folds_nothing(node, x):
        return None
    x = build.reshape(x, result.shape)
    neutral = NEUTRAL.get((node.op, result.dtype.kind))
    return x if neutral is None else build(neutral[0], x, neutral[1])


def _extreme(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    (x,) = inputs
    return build.reshape(x, node.result.type.shape) if _folds_nothing(node, x) else None


def _position(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    """argmin and argmax: the least position that holds the extreme; a nan is every extreme."""
    (x,) = inputs
    kind = type_of(x).dtype.kind
    if kind == "c":
        return None
    if _folds_nothing(node, x):
        return build.full(0, node.result.type)
    extreme = build.reduce(node.op[3:], x, _axis(node), keepdims=True)
    found = build("equal", x, extreme)
    if kind == "f":
        found = build("logical_or", found, build("isnan", x))
    held = build("where", found, _positions(build, node, x), _count(node, x))
    return build.reduce("min", build.cast(held, INT), _axis(node), _keepdims(node))


def _positions(build: Builder, node: Node, x: Operand) -> Operand:
    """Flat positions along the folded axes, broadcasting against x."""
    shape = type_of(x).shape
    total: Operand = 0
    step: Dim = 1
    for axis in reversed(_axis(node)):
        line = build("arange", 0, 1, shape=(shape[axis],), dtype=INT)
        beside = tuple(d if k == axis else 1 for k, d in enumerate(shape))
        spread = build("read", line, view=View(((0, 1, axis),), beside))
        scaled = spread if step == 1 else build("multiply", spread, step)
        total = scaled if total == 0 else build("add", total, scaled)
        step = step * shape[axis]
    return total


def _truths(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    (x,) = inputs
    if type_of(x).dtype != BOOL:
        return build.reduce(node.op, truth(build, x), _axis(node), _keepdims(node))
    return build.reshape(x, node.result.type.shape) if _folds_nothing(node, x) else None


def _count_nonzero(build: Builder, node: Node, inputs: Inputs) -> Operand:
    return build.reduce("sum", truth(build, inputs[0]), _axis(node), _keepdims(node), INT)


def _divide_by_count(build: Builder, total: Operand, count: Operand) -> Operand:
    """total / count in the dtype of total. NumPy's count is an int64, so it divides in 64 bits;
    beside an array NumPy 1.26 does not look at the dtype of a scalar.
    """
    t = type_of(total)
    count = computed(build, count)
    if LEGACY and t.rank and t.dtype.kind == "c":
        return build("divide", total, build.cast(count, t.dtype))
    wide = build.cast(total, WIDE.get(t.dtype.kind, FLOAT))
    return build.cast(build("divide", wide, count), t.dtype)


def _mean(build: Builder, node: Node, inputs: Inputs) -> Operand:
    (x,) = inputs
    dtype = node.result.type.dtype
    total = build.reduce("sum", x, _axis(node), _keepdims(node), dtype)
    return _divide_by_count(build, total, _count(node, x))


def _freedom(build: Builder, count: Dim, ddof: Dim | float) -> Operand:
    """max(count - ddof, 0)."""
    if isinstance(ddof, float) and not ddof.is_integer():
        left = build("subtract", build.cast(count, FLOAT), ddof)
        return build("maximum", left, 0.0)
    exact = int(ddof) if isinstance(ddof, float) else ddof
    return apply("max", count - exact, 0)


def _squared_size(build: Builder, x: Operand, was: Type) -> Operand:
    """|x| ** 2 of the deviations from the mean of an array of type `was`."""
    if was.dtype.kind != "c":
        return build("multiply", x, x)
    parts = (build("real", x), build("imag", x))
    return build("add", *(build("multiply", part, part) for part in parts))


def _var(build: Builder, node: Node, inputs: Inputs) -> Operand:
    (x,) = inputs
    t = type_of(x)
    axis = _axis(node)
    total = build.reduce("sum", x, axis, True, node.attrs.get("dtype") or mean_dtype(t.dtype))
    mean = _divide_by_count(build, total, _count(node, x))
    squares = _squared_size(build, build("subtract", x, mean), t)
    spread = build.reduce("sum", squares, axis, _keepdims(node), node.result.type.dtype)
    freedom = _freedom(build, _count(node, x), node.attrs.get("ddof", 0))
    return _divide_by_count(build, spread, freedom)


def _std(build: Builder, node: Node, inputs: Inputs) -> Operand:
    return build("sqrt", _var(build, node, inputs))


def _scan(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    (x,) = inputs
    dtype = node.result.type.dtype
    if type_of(x).dtype == dtype:
        return None
    return build(node.op, build.cast(x, dtype), axis=node.attrs["axis"], dtype=dtype)


# fmt: off
REDUCTIONS: dict[str, Row] = {
    "sum":           _fold,
    "prod":          _fold,
    "min":           _extreme,
    "max":           _extreme,
    "argmin":        _position,
    "argmax":        _position,
    "any":           _truths,
    "all":           _truths,
    "count_nonzero": _count_nonzero,
    "mean":          _mean,
    "var":           _var,
    "std":           _std,
    "cumsum":        _scan,
    "cumprod":       _scan,
}
# fmt: on
