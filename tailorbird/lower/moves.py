"""Nests that move elements to places known only at run time.

A pack stores one after another, in C order, what its mask picks: `Store.mask` with `Nest.packs`. A
scatter stores at computed indices, serially and in C order, so that the last of several wins; one
that accumulates loads what is there first.
"""

from __future__ import annotations

from typing import Any

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Index, Position, along, broadcast_index, flat, gathered_at
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Node, Operand, type_of
from tailorbird.lower import complex as pairs
from tailorbird.lower.index import Inliner, Parts, is_complex
from tailorbird.lower.kernel import SIZES, Axis, Buffer, Ex, Load, Nest, Op, Schedule, Stage, Store


def packs_into(node: Node, target: Buffer, inliner: Inliner) -> Nest:
    """target = base[mask], for a mask of the base's shape."""
    base, mask = node.inputs
    axes = [Axis(f"a{k}", d) for k, d in enumerate(type_of(mask).shape)]
    index = tuple(along(a.name) for a in axes)
    (kept,) = inliner.as_type(mask, index, "b1")
    value = inliner.as_type(base, index, target.ty)
    store = Store(target, Position(), value, mask=kept)
    return Nest("", [], axes, [Stage(stores=[store])], nodes=["compress"], scan=True, packs=True)


def join_pack(last: Any, nest: Nest) -> bool:
    """Adds a pack to the one before it, if both have the same mask and neither reads the other."""
    if not isinstance(last, Nest) or not last.packs or len(last.stages[0].stores) >= 4:
        return False
    (store,) = nest.stages[0].stores
    stores = last.stages[0].stores
    first = stores[0].mask
    written = {s.buffer.name for s in stores}
    same = isinstance(first, Load) and isinstance(store.mask, Load)
    if not same or first.buffer is not store.mask.buffer or first.at != store.mask.at:  # type: ignore[union-attr]
        return False
    if written & {x.buffer.name for x in _loads(store.value)}:
        return False
    stores.append(replace(store, mask=first))
    return True


def _loads(roots: tuple[Ex, ...]) -> list[Load]:
    from tailorbird.lower.schedule import expressions_of

    return [x for x in expressions_of(roots) if isinstance(x, Load)]


def scatters_into(node: Node, target: Buffer, inliner: Inliner) -> Nest:
    """target[indices] = value, or what an op makes of it and the value, where target is a copy of
    the base.
    """
    *indices, value = node.inputs[1:]
    op = node.attrs.get("op")
    shape, index = gathered_at(node, indices)
    axes = [Axis(f"a{k}", d) for k, d in enumerate(shape)]
    at = flat(index, target.strides)
    computed = tuple((inliner.term(term), stride) for term, stride in at.terms)
    parts = inliner.as_type(value, _beside(value, shape), target.ty)
    if op:
        parts = _accumulated(op, inliner.load(target, index), parts, target.ty)
    store = Store(target, Position(at.offset, at.axes), parts, computed)
    name = f"{op}.at" if op else "scatter"
    stage = Stage(stores=[store]) if axes else Stage(head=[store])
    return Nest("", [], axes, [stage], nodes=[name], scan=True)


def _beside(value: Operand, shape: tuple[Dim, ...]) -> Index:
    """The index of a value that broadcasts to what is written."""
    rank = type_of(value).rank
    lead = len(shape) - rank
    return broadcast_index(value, tuple(along(f"a{lead + k}") for k in range(rank)))


def _accumulated(op: str, old: Parts, new: Parts, ty: str) -> Parts:
    if is_complex(ty):
        return pairs.apply(op, [old, new], [ty, ty], ty)
    return (Op(op, (*old, *new), ty),)


# How they run


def schedule_pack(nest: Nest, width_bytes: int, cost: int, widest: int) -> Nest:
    """Lanes follow the innermost axis: a register of them, or eight without AVX-512."""
    sizes = [SIZES[store.buffer.ty] for store in nest.stages[0].stores]
    width = width_bytes // max(4, widest, *sizes) if width_bytes == 64 else 8
    nest.schedule = Schedule(nest.inner[-1].name, width, 1, cost)
    return nest
