"""Writes: element and slice assignment, in-place operators and `out=`.

In: a reference to write through and a value. Out: the buffer's next content.

Invariants: the value is read before the write, so overlapping sides are right. Assignment
converts as NumPy does; an in-place operator or `out=` must be a same_kind conversion and must not
grow the shape, else plain NumPy runs and raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture import advanced
from tailorbird.capture.arith import binary
from tailorbird.capture.build import convert
from tailorbird.capture.elementwise import map_value
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Scal
from tailorbird.capture.views import broadcast_view, drop_axes, pick
from tailorbird.ir.node import Operand, Value, type_of


def assign(t: Tracer, x: Arr, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    if advanced.is_advanced(key):
        advanced.write(t, x, key, value)
        return
    target, scalar = pick(t, x, key)
    must_hold(t, target, value)
    _fill_item(t, target, t.operand(value), scalar)


def _fill_item(t: Tracer, target: Arr, value: Operand, scalar: bool) -> None:
    """Writes what an index shows; a single element takes no array with axes."""
    if scalar and type_of(value).shape:
        t.raises("ValueError: setting an array element with a sequence.")
    fill(t, target, value)


def must_hold(t: Tracer, target: Arr, value: Any) -> None:
    """A NumPy scalar goes into integers as int(value), which raises if it does not fit."""
    if not isinstance(value, Scal) or value.type.weak or target.dtype.kind not in "iu":
        return
    found = value.type.dtype
    if found.kind == "c" or np.can_cast(found, target.dtype, "safe"):
        return
    whole = map_value(t, "trunc", [value.value]) if found.kind == "f" else value.value
    held = convert(t, convert(t, whole, target.dtype), found)
    t.check(map_value(t, "not_equal", [held, whole]), "==")


def fill(t: Tracer, target: Arr, value: Operand) -> None:
    """Writes a value that broadcasts to the target."""
    converted = convert(t, value, target.dtype)
    t.write(target, _fitted(t, converted, target))


def _fitted(t: Tracer, value: Operand, target: Arr) -> Operand:
    """The value in the target's own shape; a scalar stays one."""
    shape = type_of(value).shape
    goal = t.shape_of(target)
    if not shape or not isinstance(value, Value):
        return value
    source = t.array(value)
    extra = len(shape) - len(goal)
    if extra > 0:
        if not all(t.same(d, 1) for d in shape[:extra]):
            t.raises("ValueError: could not broadcast input array")
        source = drop_axes(t, source, range(extra))
    return t.read(broadcast_view(t, source, goal))


def augment(t: Tracer, name: str, x: Arr, value: Any) -> None:
    """`x op= value` for an array."""
    result = binary(t, name, x, value)
    store_out(t, result, x)


def store_out(t: Tracer, result: Any, out: Any) -> Arr:
    """What a function with `out=` does: the result goes into `out`, which is returned."""
    if not isinstance(out, Arr):
        t.raises("TypeError: return arrays must be of ArrayType")
    value = t.operand(result)
    kind = type_of(value)
    if not np.can_cast(kind.dtype, out.dtype, "same_kind"):
        t.raises(f"UFuncTypeError: cannot cast {kind.dtype} to {out.dtype} with same_kind")
    if len(kind.shape) > out.ndim:
        t.raises("ValueError: non-broadcastable output operand")
    goal = t.shape_of(out)
    joined = t.broadcast([kind.shape, goal])
    if not all(map(t.same, joined, t.shape_of(out))):
        t.raises("ValueError: non-broadcastable output operand")
    fill(t, out, value)
    return out


def augmented_item(t: Tracer, name: str, x: Arr, key: Any, value: Any) -> None:
    """`x[key] op= value`: the item is read, changed and assigned."""
    if advanced.is_advanced(key):
        advanced.augmented(t, name, x, key, value)
        return
    target, scalar = pick(t, x, key)
    if scalar:
        changed = binary(t, name, Scal(t.read(target)), value)
        must_hold(t, target, changed)
        _fill_item(t, target, t.operand(changed), scalar)
    else:
        augment(t, name, target, value)
