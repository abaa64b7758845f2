"""Scatters over the same points as one: two histograms of one array, with and without weights.

In: steps before they are scheduled. Out: the same steps, where a scatter joined a later one that
goes over as many points: the loop runs once, and what says where they store is read once.

Invariants: no scatter reads or writes what the other one writes, nor does any step between them
touch it; each still goes through its points in order.
"""

from __future__ import annotations

from tailorbird.dataclass import replace
from tailorbird.lower.kernel import Nest, Stage
from tailorbird.lower.moved import Renamed
from tailorbird.lower.steps import ProgramStep, bodies, inner_steps
from tailorbird.lower.touch import reads, writes

MOST = 4  # stores of a nest that has grown so


def join_scatters(steps: list[ProgramStep]) -> None:
    """Every such pair of some steps, inside loops too."""
    for inside in [steps, *(b for step in inner_steps(steps) for b in bodies(step))]:
        for k in range(len(inside) - 1, -1, -1):
            _join_later(inside, k)


def _join_later(steps: list[ProgramStep], k: int) -> None:
    """Moves a scatter into the next one, if nothing between them minds."""
    first = steps[k]
    if not isinstance(first, Nest) or not _is_scatter(first):
        return
    for n, step in enumerate(steps[k + 1 :], k + 1):
        if not isinstance(step, Nest) or not _are_apart(first, step):
            return
        both = _as_one(first, step) if _is_scatter(step) else None
        if both is not None:
            steps[n] = both
            del steps[k]
            return


def _is_scatter(nest: Nest) -> bool:
    if not nest.scan or nest.packs or nest.turns or nest.only_if or len(nest.stages) != 1:
        return False
    (stage,) = nest.stages
    if stage.head or stage.folds or stage.first or not nest.inner:
        return False
    return all(store.computed and store.mask is None for store in stage.stores)


def _are_apart(first: Nest, second: Nest) -> bool:
    """Whether neither touches what the other one writes."""
    read = [{b.name for b in reads(n)} for n in (first, second)]
    written = [{b.name for b in writes(n)} for n in (first, second)]
    return written[0].isdisjoint(read[1] | written[1]) and written[1].isdisjoint(read[0])


def _as_one(first: Nest, second: Nest) -> Nest | None:
    axes = [[*n.rows, *n.inner] for n in (first, second)]
    if [a.extent for a in axes[0]] != [a.extent for a in axes[1]]:
        return None
    names = {a.name: b.name for a, b in zip(axes[0], axes[1], strict=True)}
    (moved,) = Renamed(names).stages(first)
    stores = [*moved.stores, *second.stages[0].stores]
    if len(stores) > MOST or len(first.rows) != len(second.rows):
        return None
    nodes = [*first.nodes, *second.nodes]
    return replace(second, stages=[Stage(stores=stores)], nodes=nodes)
