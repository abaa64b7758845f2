"""What is picked by a mask: folded and written back where it lies, without being moved.

In: nodes over `compress`, in the new graph. Out: rows for the walker.

    write_mask(b, m, f(x[m], y[m], s))   where(m, f(x, y, s), b)
    sum(f(x[m], y[m], s))                sum(where(m, f(x, y, s), 0)), and so for the other folds
    compress(x, m)                       take(x, compress(arange, m)), for a mask of leading axes
    write_mask(b, m, v)                  scatter(b, compress(arange, m), v), for any other array v

f is any expression of maps: none of them traps, whatever the elements that the mask leaves out.
The size of what a mask picks is bound by `extent`, from the sum of the mask; where it stands in an
expression that is computed or checked, that sum takes its place, so that what is not needed in
memory is not counted apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.ir.node import Node, Operand, Value, View, type_of
from tailorbird.ir.ops import OPS
from tailorbird.ir.scope import bare
from tailorbird.ir.types import BOOL, INT, WEAK_INT
from tailorbird.rewrite.maps import Inputs
from tailorbird.rewrite.walk import Builder, Row

FOLDS = frozenset(("sum", "prod", "min", "max", "any", "all"))


# What a mask picked


def picked(x: Value) -> tuple[Operand, Value] | None:
    """(base, mask) of a value that is `base[mask]`, in any of its forms."""
    node = x.node
    if node is None:
        return None
    if node.op == "compress":
        return node.inputs[0], node.inputs[1]  # type: ignore[return-value]
    axes = (node.attrs["axis"],) if node.op == "take" else node.attrs.get("axes", ())
    if node.op not in ("take", "gather") or axes != tuple(range(len(axes))):
        return None
    masks = [_picks_positions(index, k) for k, index in enumerate(node.inputs[1:])]
    mask, base = masks[0], node.inputs[0]
    if mask is None or any(m is not mask for m in masks) or mask.type.rank != len(axes):
        return None
    return (base, mask) if type_of(base).shape[: len(axes)] == mask.type.shape else None


def _picks_positions(index: Operand, axis: int) -> Value | None:
    """The mask whose positions along an axis these are."""
    node = index.node if isinstance(index, Value) else None
    if node is None or node.op != "compress":
        return None
    base, mask = node.inputs
    line = base.node if isinstance(base, Value) else None
    if line is not None and line.op == "read":
        view = line.attrs["view"]
        if view.dims != ((0, 1, axis),):
            return None
        line = line.inputs[0].node  # type: ignore[union-attr]
    elif axis or type_of(mask).rank != 1:
        return None
    plain = line is not None and line.op == "arange" and line.inputs == (0, 1)
    assert isinstance(mask, Value)
    return mask if plain else None


def mask_of(x: Operand) -> Value | None:
    """The mask of the first thing that a value is made of and that a mask picked."""
    stack, seen = [x], set()
    while stack:
        x = stack.pop()
        if not isinstance(x, Value) or x.node is None or x in seen or not x.type.rank:
            continue
        seen.add(x)
        found = picked(x)
        if found is not None:
            return found[1]
        if OPS[x.node.op].kind == "map":
            stack.extend(reversed(x.node.inputs))
    return None


class _Expanded:
    """A value that is computed from what one mask picked, at every element instead."""

    def __init__(self, build: Builder, mask: Value) -> None:
        self.build = build
        self.mask = mask
        self.memo: dict[Value, Operand | None] = {}

    def of(self, x: Operand, rank: int) -> Operand | None:
        """The operand for all elements, or None; `rank` is that of the whole expression."""
        if not isinstance(x, Value) or x.type.rank < rank:
            return x
        if x not in self.memo:
            self.memo[x] = self._made(x, rank)
        return self.memo[x]

    def _made(self, x: Value, rank: int) -> Operand | None:
        found = picked(x)
        if found is not None:
            return found[0] if found[1] is self.mask else None
        node = x.node
        if node is None:
            return None
        if node.op == "full" and not type_of(node.inputs[0]).rank:
            return self.build.cast(node.inputs[0], x.type.dtype)
        if OPS[node.op].kind != "map":
            return None
        inputs = [self.of(y, rank) for y in node.inputs]
        if any(y is None for y in inputs):
            return None
        return self.build(node.op, *inputs, **node.attrs)  # type: ignore[arg-type]


def expanded(build: Builder, x: Operand, mask: Value) -> Operand | None:
    """x, which is made of what a mask picked, for all elements; None where it cannot be."""
    found = _Expanded(build, mask).of(x, type_of(x).rank)
    goal = (*mask.type.shape, *type_of(x).shape[1:])
    if found is None or type_of(found).shape != goal:
        return None
    return found


def beside(build: Builder, mask: Value, rank: int) -> Operand:
    """A mask with axes of one after its own, to stand beside a value of that rank."""
    own = mask.type.rank
    if rank == own:
        return mask
    shape = (*mask.type.shape, *(1,) * (rank - own))
    return build("read", mask, view=View(tuple((0, 1, k) for k in range(own)), shape))


# Counting


def count(build: Builder, mask: Value) -> Operand:
    """How many elements a mask picks, as an int64."""
    axes = tuple(range(mask.type.rank))
    return build.reduce("sum", build.cast(mask, INT), axes, dtype=INT)


def _late(build: Builder, x: Expr) -> dict[Sym, Value]:
    """The sizes in an expression that `extent` binds, with what it binds them to."""
    found: dict[Sym, Value] = {}
    wanted = {sym for sym in x.symbols() if sym.kind == "fresh"}
    region: Any = build.region
    while wanted and region is not None:
        for node in region.nodes:
            sym = bare(node.attrs["size"]) if node.op == "extent" else None
            if sym in wanted:
                found[sym] = node.inputs[0]
        region = region.parent
    return found if found.keys() == wanted else {}


def computed(build: Builder, x: Operand) -> Operand:
    """An exact integer over such sizes as a value, a Python int; any other operand as it is."""
    late = _late(build, x) if isinstance(x, Expr) else {}
    if not late or not isinstance(x, Expr):
        return x
    total: Operand = 0
    for monomial, coefficient in x.terms:
        rest: Dim = coefficient
        factors = [late[sym] for sym in monomial if sym in late]
        for sym in monomial:
            if sym not in late:
                rest = rest * Expr((((sym,), 1),))
            if any(arg_sym in late for arg in sym.args for arg_sym in _symbols(arg)):
                return x
        term: Operand = rest
        for factor in factors:
            plain = type(term) is int and term == 1
            term = factor if plain else build("multiply", factor, term)
        nothing = type(total) is int and total == 0
        total = term if nothing else build("add", total, term)
    return build.region.add("cast", (total,), {"dtype": INT}, WEAK_INT, build.line)


def _symbols(x: Dim) -> frozenset[Sym]:
    return x.symbols() if isinstance(x, Expr) else frozenset()


# Rows


def _compress(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    base, mask = inputs
    assert isinstance(mask, Value)
    size = node.attrs["size"]
    build("extent", count(build, mask), size=size)
    if type_of(base).rank == mask.type.rank:
        return None
    return _at(build, base, positions(build, mask, size))


def positions(build: Builder, mask: Value, size: Dim) -> list[Operand]:
    """The positions that a mask picks, along each of its axes."""
    shape = mask.type.shape
    found = []
    for axis, extent in enumerate(shape):
        line = build("arange", 0, 1, shape=(extent,), dtype=INT)
        spread = build("read", line, view=View(((0, 1, axis),), shape))
        found.append(build("compress", spread, mask, size=size))
    return found


def _at(build: Builder, base: Operand, indices: list[Operand]) -> Operand:
    if len(indices) == 1:
        return build("take", base, *indices, axis=0)
    return build("gather", base, *indices, axes=tuple(range(len(indices))))


def _write_mask(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    base, mask, value = inputs
    rank = type_of(value).rank
    if not rank:
        return None
    assert isinstance(mask, Value)
    if rank == type_of(base).rank - mask.type.rank:
        return build("where", beside(build, mask, type_of(base).rank), value, base)
    found = expanded(build, value, mask) if mask_of(value) is mask else None
    if found is not None:
        return build("where", beside(build, mask, type_of(base).rank), found, base)
    size = _size_of(build, mask) or type_of(value).shape[0]
    indices = positions(build, mask, size)
    return build("scatter", base, *indices, value, axes=tuple(range(len(indices))))


def _size_of(build: Builder, mask: Value) -> Dim | None:
    """The size of what a mask picks, where something has asked for it."""
    total = count(build, mask)
    region: Any = build.region
    while region is not None:
        for node in region.nodes:
            if node.op == "extent" and node.inputs[0] is total:
                return node.attrs["size"]
        region = region.parent
    return None


def _neutral(op: str, dtype: np.dtype) -> Any:
    """What a fold of this dtype does not notice; None where there is no such thing."""
    if op in ("sum", "any"):
        return dtype.type(0)
    if op in ("prod", "all"):
        return dtype.type(1)
    if dtype.kind == "c":
        return None
    if dtype.kind == "b":
        return np.bool_(op == "min")
    if dtype.kind == "f":
        return dtype.type(np.inf if op == "min" else -np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if op == "min" else limits.min)


def _fold(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    (x,) = inputs
    axes = node.attrs["axis"]
    mask = mask_of(x) if 0 in axes else None
    if mask is None:
        return None
    result = node.result.type
    if node.op in ("any", "all") and type_of(x).dtype != BOOL:
        return None
    neutral = _neutral(node.op, result.dtype)
    found = expanded(build, x, mask)
    if neutral is None or found is None:
        return None
    found = build.cast(found, result.dtype)
    kept = build("where", beside(build, mask, type_of(found).rank), found, neutral)
    more = mask.type.rank - 1
    where = tuple(range(more + 1)) + tuple(a + more for a in axes if a)
    dtype = result.dtype if node.op in ("sum", "prod") else None
    return build.reshape(build.reduce(node.op, kept, where, dtype=dtype), result.shape)


def _check(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    return computed(build, inputs[0])


MASKS: dict[str, Row] = {
    "compress": _compress,
    "write_mask": _write_mask,
    "check": _check,
    **dict.fromkeys(FOLDS, _fold),
}
