"""Shape functions and attributes: what shows the same elements in another order or shape.

In: arrays. Out: references through composed views; a reshape is the same memory where that is
known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.build import filled, shape_from
from tailorbird.capture.derived import based
from tailorbird.capture.either import each
from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.objects import attribute_of
from tailorbird.capture.registry import attribute, handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Scal, Unhandled, writes_once
from tailorbird.capture.views import (
    as_arr,
    broadcast_view,
    diagonal_view,
    drop_axes,
    flip_axes,
    insert_axes,
    maybe_copied,
    normal_axes,
    normal_axis,
    permute,
    reshape,
)
from tailorbird.ir.expr import Dim, product
from tailorbird.ir.node import View
from tailorbird.ir.promote import real_dtype
from tailorbird.ir.types import Type

# Attributes


@attribute("shape")
def _shape(t: Tracer, x: Any) -> tuple[Dim, ...]:
    return t.shape_of(x)


@attribute("ndim")
def _ndim(t: Tracer, x: Any) -> int:
    return x.ndim


@attribute("size")
def _size(t: Tracer, x: Any) -> Dim:
    return t.assume.canon(product(x.shape))


@attribute("dtype")
def _dtype(t: Tracer, x: Any) -> np.dtype:
    return x.dtype


@attribute("itemsize")
def _itemsize(t: Tracer, x: Any) -> int:
    return x.dtype.itemsize


@attribute("nbytes")
def _nbytes(t: Tracer, x: Any) -> Dim:
    return _size(t, x) * x.dtype.itemsize


@attribute("T")
def _transposed(t: Tracer, x: Any) -> Any:
    return permute(t, x, range(x.ndim)[::-1]) if isinstance(x, Arr) else x


@attribute("mT")
def _matrix_transposed(t: Tracer, x: Any) -> Any:
    if x.ndim < 2:
        t.raises("ValueError: matrix transpose with ndim < 2 is undefined")
    return permute(t, x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@attribute("real")
def _real(t: Tracer, x: Any) -> Any:
    """The real part: of a real array it is the array itself."""
    return _part(t, "real", x)


@attribute("imag")
def _imag(t: Tracer, x: Any) -> Any:
    return _part(t, "imag", x)


def _part(t: Tracer, name: str, x: Any) -> Any:
    if x.dtype.kind != "c" and name == "real":
        return x
    if not isinstance(x, Arr):
        return Scal(t.inferred(name, [t.operand(x)], {}))
    if x.dtype.kind != "c":
        zeros = t.array(t.inferred(name, [t.read(x)], {}))
        zeros.buffer.writeable = False
        return zeros
    if x.buffer.choice is not None:
        return each(t, x, lambda side: _part(t, name, side))
    made = based(t, x, Type(real_dtype(x.dtype), t.shape_of(x)), name)
    made.shares = True
    t.content(made)
    return Arr(made)


@handles(np.real)
def _np_real(t: Tracer, val: Any) -> Any:
    return _part_of(t, "real", val)


@handles(np.imag)
def _np_imag(t: Tracer, val: Any) -> Any:
    return _part_of(t, "imag", val)


def _part_of(t: Tracer, name: str, x: Any) -> Any:
    """The attribute, which Python's numbers have too; only of a list NumPy makes an array."""
    return attribute_of(t, as_arr(t, x) if isinstance(x, (list, tuple)) else x, name)


@handles(np.shape)
def _np_shape(t: Tracer, a: Any) -> tuple[Dim, ...]:
    return t.shape_of(as_arr(t, a))


@handles(np.ndim)
def _np_ndim(t: Tracer, a: Any) -> int:
    return as_arr(t, a).ndim


@handles(np.size)
def _np_size(t: Tracer, a: Any, axis: Any = None) -> Dim:
    x = as_arr(t, a)
    if axis is None:
        return _size(t, x)
    return t.assume.canon(x.shape[normal_axis(t, axis, x.ndim)])


# Reshaping


def _wanted(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


@handles(method="reshape")
def _reshape_method(t: Tracer, x: Any, *shape: Any, order: Any = "C") -> Any:
    return _reshape(t, x, _wanted(shape), order)


@handles(np.reshape)
def _reshape(t: Tracer, a: Any, shape: Any, order: Any = "C") -> Any:
    if order != "C":
        t.refuse("unsupported_call", name=f"reshape with order={order!r}")
    return reshape(t, as_arr(t, a), shape)


@handles(np.ravel, method="ravel")
def _ravel(t: Tracer, a: Any, order: Any = "C") -> Any:
    """Like reshape(-1), but NumPy also copies when one axis has gaps."""
    if order != "C":
        t.refuse("unsupported_call", name=f"ravel with order={order!r}")
    x = as_arr(t, a)
    return maybe_copied(t, x, (t.assume.canon(product(x.shape)),))


@handles(method="flatten")
def _flatten(t: Tracer, a: Any, order: Any = "C") -> Any:
    return t.array(t.read(_ravel(t, a, order)), contiguous=True)


@handles(np.squeeze, method="squeeze")
def _squeeze(t: Tracer, a: Any, axis: Any = None) -> Any:
    x = as_arr(t, a)
    if axis is None:
        axes = tuple(k for k, d in enumerate(x.shape) if _is_one(t, d))
    else:
        axes = normal_axes(t, axis, x.ndim)
        if not all(t.same(x.shape[k], 1) for k in axes):
            t.raises(
                "ValueError: cannot select an axis to squeeze out which has size not equal to one"
            )
    return drop_axes(t, x, axes)


def _is_one(t: Tracer, size: Dim) -> bool:
    """Whether an axis goes: a size that is not one now is guarded to stay so."""
    return t.same(size, 1)


@handles(np.expand_dims)
def _expand_dims(t: Tracer, a: Any, axis: Any) -> Any:
    x = as_arr(t, a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return insert_axes(t, x, normal_axes(t, axis, x.ndim + count))


@handles(np.atleast_1d)
def _atleast_1d(t: Tracer, *arrays: Any) -> Any:
    found = [_at_least(t, as_arr(t, a), 1) for a in arrays]
    return found[0] if len(found) == 1 else tuple(found)


@handles(np.atleast_2d)
def _atleast_2d(t: Tracer, *arrays: Any) -> Any:
    found = [_at_least(t, as_arr(t, a), 2) for a in arrays]
    return found[0] if len(found) == 1 else tuple(found)


@handles(np.atleast_3d)
def _atleast_3d(t: Tracer, *arrays: Any) -> Any:
    found = [_three(t, as_arr(t, a)) for a in arrays]
    return found[0] if len(found) == 1 else tuple(found)


def _at_least(t: Tracer, x: Arr, rank: int) -> Arr:
    missing = rank - x.ndim
    return x if missing <= 0 else insert_axes(t, x, range(missing))


def _three(t: Tracer, x: Arr) -> Arr:
    places = {0: [0, 1, 2], 1: [0, 2], 2: [2]}.get(x.ndim)
    return x if places is None else insert_axes(t, x, places)


# Axes


@handles(method="transpose")
def _transpose_method(t: Tracer, x: Any, *axes: Any) -> Any:
    return _transpose(t, x, _wanted(axes) if axes else None)


@handles(np.transpose, np.permute_dims if hasattr(np, "permute_dims") else np.transpose)
def _transpose(t: Tracer, a: Any, axes: Any = None) -> Any:
    x = as_arr(t, a)
    if axes is None:
        return permute(t, x, range(x.ndim)[::-1])
    order = [normal_axis(t, k, x.ndim) for k in t.concrete(axes, "axes")]
    if sorted(order) != list(range(x.ndim)):
        t.raises("ValueError: axes don't match array")
    return permute(t, x, order)


@handles(np.swapaxes, method="swapaxes")
def _swapaxes(t: Tracer, a: Any, axis1: Any, axis2: Any) -> Any:
    x = as_arr(t, a)
    i, j = normal_axis(t, axis1, x.ndim), normal_axis(t, axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = order[j], order[i]
    return permute(t, x, order)


@handles(np.moveaxis)
def _moveaxis(t: Tracer, a: Any, source: Any, destination: Any) -> Any:
    x = as_arr(t, a)
    sources = [normal_axis(t, k, x.ndim) for k in _several(source)]
    places = [normal_axis(t, k, x.ndim) for k in _several(destination)]
    if len(sources) != len(places):
        t.raises("ValueError: source and destination must have the same number of elements")
    order = [k for k in range(x.ndim) if k not in sources]
    for place, k in sorted(zip(places, sources)):
        order.insert(place, k)
    return permute(t, x, order)


def _several(x: Any) -> Any:
    return x if isinstance(x, (tuple, list)) else (x,)


@handles(np.rollaxis)
def _rollaxis(t: Tracer, a: Any, axis: Any, start: Any = 0) -> Any:
    x = as_arr(t, a)
    at = normal_axis(t, axis, x.ndim)
    begin = t.concrete(start, "start")
    begin = begin + x.ndim if begin < 0 else begin
    order = [k for k in range(x.ndim) if k != at]
    order.insert(begin - 1 if at < begin else begin, at)
    return permute(t, x, order)


@handles(np.flip)
def _flip(t: Tracer, m: Any, axis: Any = None) -> Any:
    x = as_arr(t, m)
    return flip_axes(t, x, normal_axes(t, axis, x.ndim))


@handles(np.flipud)
def _flipud(t: Tracer, m: Any) -> Any:
    return _flip(t, m, 0)


@handles(np.fliplr)
def _fliplr(t: Tracer, m: Any) -> Any:
    return _flip(t, m, 1)


@handles(np.rot90)
def _rot90(t: Tracer, m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    x = as_arr(t, m)
    first, second = (normal_axis(t, a, x.ndim) for a in axes)
    turns = t.concrete(k, "k") % 4
    if turns == 0:
        return Arr(x.buffer, x.view)
    if turns == 2:
        return flip_axes(t, x, (first, second))
    if turns == 1:
        return _swapaxes(t, flip_axes(t, x, (second,)), first, second)
    return flip_axes(t, _swapaxes(t, x, first, second), (second,))


# Broadcasting and diagonals


@handles(np.broadcast_to)
def _broadcast_to(t: Tracer, array: Any, shape: Any, subok: Any = False) -> Any:
    made = _another(broadcast_view(t, as_arr(t, array), shape_from(t, shape)))
    spread = made.view is not None and not writes_once(made.view)
    if spread or made.buffer.choice is not None:
        return made
    frozen = maybe_copied(t, made, t.shape_of(made))  # which shares memory: its shape is the same
    frozen.buffer.shares, frozen.buffer.writeable = True, False
    return frozen


def _another(x: Arr) -> Arr:
    """A new array object that shows the same."""
    return Arr(x.buffer, x.view)


@handles(np.broadcast_arrays)
def _broadcast_arrays(t: Tracer, *args: Any) -> Any:
    arrays = [as_arr(t, a) for a in args]
    shape = t.broadcast([x.shape for x in arrays])
    return tuple(_another(broadcast_view(t, x, shape)) for x in arrays)


@handles(np.broadcast_shapes)
def _broadcast_shapes(t: Tracer, *shapes: Any) -> Any:
    return t.broadcast([shape_from(t, s) for s in shapes])


@handles(np.diagonal, method="diagonal")
def _diagonal(t: Tracer, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    x = as_arr(t, a)
    if x.ndim < 2:
        t.raises("ValueError: diag requires an array of at least two dimensions")
    first, second = normal_axis(t, axis1, x.ndim), normal_axis(t, axis2, x.ndim)
    return diagonal_view(t, x, t.concrete(offset, "offset"), first, second)


@handles(np.diag)
def _diag(t: Tracer, v: Any, k: Any = 0) -> Any:
    x = as_arr(t, v)
    if x.ndim == 2:
        return _diagonal(t, x, k)
    if x.ndim != 1:
        t.raises("ValueError: Input must be 1- or 2-d.")
    offset = t.concrete(k, "k")
    length = t.shape_of(x)[0]
    side = length + abs(offset)
    zeros = filled(t, (side, side), 0, x.dtype)
    rows = (max(-offset, 0), 1, 0)
    flat = reshape(t, zeros, side * side)
    start = rows[0] * side + max(offset, 0)
    view = View(((start, side + 1, 0),), (length,))
    flat_type = Type(x.dtype, (side * side,))
    value = t.emit("write", [t.read(flat), t.read(x)], {"view": view}, flat_type)
    return t.array(t.reshaped(value, (side, side)), contiguous=True)


@handles(np.isscalar)
def _isscalar(t: Tracer, element: Any) -> bool:
    if isinstance(element, Arr):
        return False
    return not isinstance(element, (list, tuple, dict, type(None)))


@handles(np.iscomplexobj)
def _iscomplexobj(t: Tracer, x: Any) -> bool:
    return as_arr(t, x).dtype.kind == "c"


@handles(np.isrealobj)
def _isrealobj(t: Tracer, x: Any) -> bool:
    return as_arr(t, x).dtype.kind != "c"


@handles(np.angle)
def _angle(t: Tracer, z: Any, deg: Any = False) -> Any:
    x = as_arr(t, z)
    if x.dtype.kind != "c" or t.concrete(deg, "deg"):
        raise Unhandled
    return elementwise(t, "arctan2", [_part(t, "imag", x), _part(t, "real", x)])
