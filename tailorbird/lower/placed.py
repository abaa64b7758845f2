"""Products put where they go: `y[:] = a @ b` without a temporary.

In: scheduled steps. Out: the same, without the copies of products that nobody else reads. The
product writes where the copy would have.

Invariants: a product never writes what it reads. Only what is copied whole, element after element,
is put elsewhere.
"""

from __future__ import annotations

from collections import Counter

from tailorbird.dataclass import replace
from tailorbird.lower.kernel import PART, Load, Nest, Store
from tailorbird.lower.steps import Gemm, ProgramStep, bodies, inner_steps
from tailorbird.lower.touch import reads, writes


def place_products(steps: list[ProgramStep]) -> None:
    """Every product of some steps, inside loops too."""
    users = Counter(
        name
        for step in inner_steps(steps)
        for name in {buffer.name for buffer in (*reads(step), *writes(step))}
    )
    for inside in [steps, *(b for step in inner_steps(steps) for b in bodies(step))]:
        for k in range(len(inside) - 2, -1, -1):
            product, copy = inside[k : k + 2]
            if isinstance(product, Gemm) and isinstance(copy, Nest):
                store = _copied_whole(product, copy)
                if store is not None and users[product.out.buffer.name] == 2:
                    inside[k : k + 2] = [_put(product, store)]


def _copied_whole(product: Gemm, copy: Nest) -> Store | None:
    """The store of a nest that copies all of a product, and only that."""
    made, (stage, *more) = product.out.buffer, copy.stages
    axes = [a for a in (*copy.rows, *copy.inner) if a.extent != 1]
    if more or copy.scan or copy.packs or copy.only_if or len(axes) != 1 or made.role != "temp":
        return None
    if stage.head or stage.folds or stage.first or len(stage.stores) != 1:
        return None
    (store,), (axis,) = stage.stores, axes
    loads = [x for x in store.value if isinstance(x, Load) and x.buffer.name == made.name]
    parts = (0, 1) if made.ty in PART else (-1,)
    if tuple(x.part for x in loads) != parts or len(store.value) != len(parts):
        return None
    if store.mask is not None or store.computed or any(x.computed for x in loads):
        return None
    whole = axis.extent == made.size and product.out.offset == 0
    places = [store.at, *(x.at for x in loads)]
    along = all(not p.terms and p.stride(axis.name) == 1 for p in places)
    read = {product.a.buffer.name, product.b.buffer.name}
    apart = store.buffer.name not in read and store.buffer.ty == made.ty
    return store if whole and along and apart and all(x.at.offset == 0 for x in loads) else None


def _put(product: Gemm, store: Store) -> Gemm:
    """The product, put where a store of it goes."""
    return replace(product, out=replace(product.out, buffer=store.buffer, offset=store.at.offset))
