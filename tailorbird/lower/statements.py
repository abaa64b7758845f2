"""Statements that follow each other over the same points become one nest.

In: two nests of maps, one after the other. Out: one nest, or None. What the second reads at the
point where the first stores is taken from the first directly; a store that the second overwrites
goes.

Invariant: at every point all values are computed before the first is stored, so two nests are one
only if whatever one stores and the other reads or stores is at the same point, or surely elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from tailorbird.fuse.flow import Index
from tailorbird.ir.expr import Dim
from tailorbird.lower.kernel import Ex, Load, Nest, Stage, Store
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions

Apart = Callable[[Index, Index, dict[str, Dim]], bool]
MOST = 80  # maps in a nest that has grown so


def joined(first: Nest, second: Nest, apart: Apart) -> Nest | None:
    """Both nests as one; `apart` says whether two places never meet, for axes of some sizes."""
    before, after = _stores(first), _stores(second)
    if before is None or after is None or not _same_axes(first, second):
        return None
    if len(expressions(first)) + len(expressions(second)) > MOST:
        return None
    sizes: dict[str, Dim] = {a.name: a.extent for a in [*first.rows, *first.inner]}
    reads = [[x for x in expressions(n) if isinstance(x, Load)] for n in (first, second)]

    def meet(a: Load | Store, b: Load | Store) -> bool:
        """Whether two accesses are of one memory and may meet at different points."""
        if a.buffer.name != b.buffer.name:
            return False
        known = a.buffer.shape == b.buffer.shape and len(a.index) == len(b.index) > 0
        if a.computed or b.computed or not known:
            return bool(a.computed or b.computed or a.at != b.at)
        return a.index != b.index and not apart(a.index, b.index, sizes)

    clashes = (
        *(meet(store, read) for store in before for read in reads[1]),
        *(meet(store, read) for store in after for read in reads[0]),
        *(meet(one, other) for one in before for other in after),
    )
    if any(clashes):
        return None
    moved = list(map(_forward(before).store, after))
    kept = [s for s in before if not any(_same_place(s, t) for t in moved)]
    stores = [*kept, *moved]
    stage = Stage(stores=stores) if first.rows or first.inner else Stage(head=stores)
    nodes = [*first.nodes, *(n for n in second.nodes if n != "copy")]
    return Nest("", first.rows, first.inner, [stage], nodes=nodes)


def _stores(nest: Nest) -> list[Store] | None:
    """The stores of a nest that has nothing else."""
    if nest.scan or nest.packs or len(nest.stages) != 1:
        return None
    (stage,) = nest.stages
    if stage.first or stage.folds or (stage.head and stage.stores):
        return None
    stores = stage.stores or stage.head
    if stage.head and (nest.rows or nest.inner):
        return None
    return None if any(s.mask is not None or s.computed for s in stores) else stores


def _same_axes(first: Nest, second: Nest) -> bool:
    a, b = ([*n.rows, *n.inner] for n in (first, second))
    return a == b and len(first.rows) == len(second.rows)


def _same_place(a: Store, b: Store) -> bool:
    return a.buffer.name == b.buffer.name and a.at == b.at and a.index == b.index


def _forward(stores: list[Store]) -> Rebuilt:
    """What some stores put there in place of the loads of it."""

    def one(x: Ex) -> Ex:
        if not isinstance(x, Load) or x.computed:
            return x
        for store in reversed(stores):
            same = store.buffer.name == x.buffer.name and store.index == x.index
            if same and store.at == x.at:
                return store.value[max(x.part, 0)]
        return x

    return Rebuilt(one)
