"""Sums over what earlier turns have made, for several turns at once.

In: a loop of which each turn folds a row of its own with all that the turns before it have made:
`x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]`. Out: a loop over blocks of `TURNS` turns. What all of
them fold, up to where the block begins, is summed first, so many rows side by side: memory then has
several rows to fetch, and what was made is loaded once. Each turn adds the few that are left. The
turns that fill no block come last.

Invariants: what is summed early was made before the block began. Sums are taken in two parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Position, along
from tailorbird.ir.expr import Dim, Sym, apply, substitute, symbol
from tailorbird.lower.apart import loads_of, stores_of
from tailorbird.lower.aside import NewBuffer
from tailorbird.lower.blocks import From
from tailorbird.lower.kernel import Axis, Buffer, Cell, Ex, Load, Nest, Op, Stage, Store
from tailorbird.lower.moved import NotAffine, Unrolled
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions_of, extent_of
from tailorbird.lower.steps import Loop, ProgramStep, bodies

TURNS = 4
LEAST = 64  # turns of a loop


def sum_ahead(
    steps: Sequence[ProgramStep], make: NewBuffer, sizes: Mapping[Sym, int]
) -> list[ProgramStep]:
    """Some steps, and those inside of them, with such loops in blocks."""
    out: list[ProgramStep] = []
    for step in steps:
        for inside in bodies(step):
            inside[:] = sum_ahead(inside, make, sizes)
        found = _in_blocks(step, make, sizes) if isinstance(step, Loop) else None
        out += [step] if found is None else found
    return out


def _in_blocks(loop: Loop, make: NewBuffer, sizes: Mapping[Sym, int]) -> list[ProgramStep] | None:
    nest = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(nest, Nest) or loop.until is not None or loop.step != 1:
        return None
    count = apply("max", loop.stop - loop.start, 0)
    if not _folds_what_was_made(nest, loop) or extent_of(Axis("", count), sizes) < LEAST:
        return None
    block = Sym(f"{loop.var.name}_block", "loop")
    first = loop.start + symbol(block.name, "loop") * TURNS
    sums = {f.cell.name: make(f.value.ty, (TURNS,)) for f in nest.stages[0].folds}
    try:
        early = _early(nest, replace(loop, start=first), sums)
    except NotAffine:
        return None
    turns = replace(loop, start=first, stop=first + TURNS, body=[_late(nest, loop, first, sums)])
    whole = apply("floordiv", count, TURNS)
    blocks = Loop(block, 0, whole, 1, [early, turns])
    return [blocks, replace(loop, start=loop.start + whole * TURNS)]


def _folds_what_was_made(nest: Nest, loop: Loop) -> bool:
    """Whether a nest sums over all earlier turns, and stores only what it makes of the sums."""
    stage, *rest = nest.stages
    plain = not (nest.rows or nest.scan or nest.packs or nest.only_if or stage.head or stage.first)
    if not plain or len(nest.inner) != 1 or stage.stores or any(s.loops or s.first for s in rest):
        return False
    if any(f.op != "sum" or f.mask or f.value.ty[0] != "f" for f in stage.folds):
        return False
    (axis,), var = nest.inner, symbol(loop.var.name, "loop")
    if axis.extent != var:
        return False
    stores = list(stores_of(nest))
    made = {s.buffer.name: s for s in stores if not s.computed and s.mask is None}
    folded = {id(x) for x in expressions_of(f.value for f in stage.folds)}
    seen = [x for x in loads_of(nest) if x.buffer.name in made and id(x) in folded]
    return (
        len(made) == len(stores)
        and bool(seen)
        and all(
            not x.computed and x.at == _at_turn(made[x.buffer.name].at, loop, axis) for x in seen
        )
    )


def _at_turn(p: Position, loop: Loop, axis: Axis) -> Position | None:
    """Where the turn that an axis counts stores what this turn stores at p."""
    if p.axes or p.terms or isinstance(p.offset, int):
        return None
    start = substitute(p.offset, {loop.var: 0})
    step = substitute(p.offset, {loop.var: 1}) - start
    straight = start + step * symbol(loop.var.name, "loop") == p.offset
    return Position(start, ((axis.name, step),)) if straight else None


def _early(nest: Nest, loop: Loop, sums: Mapping[str, Buffer]) -> Nest:
    """The sums of all turns of a block up to where it begins."""
    row = Axis(f"@{loop.var.name}", TURNS)
    (axis,) = nest.inner
    (stage, *_) = Unrolled(loop, row).stages(replace(nest, stages=nest.stages[:1]))
    cells = {f.cell.name: Cell(f"{f.cell.name}.early", f.cell.ty) for f in stage.folds}
    folds = [replace(f, cell=cells[f.cell.name]) for f in stage.folds]
    at = along(row.name)
    puts = [Store(sums[name], at, (cell,), index=(at,)) for name, cell in cells.items()]
    inner = [Axis(axis.name, loop.start)]
    return Nest("", [row], inner, [Stage(folds=folds), Stage(head=puts)], nodes=nest.nodes)


def _late(nest: Nest, loop: Loop, first: Dim, sums: Mapping[str, Buffer]) -> Nest:
    """A turn that folds what its block has made, and adds the rest."""
    (axis,) = nest.inner
    here = Position(symbol(loop.var.name, "loop") - first)

    def one(x: Ex) -> Ex:
        if not isinstance(x, Cell):
            return x
        return Op("add", (Load(sums[x.name], here, x.ty, index=(here,)), x), x.ty)

    (stage,) = From(axis.name, first).stages(replace(nest, stages=nest.stages[:1]))
    rest = [Rebuilt(one).stage(s) for s in nest.stages[1:]]
    return replace(nest, inner=[Axis(axis.name, axis.extent - first)], stages=[stage, *rest])
