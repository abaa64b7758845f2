"""Which buffers can be the same memory.

In: a program in which every write copies its base, every final value is copied to its argument, and
every temporary has memory of its own. Out: the same program with fewer copies and less memory.

A copy of a temporary goes when nobody can tell the two apart: what is read of one is read before
the other is written. Inside one nest that holds for a read at the very point that is written, in
no later stage, because a nest computes all that it stores at a point before it stores. Arguments
are written early only when no step that could still leave for plain Python comes after.

Temporaries of equal size whose lives do not overlap share memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import leaves
from tailorbird.lower.kernel import SIZES, Buffer, Load, Nest
from tailorbird.lower.schedule import expressions_of
from tailorbird.lower.steps import Check, Gemm, Program, ProgramStep, PythonCall


@dataclass(eq=False)
class Copies:
    """A step that copies all of one buffer into another."""

    step: ProgramStep
    source: Buffer
    target: Buffer


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store: the step, the place within it (stage, then head before loops), the point."""

    step: int
    place: tuple[int, int]
    at: Position | None  # None: anywhere


class _Memory:
    """Who reads and writes each memory, by name."""

    def __init__(self, program: Program, views: list[Buffer]) -> None:
        self.program = program
        self.views: dict[str, list[Buffer]] = {}
        self.loads: dict[str, list[Access]] = {}
        self.stores: dict[str, list[Access]] = {}
        self.leaving: list[int] = []
        self.dropped: set[int] = set()
        for view in views:
            self.views.setdefault(view.name, []).append(view)
        for k, step in enumerate(program.steps):
            self.note(k, step)

    def note(self, k: int, step: ProgramStep) -> None:
        if isinstance(step, Nest):
            self.note_nest(k, step)
        elif isinstance(step, Gemm):
            self.add(self.loads, step.a.buffer, Access(k, (0, 0), None))
            self.add(self.loads, step.b.buffer, Access(k, (0, 0), None))
            self.add(self.stores, step.out.buffer, Access(k, (0, 0), None))
        elif isinstance(step, Check):
            self.leaving.append(k)
            self.add(self.loads, step.buffer, Access(k, (0, 0), None))
        elif isinstance(step, PythonCall):
            self.leaving.append(k)
            for x in step.operands:
                if isinstance(x, Buffer):
                    self.add(self.loads, x, Access(k, (0, 0), None))
            for x in step.outputs:
                self.add(self.stores, x, Access(k, (0, 0), None))

    def note_nest(self, k: int, nest: Nest) -> None:
        for number, stage in enumerate(nest.stages):
            folded = [*stage.first, *(fold.value for fold in stage.folds)]
            folded += [fold.position for fold in stage.folds if fold.position is not None]
            for place, stores, more in ((0, stage.head, []), (1, stage.stores, folded)):
                where = (number, place)
                roots = [*more, *(x for store in stores for x in store.value)]
                for x in expressions_of(roots):
                    if isinstance(x, Load):
                        at = None if x.computed else x.at
                        self.add(self.loads, x.buffer, Access(k, where, at))
                for store in stores:
                    self.add(self.stores, store.buffer, Access(k, where, store.at))

    def add(self, table: dict[str, list[Access]], buffer: Buffer, access: Access) -> None:
        table.setdefault(buffer.name, []).append(access)

    # -- copies

    def remove(self, copy: Copies) -> None:
        """Makes the two buffers one and drops the copy, if nobody can tell."""
        source, target = copy.source, copy.target
        k = next(k for k, step in enumerate(self.program.steps) if step is copy.step)
        if source.name == target.name:
            self.dropped.add(k)
        elif self.is_removable(source, target, k):
            self.dropped.add(k)
            self.rename(source.name, target)

    def is_removable(self, source: Buffer, target: Buffer, k: int) -> bool:
        if source.role != "temp" or target.role not in ("temp", "result", "param"):
            return False
        if source.strides != target.strides or source.shape != target.shape:
            return False
        reads = [self.alive(self.loads, x.name, k) for x in (source, target)]
        writes = [self.alive(self.stores, x.name, k) for x in (source, target)]
        before = [a for a in writes[0] if a.step < k]
        after = [a for a in writes[1] if a.step > k]
        if len(before) < len(writes[0]) or len(after) < len(writes[1]):
            return False
        if _clash([a for a in reads[0] if a.step > k], after):
            return False
        if _clash([a for a in reads[1] if a.step < k], before):
            return False
        if target.role != "param":
            return True
        first = min((a.step for a in before), default=k)
        return not any(step > first for step in self.leaving)

    def alive(self, table: dict[str, list[Access]], name: str, k: int) -> list[Access]:
        """Accesses of steps that still run, the copy itself left out."""
        return [a for a in table.get(name, ()) if a.step != k and a.step not in self.dropped]

    def rename(self, name: str, target: Buffer) -> None:
        """All that had one name has the other's memory."""
        for view in self.views.pop(name):
            view.name, view.role = target.name, target.role
            self.views.setdefault(target.name, []).append(view)
        for table in (self.loads, self.stores):
            table.setdefault(target.name, []).extend(table.pop(name, []))

    # -- temporaries

    def pool(self) -> None:
        """Gives temporaries of equal size the memory of those that are no longer needed."""
        free: dict[Dim, list[tuple[int, Buffer]]] = {}
        for first, last, buffer in self.lives():
            size = buffer.size * SIZES[buffer.ty]
            slots = free.setdefault(size, [])
            slot = next((k for k, (end, _) in enumerate(slots) if end < first), None)
            if slot is None:
                slots.append((last, buffer))
            else:
                home = slots[slot][1]
                self.rename(buffer.name, home)
                slots[slot] = (last, home)

    def lives(self) -> list[tuple[int, int, Buffer]]:
        """First and last step of every temporary, by first step."""
        kept = {x.name for x in leaves(self.program.results) if isinstance(x, Buffer)}
        out = []
        for name, views in self.views.items():
            steps = [a.step for t in (self.loads, self.stores) for a in self.alive(t, name, -1)]
            if views[0].role == "temp" and name not in kept and steps:
                out.append((min(steps), max(steps), views[0]))
        return sorted(out, key=lambda life: life[:2])


def _clash(reads: list[Access], writes: list[Access]) -> bool:
    """Whether a read could see what is written."""
    if not reads or not writes:
        return False
    first = min(a.step for a in writes)
    now = [a for a in writes if a.step == first]
    return any(
        read.step > first or (read.step == first and not all(_harmless(read, w) for w in now))
        for read in reads
    )


def _harmless(read: Access, write: Access) -> bool:
    """Whether a read in the nest that writes sees what was there before."""
    if read.at is None or write.at is None or read.place > write.place:
        return False
    same = dict(read.at.axes) == dict(write.at.axes)
    return same and read.at.offset == write.at.offset


def share(program: Program, views: list[Buffer], copies: list[Copies]) -> None:
    """Removes copies and lets temporaries share memory; changes the program in place."""
    memory = _Memory(program, views)
    for copy in copies:
        memory.remove(copy)
    for copy in copies:
        if copy.source.name == copy.target.name:
            memory.remove(copy)
    memory.pool()
    steps = enumerate(program.steps)
    program.steps = [step for k, step in steps if k not in memory.dropped]
    named = {buffer.name: buffer for buffer in reversed(program.buffers)}
    named |= {x.name: x for x in leaves(program.results) if isinstance(x, Buffer)}  # their shape
    program.buffers = [b for b in named.values() if b.role not in ("param",)][::-1]
