"""New arrays from scalars, lists and constants, and conversions between dtypes.

In: abstract values, dtypes and shapes. Out: arrays with buffers of their own. A list that is
wholly known becomes a constant, which is a hidden parameter of the graph: its value is kept
beside the graph and never in its text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.elementwise import must_fit, strong
from tailorbird.capture.source import Source
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr, Scal, exact, is_number, is_static, kind_name
from tailorbird.capture.views import insert_axes
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Operand, Value, type_of
from tailorbird.ir.types import Type


def filled(t: Tracer, shape: Shape, value: Operand, dtype: np.dtype) -> Arr:
    """np.full: a new array of one value."""
    attrs = {"shape": shape, "dtype": dtype}
    fill = convert(t, value, dtype)
    return t.array(t.emit("full", [fill], attrs, Type(dtype, shape)), contiguous=True)


def empty(t: Tracer, shape: Shape, dtype: np.dtype) -> Arr:
    attrs = {"shape": shape, "dtype": dtype}
    return t.array(t.emit("empty", [], attrs, Type(dtype, shape)), contiguous=True)


def arange(t: Tracer, start: Operand, step: Operand, length: Dim, dtype: np.dtype) -> Arr:
    attrs = {"shape": (length,), "dtype": dtype}
    value = t.emit("arange", [start, step], attrs, Type(dtype, (length,)))
    return t.array(value, contiguous=True)


def constant(t: Tracer, array: np.ndarray) -> Arr:
    """A new array with the content of one that is known now and kept beside the graph."""
    dtype = t.supported(array.dtype, "a constant")
    source = Source(("static", len(t.constants)))
    t.constants.append(np.ascontiguousarray(array).reshape(array.shape))
    name = t.unique(f"constant_{len(t.constants) - 1}")
    parameter = Value(Type(dtype, array.shape), name=name)
    t.parameters.append(parameter)
    t.sources.append(source)
    t.live[parameter] = t.constants[-1]
    return t.array(parameter, contiguous=True)


def shape_from(t: Tracer, x: Any) -> Shape:
    """A shape argument: an int or a sequence of ints."""
    items = x if isinstance(x, (tuple, list)) else (x,)
    dims = tuple(_length(t, d) for d in items)
    for d in dims:
        if not t.at_least(d, 0):
            t.raises("ValueError: negative dimensions are not allowed")
    return tuple(map(t.assume.canon, dims))


def _length(t: Tracer, x: Any) -> Dim:
    """A length; one that is computed from data is checked not to be negative."""
    if isinstance(x, Scal) and x.dtype.kind in "iu" and exact(x.value) is None:
        from tailorbird.capture.selecting import sized

        t.check(x.value, ">=")
        return sized(t, convert(t, x.value, np.dtype(np.int64)))  # type: ignore[arg-type]
    return t.integer(x, "a shape")


def dtype_from(t: Tracer, x: Any, default: Any = np.float64) -> np.dtype:
    """A dtype argument, or the default for None."""
    if x is None:
        return np.dtype(default)
    if not isinstance(x, (type, np.dtype, str)):
        t.raises(f"TypeError: {kind_name(x)} is not a dtype")
    try:
        found = np.dtype(x)
    except TypeError as error:
        t.raises(f"TypeError: {error}")
    return t.supported(found, "an array")


# Conversions


def convert(t: Tracer, x: Operand, dtype: np.dtype) -> Operand:
    """x as a value of that dtype, as assignment and astype convert it."""
    kind = type_of(x)
    if kind.dtype == dtype and not kind.weak:
        return x
    if isinstance(x, (Value, Expr)):
        if dtype.kind in "iub":
            t.definite(x, "what is stored as an integer")
        _refuse_lossy_scalar(t, x, kind, dtype)
        return t.emit("cast", [x], {"dtype": dtype}, Type(dtype, kind.shape))
    return literal(t, x, dtype)


def _refuse_lossy_scalar(t: Tracer, x: Operand, kind: Type, dtype: np.dtype) -> None:
    """A Python scalar that does not fit makes NumPy raise; that is known only at run time."""
    if isinstance(x, Expr):
        if dtype.kind in "iu":
            must_fit(t, x, dtype)
        return
    if kind.weak and dtype.kind in "iu":
        t.refuse("data_dependent_value", name="a Python float stored as an integer")
    if kind.dtype.kind == "c" and dtype.kind != "c" and (kind.weak or not kind.shape):
        t.raises("TypeError: complex stored as real")


def literal(t: Tracer, x: Any, dtype: np.dtype) -> Operand:
    """A number that is known now, stored as NumPy stores it."""
    place = np.zeros(1, dtype)
    try:
        with np.errstate(all="ignore"):
            place[0] = x
    except (TypeError, ValueError, OverflowError) as error:
        t.raises(f"{type(error).__name__}: {error}")
    return place[0]


def cast(t: Tracer, x: Any, dtype: np.dtype) -> Arr | Scal:
    """astype: always a new array; a scalar stays a scalar."""
    value = strong(t, t.operand(x))
    if type_of(value).dtype.kind == "c" and dtype.kind not in "cb":
        value = t.emit("real", [value], None, _real_type(type_of(value)))
    if not isinstance(value, Value):
        return Scal(t.emit("cast", [value], {"dtype": dtype}, Type(dtype)))
    if value.type.dtype != dtype:
        value = t.emit("cast", [value], {"dtype": dtype}, Type(dtype, value.type.shape))
    return t.array(value) if isinstance(x, Arr) else Scal(value)


def _real_type(kind: Type) -> Type:
    return Type(np.zeros(0, kind.dtype).real.dtype, kind.shape)


# Lists


def array_of(t: Tracer, x: Any, dtype: np.dtype | None = None) -> Arr:
    """np.array(x): a list of numbers, of arrays, or of lists of them."""
    if isinstance(x, (list, tuple)) and not is_static(x):
        return _stacked(t, x, dtype)
    if not _is_numeric(x):
        t.refuse("unsupported_type", name="an array element", type=kind_name(x))
    if isinstance(x, Expr):
        kind = np.dtype(np.int64)
        return t.array(t.emit("cast", [x], {"dtype": kind}, Type(kind)))
    try:
        made = np.array(x, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        t.raises(f"{type(error).__name__}: {error}")
    if made.ndim == 0:
        number: Any = made[()]
        return t.array(
            t.emit("full", [number], {"shape": (), "dtype": made.dtype}, Type(made.dtype))
        )
    return constant(t, made)


def _is_numeric(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_is_numeric, x))
    return is_number(x) or isinstance(x, Expr)


def _stacked(t: Tracer, items: Any, dtype: np.dtype | None) -> Arr:
    """An array whose first axis goes over the items."""
    parts = [_element(t, item) for item in items]
    found = np.result_type(*(p.dtype for p in parts)) if dtype is None else dtype
    t.supported(found, "a list")
    shape = t.shape_of(parts[0])
    values: list[Operand] = []
    for part in parts:
        if part.ndim != len(shape) or not all(map(t.same, part.shape, shape)):
            t.raises("ValueError: the list has an inhomogeneous shape")
        row = t.read(insert_axes(t, part, [0]))
        values.append(convert(t, row, found))
    joined = Type(found, (len(values), *map(t.assume.canon, shape)))
    return t.array(t.emit("concatenate", values, {"axis": 0}, joined), contiguous=True)


def _element(t: Tracer, item: Any) -> Arr:
    if isinstance(item, Arr):
        return item
    if isinstance(item, Scal):
        return t.array(_value(t, strong(t, item.value)))
    if isinstance(item, (list, tuple)):
        return array_of(t, item)
    if not _is_numeric(item):
        t.refuse("unsupported_type", name="an array element", type=type(item).__name__)
    return t.array(_value(t, strong(t, t.operand(item))))


def _value(t: Tracer, x: Operand) -> Value:
    """An operand as a value: a literal becomes a node."""
    if isinstance(x, Value):
        return x
    dtype = type_of(x).dtype
    return t.emit("full", [x], {"shape": (), "dtype": dtype}, Type(dtype))
