"""Several rows at once: neighbours in a stencil then share what they load.

In: a scheduled nest of maps. Out: the same nest, or two: one that does `ROWS` rows in each turn,
and one for the rows that are left over. A row more is the same stores one step further along the
row axis; since positions are algebra, what row r loads below itself and row r + 1 loads at itself
is the same position, and so the same load.
"""

from __future__ import annotations

from collections.abc import Callable

from tailorbird import knobs
from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim, apply
from tailorbird.lower.kernel import Axis, Ex, Index, Load, Nest, Op, Size, Stage, Store, const
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import ProgramStep, bodies, inner_steps

ROWS = 4
SHARED = 0.8  # of the loads that rows apart make; more do not pay for the code


def jam_all(steps: list[ProgramStep]) -> None:
    """Every nest of some steps, inside loops too."""
    if not knobs.is_on("jam"):
        return
    for inside in [steps, *(b for step in inner_steps(steps) for b in bodies(step))]:
        jammed = [jam(step) if isinstance(step, Nest) else [step] for step in inside]
        inside[:] = [step for some in jammed for step in some]


def jam(nest: Nest) -> list[Nest]:
    """The nest with rows done together, where that saves loads."""
    axis = _row_axis(nest)
    if axis is None or not _shares(nest, axis):
        return [nest]
    turns = apply("floordiv", axis.extent, ROWS)
    left = apply("mod", axis.extent, ROWS)
    main = _moved(nest, axis, [(k, ROWS) for k in range(ROWS)], turns)
    rest = _moved(nest, axis, [(axis.extent - left, 1)], left)
    main.schedule = replace(nest.schedule, unroll=1, cost=nest.schedule.cost * ROWS)
    rest.schedule = replace(nest.schedule)
    rest.name += "r"
    return [main, rest]


def _row_axis(nest: Nest) -> Axis | None:
    """The innermost row axis of a nest of maps in lanes."""
    s = nest.schedule
    plain = len(nest.stages) == 1 and not nest.scan and not nest.packs and s.width > 1
    if not plain or not nest.rows or any(a.name == s.vector for a in nest.rows):
        return None
    (stage,) = nest.stages
    if stage.head or stage.folds or stage.first or any(x.mask or x.computed for x in stage.stores):
        return None
    if any(isinstance(x, Load) and x.computed for x in expressions(nest)):
        return None
    return nest.rows[-1]


def _shares(nest: Nest, axis: Axis) -> bool:
    """Whether rows together load clearly less than rows apart, of what changes from row to row."""
    every = [x for x in expressions(nest) if isinstance(x, Load)]
    loads = [x for x in every if x.at.stride(axis.name) != 0]
    own = {(x.buffer.name, x.part, _place(x.at)) for x in loads}
    together = {
        (x.buffer.name, x.part, _place(_shifted(x.at, axis.name, k, 1)))
        for x in loads
        for k in range(ROWS)
    }
    stored = {s.buffer.name for s in nest.stages[0].stores}
    if any(x.buffer.name in stored for x in every) or axis.extent in range(2 * ROWS):
        return False
    return len(own) > 2 and len(together) <= SHARED * ROWS * len(own)


def _place(p: Position) -> tuple[Dim, frozenset[tuple[str, Dim]]]:
    return p.offset, frozenset(p.axes)


def _shifted(p: Position, axis: str, by: Dim, step: int) -> Position:
    """A position `by` further along an axis that is now stepped through by `step`."""
    stride = p.stride(axis)
    axes = tuple((name, s * step if name == axis else s) for name, s in p.axes)
    return Position(p.offset + stride * by, axes, p.terms)


def _moved(nest: Nest, axis: Axis, rows: list[tuple[Dim, int]], extent: Dim) -> Nest:
    """The nest over fewer turns, each of which does these rows: (how far on, how far a turn is)."""
    stores: list[Store] = []
    for by, step in rows:
        rebuilt = Rebuilt(_at_row(axis.name, by, step))
        for store in map(rebuilt.store, nest.stages[0].stores):
            stores.append(replace(store, at=_shifted(store.at, axis.name, by, step), index=()))
    axes = [Axis(a.name, extent) if a is axis else a for a in nest.rows]
    return Nest(nest.name, axes, nest.inner, [Stage(stores=stores)], nodes=nest.nodes)


def _at_row(axis: str, by: Dim, step: int) -> Callable[[Ex], Ex]:
    """What an expression is in another row."""

    def one(x: Ex) -> Ex:
        if isinstance(x, Load):
            return replace(x, at=_shifted(x.at, axis, by, step), index=())
        if isinstance(x, Index) and x.axis == axis:
            turned = x if step == 1 else Op("multiply", (x, const(step, "i64")), "i64")
            return turned if by == 0 else Op("add", (turned, Size(by)), "i64")
        return x

    return one
