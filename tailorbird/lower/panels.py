"""Loops whose turns are products of a vector and a matrix become products of matrices.

In: a loop around one nest whose folds are sums of products, `sum(x[k, i] * y[k, i + r])` over k for
every row r, say. Out: a loop over blocks of turns, or None. For each block the sums of all its
turns are one matrix product, into a panel; then a loop over its turns does what the nest did with
them. Where the columns that turns need move on from turn to turn, as those of a triangle do, a
block takes all that any of its turns needs. A loop that adds products to elements, one a turn, is
a nest with such folds as well.

Invariants: what is summed is nothing that another turn stores, nor its own turn before. A panel
reads what no turn reads only if that surely lies in its array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tailorbird.dataclass import dataclass, replace
from tailorbird.fuse.flow import Index as Place
from tailorbird.fuse.flow import Position, along, flat
from tailorbird.ir.expr import Dim, Expr, Sym, apply, evaluate, substitute
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
from tailorbird.lower.matrices import is_positive
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions_of
from tailorbird.lower.statements import joined
from tailorbird.lower.steps import Gemm, Loop, Matrix, ProgramStep

BLOCK = 128  # turns of one product: many enough for BLAS, few enough for panels to stay near
LEAST, PARTS = 16, 4  # blocks of fewer turns: so many at least, and so many blocks, since the
# block at the edge of a triangle is half waste
MOST_SUMS = 4  # products of one loop
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
    right: Ex
    right_strides: Strides | None
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

    def __init__(
        self, bounds: Bounds, apart: Apart, make: MakeBuffer, sizes: Mapping[Sym, int]
    ) -> None:
        self.bounds = bounds
        self.apart = apart
        self.make = make
        self.sizes = sizes

    def blocked(self, loop: Loop, nest: Nest, moved: Nest) -> Loop | None:
        """The loop by blocks; `moved` is its nest with the turns as its first axis. The bounds are
        those inside the loop.
        """
        turns = _turns_of(loop, nest)
        if turns is None or not self.sums_come_first(turns, moved):
            return None
        folds = [f for stage in nest.stages for f in stage.folds]
        every = [(f, x) for f in folds if (x := self.factors(f, turns)) is not None]
        extents = (turns.count, turns.rows.extent, turns.inner.extent)
        most = [apply("max", d, 0) for d in map(self.bounds.most, extents) if d is not None]
        if len(every) < len(folds) or len(most) < len(extents) or any(map(_is_late, most)):
            return None
        size = self.block_of(most[0])
        var = Sym(f"{loop.var.name}.block", "loop")
        first = _expression(var)
        block = Block(loop.var, first, apply("min", size, loop.stop - first))
        steps: list[ProgramStep] = []
        sums: dict[str, Ex] = {}
        for fold, x in every:
            product = _Product(x, block, turns, self.make, (apply("min", size, most[0]), *most[1:]))
            steps += product.steps(size)
            sums[fold.cell.name] = product.sum
        after = self.joined(_after(nest, turns, sums))
        steps.append(Loop(block.var, first, first + block.count, 1, after))
        return Loop(var, loop.start, loop.stop, size, steps)

    def joined(self, nests: list[Nest]) -> list[ProgramStep]:
        """Nests of one turn, as few as they can be."""
        found: list[Nest] = []
        for nest in nests:
            both = joined(found[-1], nest, self.apart.disjoint) if found else None
            found[-1:] = [both] if both is not None else [*found[-1:], nest]
        return [*found]

    def block_of(self, count: Dim) -> int:
        """How many turns become one product, by how many there are in the call at hand."""
        try:
            turns = evaluate(count, self.sizes)
        except KeyError:
            return BLOCK
        size = BLOCK
        while size > LEAST and size * PARTS > turns:
            size //= 2
        return size

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
            if not _depends(left, turns.rows.name) and _depends(right, turns.rows.name):
                found = self.placed(left, right, turns)
                if found is not None:
                    return found
        return None

    def placed(self, left: Ex, right: Ex, turns: Turns) -> Factors | None:
        """Two factors, if what they are read from are matrices or can be computed into some."""
        rows, inner = turns.rows.name, turns.inner.name
        own = _strides(left, turns.var, inner) if isinstance(left, Load) else None
        other = _strides(right, inner, rows) if isinstance(right, Load) else None
        shift = _shift(right, turns) if isinstance(right, Load) and other else 0
        if shift is None or right.ty != left.ty:
            return None
        if own is None and not _depends(left, turns.var):
            return None
        if other is None and (isinstance(right, Load) or _depends(right, turns.var)):
            return None
        found = Factors(left, own, right, other, shift)
        return found if self.is_there(found, turns) else None

    def is_there(self, x: Factors, turns: Turns) -> bool:
        """Whether a block reads only what is there, also if some of its turns have no rows."""
        if self.bounds.not_negative(turns.rows.extent - 1):
            return True
        if x.left_strides and x.right_strides and x.shift == 0 and turns.grows == 0:
            return True
        sizes = {a.name: a.extent for a in (turns.rows, turns.inner)}
        loads = [y for y in expressions_of([x.left, x.right]) if isinstance(y, Load)]
        return self.bounds.not_negative(turns.rows.extent) and all(
            self.apart.inside(y, sizes) for y in loads
        )


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


class _Product:
    """The product that the sums of a block are, and what must be computed for it first."""

    def __init__(
        self, x: Factors, block: Block, turns: Turns, make: MakeBuffer, most: Sequence[Dim]
    ) -> None:
        self.x = x
        self.block = block
        self.turns = turns
        self.make = make
        self.high, self.wide, self.deep = most
        self.begin = block.first if x.shift >= 0 else block.last
        end = block.last if x.shift + turns.grows > 0 else block.first
        extent = substitute(turns.rows.extent, {block.var: end})
        self.columns = extent + x.shift * (end - self.begin)

    def steps(self, size: int) -> list[ProgramStep]:
        """They, for blocks of so many turns; then `sum` is that of a turn and a row."""
        x, block, turns = self.x, self.block, self.turns
        spare = abs(x.shift) * (size - 1) if (x.shift < 0) != (x.shift + turns.grows > 0) else 0
        panel = self.make(x.left.ty, (self.high, self.wide + spare))
        first, left = self.left()
        second, right = self.right()
        out = Matrix(panel, 0, False, panel.strides[0], ())
        step = Gemm(left, right, out, block.count, self.columns, turns.inner.extent, ())
        row = Position(x.shift * (block.turn - self.begin)).plus(along(turns.rows.name))
        index = (Position(block.turn - block.first), row)
        self.sum = Load(panel, flat(index, panel.strides), panel.ty, index=index)
        return [*first, *second, step]

    def left(self) -> tuple[list[ProgramStep], Matrix]:
        """The left factor, computed turn by turn where it does not lie there."""
        x, block, inner = self.x, self.block, self.turns.inner
        if x.left_strides is not None:
            assert isinstance(x.left, Load)
            offset = substitute(x.left.at.offset, {block.var: block.first})
            return [], _matrix(x.left.buffer, offset, x.left_strides)
        own = self.make(x.left.ty, (self.high, self.deep))
        nest = _into(own, (Position(block.turn - block.first), along(inner.name)), x.left, [inner])
        loop = Loop(block.var, block.first, block.first + block.count, 1, [nest])
        return [loop], _matrix(own, 0, (own.strides[0], 1))

    def right(self) -> tuple[list[ProgramStep], Matrix]:
        """The right factor, computed as far as the block needs it where it does not lie there."""
        x, inner = self.x, self.turns.inner
        if x.right_strides is not None:
            assert isinstance(x.right, Load)
            offset = substitute(x.right.at.offset, {self.block.var: self.begin})
            return [], _matrix(x.right.buffer, offset, x.right_strides)
        own = self.make(x.right.ty, (self.wide, self.deep))
        rows = Axis(self.turns.rows.name, self.columns)
        nest = _into(own, (along(rows.name), along(inner.name)), x.right, [rows, inner])
        return [nest], _matrix(own, 0, (1, own.strides[0]))


def _into(target: Buffer, index: Place, x: Ex, axes: list[Axis]) -> Nest:
    """target[index] = x."""
    store = Store(target, flat(index, target.strides), (x,), index=index)
    return Nest("", axes[:-1], axes[-1:], [Stage(stores=[store])], nodes=["copy"])


def _after(nest: Nest, turns: Turns, sums: Mapping[str, Ex]) -> list[Nest]:
    """What a turn does with its sums, stage by stage."""

    def one(x: Ex) -> Ex:
        return sums.get(x.name, x) if isinstance(x, Cell) else x

    rebuilt = Rebuilt(one)
    stages = [[rebuilt.store(s) for s in stage.head] for stage in nest.stages if stage.head]
    return [Nest("", [], [turns.rows], [Stage(stores=s)], nodes=nest.nodes) for s in stages]


def as_sums(loop: Loop, nest: Nest, moved: Nest) -> Nest | None:
    """A loop that adds products to elements, one a turn, as folds and one addition; `moved` is its
    nest with the turns as its first axis. None: it is something else.
    """
    if loop.step != 1 or loop.until is not None or nest.scan or nest.only_if:
        return None
    if len(moved.stages) != 1 or not moved.rows or not nest.rows + nest.inner:
        return None
    (stage,), axis = moved.stages, moved.rows[0]
    if stage.head or stage.folds or len(stage.stores) != 1:
        return None
    (store,) = stage.stores
    found = _added(store)
    if found is None or store.mask is not None or _moves(store.at, axis.name) != 0:
        return None
    element, terms, op = found
    reads = (x for x in expressions_of(terms) if isinstance(x, Load))
    if len(terms) > MOST_SUMS or any(x.buffer.name == store.buffer.name for x in reads):
        return None
    cells = [Cell(f"sum{k}_{loop.var.name}", store.value[0].ty) for k in range(len(terms))]
    value: Ex = element
    for cell in cells:
        value = Op(op, (value, cell), cell.ty)
    folds = [Fold(cell, "sum", x) for cell, x in zip(cells, terms)]
    stages = [Stage(folds=folds), Stage(head=[replace(store, value=(value,))])]
    return Nest("", [*nest.rows, *nest.inner], [axis], stages, nodes=nest.nodes)


def _added(store: Store) -> tuple[Load, list[Ex], str] | None:
    """The element that is stored to again, the products that are added to it or subtracted."""
    x = store.value[0]
    if len(store.value) != 1 or not isinstance(x, Op) or x.op not in ("add", "subtract"):
        return None
    pairs = [x.args, x.args[::-1]] if x.op == "add" else [x.args]
    for element, rest in pairs:
        if isinstance(element, Load) and _is_at(element, store):
            terms = _terms(rest)
            return (element, terms, x.op) if all(map(_is_product, terms)) else None
    return None


def _is_at(x: Load, store: Store) -> bool:
    same = x.buffer.name == store.buffer.name and x.at == store.at and x.index == store.index
    return same and not x.computed and not store.computed


def _terms(x: Ex) -> list[Ex]:
    """What is added up in an expression."""
    if isinstance(x, Op) and x.op == "add":
        return [y for arg in x.args for y in _terms(arg)]
    return [x]


def _is_product(x: Ex) -> bool:
    return isinstance(x, Op) and x.op == "multiply" and x.ty in FLOATS
