"""Elementwise ops in terms of fewer elementwise ops.

In: nodes of kind map. Out: rows for the walker, each an identity of NumPy's own: the same element,
or one within the bound named beside it. What an op computes for integers and bools is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailorbird.ir.node import Node, Operand, identity_view, type_of
from tailorbird.ir.types import BOOL, Type
from tailorbird.rewrite.walk import Builder, Row

Inputs = tuple[Operand, ...]


def _zero(x: Operand) -> Operand:
    """What to compare x with: not an int if x is weak, NumPy compares Python ints as objects."""
    return 0.0 if type_of(x).weak else 0


def truth(build: Builder, x: Operand) -> Operand:
    """x as a bool: whether it is not zero (nan is not)."""
    return x if type_of(x).dtype == BOOL else build("not_equal", x, _zero(x))


def _is_real(t: Type) -> bool:
    return t.dtype.kind != "c"


def _is_whole(t: Type) -> bool:
    return t.dtype.kind in "biu"


def _is_unsigned(t: Type) -> bool:
    return t.dtype.kind in "bu"


def _when(test: Callable[[Type], bool], row: Row) -> Row:
    """The row, for a first operand whose type passes the test."""

    def guarded(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
        return row(build, node, inputs) if test(type_of(inputs[0])) else None

    return guarded


def _same(build: Builder, node: Node, inputs: Inputs) -> Operand:
    return inputs[0]


def _constant(x: Operand) -> Row:
    return lambda build, node, inputs: build.full(x, node.result.type)


def _fabs(build: Builder, node: Node, inputs: Inputs) -> Operand:
    return build("absolute", build.cast(inputs[0], node.result.type.dtype))


def _square(build: Builder, node: Node, inputs: Inputs) -> Operand:
    x = build.cast(inputs[0], node.result.type.dtype)
    return build("multiply", x, x)


def _reciprocal(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    return build("divide", 1.0, inputs[0]) if node.result.type.dtype.kind == "f" else None


def _scaled(above: float, below: float) -> Row:
    """x times a ratio that is rounded in the dtype of the result, as NumPy's C code rounds it."""

    def row(build: Builder, node: Node, inputs: Inputs) -> Operand:
        dtype = node.result.type.dtype
        ratio = float(dtype.type(above) / dtype.type(below))
        return build("multiply", build.cast(inputs[0], dtype), ratio)

    return row


def _float_power(build: Builder, node: Node, inputs: Inputs) -> Operand:
    dtype = node.result.type.dtype
    return build("power", *(build.cast(x, dtype) for x in inputs))


def _expit(build: Builder, node: Node, inputs: Inputs) -> Operand:
    """1 / (1 + exp(-x)), and exp(x) / (1 + exp(x)) below zero: nothing overflows. Within 3 ulp."""
    x = build.cast(inputs[0], node.result.type.dtype)
    small = build("exp", build("negative", build("absolute", x)))
    above = build("where", build("greater_equal", x, 0.0), 1.0, small)
    return build("divide", above, build("add", small, 1.0))


def _logical(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    if all(type_of(x).dtype == BOOL for x in inputs):
        return None
    return build(node.op, *(truth(build, x) for x in inputs))


def _logical_xor(build: Builder, node: Node, inputs: Inputs) -> Operand:
    return build("not_equal", *(truth(build, x) for x in inputs))


def _logical_not(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    (x,) = inputs
    return None if type_of(x).dtype == BOOL else build("equal", x, _zero(x))


def _signbit(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    (x,) = inputs
    t = type_of(x)
    if _is_unsigned(t):
        return build.full(False, node.result.type)
    return build("less", x, _zero(x)) if _is_whole(t) else None


def _where(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    condition, x, y = inputs
    if type_of(condition).dtype == BOOL:
        return None
    return build("where", truth(build, condition), x, y)


def _cast(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    return inputs[0] if type_of(inputs[0]) == node.result.type else None


def _reshape(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    return inputs[0] if type_of(inputs[0]) == node.result.type else None


def _read(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    whole = identity_view(type_of(inputs[0]).shape)
    return inputs[0] if node.attrs["view"] == whole else None


# fmt: off
MAPS: dict[str, Row] = {
    "positive":    _same,
    "conjugate":   _when(_is_real, _same),
    "real":        _when(_is_real, _same),
    "imag":        _when(_is_real, _constant(0)),
    "absolute":    _when(_is_unsigned, _same),
    "fabs":        _fabs,
    "square":      _square,
    "reciprocal":  _reciprocal,
    "degrees":     _scaled(180.0, np.pi),
    "radians":     _scaled(np.pi, 180.0),
    "float_power": _float_power,
    "expit":       _expit,
    "logical_and": _logical,
    "logical_or":  _logical,
    "logical_xor": _logical_xor,
    "logical_not": _logical_not,
    "isnan":       _when(_is_whole, _constant(False)),
    "isinf":       _when(_is_whole, _constant(False)),
    "isfinite":    _when(_is_whole, _constant(True)),
    "signbit":     _signbit,
    "floor":       _when(_is_whole, _same),
    "ceil":        _when(_is_whole, _same),
    "trunc":       _when(_is_whole, _same),
    "rint":        _when(_is_whole, _same),  # NumPy rounds integers in floats: a cast
    "where":       _where,
    "cast":        _cast,
    "reshape":     _reshape,
    "read":        _read,
}
# fmt: on
