"""Which buffers can be the same memory.

In: a program in which every write copies its base, every final value is copied to its argument, and
every temporary has memory of its own. Out: the same program with fewer copies and less memory.

A copy of a temporary goes when nobody can tell the two apart: what is read of one is read before
the other is written. Inside one nest that holds for a read at the very point that is written, in
no later stage, because a nest computes all that it stores at a point before it stores. A window
that reads what it overwrites is computed into a temporary of its size first. Arguments are written
early only when no step that could still leave for plain Python comes after.

Temporaries of equal size whose lives do not overlap share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tailorbird.dataclass import dataclass, replace
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import leaves
from tailorbird.lower.kernel import SIZES, Buffer, Load, Nest
from tailorbird.lower.schedule import expressions_of
from tailorbird.lower.steps import Bind, Check, Factor, Gemm, Program, ProgramStep, PythonCall


@dataclass(eq=False)
class Copies:
    """A step that copies all of one buffer into another."""

    step: ProgramStep
    source: Buffer
    target: Buffer


@dataclass(eq=False)
class Window:
    """A step that writes a part of a buffer; `staged` gives a temporary, and the two steps that
    write the same part by way of it.
    """

    step: ProgramStep
    staged: Callable[[], tuple[Buffer, list[Nest]]]


@dataclass(frozen=True)
class Access:
    """A load or store: the step, the place within it (stage, then head before loops), the point.

    What was staged is written half a step later.
    """

    step: float
    place: tuple[int, int]
    at: Position | None  # None: anywhere


class _Memory:
    """Who reads and writes each memory, by name."""

    def __init__(
        self, program: Program, views: list[Buffer], copies: list[Copies], windows: list[Window]
    ) -> None:
        self.program = program
        places = {id(step): k for k, step in enumerate(program.steps)}
        self.copies = {places[id(copy.step)]: copy for copy in copies}
        self.windows = {places[id(window.step)]: window for window in windows}
        self.staged: dict[int, list[Nest]] = {}
        self.views: dict[str, list[Buffer]] = {}
        self.loads: dict[str, list[Access]] = {}
        self.stores: dict[str, list[Access]] = {}
        self.leaving: list[float] = []
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
        elif isinstance(step, Factor):
            for own in step.matrices:
                self.add(self.loads, own, Access(k, (0, 0), None))
            for own in (*step.matrices, *step.vectors):
                self.add(self.stores, own, Access(k, (0, 0), None))
        elif isinstance(step, Check | Bind):
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
            folded = [*stage.first, *(x for fold in stage.folds for x in fold.roots)]
            for place, stores, more in ((0, stage.head, []), (1, stage.stores, folded)):
                where = (number, place)
                roots = [*more, *(x for store in stores for x in store.roots)]
                for x in expressions_of(roots):
                    if isinstance(x, Load):
                        at = None if x.computed else x.at
                        self.add(self.loads, x.buffer, Access(k, where, at))
                for store in stores:
                    anywhere = nest.packs or store.computed
                    at = None if anywhere else store.at
                    self.add(self.stores, store.buffer, Access(k, where, at))

    def add(self, table: dict[str, list[Access]], buffer: Buffer, access: Access) -> None:
        table.setdefault(buffer.name, []).append(access)

    # -- copies

    def remove(self, k: int) -> None:
        """Makes the two buffers of a copy one and drops it, if nobody can tell."""
        source, target = self.copies[k].source, self.copies[k].target
        if source.name == target.name:
            self.dropped.add(k)
            return
        clashes = self.clashes(source, target, k)
        if clashes is not None:
            for step in clashes:
                self.stage(step)
            self.dropped.add(k)
            self.rename(source.name, target)

    def clashes(self, source: Buffer, target: Buffer, k: int) -> set[int] | None:
        """The windows that have to be staged so that the two can be one; None when they cannot."""
        if source.role != "temp" or target.role not in ("temp", "result", "param"):
            return None
        if source.strides != target.strides or source.shape != target.shape:
            return None
        pair = {source.name, target.name}
        reads = [self.alive(self.loads, x.name, k, pair) for x in (source, target)]
        writes = [self.alive(self.stores, x.name, k, pair) for x in (source, target)]
        before = [a for a in writes[0] if a.step < k]
        after = [a for a in writes[1] if a.step > k]
        if len(before) < len(writes[0]) or len(after) < len(writes[1]):
            return None
        found = [
            self.clash([a for a in reads[0] if a.step > k], after),
            self.clash([a for a in reads[1] if a.step < k], before),
        ]
        if found[0] is None or found[1] is None:
            return None
        first = min((a.step for a in before), default=k)
        if target.role == "param" and any(step > first for step in self.leaving):
            return None
        return found[0] | found[1]

    def clash(self, reads: list[Access], writes: list[Access]) -> set[int] | None:
        """Where a read could see what its own step writes, all of them windows; else None."""
        if not reads or not writes:
            return set()
        first = min(a.step for a in writes)
        now = [a for a in writes if a.step == first]
        if any(read.step > first for read in reads):
            return None
        if all(_harmless(read, w) for read in reads if read.step == first for w in now):
            return set()
        step = int(first)
        return {step} if step == first and step in self.windows else None

    def stage(self, k: int) -> None:
        """Writes a window by way of a temporary: all is read before the first is written."""
        temporary, self.staged[k] = self.windows.pop(k).staged()
        self.views[temporary.name] = [temporary]
        self.stores[temporary.name] = [Access(k, (0, 1), None)]
        self.loads[temporary.name] = [Access(k + 0.5, (0, 1), None)]
        for name, accesses in self.stores.items():
            if name != temporary.name:
                later = [replace(a, step=k + 0.5) if a.step == k else a for a in accesses]
                self.stores[name] = later

    def alive(
        self, table: dict[str, list[Access]], name: str, k: int, pair: Collection[str] = ()
    ) -> list[Access]:
        """Accesses of steps that still run. A copy within the pair is none once they are one."""
        return [
            a
            for a in table.get(name, ())
            if a.step != k and a.step not in self.dropped and not self.is_within(a.step, pair)
        ]

    def is_within(self, step: float, pair: Collection[str]) -> bool:
        copy = self.copies.get(int(step))
        return copy is not None and copy.source.name in pair and copy.target.name in pair

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
        free: dict[Dim, list[tuple[float, Buffer]]] = {}
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

    def lives(self) -> list[tuple[float, float, Buffer]]:
        """First and last step of every temporary, by first step."""
        kept = {x.name for x in leaves(self.program.results) if isinstance(x, Buffer)}
        out = []
        for name, views in self.views.items():
            steps = [a.step for t in (self.loads, self.stores) for a in self.alive(t, name, -1)]
            if views[0].role == "temp" and name not in kept and steps:
                out.append((min(steps), max(steps), views[0]))
        return sorted(out, key=lambda life: life[:2])


def _harmless(read: Access, write: Access) -> bool:
    """Whether a read in the nest that writes sees what was there before."""
    if read.at is None or write.at is None or read.place > write.place:
        return False
    same = dict(read.at.axes) == dict(write.at.axes)
    return same and read.at.offset == write.at.offset


def share(
    program: Program, views: list[Buffer], copies: list[Copies], windows: list[Window]
) -> None:
    """Removes copies and lets temporaries share memory; changes the program in place."""
    memory = _Memory(program, views, copies, windows)
    for k in memory.copies:
        memory.remove(k)
    for k, copy in memory.copies.items():
        if copy.source.name == copy.target.name:
            memory.dropped.add(k)
    memory.pool()
    steps: list[ProgramStep] = []
    for k, step in enumerate(program.steps):
        if k not in memory.dropped:
            steps += memory.staged.get(k, [step])
    program.steps = steps
    named = {buffer.name: buffer for buffer in reversed(program.buffers)}
    named |= {x.name: x for x in leaves(program.results) if isinstance(x, Buffer)}  # their shape
    program.buffers = [b for b in named.values() if b.role not in ("param",)][::-1]
