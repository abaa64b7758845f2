"""Views: everything that shows the same memory in another order or shape.

In: a reference and what to show of it. Out: a reference to the same buffer through a composed view
(basic indexing, transposes, broadcasts, diagonals), or to a reshaped buffer that follows its base.

Invariants: a view never leaves its base, because every bound was proved or guarded. Whether NumPy
copies when it reshapes depends on strides; where that is not known the result is marked, and a
later write to either side is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailorbird.capture.derived import based
from tailorbird.capture.either import each
from tailorbird.capture.meeting import meet
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr, Scal, sides
from tailorbird.ir.expr import Dim, Expr, apply, product
from tailorbird.ir.node import View
from tailorbird.ir.types import Type

Axis = tuple[Dim, Dim, int | None]


def as_arr(t: Tracer, x: Any) -> Arr:
    """x as an array, as np.asarray would: a list is built, a scalar has rank 0."""
    if isinstance(x, Arr):
        return x
    if isinstance(x, Scal):
        from tailorbird.capture.elementwise import strong

        return t.array(strong(t, x.value))  # type: ignore[arg-type]
    from tailorbird.capture.build import array_of

    return array_of(t, x)


# Basic indexing


def index(t: Tracer, x: Arr, key: Any) -> Any:
    """`x[key]`: a view, or a scalar when every axis has an index."""
    from tailorbird.capture import advanced

    if advanced.is_advanced(key):
        return advanced.read(t, x, key)
    picked, scalar = pick(t, x, key)
    return Scal(t.read(picked)) if scalar else picked


def _items(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def pick(t: Tracer, x: Arr, key: Any) -> tuple[Arr, bool]:
    """The part of x that a basic index shows, and whether NumPy makes a scalar of it."""
    items: Any = _items(key)
    for item in items:
        _refuse_advanced(t, item)
    taken = sum(1 for item in items if item is not None and item is not Ellipsis)
    if taken > x.ndim:
        t.raises("IndexError: too many indices")
    items, dotted = _without_ellipsis(t, items, x.ndim - taken)
    dims: list[Axis] = []
    shape: list[Dim] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        size = t.assume.canon(x.shape[len(dims)])
        if isinstance(item, slice):
            start, length, step = span(t, item, size)
            dims.append((start, step, len(shape)))
            shape.append(length)
        else:
            dims.append((position(t, item, size), 0, None))
    scalar = not shape and not dotted
    return shown(t, x, View(tuple(dims), tuple(shape))), scalar


def _refuse_advanced(t: Tracer, item: Any) -> None:
    if isinstance(item, (bool, np.bool_)):
        t.refuse("data_dependent_shape", name="a boolean index")
    if isinstance(item, (Arr, Scal)) and item.dtype.kind == "b":
        t.refuse("data_dependent_shape", name="a boolean mask")
    if isinstance(item, (Arr, list, tuple, np.ndarray)):
        t.refuse("data_dependent_index", name="an array of indices")


def _without_ellipsis(t: Tracer, items: tuple[Any, ...], missing: int) -> tuple[list[Any], bool]:
    """The index with one entry for each axis, and whether it had an ellipsis."""
    places = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        t.raises("IndexError: an index can only have a single ellipsis")
    whole = [slice(None)] * missing
    if not places:
        return [*items, *whole], False
    at = places[0]
    return [*items[:at], *whole, *items[at + 1 :]], True


def position(t: Tracer, item: Any, size: Dim) -> Dim:
    """An index along an axis, counted from the front and proved or guarded to be inside."""
    at = t.integer(item)
    from_front = t.assume.holds(at)
    if from_front is None:
        if not t.at_least(at + size, 0) or not t.at_least(size, at + 1):
            t.raises("IndexError: index out of bounds")
        return t.assume.canon(apply("mod", at, size))
    if not from_front:
        at = at + size
    if not t.at_least(at, 0) or not t.at_least(size, at + 1):
        t.raises("IndexError: index out of bounds")
    return t.assume.canon(at)


def span(t: Tracer, item: slice, size: Dim) -> tuple[Dim, Dim, int]:
    """Start, length and step of a slice along an axis, by Python's rules."""
    if item.start is None and item.stop is None and item.step is None:
        return 0, size, 1
    step = 1 if item.step is None else t.concrete(t.integer(item.step, "a step"), "a step")
    if step == 0:
        t.raises("ValueError: slice step cannot be zero")
    if step > 0:
        first = 0 if item.start is None else _clamped(t, item.start, size, 0, size)
        last = size if item.stop is None else _clamped(t, item.stop, size, 0, size)
    else:
        first = size - 1 if item.start is None else _clamped(t, item.start, size, -1, size - 1)
        last = -1 if item.stop is None else _clamped(t, item.stop, size, -1, size - 1)
    distance = t.assume.canon(last - first if step > 0 else first - last)
    some = t.assume.holds(distance)
    if some is False:
        return 0, 0, 1
    if some is None:
        distance = apply("max", distance, 0)
    if abs(step) == 1:
        return t.assume.canon(first), t.assume.canon(distance), step
    length = apply("floordiv", t.assume.canon(distance) + (abs(step) - 1), abs(step))
    return t.assume.canon(first), length, step


def _clamped(t: Tracer, item: Any, size: Dim, low: Dim, high: Dim) -> Dim:
    at = t.integer(item, "a slice bound")
    from_front = t.assume.holds(at)
    if from_front:
        return t.assume.least(at, high)
    wrapped = t.assume.greatest(at + size, low)
    if from_front is False:
        return wrapped
    is_negative = apply("min", 1, apply("max", -at, 0))
    return apply("max", apply("min", at + is_negative * size, high), low)


def shown(t: Tracer, x: Arr, view: View) -> Arr:
    """A new reference; a view of everything stays the plain one."""
    dims = view.dims
    whole = len(dims) == len(view.shape) == x.ndim and all(
        dim == (0, 1, k) and t.assume.canon(view.shape[k] - x.shape[k]) == 0
        for k, dim in enumerate(dims)
    )
    return Arr(x.buffer, x.view) if whole else t.view(x, view)


# Axes


def normal_axis(t: Tracer, axis: Any, ndim: int) -> int:
    """An axis counted from the front."""
    found = t.concrete(t.integer(axis, "an axis"), "an axis")
    if not -ndim <= found < ndim:
        t.raises(f"AxisError: axis {found} is out of bounds for rank {ndim}")
    return int(found) % ndim


def normal_axes(t: Tracer, axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, every axis for None, in order."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, (tuple, list)):
        return (normal_axis(t, axis, ndim),)
    found = [normal_axis(t, a, ndim) for a in axis]
    if len(set(found)) != len(found):
        t.raises("ValueError: duplicate value in 'axis'")
    return tuple(sorted(found))


def permute(t: Tracer, x: Arr, order: Sequence[int]) -> Arr:
    """x with result axis k showing axis order[k] of x."""
    shape = t.shape_of(x)
    place = {axis: k for k, axis in enumerate(order)}
    dims = tuple((0, 1, place[axis]) for axis in range(x.ndim))
    return shown(t, x, View(dims, tuple(shape[axis] for axis in order)))


def insert_axes(t: Tracer, x: Arr, places: Sequence[int]) -> Arr:
    """x with axes of one at these places of the result."""
    rank = x.ndim + len(places)
    kept = [k for k in range(rank) if k not in places]
    shape = t.shape_of(x)
    sizes: list[Dim] = [1] * rank
    for k, size in zip(kept, shape):
        sizes[k] = size
    return shown(t, x, View(tuple((0, 1, k) for k in kept), tuple(sizes)))


def drop_axes(t: Tracer, x: Arr, axes: Sequence[int]) -> Arr:
    """x without axes of size one."""
    kept = [k for k in range(x.ndim) if k not in axes]
    place = {axis: k for k, axis in enumerate(kept)}
    dims: tuple[Axis, ...] = tuple(
        (0, 1, place[k]) if k in place else (0, 0, None) for k in range(x.ndim)
    )
    shape = t.shape_of(x)
    return shown(t, x, View(dims, tuple(shape[k] for k in kept)))


def flip_axes(t: Tracer, x: Arr, axes: Sequence[int]) -> Arr:
    """x counted from the other end along these axes."""
    shape = t.shape_of(x)
    dims: list[Axis] = []
    for k, size in enumerate(shape):
        dims.append((size - 1, -1, k) if k in axes else (0, 1, k))
    return shown(t, x, View(tuple(dims), shape))


def broadcast_view(t: Tracer, x: Arr, shape: Shape) -> Arr:
    """x repeated to a shape, without moving anything."""
    own = t.shape_of(x)
    if own == shape:
        return x
    added = len(shape) - len(own)
    if added < 0:
        t.raises("ValueError: input operand has more dimensions than allowed")
    dims: list[Axis] = []
    for k, size in enumerate(own):
        joined = t.together((size, shape[k + added]))
        if t.assume.canon(joined - shape[k + added]) != 0 and not meet(t, joined, shape[k + added]):
            t.raises("ValueError: shape cannot be broadcast")
        fixed = t.assume.canon(own[k]) == 1 and t.assume.canon(shape[k + added]) != 1
        dims.append((0, 0, None) if fixed else (0, 1, k + added))
    return shown(t, x, View(tuple(dims), tuple(map(t.assume.canon, shape))))


def diagonal_view(t: Tracer, x: Arr, offset: int, axis1: int, axis2: int) -> Arr:
    """The diagonal of two axes, as the last axis of the result."""
    shape = t.shape_of(x)
    down, right = max(-offset, 0), max(offset, 0)
    rows, columns = shape[axis1] - down, shape[axis2] - right
    if not t.at_least(rows, 0) or not t.at_least(columns, 0):
        length: Dim = 0
    else:
        length = t.assume.least(rows, columns)
    kept = [k for k in range(x.ndim) if k not in (axis1, axis2)]
    place = {axis: k for k, axis in enumerate(kept)}
    last = len(kept)
    dims: list[Axis] = []
    for k in range(x.ndim):
        if k in place:
            dims.append((0, 1, place[k]))
        else:
            start = 0 if length == 0 else down if k == axis1 else right
            dims.append((start, 1, last))
    return shown(t, x, View(tuple(dims), (*(shape[k] for k in kept), length)))


# Reshaping


def reshape(t: Tracer, x: Arr, wanted: Any) -> Arr:
    """x in another shape: the same memory where NumPy is known not to copy."""
    shape = full_shape(t, t.shape_of(x), wanted)
    if shape == t.shape_of(x):
        return Arr(x.buffer, x.view)
    moved = _units_moved(t, x, shape)
    if moved is not None:
        return moved
    return each(t, x, lambda side: maybe_copied(t, side, shape))


def reshaped_in_place(t: Tracer, x: Arr, wanted: Any) -> Arr | None:
    """What an array object shows once its shape was assigned; None where NumPy might refuse it."""
    made = reshape(t, x, wanted)
    loose = made.buffer.choice is not None or (made.buffer.base and not made.buffer.shares)
    return None if loose else made


def maybe_copied(t: Tracer, x: Arr, shape: Shape) -> Arr:
    """x in another shape, sharing its memory if it is known to be contiguous; else nobody knows."""
    buffer = based(t, x, Type(x.dtype, shape))
    buffer.contiguous = is_contiguous(t, x)
    buffer.shares = buffer.contiguous
    t.content(buffer)  # made here, so that it is not made in every round of a loop
    return Arr(buffer)


def _units_moved(t: Tracer, x: Arr, shape: Shape) -> Arr | None:
    """A reshape that only adds or drops axes of one is a view whatever the strides."""
    old = [d for d in t.shape_of(x) if d != 1]
    if old != [d for d in shape if d != 1]:
        return None
    dropped = drop_axes(t, x, [k for k, d in enumerate(t.shape_of(x)) if d == 1])
    return insert_axes(t, dropped, [k for k, d in enumerate(shape) if d == 1])


def full_shape(t: Tracer, old: Shape, wanted: Any) -> Shape:
    """The shape asked for, with -1 worked out and the number of elements agreed."""
    items = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    dims = [t.integer(d, "a shape") for d in items]
    unknown = [k for k, d in enumerate(dims) if _is_minus_one(t, d)]
    if len(unknown) > 1:
        t.raises("ValueError: can only specify one unknown dimension")
    total = product(old)
    if unknown:
        rest = product(d for k, d in enumerate(dims) if k != unknown[0])
        dims[unknown[0]] = _missing_size(t, total, rest)
    elif not _same_number(t, old, dims):
        t.raises("ValueError: cannot reshape array")
    return tuple(map(t.assume.canon, dims))


def _same_number(t: Tracer, old: Shape, new: Sequence[Dim]) -> bool:
    """Whether two shapes have as many elements; sizes that are equal now are then one size."""
    if t.assume.equal(product(old), product(new)) is not None:
        return t.same(product(old), product(new))
    a = [d for d in old if d != 1]
    b = [d for d in new if d != 1]
    for side in (0, -1):
        while a and b and t.assume.hint(a[side]) == t.assume.hint(b[side]) is not None:
            t.same(a.pop(side), b.pop(side))
    return t.equal(product(old), product(new))


def _missing_size(t: Tracer, total: Dim, rest: Dim) -> Dim:
    if isinstance(rest, Expr) and not t.at_least(rest, 1):
        t.raises("ValueError: cannot reshape array of size 0 into an unknown shape")
    if rest == 0:
        t.raises("ValueError: cannot reshape array of size 0 into an unknown shape")
    return t.quotient(t.assume.canon(total), t.assume.canon(rest))


def _is_minus_one(t: Tracer, d: Dim) -> bool:
    if isinstance(d, int):
        if d < -1:
            t.raises("ValueError: negative dimensions are not allowed")
        return d == -1
    if t.assume.proved(d) or t.at_least(d, 0):
        return False
    return t.concrete(d) == -1


def makes_contiguous(result: Any, operands: Sequence[Any]) -> Any:
    """A new array lies in C order if all that it was made from do: NumPy keeps their order."""
    if isinstance(result, Arr) and (result.ndim == 1 or all(map(_in_c_order, operands))):
        result.buffer.contiguous = True
    return result


def _in_c_order(x: Any) -> bool:
    """Whether no later axis of x is known to have the wider strides; gaps do not matter."""
    if not isinstance(x, Arr) or x.ndim < 2:
        return True
    if x.buffer.choice is not None:
        return all(map(_in_c_order, sides(x)))
    if not x.buffer.contiguous or x.view is None:
        return x.buffer.contiguous
    used = [(step, axis) for _, step, axis in x.view.dims if axis is not None]
    axes = [axis for _, axis in used]
    return axes == sorted(axes) and all(isinstance(step, int) and step > 0 for step, _ in used)


def is_contiguous(t: Tracer, x: Arr) -> bool:
    """Whether x is known to lie in C order without gaps: a leading part of a contiguous buffer."""
    if x.buffer.choice is not None:
        return all(is_contiguous(t, side) for side in sides(x))
    if not x.buffer.contiguous:
        return False
    if x.view is None:
        return True
    used = [axis for _, _, axis in x.view.dims if axis is not None]
    if used != list(range(len(x.shape))):
        return False
    partial = False
    for k, (start, step, axis) in enumerate(x.view.dims):
        size = t.assume.canon(x.buffer.type.shape[k])
        if axis is None:
            if partial:
                return False
            continue
        whole = start == 0 and t.assume.canon(x.view.shape[axis]) == size
        if step != 1 or (partial and not whole):
            return False
        partial = True
    return True
