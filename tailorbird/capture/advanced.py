"""Advanced indexing: arrays of integers and masks among slices, integers and new axes.

In: an array, the items of an index, a value to assign. Out: `compress`, `take`, `gather` nodes for
what is read, `write_mask` and `scatter` nodes for what is written.

Basic items are applied first, as a view; one mask among slices picks along its axes, and anything
else becomes integer arrays on axes of that view, a mask as the positions it picks, an integer
beside arrays as an array of rank 0. Indices that are not known are checked before they are used:
a `check` node leaves for plain Python, which raises the IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailorbird.capture.build import array_of, constant, convert
from tailorbird.capture.elementwise import map_value
from tailorbird.capture.limits import is_within
from tailorbird.capture.masks import fits, nonzero, picked, put
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Scal, exact, is_static
from tailorbird.capture.views import broadcast_view, drop_axes, makes_contiguous, pick, position
from tailorbird.dataclass import dataclass
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Operand, Value, type_of
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import INT, Type


def is_advanced(key: Any) -> bool:
    """Whether an index has arrays, lists or computed scalars in it."""
    items = key if isinstance(key, tuple) else (key,)
    return any(
        isinstance(item, (Arr, list, np.ndarray)) or (isinstance(item, Scal) and _is_data(item))
        for item in items
    )


def _is_data(x: Scal) -> bool:
    return x.dtype.kind in "biu" and exact(x.value) is None


@dataclass
class Selection:
    """A view of the array, and what picks from it: one mask, or integers on some of its axes."""

    view: Arr
    mask: tuple[int, Arr] | None
    axes: tuple[int, ...]
    indices: tuple[Operand, ...]
    basic: bool  # integers alone: NumPy shows memory rather than copy it


def select(t: Tracer, x: Arr, key: Any) -> Selection:
    """An index, taken apart."""
    items = [_array(t, item) for item in (key if isinstance(key, tuple) else (key,))]
    taken = sum(_width(item) for item in items)
    if taken > x.ndim:
        t.raises("IndexError: too many indices for array")
    dotted = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dotted) > 1:
        t.raises("IndexError: an index can only have a single ellipsis")
    whole = [slice(None)] * (x.ndim - taken)
    at = dotted[0] if dotted else len(items)
    items = [*items[:at], *whole, *items[at + 1 :]]
    basic: list[Any] = []
    advanced: list[tuple[int, Any]] = []
    for item in items:
        if item is None or isinstance(item, slice):
            basic.append(item)
            continue
        advanced.append((len(basic), item))
        basic += [slice(None)] * _width(item)
    view, _ = pick(t, x, tuple(basic))
    masks = [item for _, item in advanced if _is_mask(item)]
    if len(masks) == len(advanced) == 1:
        return Selection(view, advanced[0], (), (), False)
    axes: list[int] = []
    indices: list[Operand] = []
    for axis, item in advanced:
        if _is_mask(item):
            fits(t, item, t.shape_of(view)[axis : axis + item.ndim])
        parts = nonzero(t, item) if _is_mask(item) else (item,)
        for k, part in enumerate(parts):
            axes.append(axis + k)
            indices.append(_inside(t, part, t.shape_of(view)[axis + k]))
    alone = not any(isinstance(item, Arr) for _, item in advanced)
    return Selection(view, None, tuple(axes), tuple(indices), alone)


def _array(t: Tracer, item: Any) -> Any:
    """An item of an index; lists and arrays as arrays, exact scalars as integers."""
    if isinstance(item, (list, np.ndarray)):
        item = array_of(t, item) if len(item) else constant(t, np.array([], np.int64))
    if isinstance(item, (bool, np.bool_)) or (isinstance(item, Scal) and item.dtype.kind == "b"):
        t.refuse("data_dependent_shape", name="a boolean index")
    if isinstance(item, tuple):
        t.refuse("data_dependent_index", name="a tuple in an index")
    if isinstance(item, Arr):
        if item.dtype.kind not in "biu":
            t.raises("IndexError: arrays used as indices must be of integer (or boolean) type")
        if item.dtype.kind == "b" and not item.ndim:
            t.refuse("data_dependent_shape", name="a boolean index")
    return item


def _is_mask(item: Any) -> bool:
    return isinstance(item, Arr) and item.dtype.kind == "b"


def _width(item: Any) -> int:
    """How many axes of the array an item stands on."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


# Indices in range


def _inside(t: Tracer, item: Any, size: Dim) -> Operand:
    """An integer or array of them along an axis, proved or checked to be in range."""
    if isinstance(item, Scal) and _is_data(item):
        return inside(t, item.value, size)
    if not isinstance(item, Arr):
        return position(t, item, size)
    known = known_array(t, item)
    if known is None or known.dtype.kind not in "iu":
        return inside(t, t.read(item), size)
    found = inside_known(t, known, size)
    return t.read(item if found is known else constant(t, found))


def inside(t: Tracer, index: Value, size: Dim) -> Value:
    """Computed indices, which may count from the end: checked once in a region and those in it."""
    wide = convert(t, index, INT)
    assert isinstance(wide, Value)
    if index.type.dtype == np.uint64:  # what does not fit is no index, and not a negative one
        t.check(map_value(t, "less_equal", [index, np.uint64(2**63 - 1)]), "!=")
    if is_within(t, wide, size):
        return wide
    region: Any = t.region
    while region is not None:
        if (region, wide, size) in t.inside:
            return wide
        region = region.parent
    t.inside.add((t.region, wide, size))
    least = map_value(t, "greater_equal", [wide, t.assume.canon(-size)])
    most = map_value(t, "less", [wide, size])
    t.check(map_value(t, "logical_and", [least, most]), "!=")
    return wide


def known_array(t: Tracer, x: Any) -> np.ndarray | None:
    """The value of an index that does not depend on the call: a list of numbers, or a constant."""
    if isinstance(x, list):
        return np.array(x) if is_static(x) and x else None
    content = t.read(x)
    spelled_out = any(
        content is p and s.root[0] == "static" for p, s in zip(t.parameters, t.sources)
    )
    return t.live[content] if spelled_out else None


def inside_known(t: Tracer, places: np.ndarray, size: Dim) -> np.ndarray:
    """Known indices, each proved to be inside and counted from the front where that is possible."""
    if places.size and places.min() < 0:
        fixed = t.concrete(size, "an axis with negative indices")
        if places.min() < -fixed or places.max() >= fixed:
            t.raises("IndexError: index out of bounds")
        return np.where(places < 0, places + fixed, places)
    if places.size:
        position(t, int(places.max()), size)
    return places


# Reading


def read(t: Tracer, x: Arr, key: Any) -> Any:
    """`x[key]`."""
    rows = _rows(t, x, key)
    if rows is not None:
        return pick(t, x, rows)[0]
    found = taken(t, select(t, x, key))
    items = key if isinstance(key, tuple) else (key,)
    some_axes = len(items) < x.ndim or any(isinstance(i, slice) or i is None for i in items)
    return found if some_axes else makes_contiguous(found, items)


def _rows(t: Tracer, x: Arr, key: Any) -> tuple[Any, ...] | None:
    """An index of computed integers alone that leaves axes: they are bound, for it is a view."""
    items = tuple(_array(t, item) for item in (key if isinstance(key, tuple) else (key,)))
    whole = sum(map(_width, items)) == x.ndim
    if any(isinstance(item, Arr) for item in items):
        return None
    if whole and not any(item is None or isinstance(item, slice) for item in items):
        return None
    return tuple(t.integer(item) if isinstance(item, Scal) else item for item in items)


def taken(t: Tracer, chosen: Selection) -> Any:
    """What a selection picks: an array of its own, or a scalar."""
    if chosen.mask is not None:
        return picked(t, chosen.view, chosen.mask[1], chosen.mask[0])
    return t.result(gathered(t, chosen.view, chosen.axes, chosen.indices))


def gathered(t: Tracer, x: Arr, axes: Sequence[int], indices: Sequence[Operand]) -> Value:
    """The elements of x at integers on some of its axes."""
    base = t.read(x)
    spread = _together(t, indices)
    if len(axes) == 1:
        return t.inferred("take", [base, *spread], {"axis": axes[0]})
    return t.inferred("gather", [base, *spread], {"axes": tuple(axes)})


def _together(t: Tracer, indices: Sequence[Operand]) -> list[Operand]:
    """Indices whose sizes have been made to agree."""
    t.broadcast([type_of(i).shape for i in indices])
    return list(indices)


# Writing


def write(t: Tracer, x: Arr, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    from tailorbird.capture.assign import must_hold

    chosen = select(t, x, key)
    must_hold(t, chosen.view, value)
    found = t.operand(value)
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    alone = isinstance(mask, Arr) and mask.dtype.kind == "b" and mask.ndim == x.ndim
    if alone and len(type_of(found).shape) > 1:
        t.raises("TypeError: boolean array indexing assignment requires a 0 or 1-dimensional input")
    store(t, chosen, found)


def store(t: Tracer, chosen: Selection, value: Operand, op: str = "") -> None:
    """Writes a value into what a selection picks; with `op`, accumulates it there."""
    view = chosen.view
    converted = convert(t, value, view.dtype)
    if chosen.mask is not None and not op:
        put(t, view, chosen.mask[1], chosen.mask[0], converted)
        return
    axes, indices = chosen.axes, chosen.indices
    if chosen.mask is not None:
        axis, mask = chosen.mask
        fits(t, mask, t.shape_of(view)[axis : axis + mask.ndim])
        axes = tuple(range(axis, axis + mask.ndim))
        indices = tuple(t.read(part) for part in nonzero(t, mask))
    spread = _together(t, indices)
    base = t.read(view)
    goal = infer("gather", [base, *spread], {"axes": axes}, lambda a, b: t.same(a, b)).shape
    attrs: dict[str, Any] = {"axes": axes, "op": op} if op else {"axes": axes}
    operands = [base, *spread, _spread(t, converted, goal)]
    t.write(view, t.emit("scatter", operands, attrs, Type(view.dtype, base.type.shape)))


def _spread(t: Tracer, value: Operand, goal: tuple[Dim, ...]) -> Operand:
    """A value in the shape of what is written; a scalar stays one."""
    shape = type_of(value).shape
    if not shape or not isinstance(value, Value):
        return value
    source = t.array(value)
    extra = len(shape) - len(goal)
    if extra > 0:
        if not all(t.same(d, 1) for d in shape[:extra]):
            t.raises("ValueError: shape mismatch")
        source = drop_axes(t, source, range(extra))
    return t.read(broadcast_view(t, source, tuple(map(t.assume.canon, goal))))


def augmented(t: Tracer, name: str, x: Arr, key: Any, value: Any) -> None:
    """`x[key] op= value`: what is there is read, changed and assigned."""
    from tailorbird.capture.arith import binary
    from tailorbird.capture.assign import augment, must_hold

    chosen = select(t, x, key)
    found = taken(t, chosen)
    if isinstance(found, Scal):
        found = binary(t, name, found, value)
        must_hold(t, chosen.view, found)
    else:
        augment(t, name, found, value)
    store(t, chosen, t.operand(found))


def exact_index(x: Any) -> bool:
    """Whether an index is an integer that is known exactly."""
    return isinstance(x, (int, np.integer, Expr)) and not isinstance(x, bool)
