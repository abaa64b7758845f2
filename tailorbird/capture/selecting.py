"""Functions that pick, place and count: nonzero, take, put, compress, bincount, `np.add.at`.

In: arrays, masks and arrays of integers. Out: the nodes of `masks.py` and `advanced.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.advanced import (
    Selection,
    gathered,
    inside,
    known_array,
    select,
    store,
    taken,
)
from tailorbird.capture.assign import must_hold
from tailorbird.capture.build import arange, convert, filled
from tailorbird.capture.elementwise import elementwise, map_value, promoted, strong
from tailorbird.capture.masks import as_mask, counted, fits, nonzero, picked, put
from tailorbird.capture.reduce import finish, reduced
from tailorbird.capture.registry import handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Unhandled, is_static
from tailorbird.capture.views import as_arr, insert_axes, normal_axis, reshape
from tailorbird.ir.node import Operand, Value, View, type_of
from tailorbird.ir.ops import ACCUMULATED
from tailorbird.ir.types import INT, Type

FLOAT = np.dtype(np.float64)


def flat(t: Tracer, x: Arr) -> Arr:
    """x in one dimension."""
    return x if x.ndim == 1 else reshape(t, x, -1)


# Positions of what is not zero


@handles(np.nonzero, method="nonzero")
def _nonzero(t: Tracer, a: Any) -> Any:
    return nonzero(t, a)


@handles(np.flatnonzero)
def _flatnonzero(t: Tracer, a: Any) -> Any:
    return nonzero(t, flat(t, as_arr(t, a)))[0]


@handles(np.argwhere)
def _argwhere(t: Tracer, a: Any) -> Any:
    """The positions as the rows of a matrix."""
    columns = [t.read(insert_axes(t, part, [1])) for part in nonzero(t, a)]
    if len(columns) == 1:
        return t.array(columns[0], contiguous=True)
    return t.array(t.inferred("concatenate", columns, {"axis": 1}), contiguous=True)


def count(t: Tracer, x: Any) -> Any:
    """np.count_nonzero without an axis: a Python int."""
    return counted(t, x)


# Masks


@handles(np.compress)
def _compress(t: Tracer, condition: Any, a: Any, axis: Any = None) -> Any:
    x, mask = as_arr(t, a), as_mask(t, condition)
    if axis is None:
        x, axis = flat(t, x), 0
    at = normal_axis(t, axis, x.ndim)
    if mask.ndim != 1:
        t.raises("ValueError: condition must be a 1-d array")
    if not t.assume.equal(mask.shape[0], x.shape[at]):
        raise Unhandled
    return picked(t, x, mask, at)


@handles(method="compress")
def _compress_method(t: Tracer, a: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    if out is not None:
        t.refuse("unsupported_call", name="ndarray.compress with out=")
    try:
        return _compress(t, condition, a, axis)
    except Unhandled:
        from tailorbird.capture.opaque import call_library

        return call_library(t, np.compress, (condition, a, axis), {})


@handles(np.extract)
def _extract(t: Tracer, condition: Any, arr: Any) -> Any:
    x, mask = flat(t, as_arr(t, arr)), flat(t, as_mask(t, condition))
    if not t.assume.equal(mask.shape[0], x.shape[0]):
        raise Unhandled
    return picked(t, x, mask, 0)


@handles(np.place)
def _place(t: Tracer, arr: Any, mask: Any, vals: Any) -> None:
    """One value alone: several go round, however many the mask picks."""
    where = as_mask(t, mask)
    value = _held(t, arr, vals)
    if type_of(value).shape or where.ndim != arr.ndim:
        t.refuse("unsupported_call", name="np.place of several values")
    put(t, arr, where, 0, value)


@handles(np.putmask)
def _putmask(t: Tracer, a: Any, mask: Any, values: Any) -> None:
    where = as_mask(t, mask)
    value = _held(t, a, values)
    shape = type_of(value).shape
    if where.ndim != a.ndim or (shape and shape != t.shape_of(a)):
        t.refuse("unsupported_call", name="np.putmask with arrays of several shapes")
    fits(t, where, t.shape_of(a))
    t.write(a, map_value(t, "where", [t.read(where), value, t.read(a)]))


def _held(t: Tracer, x: Any, value: Any) -> Operand:
    """A value, one alone as a scalar, in the dtype of the array that it goes to."""
    if not isinstance(x, Arr):
        t.refuse("unsupported_call", name="a write to something that is no array")
    if not isinstance(value, (Arr, list, tuple)):
        must_hold(t, x, value)
        return convert(t, t.operand(value), x.dtype)
    array = as_arr(t, value)
    if not np.can_cast(array.dtype, x.dtype):
        t.raises("TypeError: cannot cast array data according to the rule 'safe'")
    one = all(d == 1 for d in array.shape)
    return convert(t, _one(t, array) if one else t.read(array), x.dtype)


def _one(t: Tracer, x: Arr) -> Value:
    """The only element of an array."""
    if not x.ndim:
        return t.read(x)
    return t.emit("read", [t.read(x)], {"view": View(((0, 0, None),) * x.ndim, ())}, Type(x.dtype))


# Integers


@handles(np.take, method="take")
def _take(
    t: Tracer, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise"
) -> Any:
    x = as_arr(t, a)
    if axis is None:
        x, axis = flat(t, x), 0
    at = normal_axis(t, axis, x.ndim)
    if x.ndim == 0 or mode not in ("raise", "wrap", "clip"):
        raise Unhandled
    if is_static(indices):
        places = np.array(indices)
        if places.dtype.kind not in "iu" or isinstance(indices, (int, np.integer)):
            raise Unhandled
    if isinstance(out, Arr) and not np.can_cast(out.dtype, x.dtype):
        t.raises("TypeError: cannot cast array data according to the rule 'safe'")
    found = _moded(t, as_arr(t, indices), x.shape[at], mode)
    key = (*(slice(None),) * at, found)
    return finish(t, taken(t, select(t, x, key)), out)


def _moded(t: Tracer, index: Arr, size: Any, mode: str) -> Arr:
    """Indices as `mode=` makes them fit."""
    if index.dtype.kind not in "iub" or (index.dtype.kind == "b" and mode):
        t.raises("TypeError: cannot cast indices to integers according to the rule 'safe'")
    if mode == "raise":
        return index
    wide = t.array(convert(t, t.read(index), INT))  # type: ignore[arg-type]
    if not t.at_least(size, 1):
        t.raises("IndexError: cannot do a non-empty take from an empty axes.")
    if mode == "wrap":
        return as_arr(t, elementwise(t, "remainder", [wide, size]))
    return as_arr(t, elementwise(t, "minimum", [elementwise(t, "maximum", [wide, 0]), size - 1]))


@handles(np.put, method="put")
def _put(t: Tracer, a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    """`a.flat[ind] = v`; values that are fewer than the indices are repeated by NumPy alone."""
    index, value = flat(t, as_arr(t, ind)), flat(t, as_arr(t, v))
    if not isinstance(a, Arr) or mode not in ("raise", "wrap", "clip"):
        t.refuse("unsupported_call", name="np.put")
    if index.dtype == np.uint64:
        t.raises("TypeError: cannot cast indices to integers according to the rule 'safe'")
    x = flat(t, a)
    if not (value.shape[0] == 1 or t.assume.canon(value.shape[0] - index.shape[0]) == 0):
        t.refuse("unsupported_call", name="np.put of values that are not as many as the indices")
    one = value.shape[0] == 1
    chosen = select(t, x, (_moded(t, index, x.shape[0], mode),))
    store(t, chosen, _one(t, value) if one else t.read(value))


@handles(np.take_along_axis)
def _take_along_axis(t: Tracer, arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, axes, found = _along_axis(t, as_arr(t, arr), as_arr(t, indices), axis)
    return t.result(gathered(t, x, axes, found))


@handles(np.put_along_axis)
def _put_along_axis(t: Tracer, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    if not isinstance(arr, Arr):
        t.refuse("unsupported_call", name="np.put_along_axis")
    x, axes, found = _along_axis(t, arr, as_arr(t, indices), axis)
    store(t, Selection(x, None, axes, found, False), t.operand(values))


def _along_axis(t: Tracer, x: Arr, index: Arr, axis: Any) -> tuple[Arr, Any, Any]:
    """The array, and an index for each of its axes: positions, save along one axis."""
    if axis is None:
        x, axis = flat(t, x), 0
    at = normal_axis(t, axis, x.ndim)
    if index.dtype.kind not in "iu":
        t.raises("IndexError: `indices` must be an integer array")
    if index.ndim != x.ndim:
        t.raises("ValueError: `indices` and `arr` must have the same number of dimensions")
    shape = t.shape_of(x)
    parts: list[Any] = []
    for k, size in enumerate(shape):
        if k == at:
            known = known_array(t, index)
            one = index if known is None else select(t, x, (*(slice(None),) * at, index)).indices[0]
            parts.append(inside(t, t.read(one), size) if isinstance(one, Arr) else one)
            continue
        if not t.same(index.shape[k], size) and index.shape[k] != 1:
            raise Unhandled
        beside = tuple(size if j == k else 1 for j in range(x.ndim))
        line = arange(t, 0, 1, size, INT)
        parts.append(t.read(t.view(line, View(((0, 1, k),), beside))))
    return x, tuple(range(x.ndim)), tuple(parts)


def accumulate_at(t: Tracer, name: str, args: tuple[Any, ...]) -> None:
    """`np.add.at(a, indices, b)`: every index counts, however often it comes."""
    if len(args) != 3 or not isinstance(args[0], Arr) or name not in ACCUMULATED:
        t.refuse("unsupported_call", name=f"np.{name}.at")
    a, key, b = args
    value = strong(t, t.operand(b)) if a.dtype.kind == "b" else t.operand(b)
    found = promoted(t, name, (Type(a.dtype), type_of(value)))[1]
    ordered = name in ("maximum", "minimum") and a.dtype.kind == "c"
    # NumPy's `at` knows no weak numbers: uint64 and an int meet in floats.
    wide = np.promote_types(a.dtype, type_of(value).dtype)
    ordered |= a.dtype.kind in "iu" and wide.kind == "f"
    if found != a.dtype or a.dtype.kind == "b" or ordered:
        t.refuse("unsupported_call", name=f"np.{name}.at of {a.dtype} and {type_of(value)}")
    key = key if isinstance(key, tuple) else (key,)
    chosen = select(t, a, key)
    if chosen.mask is None and not chosen.axes:
        t.refuse("unsupported_call", name=f"np.{name}.at with slices alone")
    store(t, chosen, value, name)


# Counting


@handles(np.bincount)
def _bincount(t: Tracer, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """Zeros as many as the largest value says, and one, or a weight, added for each element."""
    array = as_arr(t, x)
    if array.ndim != 1 or array.dtype.kind not in "biu" or array.dtype == np.uint64:
        raise Unhandled
    least = t.integer(minlength)
    if not t.at_least(least, 0):
        t.raises("ValueError: 'minlength' must not be negative")
    dtype = INT if weights is None else FLOAT
    value: Any = 1
    if weights is not None:
        given = as_arr(t, weights)
        if given.ndim != 1 or given.dtype.kind == "c":
            raise Unhandled
        if not t.same(given.shape[0], array.shape[0]):
            t.raises("ValueError: the weights and list don't have the same length.")
        value = convert(t, t.read(given), FLOAT)
    if not t.at_least(array.shape[0], 1):
        return filled(t, (least,), 0, INT)  # whatever the weights are
    index = t.array(convert(t, t.read(array), INT))  # type: ignore[arg-type]
    smallest = t.operand(reduced(t, "min", index, (0,)))
    t.check(smallest, ">=")
    most = map_value(t, "add", [t.operand(reduced(t, "max", index, (0,))), 1])
    if least != 0:
        most = map_value(t, "maximum", [most, least])
    bins = filled(t, (sized(t, most),), 0, dtype)
    t.inside.add((t.region, t.read(index), bins.shape[0]))
    store(t, select(t, bins, (index,)), value, "add")
    return bins


def sized(t: Tracer, length: Value) -> Any:
    """A size that is computed from data and known to be no less than zero."""
    size = t.new_fresh()
    (sym,) = size.symbols()
    t.masks[sym] = length
    t.emit("extent", [length], {"size": size}, Type(np.dtype(bool), (size,)))
    return size
