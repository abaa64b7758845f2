"""Reading ahead: while the last stage of a row stores, the caches fetch what the first stage of the
next rows will read.

The hardware follows the reads of a stage, but a row that has several stages reads its memory in the
first of them alone: it stands still during the others, and begins late with the next row.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailorbird.emit.values import Values
from tailorbird.lower.kernel import Load, Nest, Stage
from tailorbird.lower.schedule import expressions_of


def read_next(nest: Nest, stage: Stage) -> list[Load]:
    """What the first stage reads along the lanes, if this is the last one and the schedule says so;
    it must lie elsewhere in every row."""
    looping = [s for s in nest.stages if s.loops]
    if not nest.schedule.ahead or stage is not looping[-1]:
        return []
    first = looping[0]
    roots = [*(f.value for f in first.folds), *(x for s in first.stores for x in s.roots)]
    row, vector = nest.rows[-1].name, nest.schedule.vector
    loads = (x for x in expressions_of(roots) if isinstance(x, Load) and not x.computed)
    return [x for x in loads if x.at.stride(vector) == 1 and x.at.stride(row) != 0]


def fetch(view: Values, loads: Iterable[Load], lane: int, rows: int) -> None:
    """Asks for the lanes of these loads, so many rows on."""
    b, memory = view.b, view.memory
    kind = "ptr", "i32", "i32", "i32"
    for x in loads:
        place = memory.place(x.buffer, x.at, lane, [], None)
        on = memory.scaled(str(rows), x.at.stride(view.nest.rows[-1].name))
        p = memory.step(place.pointer, memory.unit(x.buffer), on)
        args = zip(kind, (p, "0", "3", "1"), strict=True)
        b.do(b.intrinsic("llvm.prefetch.p0", "void", *args))
