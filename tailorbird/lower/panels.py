"""Loops whose turns are products of a vector and a matrix become products of matrices.

In: a loop around one nest whose folds are sums of products, `sum(x[k, i] * y[k, i + r])` over k for
every row r, say. Out: a loop over blocks of turns, or None. For each block the sums of all its
turns are one matrix product, into a panel; then a loop over its turns does what the nest did with
them. Where the columns that turns need move on from turn to turn, as those of a triangle do, a
block takes all that any of its turns needs.

Invariants: what is summed is nothing that another turn stores, nor its own turn before. A panel
reads what no turn reads only if that surely lies in its array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tailorbird.dataclass import dataclass
from tailorbird.fuse.flow import Position, along, flat
from tailorbird.ir.expr import Dim, Expr, Sym, apply, substitute
from tailorbird.lower.apart import Apart, stores_of
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.kernel import (
    Axis,
    Buffer,
    Cell,
    Ex,
    Fold,
    Index,
    Load,
    Nest,
    Op,
    Stage,
    Store,
)
from tailorbird.lower.program import is_positive
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions_of
from tailorbird.lower.steps import Gemm, Loop, Matrix, ProgramStep

BLOCK = 128  # turns of one product: many enough for BLAS, few enough for panels to stay near
FLOATS = ("f32", "f64")
LATE = frozenset(("loop", "value", "fresh"))
MakeBuffer = Callable[[str, tuple[Dim, ...]], Buffer]
Way = str | Sym  # what a matrix is walked along: an axis, or the turns of the loop
Strides = tuple[Dim, Dim]


@dataclass(frozen=True)
class Turns:
    """A loop around a nest, as turns that have rows; each has `grows` more than the one before."""

    var: Sym
    count: Dim
    rows: Axis
    inner: Axis
    grows: int


@dataclass(frozen=True)
class Factors:
    """The sum of left[i, k] * right[k, shift * i + r] over k, for a turn i and a row r. What lies
    in no way that a product can read has no strides, and is computed into a matrix first.
    """

    left: Ex
    left_strides: Strides | None
    right: Load
    right_strides: Strides
    shift: int


@dataclass(frozen=True)
class Block:
    """Turns that follow each other."""

    var: Sym
    first: Dim
    count: Dim

    @property
    def last(self) -> Dim:
        return self.first + self.count - 1

    @property
    def turn(self) -> Dim:
        return _expression(self.var)


class Panels:
    """Finds such loops, inside the loops that some bounds are of."""

    def __init__(self, bounds: Bounds, apart: Apart, make: MakeBuffer) -> None:
        self.bounds = bounds
        self.apart = apart
        self.make = make

    def blocked(self, loop: Loop, nest: Nest, moved: Nest) -> Loop | None:
        """The loop by blocks; `moved` is its nest with the turns as its first axis. The bounds are
        those inside the loop.
        """
        turns = _turns_of(loop, nest)
        if turns is None or not self.sums_come_first(turns, moved):
            return None
        folds = [f for stage in nest.stages for f in stage.folds]
        every = [(f, x) for f in folds if (x := self.factors(f, turns)) is not None]
        rooms = [room for _, x in every if (room := self.rooms(x, turns)) is not None]
        if len(rooms) < len(folds):
            return None
        var = Sym(f"{loop.var.name}.block", "loop")
        first = _expression(var)
        block = Block(loop.var, first, apply("min", BLOCK, loop.stop - first))
        steps: list[ProgramStep] = []
        sums: dict[str, Ex] = {}
        for (fold, x), room in zip(every, rooms):
            panel, *more = (self.make(x.right.ty, shape) for shape in room)
            if more:
                steps.append(_computed(x.left, block, turns, more[0]))
            left = _left(x, block, turns, *more)
            step, sums[fold.cell.name] = _product(left, block, turns, x, panel)
            steps.append(step)
        after = _after(nest, turns, sums)
        steps.append(Loop(block.var, first, first + block.count, 1, after))
        return Loop(var, loop.start, loop.stop, BLOCK, steps)

    def sums_come_first(self, turns: Turns, moved: Nest) -> bool:
        """Whether the sums of all turns can be made before anything is stored."""
        axis = moved.rows[0]
        sizes: dict[str, Dim] = {axis.name: axis.extent}
        for a in (turns.rows, turns.inner):
            most = self.bounds.most(a.extent)
            if most is None:
                return False
            sizes[a.name] = most
        before: set[str] = set()
        for stage in moved.stages:
            before |= {s.buffer.name for s in stage.head}
            for x in expressions_of(f.value for f in stage.folds):
                if isinstance(x, Load) and x.buffer.name in before:
                    return False
                if isinstance(x, Load) and not all(
                    self.apart.rows_apart(s, x, [axis], sizes) for s in stores_of(moved)
                ):
                    return False
        return True

    def factors(self, fold: Fold, turns: Turns) -> Factors | None:
        """The two factors of a sum of products, if it is one."""
        x = fold.value
        if fold.op != "sum" or not isinstance(x, Op) or x.op != "multiply" or x.ty not in FLOATS:
            return None
        for left, right in (x.args, x.args[::-1]):
            if isinstance(right, Load) and not _depends(left, turns.rows.name):
                found = self.placed(left, right, turns)
                if found is not None:
                    return found
        return None

    def placed(self, left: Ex, right: Load, turns: Turns) -> Factors | None:
        """Two factors, if what they are read from are matrices."""
        rows, inner = turns.rows.name, turns.inner.name
        own = _strides(left, turns.var, inner) if isinstance(left, Load) else None
        strides = _strides(right, inner, rows)
        shift = _shift(right, turns)
        if strides is None or shift is None or right.ty != left.ty:
            return None
        if own is None and not _depends(left, turns.var):
            return None
        found = Factors(left, own, right, strides, shift)
        return found if self.is_there(found, turns) else None

    def is_there(self, x: Factors, turns: Turns) -> bool:
        """Whether a block reads only what is there, also if some of its turns have no rows."""
        if self.bounds.not_negative(turns.rows.extent - 1):
            return True
        if x.left_strides and x.shift == 0 and turns.grows == 0:
            return True
        sizes = {a.name: a.extent for a in (turns.rows, turns.inner)}
        loads = [y for y in expressions_of([x.left, x.right]) if isinstance(y, Load)]
        return self.bounds.not_negative(turns.rows.extent) and all(
            self.apart.inside(y, sizes) for y in loads
        )

    def rooms(self, x: Factors, turns: Turns) -> list[tuple[Dim, Dim]] | None:
        """The size of the panel, and that of a matrix for the left factor where one is needed."""
        most = [self.bounds.most(d) for d in (turns.count, turns.rows.extent, turns.inner.extent)]
        if any(d is None or _is_late(d) for d in most):
            return None
        count, wide, deep = (apply("max", d, 0) for d in most if d is not None)
        if (x.shift < 0) != (x.shift + turns.grows > 0):
            wide = wide + abs(x.shift) * (BLOCK - 1)
        high = apply("min", BLOCK, count)
        return [(high, wide), *([] if x.left_strides else [(high, deep)])]


def _turns_of(loop: Loop, nest: Nest) -> Turns | None:
    """A loop around sums over one axis for each row, and what is done with them."""
    if loop.step != 1 or loop.until is not None or nest.scan or nest.only_if:
        return None
    if len(nest.rows) != 1 or len(nest.inner) != 1:
        return None
    if any(g.first or g.stores for g in nest.stages) or not any(g.folds for g in nest.stages):
        return None
    (rows,), (inner,) = nest.rows, nest.inner
    grows = _coefficient(rows.extent, loop.var)
    if grows is None or _coefficient(inner.extent, loop.var) != 0:
        return None
    return Turns(loop.var, loop.stop - loop.start, rows, inner, grows)


def _expression(var: Sym) -> Expr:
    return Expr((((var,), 1),))


def _coefficient(x: Dim, var: Sym) -> int | None:
    """c, where x is c times the variable and something without it."""
    if isinstance(x, int):
        return 0
    c = dict(x.terms).get((var,), 0)
    rest = x - c * _expression(var)
    return None if isinstance(rest, Expr) and var in rest.symbols() else c


def _is_late(x: Dim) -> bool:
    return isinstance(x, Expr) and any(s.kind in LATE for s in x.symbols())


def _depends(x: Ex, way: Way) -> bool:
    """Whether an expression changes along an axis or from turn to turn."""
    for y in expressions_of([x]):
        if isinstance(y, Cell) or (isinstance(y, Index) and y.axis == way):
            return True
        if isinstance(y, Load) and _moves(y.at, way) != 0:
            return True
    return False


def _moves(p: Position, way: Way) -> Dim | None:
    """How far one step along a way moves a position."""
    return p.stride(way) if isinstance(way, str) else _coefficient(p.offset, way)


def _strides(x: Load, rows: Way, columns: Way) -> Strides | None:
    """The strides of a matrix as BLAS takes it, if what is read there is one."""
    found: list[Dim] = [0, 0]
    if x.computed or x.part >= 0 or x.ty != x.buffer.ty or len(x.index) != len(x.buffer.shape):
        return None
    for p, stride in zip(x.index, x.buffer.strides, strict=True):
        moves = [_moves(p, way) for way in (rows, columns)]
        for k, step in enumerate(moves):
            if not isinstance(step, int) or step < 0 or (step and (found[k] != 0 or all(moves))):
                return None
            found[k] = found[k] + step * stride
    if 1 not in found or not all(s != 0 and is_positive(s) for s in found):
        return None
    return found[0], found[1]


def _shift(x: Load, turns: Turns) -> int | None:
    """By how many rows of the nest a turn reads further on than the one before; None if it reads
    another matrix.
    """
    shift = 0
    for p in x.index:
        moved, step = _coefficient(p.offset, turns.var), p.stride(turns.rows.name)
        if moved is None or any(
            isinstance(s, Expr) and turns.var in s.symbols() for _, s in p.axes
        ):
            return None
        if moved != 0:
            if not isinstance(step, int) or step == 0 or moved % step:
                return None
            shift = moved // step
    return shift


def _matrix(buffer: Buffer, offset: Dim, strides: Strides) -> Matrix:
    if strides[1] == 1:
        return Matrix(buffer, offset, False, strides[0], ())
    return Matrix(buffer, offset, True, strides[1], ())


def _left(x: Factors, block: Block, turns: Turns, own: Buffer | None = None) -> Matrix:
    """The left factor of a block."""
    if own is not None:
        return _matrix(own, 0, (own.strides[0], 1))
    assert isinstance(x.left, Load) and x.left_strides is not None
    offset = substitute(x.left.at.offset, {block.var: block.first})
    return _matrix(x.left.buffer, offset, x.left_strides)


def _computed(x: Ex, block: Block, turns: Turns, own: Buffer) -> Loop:
    """A left factor computed into a matrix, turn by turn."""
    index = (Position(block.turn - block.first), along(turns.inner.name))
    store = Store(own, flat(index, own.strides), (x,), index=index)
    nest = Nest("", [], [turns.inner], [Stage(stores=[store])], nodes=["copy"])
    return Loop(block.var, block.first, block.first + block.count, 1, [nest])


def _product(
    left: Matrix, block: Block, turns: Turns, x: Factors, panel: Buffer
) -> tuple[Gemm, Load]:
    """The product for a block, and the sum of a turn and a row as it lies in the panel."""
    begin = block.first if x.shift >= 0 else block.last
    end = block.last if x.shift + turns.grows > 0 else block.first
    wide = substitute(turns.rows.extent, {block.var: end}) + x.shift * (end - begin)
    offset = substitute(x.right.at.offset, {block.var: begin})
    right = _matrix(x.right.buffer, offset, x.right_strides)
    out = Matrix(panel, 0, False, panel.strides[0], ())
    step = Gemm(left, right, out, block.count, wide, turns.inner.extent, ())
    row = Position(x.shift * (block.turn - begin)).plus(along(turns.rows.name))
    index = (Position(block.turn - block.first), row)
    return step, Load(panel, flat(index, panel.strides), panel.ty, index=index)


def _after(nest: Nest, turns: Turns, sums: Mapping[str, Ex]) -> list[ProgramStep]:
    """What a turn does with its sums, stage by stage."""

    def one(x: Ex) -> Ex:
        return sums.get(x.name, x) if isinstance(x, Cell) else x

    rebuilt = Rebuilt(one)
    stages = [[rebuilt.store(s) for s in stage.head] for stage in nest.stages if stage.head]
    return [Nest("", [], [turns.rows], [Stage(stores=s)], nodes=nest.nodes) for s in stages]
