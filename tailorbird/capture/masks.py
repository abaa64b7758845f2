"""Boolean masks: what they pick, and the size of what they pick.

In: arrays and masks of bools. Out: `compress` nodes, whose size is a fresh symbol, one for each
mask; `write_mask` nodes for what is assigned through a mask.

Invariants: the same mask value gives the same symbol, so what two arrays give through one mask is
provably of one length. A question about such a size is answered as it is in this call, and a
`check` node leaves for plain Python where another call answers otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailorbird.capture.build import arange
from tailorbird.capture.elementwise import map_value
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr
from tailorbird.capture.views import as_arr, broadcast_view, drop_axes, permute
from tailorbird.ir.expr import Dim, Expr, Sym, evaluate, product
from tailorbird.ir.node import Operand, Value, View, operand_key, type_of
from tailorbird.ir.ops import OPS
from tailorbird.ir.types import INT, Type


def as_mask(t: Tracer, x: Any) -> Arr:
    """Where x is not zero, as an array of bools."""
    array = as_arr(t, x)
    if array.dtype.kind == "b":
        return array
    return t.array(map_value(t, "not_equal", [t.read(array), 0]))


def size_of_mask(t: Tracer, mask: Value) -> Expr:
    """How many elements a mask picks: its symbol, made when first asked for."""
    region: Any = t.region
    while region is not None:
        for other, size in t.mask_sizes.get(region, ()):
            if alike(t, mask, other):
                return size
        region = region.parent
    size = t.new_fresh()
    (sym,) = size.symbols()
    t.mask_sizes.setdefault(t.region, []).append((mask, size))
    t.masks[sym] = mask
    t.assume.learn(product(map(t.assume.canon, mask.type.shape)) - size)
    return size


def alike(t: Tracer, a: Any, b: Any, seen: set[tuple[Any, Any]] | None = None) -> bool:
    """Whether two operands are made in the same way of the same parts. Sizes that became equal
    after a node was made leave two nodes of one meaning.
    """
    if not isinstance(a, Value) or not isinstance(b, Value):
        return operand_key(_canonical(t, a)) == operand_key(_canonical(t, b))
    if a is b or a.node is None or b.node is None or a.node.op != b.node.op:
        return a is b
    seen = set() if seen is None else seen
    if (a, b) in seen:  # had they differed, the walk would have ended
        return True
    seen.add((a, b))
    if OPS[a.node.op].kind in ("region", "effect") or len(a.node.inputs) != len(b.node.inputs):
        return False
    if _canonical(t, tuple(a.node.attrs.items())) != _canonical(t, tuple(b.node.attrs.items())):
        return False
    return all(alike(t, x, y, seen) for x, y in zip(a.node.inputs, b.node.inputs))


def _canonical(t: Tracer, x: Any) -> Any:
    """Anything in a node by what is known of sizes now."""
    if isinstance(x, tuple):
        return tuple(_canonical(t, part) for part in x)
    if isinstance(x, View):
        return View(_canonical(t, x.dims), _canonical(t, x.shape))
    return t.assume.canon(x) if isinstance(x, Expr) else x


def counted(t: Tracer, x: Any) -> Dim:
    """How many elements of x are not zero, as an exact integer."""
    mask = t.read(as_mask(t, x))
    size = size_of_mask(t, mask)
    compressed(t, mask, mask)
    return size


def compressed(t: Tracer, base: Value, mask: Value) -> Value:
    """`base[mask]` for a mask of the leading axes of base."""
    size = size_of_mask(t, mask)
    rest = tuple(map(t.assume.canon, base.type.shape[mask.type.rank :]))
    return t.emit("compress", [base, mask], {"size": size}, Type(base.type.dtype, (size, *rest)))


def fits(t: Tracer, mask: Arr, shape: Shape) -> None:
    """A mask must have the sizes of the axes that it stands on."""
    if mask.ndim > len(shape):
        t.raises("IndexError: too many indices for array")
    for a, b in zip(mask.shape, shape):
        if not t.same(a, b):
            t.raises("IndexError: boolean index did not match indexed array")


def to_front(t: Tracer, x: Arr, axis: int, count: int) -> Arr:
    """x with `count` axes from `axis` on before all others."""
    if axis == 0:
        return x
    moved = list(range(axis, axis + count))
    return permute(t, x, [*moved, *(k for k in range(x.ndim) if k not in moved)])


def picked(t: Tracer, x: Arr, mask: Arr, axis: int) -> Arr:
    """`x[:, mask]`: the elements that a mask on the axes from `axis` on picks."""
    front = to_front(t, x, axis, mask.ndim)
    fits(t, mask, t.shape_of(front))
    found = t.array(compressed(t, t.read(front), t.read(mask)), contiguous=axis == 0)
    if axis == 0:
        return found
    order = [*range(1, axis + 1), 0, *range(axis + 1, found.ndim)]
    return t.array(t.read(permute(t, found, order)))


def put(t: Tracer, x: Arr, mask: Arr, axis: int, value: Operand) -> None:
    """`x[:, mask] = value`, for a value of x's dtype."""
    front = to_front(t, x, axis, mask.ndim)
    fits(t, mask, t.shape_of(front))
    where = t.read(mask)
    shape = type_of(value).shape
    if shape:
        whole = t.shape_of(x)
        rest = (*whole[:axis], *whole[axis + mask.ndim :])
        value = _fitted(t, value, where, rest, axis)
    base = t.read(front)
    changed = t.emit("write_mask", [base, where, value], None, base.type)
    t.write(front, changed)


def _fitted(t: Tracer, value: Operand, mask: Value, rest: Shape, axis: int) -> Operand:
    """A value for what a mask on the axes from `axis` on picks of an array whose other axes are
    `rest`: with the axis of what is picked first, or without one where it is the same for all.
    """
    source = t.array(value)  # type: ignore[arg-type]
    extra = source.ndim - len(rest) - 1
    if extra > 0:
        if not all(t.same(d, 1) for d in source.shape[:extra]):
            t.raises("ValueError: could not broadcast input array")
        source = drop_axes(t, source, range(extra))
    shape = t.shape_of(source)
    place = axis - (len(rest) + 1 - len(shape))
    if place < 0 or shape[place] == 1:
        same = source if place < 0 else drop_axes(t, source, [place])
        return t.read(broadcast_view(t, same, rest))
    if not _is_length(t, shape[place], size_of_mask(t, mask)):
        t.raises("ValueError: could not broadcast input array")
    goal = (*rest[:axis], shape[place], *rest[axis:])
    return t.read(to_front(t, broadcast_view(t, source, goal), axis, 1))


def _is_length(t: Tracer, a: Dim, b: Dim) -> bool:
    """Whether two sizes are equal, where one is known only at run time: checked there."""
    difference = t.assume.canon(a - b)
    if isinstance(difference, int):
        return difference == 0
    value = live(t, difference)
    if value is None or value != 0:
        return False
    for sym in fresh_symbols(difference):
        mask = t.masks[sym]
        if mask.type.rank:
            compressed(t, mask, mask)  # which gives the symbol its value
    t.check(difference, "==")
    return True


# Sizes that are known only at run time


def live(t: Tracer, x: Dim) -> int | None:
    """The value that an exact integer has in this call, masks counted on the live arguments."""
    from tailorbird.capture.opaque import live_values

    if isinstance(x, int):
        return x
    values = dict(t.assume.hints)
    fresh = [sym for sym in x.symbols() if sym.kind == "fresh"]
    if any(sym not in t.masks for sym in fresh) or t.region.parent is not None:
        return None
    for sym, mask in zip(fresh, live_values(t, [t.masks[sym] for sym in fresh])):
        values[sym] = int(np.count_nonzero(mask)) if np.ndim(mask) else int(mask)
    try:
        return evaluate(x, values)
    except KeyError:
        return None


def decided(t: Tracer, x: Dim) -> bool | None:
    """Is x >= 0, for an x that depends on what masks pick? Checked at run time."""
    found = live(t, x)
    if found is None:
        return None
    holds = t.assume.canon(x if found >= 0 else -x - 1)
    t.check(holds, ">=")
    t.assume.learn(holds)
    return found >= 0


# Positions


def positions(t: Tracer, shape: Sequence[Dim], axis: int) -> Value:
    """The index along one axis, at every point of a shape."""
    line = arange(t, 0, 1, shape[axis], INT)
    return t.read(t.view(line, View(((0, 1, axis),), tuple(shape))))


def nonzero(t: Tracer, x: Any) -> tuple[Arr, ...]:
    """np.nonzero: the positions of what is not zero, along each axis, in C order."""
    mask = as_mask(t, x)
    if mask.ndim == 0:
        t.raises("ValueError: nonzero of an array of rank 0")
    shape, where = t.shape_of(mask), t.read(mask)
    found = (compressed(t, positions(t, shape, k), where) for k in range(mask.ndim))
    return tuple(t.array(value, contiguous=True) for value in found)


def fresh_symbols(x: Any) -> set[Sym]:
    """The symbols in an expression that are known only at run time."""
    return {sym for sym in x.symbols() if sym.kind == "fresh"} if isinstance(x, Expr) else set()
