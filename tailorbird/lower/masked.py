"""Where a mask decides: stores and folds of what it picks alone.

A nest that would store back what it loaded from the same place stores under a mask. A fold of what
it does not notice wherever a mask is not set is a fold under that mask. Where no lane of a mask is
set, what is under it is not even loaded.
"""

from __future__ import annotations

from tailorbird.dataclass import replace
from tailorbird.fuse.groups import COSTS
from tailorbird.lower.kernel import Ex, Fold, Load, Nest, Op, Stage, Store, const, identity
from tailorbird.lower.schedule import expressions_of

WORTH = 8  # cost of what is under a mask from which on a branch around it pays


def mask_stores(nest: Nest) -> None:
    """A store of `where(mask, new, old)`, old loaded from where it is stored, stores new alone."""
    if nest.scan or any(stage.folds for stage in nest.stages):
        return
    for stage in nest.stages:
        stores = [_masked(store) for store in stage.stores]
        if not stage.first and stores and all(s.mask is stores[0].mask for s in stores):
            stage.stores = stores


def _masked(store: Store) -> Store:
    first = store.value[0]
    if store.mask is not None or store.computed or not isinstance(first, Op):
        return store
    values = []
    for x in store.value:
        if not isinstance(x, Op) or x.op != "where" or x.args[0] is not first.args[0]:
            return store
        if not _is_there(x.args[2], store):
            return store
        values.append(x.args[1])
    return replace(store, value=tuple(values), mask=first.args[0])


def _is_there(x: Ex, store: Store) -> bool:
    """Whether an expression is what a store overwrites."""
    if not isinstance(x, Load) or x.computed or x.buffer.name != store.buffer.name:
        return False
    same = x.at.offset == store.at.offset and dict(x.at.axes) == dict(store.at.axes)
    return same and x.buffer.ty == store.buffer.ty


def mask_folds(nest: Nest) -> None:
    """Folds of `where(mask, x, what the fold does not notice)`, and counts, become folds of x under
    the mask where that saves work. Rows that look at the same elements stay as they are: what one
    of them needs comes late, and what the others read came before it.
    """
    for stage in nest.stages:
        found = [_masked_fold(fold) for fold in stage.folds]
        if nest.scan or stage.stores or stage.first or not any(f.mask for f in found):
            continue
        if not _rows_share(nest) and _saves_work(found):
            stage.folds = found


def _masked_fold(fold: Fold) -> Fold:
    x = fold.value
    if not isinstance(x, Op) or fold.position is not None or fold.mask is not None:
        return fold
    if x.op == "where" and x.args[2] == const(identity(fold.op, x.ty), x.ty):
        return replace(fold, value=x.args[1], mask=x.args[0])
    if x.op == "cast" and fold.op == "sum" and x.args[0].ty == "b1":
        return replace(fold, value=const(1, x.ty), mask=x.args[0])
    return fold


def _rows_share(nest: Nest) -> bool:
    """Whether all rows look at the same elements."""
    rows = [a.name for a in nest.rows]
    loads = [x for x in expressions_of(_roots(nest.stages)) if isinstance(x, Load)]
    return bool(rows) and not any(x.at.stride(rows[-1]) != 0 or x.computed for x in loads)


def _saves_work(folds: list[Fold]) -> bool:
    """Whether what is under the masks loads more than they do, or is dear."""
    kept = expressions_of(f.mask for f in folds if f.mask is not None)
    seen = {id(x) for x in kept} | {id(y) for f in folds if f.mask is None for y in _below(f.value)}
    more = [x for f in folds if f.mask is not None for x in _below(f.value) if id(x) not in seen]
    cost = sum(COSTS.get(x.op, 1) for x in more if isinstance(x, Op))
    return cost >= WORTH or any(isinstance(x, Load) for x in more)


def _below(x: Ex) -> list[Ex]:
    return expressions_of([x])


def _roots(stages: list[Stage]) -> list[Ex]:
    return [x for stage in stages for fold in stage.folds for x in fold.roots]
