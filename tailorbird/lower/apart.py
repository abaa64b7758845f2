"""Whether two places in memory surely differ.

In: indices of accesses, axis by axis of an array, as positions over the axes of a nest and the
variables of the loops around it. Out: yes, or not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tailorbird.fuse.flow import Index, Position
from tailorbird.ir.expr import Dim
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.kernel import Axis, Load, Nest, Store
from tailorbird.lower.schedule import expressions

Access = Load | Store


def stores_of(nest: Nest) -> Iterator[Store]:
    for stage in nest.stages:
        yield from (*stage.head, *stage.stores)


def loads_of(nest: Nest) -> Iterator[Load]:
    return (x for x in expressions(nest) if isinstance(x, Load))


def sizes_of(nest: Nest) -> dict[str, Dim]:
    turns = [stage.turns for stage in nest.stages if stage.turns is not None]
    return {a.name: a.extent for a in [*nest.rows, *nest.inner, *turns]}


class Apart:
    """Answers inside the loops that some bounds are of."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    def disjoint(self, a: Index, b: Index, sizes: dict[str, Dim]) -> bool:
        """Whether two places never meet, whatever the points: apart along one axis of the array."""
        for p, q in zip(a, b):
            if p.terms or q.terms:
                continue
            ends = [self.reach(x.offset, x.axes, sizes) for x in (p, q)]
            if ends[0] is None or ends[1] is None:
                continue
            (low_a, high_a), (low_b, high_b) = ends[0], ends[1]
            if self.bounds.not_negative(low_a - high_b - 1):
                return True
            if self.bounds.not_negative(low_b - high_a - 1):
                return True
        return False

    def reach(
        self, offset: Dim, axes: Sequence[tuple[str, Dim]], sizes: dict[str, Dim]
    ) -> tuple[Dim, Dim] | None:
        """The least and the greatest index along one axis, over the points of a nest."""
        low = high = offset
        for name, stride in axes:
            if not isinstance(stride, int):
                return None
            far = (sizes[name] - 1) * stride
            low, high = (low, high + far) if stride > 0 else (low + far, high)
        return low, high

    def inside(self, x: Load, sizes: dict[str, Dim]) -> bool:
        """Whether a load surely reads elements of its buffer, at every point."""
        if x.computed or len(x.index) != len(x.buffer.shape):
            return False
        for p, size in zip(x.index, x.buffer.shape, strict=True):
            ends = None if p.terms else self.reach(p.offset, p.axes, sizes)
            if ends is None or not self.bounds.not_negative(ends[0]):
                return False
            if not self.bounds.not_negative(size - 1 - ends[1]):
                return False
        return True

    def rows_apart(self, a: Access, b: Access, rows: Iterable[Axis], sizes: dict[str, Dim]) -> bool:
        """Whether two accesses never meet at points that differ along one of these axes."""
        if a.buffer.name != b.buffer.name:
            return True
        rows = [axis for axis in rows if axis.extent != 1]
        if not rows:
            return True
        known = not a.computed and not b.computed and len(a.index) == len(b.index)
        if not known or a.buffer.shape != b.buffer.shape:
            return False
        if self.disjoint(a.index, b.index, sizes):
            return True
        pairs = list(zip(a.index, b.index))
        return all(
            any(_follows(p, q, r.name) for p, q in pairs) or _meet_once(pairs, r.name) for r in rows
        )


def _follows(p: Position, q: Position, axis: str) -> bool:
    """Whether two indices are one function of this axis, which differs from point to point."""
    return p == q and not p.terms and [name for name, _ in p.axes] == [axis]


def _meet_once(pairs: Sequence[tuple[Position, Position]], axis: str) -> bool:
    """Whether two places meet at one point of an axis at most, and it is the same for both: where a
    row and a column of a matrix cross, say.
    """
    here = {q.offset - p.offset for p, q in pairs if _is_axis(p, axis) and _is_fixed(q)}
    there = {p.offset - q.offset for p, q in pairs if _is_axis(q, axis) and _is_fixed(p)}
    return not here.isdisjoint(there)


def _is_axis(p: Position, axis: str) -> bool:
    return p.axes == ((axis, 1),) and not p.terms


def _is_fixed(p: Position) -> bool:
    return not p.axes and not p.terms
