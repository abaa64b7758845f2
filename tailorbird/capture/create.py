"""Creation functions: zeros, arange, linspace, eye, meshgrid, array, astype and their kin.

In: shapes, numbers and arrays. Out: arrays with buffers of their own (np.asarray of an array is the
array itself).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.arith import concretely
from tailorbird.capture.build import (
    arange,
    array_of,
    cast,
    constant,
    convert,
    dtype_from,
    empty,
    filled,
    shape_from,
)
from tailorbird.capture.elementwise import strong
from tailorbird.capture.registry import handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Scal, Unhandled, exact, is_number
from tailorbird.capture.views import (
    as_arr,
    insert_axes,
    is_contiguous,
    maybe_copied,
)
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Operand, type_of
from tailorbird.ir.types import BOOL, PYTHON_TYPES, WEAK_BOOL, Type

INT = np.dtype(np.int64)


@handles(np.zeros)
def _zeros(t: Tracer, shape: Any, dtype: Any = None, order: Any = "C") -> Arr:
    return _created(t, shape, 0, dtype, order)


@handles(np.ones)
def _ones(t: Tracer, shape: Any, dtype: Any = None, order: Any = "C") -> Arr:
    return _created(t, shape, 1, dtype, order)


@handles(np.empty, np.ndarray)
def _empty(t: Tracer, shape: Any, dtype: Any = None, order: Any = "C", device: Any = None) -> Arr:
    made = empty(t, shape_from(t, shape), dtype_from(t, dtype))
    made.buffer.contiguous = order == "C"
    return made


@handles(np.full)
def _full(t: Tracer, shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Arr:
    value = t.operand(fill_value)
    kind = dtype_from(t, dtype, type_of(value).dtype)
    if type_of(value).shape:
        raise Unhandled
    made = filled(t, shape_from(t, shape), value, kind)
    made.buffer.contiguous = order == "C"
    return made


def _created(t: Tracer, shape: Any, value: int, dtype: Any, order: Any) -> Arr:
    made = filled(t, shape_from(t, shape), value, dtype_from(t, dtype))
    made.buffer.contiguous = order == "C"
    return made


@handles(np.zeros_like)
def _zeros_like(t: Tracer, a: Any, dtype: Any = None, *, shape: Any = None) -> Arr:
    return _like(t, a, 0, dtype, shape)


@handles(np.ones_like)
def _ones_like(t: Tracer, a: Any, dtype: Any = None, *, shape: Any = None) -> Arr:
    return _like(t, a, 1, dtype, shape)


@handles(np.empty_like)
def _empty_like(t: Tracer, prototype: Any, dtype: Any = None, *, shape: Any = None) -> Arr:
    x = as_arr(t, prototype)
    sizes = t.shape_of(x) if shape is None else shape_from(t, shape)
    made = empty(t, sizes, dtype_from(t, dtype, x.dtype))
    made.buffer.contiguous = is_contiguous(t, x)
    return made


@handles(np.full_like)
def _full_like(t: Tracer, a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Arr:
    if isinstance(fill_value, Arr):
        raise Unhandled
    return _like(t, a, fill_value, dtype, shape)


def _like(t: Tracer, a: Any, value: Any, dtype: Any, shape: Any) -> Arr:
    x = as_arr(t, a)
    sizes = t.shape_of(x) if shape is None else shape_from(t, shape)
    made = filled(t, sizes, t.operand(value), dtype_from(t, dtype, x.dtype))
    made.buffer.contiguous = is_contiguous(t, x)
    return made


# Ranges


@handles(np.arange)
def _arange(
    t: Tracer,
    start: Any,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Arr:
    if stop is None:
        start, stop = 0, start
    ints = [_exact_integer(x) for x in (start, stop, step)]
    if any(x is None for x in ints):
        return _float_arange(t, start, stop, step, dtype)
    first, last, stride = (t.assume.canon(x) for x in ints if x is not None)
    stride = t.concrete(stride, "a step")
    if stride == 0:
        t.raises("ZeroDivisionError")
    distance = last - first if stride > 0 else first - last
    if not t.at_least(distance, 0):
        distance = 0
    length = _steps(distance, abs(stride))
    kind = dtype_from(t, dtype, INT)
    if kind == BOOL and t.at_least(length, 3):
        t.raises("TypeError: a range of bools has at most two")
    operand = first if isinstance(first, Expr) else int(first)
    return arange(t, operand, stride, t.assume.canon(length), kind)


def _exact_integer(x: Any) -> Dim | None:
    if isinstance(x, Scal):
        return exact(x.value)
    if isinstance(x, (int, Expr)) and not isinstance(x, bool):
        return x
    return None


def _steps(distance: Dim, stride: int) -> Dim:
    from tailorbird.ir.expr import apply

    return distance if stride == 1 else apply("floordiv", distance + (stride - 1), stride)


def _float_arange(t: Tracer, start: Any, stop: Any, step: Any, dtype: Any) -> Arr:
    """A range of floats has a length that rounding decides, so the numbers must be known."""
    known = [t.concrete(x, "a bound of np.arange") for x in (start, stop, step)]
    if not all(map(is_number, known)):
        t.raises("TypeError: np.arange of something that is not a number")
    made = concretely(t, lambda: np.arange(*known, dtype=dtype))
    if not len(made) or made.dtype.kind != "f":
        return array_of(t, made.tolist(), made.dtype)
    t.supported(made.dtype)
    step = _step_of(made, float(known[2]))
    if step is None:
        return constant(t, made)
    return arange(t, float(made[0]), step, len(made), made.dtype)


def _step_of(made: np.ndarray, asked: float) -> float | None:
    """The step that leads to the second element, which NumPy computes from the numbers as they are,
    in their own type.
    """
    first, second = float(made[0]), made[1:2]
    for step in (asked, float(second[0]) - first if len(second) else 0.0):
        if (made.dtype.type(first + step) == second).all():
            return step
    return None


@handles(np.linspace)
def _linspace(
    t: Tracer, start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None
) -> Arr:
    first, last = (t.operand(x) for x in (start, stop))
    if type_of(first).shape or type_of(last).shape:
        raise Unhandled
    length = t.integer(num, "num")
    if not t.at_least(length, 0):
        t.raises("ValueError: Number of samples must be non-negative.")
    kind = dtype_from(t, dtype, np.linspace(_sample(first), _sample(last), 0).dtype)
    t.supported(kind, "np.linspace")
    attrs = {"shape": (length,), "endpoint": bool(t.concrete(endpoint)), "dtype": kind}
    value = t.emit("linspace", [first, last], attrs, Type(kind, (length,)))
    return t.array(value, contiguous=True)


def _sample(x: Operand) -> Any:
    """A number of the same type, weak or strong, for NumPy to promote."""
    kind = type_of(x)
    return PYTHON_TYPES[kind.dtype.kind](0) if kind.weak else kind.dtype.type(0)


# Copies and conversions


@handles(np.array)
def _array(
    t: Tracer,
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    ndmin: Any = 0,
    subok: Any = False,
) -> Any:
    kind = None if dtype is None else dtype_from(t, dtype)
    if not copy and copy is not None:
        raise Unhandled
    if isinstance(object, Arr) and copy is None:
        made: Any = object
    elif isinstance(object, Arr):
        made = t.array(t.read(object))
    elif isinstance(object, Scal):
        made = t.array(strong(t, object.value))  # type: ignore[arg-type]
    else:
        made = array_of(t, object, kind)
    if kind is not None and made.dtype != kind:
        made = t.array(t.read(cast(t, made, kind)))  # type: ignore[arg-type]
    missing = t.concrete(ndmin) - made.ndim
    return made if missing <= 0 else insert_axes(t, made, range(missing))


@handles(np.asarray, np.asanyarray)
def _asarray(t: Tracer, a: Any, dtype: Any = None) -> Any:
    if isinstance(a, Arr) and (dtype is None or dtype_from(t, dtype) == a.dtype):
        return a
    return _array(t, a, dtype)


@handles(np.ascontiguousarray)
def _ascontiguousarray(t: Tracer, a: Any, dtype: Any = None) -> Any:
    x = _asarray(t, a, dtype)
    if not x.shape:
        return insert_axes(t, x, [0])
    if is_contiguous(t, x):
        return x
    return maybe_copied(t, x, t.shape_of(x))


@handles(np.copy)
def _np_copy(t: Tracer, a: Any, order: Any = "K") -> Any:
    return t.array(t.read(as_arr(t, a)))


@handles(method="copy")
def _copy(t: Tracer, a: Any, order: Any = "C") -> Any:
    if isinstance(a, Scal):
        return a
    return t.array(t.read(a), contiguous=order == "C")


@handles(method="astype")
def _astype(t: Tracer, a: Any, dtype: Any, copy: Any = True, casting: Any = "unsafe") -> Any:
    kind = dtype_from(t, dtype)
    if not np.can_cast(a.dtype, kind, casting):
        t.raises(f"TypeError: cannot cast {a.dtype} to {kind}")
    if isinstance(a, Arr) and a.dtype == kind and not t.concrete(copy):
        return a
    return cast(t, a, kind)


@handles(method="item")
def _item(t: Tracer, a: Any) -> Any:
    if isinstance(a, Scal) and a.dtype.kind in "iu":
        return t.bound(a.value)
    kind = {"f": np.float64, "c": np.complex128}.get(a.dtype.kind)
    if kind is None or a.shape:
        t.refuse("data_dependent_value", name="item()")
    wide = convert(t, t.operand(a), np.dtype(kind))
    return Scal(t.emit("cast", [wide], {"dtype": np.dtype(kind)}, Type(np.dtype(kind), weak=True)))


@handles(method="fill")
def _fill(t: Tracer, a: Any, value: Any) -> Any:
    from tailorbird.capture.assign import assign

    if not isinstance(a, Arr) or isinstance(value, (Arr, list, tuple)):
        t.refuse("unsupported_call", name="fill")
    assign(t, a, Ellipsis, value)


@handles(np.copyto)
def _copyto(t: Tracer, dst: Any, src: Any, casting: Any = "same_kind") -> Any:
    from tailorbird.capture.assign import fill

    value = t.operand(src)
    if not isinstance(dst, Arr) or casting != "same_kind" or type_of(value).weak:
        t.refuse("unsupported_call", name="np.copyto in this form")
    if not np.can_cast(type_of(value).dtype, dst.dtype, "same_kind"):
        t.raises("TypeError: np.copyto cannot cast")
    fill(t, dst, value)


def scalar_type(t: Tracer, kind: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """`np.float32(x)`: a conversion."""
    if keywords or len(args) > 1:
        t.refuse("unsupported_call", name=kind.__name__)
    if kind in (np.generic, np.number, np.integer, np.floating, np.inexact):
        t.raises("TypeError: cannot create an instance of an abstract type")
    if not args or is_number(args[0]):
        return concretely(t, kind, *args)
    if isinstance(args[0], str):
        return concretely(t, kind, *args)
    dtype = t.supported(kind, "a scalar")
    value = t.operand(args[0])
    if isinstance(value, Expr):
        return Scal(convert(t, value, dtype))  # type: ignore[arg-type]
    if type_of(value).weak and type_of(value).dtype.kind in "fc":
        _must_convert(t, value, dtype)
    result = cast(t, args[0], dtype)
    return Scal(t.read(result)) if isinstance(result, Arr) and not result.shape else result


def _must_convert(t: Tracer, x: Operand, dtype: np.dtype) -> None:
    """A Python complex number is no other, and a Python float must fit an integer."""
    if type_of(x).dtype.kind == "c" and dtype.kind not in "cb":
        t.raises("TypeError: a complex number is not a real one")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        above = t.emit("greater", [x, limits.min - 1.0], None, WEAK_BOOL)
        below = t.emit("less", [x, limits.max + 1.0], None, WEAK_BOOL)
        t.check(t.emit("logical_and", [above, below], None, WEAK_BOOL), "!=")
