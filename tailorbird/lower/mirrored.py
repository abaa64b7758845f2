"""A write that also reads what it writes the other way round: `y += a * y[::-1]`.

In: the nest of such a write, and the loads that see what other points store. Out: a nest over half
of the points that writes each of them and the one opposite it, both computed before either is
written; or None where a load sees anything else than the opposite point.

Invariants: a point and its opposite are read and written by nobody else. The one in the middle is
its own opposite, and is written twice alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import apply
from tailorbird.lower.kernel import Axis, Ex, Index, Load, Nest, Op, Size
from tailorbird.lower.moved import Moved


def in_pairs(nest: Nest, elsewhere: Sequence[Load]) -> Nest | None:
    """The nest over pairs of points that are opposite along one axis."""
    (stage,) = nest.stages
    if stage.head or stage.first or stage.folds or len(stage.stores) != 1 or not elsewhere:
        return None
    (store,) = stage.stores
    for axis in (*nest.rows, *nest.inner):
        opposite = _Opposite(axis)
        there = opposite.position(store.at)
        if store.at.stride(axis.name) != 0 and all(
            x.at == there and not x.computed and x.buffer.name == store.buffer.name
            for x in elsewhere
        ):
            (other,) = opposite.stages(nest)
            half = Axis(axis.name, apply("floordiv", axis.extent + 1, 2))
            rows, inner = ([half if a is axis else a for a in b] for b in (nest.rows, nest.inner))
            both = replace(stage, stores=[store, *other.stores])
            return replace(nest, rows=rows, inner=inner, stages=[both])
    return None


class _Opposite(Moved):
    """Positions as seen from the other end of an axis."""

    def __init__(self, axis: Axis) -> None:
        self.name = axis.name
        self.last = axis.extent - 1

    def position(self, p: Position) -> Position:
        turned = tuple((n, -s if n == self.name else s) for n, s in p.axes)
        return replace(p, offset=p.offset + p.stride(self.name) * self.last, axes=turned)

    def along(self, x: Index) -> Ex:
        return Op("subtract", (Size(self.last), x), "i64") if x.axis == self.name else x
