"""What one turn of a loop stores and the next one reads stays in a register.

In: loops whose bodies are nests. Out: the same; where a scalar is stored at a place from which the
next turn reads, a cell has it too, and is read instead. Memory is as before after every turn, so
that a loop may be left anywhere.

Invariants: nothing else in the body stores to that memory, and what is read in a turn is read
before it stores; then the place holds what the turn before stored there, or, in the first turn,
what it held before the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import ZERO
from tailorbird.ir.expr import Dim, Expr, substitute
from tailorbird.lower.kernel import PART, Buffer, Ex, Load, Nest, Stage, Store
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import Control, Loop, ProgramStep, bodies, inner_steps


def carry_all(steps: list[ProgramStep]) -> None:
    """Every loop of some steps."""
    count = 0
    for control in steps:
        if not isinstance(control, Control):
            continue
        for inside in [control.steps, *(b for s in inner_steps(control.steps) for b in bodies(s))]:
            for loop in [step for step in inside if isinstance(step, Loop)]:
                while found := next(_carried(loop), None):
                    store, before = found
                    cell = Buffer(f"carried{count}", store.buffer.ty, (), (), "temp")
                    count += 1
                    control.cells.append(cell)
                    inside.insert(_place(inside, loop), _carry(loop, store, before, cell))


def _place(steps: list[ProgramStep], loop: Loop) -> int:
    return next(k for k, step in enumerate(steps) if step is loop)


def _carried(loop: Loop) -> Iterator[tuple[Store, Dim]]:
    """Stores of scalars, the last thing that a nest does, which the next turn reads; with the place
    of the turn before.
    """
    nests = [step for step in loop.body if isinstance(step, Nest)]
    if len(nests) < len(loop.body) or any(nest.only_if for nest in nests):
        return
    stores = [s for n in nests for g in n.stages for s in (*g.head, *g.stores)]
    last = {loop.var: Expr((((loop.var,), 1),)) - loop.step}
    for k, nest in enumerate(nests):
        end = nest.stages[-1]
        for store in [] if nest.rows or end.loops else end.head:
            alone = [s.buffer.name for s in stores].count(store.buffer.name) == 1
            plain = not (store.at.axes or store.computed or store.mask)
            if not (alone and plain) or store.buffer.ty in PART:
                continue
            before = substitute(store.at.offset, last)
            if before == store.at.offset:
                continue
            early = any(_reads(n, store.buffer, before) for n in nests[: k + 1])
            if early and not any(_reads(n, store.buffer, before) for n in nests[k + 1 :]):
                yield store, before


def _reads(nest: Nest, buffer: Buffer, offset: Dim) -> bool:
    return any(_is_at(x, buffer, offset) for x in expressions(nest))


def _is_at(x: Ex, buffer: Buffer, offset: Dim) -> bool:
    """Whether an expression is what lies there."""
    if not isinstance(x, Load) or x.computed or x.at.axes or x.part >= 0:
        return False
    return (x.buffer.name, x.buffer.ty, x.at.offset) == (buffer.name, buffer.ty, offset)


def _carry(loop: Loop, store: Store, before: Dim, cell: Buffer) -> Nest:
    """Makes the loop read and set the cell; the nest that fills it before the first turn."""
    rebuilt = Rebuilt(lambda x: _cell(x, cell) if _is_at(x, store.buffer, before) else x)
    value = store.value
    for nest in loop.body:
        assert isinstance(nest, Nest)
        for stage in nest.stages:
            here = [s for s in stage.head if s is store]
            changed = rebuilt.stage(stage)
            for s in here:
                value = tuple(map(rebuilt, s.value))
                changed.head.append(Store(cell, ZERO, value))
            stage.head, stage.stores = changed.head, changed.stores
            stage.folds, stage.first = changed.folds, changed.first
    first = substitute(before, {loop.var: loop.start})
    there = Load(store.buffer, replace(store.at, offset=first), value[0].ty)
    turns = loop.stop - loop.start if loop.step > 0 else loop.start - loop.stop
    fill = Stage(head=[Store(cell, ZERO, (there,))])
    return Nest("", [], [], [fill], nodes=["copy"], only_if=[turns])


def _cell(x: Ex, cell: Buffer) -> Ex:
    return Load(cell, ZERO, x.ty)
