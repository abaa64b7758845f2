"""Loops whose turns come back to the same points: all turns for one block of points, then the next.

In: a loop around a map, of which no point needs another one: `for _ in range(n): x[:] = f(x)`. Out:
the same loop inside of one over blocks of points. What a block reads and writes stays in the
nearest cache for all its turns, and threads may share the blocks.

Invariants: what is stored at one point is read and stored at no other, in no turn. The turns of a
point keep their order.
"""

from __future__ import annotations

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim, Sym, apply, symbol
from tailorbird.lower.apart import Access, Apart, loads_of, sizes_of, stores_of
from tailorbird.lower.kernel import SIZES, Axis, Ex, Index, Nest, Op, Size
from tailorbird.lower.moved import Moved, NotAffine, Unrolled, mentions
from tailorbird.lower.steps import Loop, ProgramStep, bodies, inner_steps

ROOM = 16 << 10  # bytes of a block: half of the nearest cache
LEAST = 64  # points of a block


def comes_back(loop: Loop, nest: Nest, apart: Apart) -> bool:
    """Whether the turns of a loop come back to the points of a map, each to its own alone."""
    if loop.until is not None or nest.scan or nest.packs or nest.only_if or len(nest.stages) != 1:
        return False
    (stage,) = nest.stages
    points = [*nest.rows, *nest.inner]
    if (
        stage.head
        or stage.folds
        or stage.first
        or any(mentions(a.extent, loop.var) for a in points)
    ):
        return False
    turns = Axis(f"@{loop.var.name}", (loop.stop - loop.start) * (1 if loop.step > 0 else -1))
    try:
        turned = Nest("", points, [turns], Unrolled(loop, turns).stages(nest))
    except NotAffine:
        return False
    stores = list(stores_of(turned))
    accesses: list[Access] = [*stores, *loads_of(turned)]
    sizes = sizes_of(turned)
    stay = any(s.at.stride(turns.name) == 0 for s in stores)
    return stay and all(apart.rows_apart(s, x, points, sizes) for s in stores for x in accesses)


def block_all(steps: list[ProgramStep]) -> None:
    """Every such loop of scheduled steps, inside of others too."""
    for inside in [steps, *(b for step in inner_steps(steps) for b in bodies(step))]:
        inside[:] = [_in_blocks(step) if isinstance(step, Loop) else step for step in inside]


def _in_blocks(loop: Loop) -> Loop:
    nest = loop.body[0]
    if not loop.comes_back or not isinstance(nest, Nest) or len(nest.rows + nest.inner) != 1:
        return loop
    (axis,) = (*nest.rows, *nest.inner)
    var = Sym(f"{loop.var.name}_block", "loop")
    size = _points(nest, axis)
    first = symbol(var.name, "loop") * size
    part = Axis(axis.name, apply("min", axis.extent - first, size))
    rows, inner = ([part] if axis in axes else [] for axes in (nest.rows, nest.inner))
    moved = replace(nest, rows=rows, inner=inner, stages=From(axis.name, first).stages(nest))
    turns = replace(loop, body=[moved], comes_back=False, independent=False)
    count = apply("floordiv", axis.extent + size - 1, size)
    return Loop(var, 0, count, 1, [turns], independent=True)


def _points(nest: Nest, axis: Axis) -> int:
    """How many points make a block."""
    accesses: list[Access] = [*stores_of(nest), *loads_of(nest)]
    bytes_of = {x.buffer.name: SIZES[x.buffer.ty] for x in accesses if x.at.stride(axis.name) != 0}
    points = ROOM // max(1, sum(bytes_of.values()))
    whole = nest.schedule.width * nest.schedule.unroll
    return max(LEAST, points // whole * whole)


class From(Moved):
    """Positions with an axis that begins further on."""

    def __init__(self, axis: str, first: Dim) -> None:
        self.name = axis
        self.first = first

    def position(self, p: Position) -> Position:
        stride = p.stride(self.name)
        return p if stride == 0 else replace(p, offset=p.offset + self.first * stride)

    def along(self, x: Index) -> Ex:
        return Op("add", (x, Size(self.first)), "i64") if x.axis == self.name else x
