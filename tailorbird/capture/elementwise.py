"""Elementwise operations by NumPy's rules.

In: an op and its operands. Out: a node with NumPy's result type and shape. Promotion comes from
`ir.shapes.result_dtype`. A Python int that meets an integer dtype must fit it: proved, guarded, or
left to plain NumPy, which raises. A NumPy function of Python scalars first makes one strong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailorbird.capture.loose import follow
from tailorbird.capture.meeting import agreed
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Scal
from tailorbird.capture.views import makes_contiguous
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Operand, Value, type_of
from tailorbird.ir.ops import COMPARISONS
from tailorbird.ir.promote import LEGACY, refuse_by_value, result_dtype
from tailorbird.ir.types import WEAK_FLOAT, Type

# Of NumPy's function, and of its operator where the exponent is a number of NumPy's own.
with np.errstate(all="ignore"):
    HALF_IS_SQRT = bool(np.isnan(np.power(np.array([-np.inf, 0.0]), 0.5)[0]))
    OPERATOR_ROOTS = bool(np.isnan((np.array([-np.inf, 0.0]) ** np.float64(0.5))[0]))
LARGEST_SINGLE = float(np.finfo(np.float32).max)


def elementwise(t: Tracer, name: str, args: Sequence[Any]) -> Any:
    """The NumPy function `name` of these arguments."""
    return makes_contiguous(t.result(map_value(t, name, [t.operand(a) for a in args])), args)


def map_value(t: Tracer, name: str, operands: Sequence[Operand]) -> Value:
    """The value of an elementwise op, by NumPy's rules."""
    inputs = list(operands)
    types = [type_of(x) for x in inputs]
    if all(x.weak for x in types):
        inputs[0] = strong(t, inputs[0])
        types[0] = type_of(inputs[0])
    taken, dtype = promoted(t, name, tuple(types))
    for k, (x, found) in enumerate(zip(types, taken)):
        if x.weak and found.kind in "iu":
            must_fit(t, inputs[k], found, name)
        elif x.weak:
            inputs[k] = _meets_floats(t, inputs[k], found)
    if name == "power" and dtype.kind in "iu":
        _integer_power(t, inputs[1], types[1])
    shape = t.broadcast([x.shape for x in types])
    inputs = [agreed(t, x, shape) for x in inputs]
    value = t.emit(name, inputs, None, Type(dtype, shape))
    if name == "power" and dtype.kind == "f" and types[0].shape and HALF_IS_SQRT:
        value = root_at_half(t, inputs, types[1], value)
    if t.loose:
        follow(t, name, operands, value)
    return value


def ordered_scalars(t: Tracer, name: str, args: Sequence[Any]) -> Value | None:
    """`<` and the like where NumPy's scalars are ordered by rules of their own: a complex one and
    what converts to it, by the real parts, and where they are equal by the imaginary ones.
    (The loops of arrays say no beside any nan; a bool of NumPy's on the left takes to them.)
    """
    operands = [t.operand(x) for x in args]
    left = args[0].type if isinstance(args[0], Scal) else type(args[0])
    types = [type_of(x) for x in operands]
    found = np.result_type(*(x.dtype for x in types if LEGACY or not x.weak))
    own = any(x.dtype == found for x in types if not x.weak)
    if found.kind != "c" or not own or left in (Type(np.dtype(bool)), np.bool_):
        return None
    both = [t.emit("cast", [x], {"dtype": found}, Type(found)) for x in operands]
    real, imag = ([t.inferred(part, [x], {}) for x in both] for part in ("real", "imag"))
    truth = Type(np.dtype(bool))
    same = t.emit("equal", real, None, truth)
    by = [t.emit(name, parts, None, truth) for parts in (imag, real)]
    value = t.emit("where", [same, *by], None, truth)
    if t.loose:
        follow(t, name, operands, value)
    return value


def root_at_half(t: Tracer, inputs: Sequence[Operand], exponent: Type, power: Value) -> Value:
    """NumPy's loop takes square roots where one exponent of 0.5 is for all elements; they differ
    from powers at -0 and -inf.
    """
    by = inputs[1]
    if exponent.shape or exponent.dtype.kind != "f":
        return power
    if not isinstance(by, Value):
        half = by == 0.5
        return _root(t, inputs[0], power.type) if half else power
    test = t.emit("equal", [by, 0.5], None, Type(np.dtype(bool)))
    root = _root(t, inputs[0], power.type)
    return t.emit("where", [test, root, power], None, power.type)


def _root(t: Tracer, x: Operand, kind: Type) -> Value:
    base = t.emit("cast", [x], {"dtype": kind.dtype}, kind)
    return t.emit("sqrt", [base], None, kind)


def _meets_floats(t: Tracer, x: Operand, dtype: np.dtype) -> Operand:
    """A Python scalar beside floats: a huge int is a float; NumPy 1.26 widens for a huge float."""
    huge = type(x) is int and abs(x) >= 2**63
    if LEGACY and huge:
        t.refuse("promotion", name=f"{x}, which NumPy 1.26 makes an object")
    if LEGACY and dtype in (np.float32, np.complex64):
        _fits_single(t, x)
    return float(x) if huge else x  # type: ignore[arg-type]


def _fits_single(t: Tracer, x: Operand) -> None:
    """NumPy 1.26 computes in float64 when a Python float is beyond float32, or an int beyond the
    16 bits that a float32 holds exactly.
    """
    if isinstance(x, (int, Expr)):
        if not (t.at_least(x, -(2**15)) and t.at_least(2**16 - 1, x)):
            t.refuse("promotion", name=f"float32 and {x}")
    elif isinstance(x, Value):
        size = t.emit("absolute", [x], None, WEAK_FLOAT)
        room = t.emit("subtract", [LARGEST_SINGLE, size], None, WEAK_FLOAT)
        t.check(room, ">=")
    elif abs(complex(x)) > LARGEST_SINGLE:
        t.refuse("promotion", name=f"float32 and {x}")


def promoted(t: Tracer, name: str, types: tuple[Type, ...]) -> tuple[Sequence[np.dtype], np.dtype]:
    """The dtypes an op computes with and gives, where NumPy has a loop for them."""
    try:
        refuse_by_value(name, types)
        taken, dtype = result_dtype(name, types)
    except TypeError:
        t.raises(f"TypeError: np.{name} has no loop for {', '.join(map(str, types))}")
    for found in (*taken, dtype):
        t.supported(found, f"the result of np.{name}")
    return taken, dtype


def strong(t: Tracer, x: Operand) -> Operand:
    """A Python scalar as the NumPy scalar that NumPy makes of it."""
    kind = type_of(x)
    if not kind.weak:
        return x
    if isinstance(x, (Value, Expr)):
        return t.emit("cast", [x], {"dtype": kind.dtype}, Type(kind.dtype))
    return kind.dtype.type(x)


def must_fit(t: Tracer, x: Operand, dtype: np.dtype, name: str = "") -> None:
    """NumPy raises when a Python int does not fit the dtype it meets; some ops have other rules."""
    if not isinstance(x, (int, Expr)):
        return
    limits = np.iinfo(dtype)
    wide = isinstance(x, Expr) and dtype.itemsize == 8
    if wide and dtype.kind == "i":
        return
    fits = t.at_least(x, int(limits.min)) and (wide or t.at_least(int(limits.max), x))
    if not fits and (LEGACY or name in COMPARISONS or name == "where"):
        t.refuse("promotion", name=f"{name} of {dtype} and {x}")
    if not fits:
        t.raises(f"OverflowError: {x} does not fit {dtype}")


def _integer_power(t: Tracer, exponent: Operand, kind: Type) -> None:
    if kind.dtype.kind in "ub":
        return
    known = isinstance(exponent, (int, Expr, np.integer))
    if not known:
        t.refuse("promotion", name="an integer to an integer power")
    floor = exponent if isinstance(exponent, Expr) else int(exponent)  # type: ignore[arg-type]
    if not t.at_least(floor, 0):
        t.raises("ValueError: integers to negative integer powers are not allowed")
