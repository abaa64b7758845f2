"""Joining and splitting: concatenate, stack, pad, roll, repeat, tile, diff.

In: arrays. Out: `concatenate` and `pad` nodes, and views; repeats are broadcasts that are then
reshaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tailorbird.capture.build import convert, dtype_from, filled
from tailorbird.capture.containers import iterate
from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.registry import handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Unhandled
from tailorbird.capture.views import (
    as_arr,
    broadcast_view,
    index,
    insert_axes,
    makes_contiguous,
    normal_axis,
    reshape,
    shown,
)
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import View
from tailorbird.ir.types import Type


def joined(t: Tracer, arrays: Sequence[Arr], axis: int, dtype: np.dtype | None = None) -> Arr:
    """Arrays one after another along an axis."""
    if not arrays:
        t.raises("ValueError: need at least one array to concatenate")
    first = arrays[0]
    for x in arrays[1:]:
        if x.ndim != first.ndim:
            t.raises("ValueError: all the input array dimensions must match")
        for k in range(x.ndim):
            if k != axis and not t.same(x.shape[k], first.shape[k]):
                t.raises("ValueError: all the input array dimensions must match")
    kind = dtype or np.result_type(*(x.dtype for x in arrays))
    t.supported(kind, "the joined array")
    values = [convert(t, t.read(x), kind) for x in arrays]
    return makes_contiguous(t.array(t.inferred("concatenate", values, {"axis": axis})), arrays)


def _parts(t: Tracer, arrays: Any) -> list[Arr]:
    return [as_arr(t, x) for x in iterate(t, arrays, "the arrays to join")]


@handles(np.concatenate)
def _concatenate(t: Tracer, arrays: Any, axis: Any = 0, *, dtype: Any = None) -> Any:
    parts = _parts(t, arrays)
    kind = None if dtype is None else dtype_from(t, dtype)
    if axis is None:
        return joined(t, [reshape(t, x, -1) for x in parts], 0, kind)
    if any(x.ndim == 0 for x in parts):
        t.raises("ValueError: zero-dimensional arrays cannot be concatenated")
    return joined(t, parts, normal_axis(t, axis, parts[0].ndim if parts else 1), kind)


@handles(np.stack)
def _stack(t: Tracer, arrays: Any, axis: Any = 0, *, dtype: Any = None) -> Any:
    parts = _parts(t, arrays)
    if not parts:
        t.raises("ValueError: need at least one array to stack")
    for x in parts[1:]:
        if x.ndim != parts[0].ndim:
            t.raises("ValueError: all input arrays must have the same shape")
        if not all(map(t.same, x.shape, parts[0].shape)):
            t.raises("ValueError: all input arrays must have the same shape")
    at = normal_axis(t, axis, parts[0].ndim + 1)
    kind = None if dtype is None else dtype_from(t, dtype)
    return joined(t, [insert_axes(t, x, [at]) for x in parts], at, kind)


def _raised(t: Tracer, arrays: Any, rank: int) -> list[Arr]:
    from tailorbird.capture.shaping import _at_least

    return [_at_least(t, x, rank) for x in _parts(t, arrays)]


@handles(np.vstack)
def _vstack(t: Tracer, tup: Any) -> Any:
    return joined(t, _raised(t, tup, 2), 0)


@handles(np.hstack)
def _hstack(t: Tracer, tup: Any) -> Any:
    parts = _raised(t, tup, 1)
    return joined(t, parts, 0 if parts and parts[0].ndim == 1 else 1)


@handles(np.dstack)
def _dstack(t: Tracer, tup: Any) -> Any:
    from tailorbird.capture.shaping import _three

    return joined(t, [_three(t, x) for x in _parts(t, tup)], 2)


@handles(np.column_stack)
def _column_stack(t: Tracer, tup: Any) -> Any:
    columns = {0: [0, 1], 1: [1]}
    parts = [insert_axes(t, x, columns.get(x.ndim, [])) for x in _parts(t, tup)]
    return joined(t, parts, 1)


@handles(np.block)
def _block(t: Tracer, arrays: Any) -> Any:
    """Nested lists: the innermost are joined along the last axis, their lists before that."""
    if not isinstance(arrays, list):
        return t.array(t.read(as_arr(t, arrays)))
    depth = _depth(arrays)
    leaves = [as_arr(t, x) for x in _flat(arrays)]
    rank = max([depth, *(x.ndim for x in leaves)])
    return _joined_block(t, arrays, rank, depth)


def _joined_block(t: Tracer, x: Any, rank: int, level: int) -> Arr:
    from tailorbird.capture.shaping import _at_least

    if not isinstance(x, list):
        return _at_least(t, as_arr(t, x), rank)
    parts = [_joined_block(t, item, rank, level - 1) for item in x]
    return joined(t, parts, rank - level)


def _depth(x: Any) -> int:
    return 1 + max(map(_depth, x), default=0) if isinstance(x, list) else 0


def _flat(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in _flat(item)] if isinstance(x, list) else [x]


@handles(np.append)
def _append(t: Tracer, arr: Any, values: Any, axis: Any = None) -> Any:
    return _concatenate(t, [as_arr(t, arr), as_arr(t, values)], axis)


# Splitting


@handles(np.split)
def _split(t: Tracer, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    x = as_arr(t, ary)
    at = normal_axis(t, axis, x.ndim)
    cuts = t.concrete(indices_or_sections, "the sections")
    size = t.shape_of(x)[at]
    if not isinstance(cuts, (tuple, list)):
        part = t.quotient(size, int(cuts))
        bounds: list[Dim] = [part * k for k in range(int(cuts) + 1)]
        return [_window(t, x, at, a, part) for a in bounds[:-1]]
    edges = [0, *cuts, size]
    return [_slice(t, x, at, a, b) for a, b in pairwise(edges)]


@handles(np.array_split)
def _array_split(t: Tracer, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    x = as_arr(t, ary)
    at = normal_axis(t, axis, x.ndim)
    cuts = t.concrete(indices_or_sections, "the sections")
    if isinstance(cuts, (tuple, list)):
        return _split(t, x, cuts, axis)
    size = t.concrete(t.shape_of(x)[at], "the length to split")
    whole, extra = divmod(size, int(cuts))
    sizes = [whole + 1] * extra + [whole] * (int(cuts) - extra)
    edges = np.cumsum([0, *sizes]).tolist()
    return [_slice(t, x, at, a, b) for a, b in pairwise(edges)]


def _window(t: Tracer, x: Arr, axis: int, start: Dim, length: Dim) -> Arr:
    """length elements along an axis, which are known to be there."""
    shape = t.shape_of(x)
    sizes = (*shape[:axis], length, *shape[axis + 1 :])
    dims = tuple((start if k == axis else 0, 1, k) for k in range(x.ndim))
    return shown(t, x, View(dims, sizes))


def _slice(t: Tracer, x: Arr, axis: int, start: Any, stop: Any) -> Arr:
    return index(t, x, (slice(None),) * axis + (slice(start, stop),))


# Rolling, repeating, padding


@handles(np.roll)
def _roll(t: Tracer, a: Any, shift: Any, axis: Any = None) -> Any:
    x = as_arr(t, a)
    if axis is None:
        flat = _rolled(t, reshape(t, x, -1) if x.ndim != 1 else x, shift, 0)
        return flat if x.ndim == 1 else reshape(t, flat, t.shape_of(x))
    amounts, axes = (list(v) if isinstance(v, (tuple, list)) else [v] for v in (shift, axis))
    if len(axes) == 1:
        axes *= len(amounts)
    elif len(amounts) == 1:
        amounts *= len(axes)
    if not axes or len(axes) != len(amounts):
        raise Unhandled
    for amount, k in zip(amounts, axes):
        x = _rolled(t, x, amount, normal_axis(t, k, x.ndim))
    return x


def _rolled(t: Tracer, x: Arr, shift: Any, axis: int) -> Arr:
    """The last elements before the others, for a shift within the length."""
    amount = t.integer(shift, "a shift")
    size = t.shape_of(x)[axis]
    if t.assume.canon(amount) == 0 or not t.at_least(size, 1):
        return t.array(t.read(x))
    if t.at_least(amount, 0):
        if not t.at_least(size, amount):
            amount = t.concrete(amount) % t.concrete(size)
    elif t.at_least(amount + size, 0):
        amount = amount + size
    else:
        amount = t.concrete(amount) % t.concrete(size)
    tail = _window(t, x, axis, size - amount, amount)
    head = _window(t, x, axis, 0, t.assume.canon(size - amount))
    return joined(t, [tail, head], axis)


@handles(np.repeat, method="repeat")
def _repeat(t: Tracer, a: Any, repeats: Any, axis: Any = None) -> Any:
    x = as_arr(t, a)
    if isinstance(repeats, (Arr, list, tuple)):
        raise Unhandled
    count = t.integer(repeats, "repeats")
    if not t.at_least(count, 0):
        t.raises("ValueError: repeats may not contain negative values.")
    if axis is None:
        x = reshape(t, x, -1) if x.ndim != 1 else x
        axis = 0
    at = normal_axis(t, axis, x.ndim)
    shape = t.shape_of(x)
    wide = (*shape[: at + 1], count, *shape[at + 1 :])
    spread = broadcast_view(t, insert_axes(t, x, [at + 1]), wide)
    result = (*shape[:at], shape[at] * count, *shape[at + 1 :])
    return t.array(t.reshaped(t.read(spread), result), contiguous=True)


@handles(np.tile)
def _tile(t: Tracer, A: Any, reps: Any) -> Any:
    x = as_arr(t, A)
    wanted = reps if isinstance(reps, (tuple, list)) else (reps,)
    counts: list[Dim] = [t.integer(r, "reps") for r in wanted]
    rank = max(x.ndim, len(counts))
    x = insert_axes(t, x, range(rank - x.ndim)) if x.ndim < rank else x
    counts = [*([1] * (rank - len(counts))), *counts]
    shape = t.shape_of(x)
    pairs = [(r, d) for r, d in zip(counts, shape)]
    wide = tuple(size for pair in pairs for size in pair)
    spread = broadcast_view(t, insert_axes(t, x, range(0, 2 * rank, 2)), wide)
    result = tuple(r * d for r, d in pairs)
    return t.array(t.reshaped(t.read(spread), result))


PAD_MODES = ("edge", "reflect", "symmetric", "wrap")


@handles(np.pad)
def _pad(
    t: Tracer, array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0
) -> Any:
    x = as_arr(t, array)
    widths = _pad_widths(t, pad_width, x.ndim)
    if not widths and mode in ("constant", *PAD_MODES) and not isinstance(pad_width, (tuple, list)):
        return t.array(t.read(x))
    if not widths:
        raise Unhandled  # NumPy takes no empty list of widths
    if mode == "constant":
        return _padded(t, x, widths, constant_values)
    if mode not in PAD_MODES:
        raise Unhandled
    for (before, after), size in zip(widths, x.shape):
        if not t.at_least(size, 2 if mode == "reflect" else 1):
            raise Unhandled
        if mode != "edge" and not t.at_least(size - 1, max(t.concrete(before), t.concrete(after))):
            raise Unhandled
    value = t.inferred("pad", [t.read(x)], {"width": widths, "mode": mode})
    return t.array(value)


def _pad_widths(t: Tracer, width: Any, rank: int) -> tuple[tuple[Dim, Dim], ...]:
    """One (before, after) for each axis."""
    if not isinstance(width, (tuple, list)):
        size = _width(t, width)
        return ((size, size),) * rank
    if all(not isinstance(w, (tuple, list)) for w in width):
        found = tuple(_width(t, w) for w in width)
        pair = found * 2 if len(found) == 1 else found
        return (pair,) * rank  # type: ignore[return-value]
    pairs = [tuple(_width(t, w) for w in pair) for pair in width]
    pairs = [pair * 2 if len(pair) == 1 else pair for pair in pairs]
    if len(pairs) == 1:
        pairs = pairs * rank
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        t.raises("ValueError: operands could not be broadcast together")
    return tuple(pairs)  # type: ignore[arg-type]


def _width(t: Tracer, width: Any) -> Dim:
    found = t.integer(width, "a pad width")
    if not t.at_least(found, 0):
        t.raises("ValueError: index can't contain negative values")
    return found


def _padded(t: Tracer, x: Arr, widths: Any, value: Any) -> Arr:
    if isinstance(value, (tuple, list, Arr)):
        raise Unhandled
    shape = t.shape_of(x)
    wide = tuple(d + a + b for d, (a, b) in zip(shape, widths))
    made = filled(t, wide, t.operand(value), x.dtype)
    dims = tuple((before, 1, k) for k, (before, _) in enumerate(widths))
    window = View(dims, shape)
    content = t.emit("write", [t.read(made), t.read(x)], {"view": window}, Type(x.dtype, wide))
    return t.array(content)


# Differences


@handles(np.diff)
def _diff(t: Tracer, a: Any, n: Any = 1, axis: Any = -1) -> Any:
    x = as_arr(t, a)
    at = normal_axis(t, axis, x.ndim)
    name = "not_equal" if x.dtype.kind == "b" else "subtract"
    for _ in range(t.concrete(n, "n")):
        later = _slice(t, x, at, 1, None)
        earlier = _slice(t, x, at, None, -1)
        x = elementwise(t, name, [later, earlier])
    return x


@handles(np.ediff1d)
def _ediff1d(t: Tracer, ary: Any) -> Any:
    x = as_arr(t, ary)
    if x.dtype.kind == "b":
        t.raises("TypeError: numpy boolean subtract is not supported")
    return _diff(t, reshape(t, x, -1) if x.ndim != 1 else x)
