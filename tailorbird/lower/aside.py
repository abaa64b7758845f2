"""A write that also reads other elements of what it writes, where those are few: a row and a column
of a matrix, say.

In: the nest of such a write, and the loads that see what other points store. Out: nests that copy
what those loads see, and the nest with the copies in their place; or None where a copy is as large
as what is written.

Invariant: what is copied is what a view of the program saw whole, so all of it may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Index, Position, along, flat
from tailorbird.ir.expr import Dim
from tailorbird.lower.kernel import PART, Axis, Buffer, Ex, Load, Nest, Store
from tailorbird.lower.mirrored import in_pairs
from tailorbird.lower.nests import copy_nest
from tailorbird.lower.rebuild import Rebuilt

NewBuffer = Callable[[str, tuple[Dim, ...]], Buffer]


def read_aside(nest: Nest, loads: Sequence[Load], new_buffer: NewBuffer) -> list[Nest] | None:
    """Copies of what some loads see, then the nest that reads those copies; or the nest over pairs
    of points, where each sees the other one.
    """
    pairs = in_pairs(nest, loads) if len(nest.stages) == 1 else None
    if pairs is not None:
        return [pairs]
    axes = [*nest.rows, *nest.inner]
    copies: list[Nest] = []
    moved: dict[tuple[str, Position], Load] = {}
    for x in loads:
        own = [a for a in axes if x.at.stride(a.name) != 0]
        if x.computed or not any(a.extent != 1 and a not in own for a in axes):
            return None
        if (x.buffer.name, x.at) not in moved:
            copies.append(_copied(x, own, new_buffer))
            (store,) = [*copies[-1].stages[0].head, *copies[-1].stages[0].stores]
            at = flat(index := tuple(along(a.name) for a in own), store.buffer.strides)
            moved[x.buffer.name, x.at] = Load(store.buffer, at, x.ty, index=index)

    def one(x: Ex) -> Ex:
        found = moved.get((x.buffer.name, x.at)) if isinstance(x, Load) and x in loads else None
        return x if found is None else replace(found, part=x.part)  # type: ignore[attr-defined]

    rebuilt = Rebuilt(one)
    return [*copies, replace(nest, stages=[rebuilt.stage(stage) for stage in nest.stages])]


def _copied(x: Load, axes: list[Axis], new_buffer: NewBuffer) -> Nest:
    """A nest that puts what a load sees along some axes into memory of its own."""
    shape = tuple(a.extent for a in axes)
    names = {a.name: f"a{k}" for k, a in enumerate(axes)}
    parts = (0, 1) if x.buffer.ty in PART else (-1,)
    at, *index = (_renamed(p, names) for p in (x.at, *x.index))
    value = tuple(replace(x, at=at, index=tuple(index), part=part) for part in parts)
    target = new_buffer(x.buffer.ty, shape)
    where: Index = tuple(map(along, names.values()))
    return copy_nest(shape, Store(target, flat(where, target.strides), value, index=where))


def _renamed(p: Position, names: dict[str, str]) -> Position:
    return replace(p, axes=tuple((names[name], s) for name, s in p.axes if name in names))
