"""Several turns of a loop in one sweep over an array that every turn writes whole.

In: a loop whose turns save small parts of an array and then compute all of it anew, point by point
(`d[:] = np.minimum(d, d[:, k, None] + d[k])`). Out: the same as two loops. The first does `TURNS`
turns at once: what a turn would save is computed from what the turns before it saved, before
anything is stored; then every point goes through all of these turns in registers. The second does
the turns that are left over.

Invariants: a value is computed by the operations of the program, in their order, from the same
operands. What is saved covers all of its memory, and nobody but the map reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailorbird.dataclass import dataclass, replace
from tailorbird.fuse.flow import Index, Position, along, flat
from tailorbird.fuse.groups import COSTS
from tailorbird.ir.expr import Sym, apply, substitute, symbol
from tailorbird.lower.apart import Access, loads_of, stores_of
from tailorbird.lower.kernel import PART, Axis, Buffer, Cell, Ex, Load, Nest, Op, Size, Stage, Store
from tailorbird.lower.kernel import Index as Along
from tailorbird.lower.panels import MakeBuffer
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import LIGHT, expressions
from tailorbird.lower.steps import Loop, ProgramStep

TURNS = 4


def several_turns(
    loop: Loop, readers: Mapping[str, int], make: MakeBuffer
) -> list[ProgramStep] | None:
    """The loop with several turns in one sweep, and the rest of it; `readers` counts who reads each
    memory, and `make` makes more.
    """
    if loop.step != 1 or loop.until is not None or not loop.body:
        return None
    nests = [step for step in loop.body if isinstance(step, Nest)]
    if len(nests) != len(loop.body) or not all(_is_one_map(nest) for nest in nests):
        return None
    *saves, sweep = nests
    if not saves:
        return None  # blocks of points (`blocks.py`) need not even write in between
    together = _Together(loop.var, saves, sweep)
    if not together.is_legal(readers):
        return None
    count = apply("max", loop.stop - loop.start, 0)
    middle = loop.start + apply("floordiv", count, TURNS) * TURNS
    first = Loop(loop.var, loop.start, middle, TURNS, list(together.body(make)))
    return [first, replace(loop, start=middle)]


def _is_one_map(nest: Nest) -> bool:
    """Whether a nest does nothing but store one real number at every point."""
    if nest.scan or nest.packs or nest.only_if or len(nest.stages) != 1:
        return False
    (stage,) = nest.stages
    stores = [*stage.head, *stage.stores]
    if stage.folds or stage.first or len(stores) != 1 or stores[0].mask is not None:
        return False
    accesses: list[Access] = [*stores, *loads_of(nest)]
    plain = not any(x.computed or x.at.terms or x.buffer.ty in PART for x in accesses)
    return plain and not any(isinstance(x, Along | Cell) for x in expressions(nest))


def _axes(nest: Nest) -> list[Axis]:
    return [*nest.rows, *nest.inner]


def _covers(nest: Nest) -> bool:
    """Whether a nest stores every element of a buffer, at the point of its own axes."""
    (store,) = stores_of(nest)
    axes = _axes(nest)
    whole = tuple(a.extent for a in axes) == store.buffer.shape
    return whole and store.index == tuple(along(a.name) for a in axes)


@dataclass(frozen=True)
class _Together:
    var: Sym
    saves: list[Nest]
    sweep: Nest

    def is_legal(self, readers: Mapping[str, int]) -> bool:
        (store,) = stores_of(self.sweep)
        saved = [next(iter(stores_of(nest))).buffer for nest in self.saves]
        names = {x.name for x in saved}
        costs = sum(COSTS.get(x.op, 1) for x in expressions(self.sweep) if isinstance(x, Op))
        if len(store.buffer.shape) < 2 or costs > LIGHT or len(names) < len(saved):
            return False
        if any(len(x.shape) >= len(store.buffer.shape) for x in saved):
            return False
        if any(x.role != "temp" or x.room is not None or readers[x.name] != 1 for x in saved):
            return False
        if not all(_covers(nest) for nest in (*self.saves, self.sweep)):
            return False
        if store.buffer.name in names or not names <= {x.buffer.name for x in loads_of(self.sweep)}:
            return False
        own = [x for x in loads_of(self.sweep) if x.buffer.name == store.buffer.name]
        if any((x.at, x.index) != (store.at, store.index) for x in own):
            return False
        read = [x for nest in self.saves for x in loads_of(nest)]
        rank = len(store.buffer.shape)
        here = [x for x in read if x.buffer.name == store.buffer.name]
        looked = {x.buffer.shape == store.buffer.shape and len(x.index) == rank for x in here}
        return looked <= {True} and names.isdisjoint(x.buffer.name for x in read)

    def body(self, make: MakeBuffer) -> list[Nest]:
        """What the turns save, turn by turn, then the sweep."""
        (store,) = stores_of(self.sweep)
        out: list[Nest] = []
        saved: list[dict[str, Buffer]] = []
        after = _After(self, saved)
        for turn in range(TURNS):
            homes: dict[str, Buffer] = {}
            for nest in self.saves:
                (kept,) = stores_of(nest)
                home = make(kept.buffer.ty, kept.buffer.shape) if turn else kept.buffer
                homes[kept.buffer.name] = home
                value = (after.saved_value(kept.value[0], turn),)
                at = flat(kept.index, home.strides)
                out.append(_with_store(nest, Store(home, at, value, index=kept.index)))
            saved.append(homes)
        whole = {a.name: along(a.name) for a in _axes(self.sweep)}
        last = replace(store, value=(after.at(TURNS, whole),))
        return [*out, _with_store(self.sweep, last)]


def _with_store(nest: Nest, store: Store) -> Nest:
    stage = Stage(stores=[store]) if _axes(nest) else Stage(head=[store])
    return Nest("", nest.rows, nest.inner, [stage], nodes=nest.nodes)


class _After:
    """What is where after so many turns, in terms of what was there before the first of them."""

    def __init__(self, together: _Together, saved: list[dict[str, Buffer]]) -> None:
        self.together = together
        self.saved = saved
        (self.store,) = stores_of(together.sweep)
        self.axes = [a.name for a in _axes(together.sweep)]
        self.memo: dict[tuple[int, Index], Ex] = {}

    def at(self, turns: int, point: dict[str, Position]) -> Ex:
        """The element of the array at a point."""
        index = tuple(point[name] for name in self.axes)
        key = turns, index
        if key not in self.memo:
            buffer = self.store.buffer
            if turns == 0:
                at = flat(index, buffer.strides)
                self.memo[key] = Load(buffer, at, buffer.ty, index=index)
            else:
                computed = Rebuilt(lambda x: self.moved(x, turns - 1, point))
                self.memo[key] = computed(self.store.value[0])
        return self.memo[key]

    def moved(self, x: Ex, turn: int, point: dict[str, Position]) -> Ex:
        """What an expression of the map is in a turn at a point."""
        if isinstance(x, Load) and x.buffer.name == self.store.buffer.name:
            return self.at(turn, point)
        x = self.later(x, turn)
        if not isinstance(x, Load):
            return x
        index = tuple(_at_point(p, point) for p in x.index)
        home = self.saved[turn].get(x.buffer.name)
        if home is not None:
            return replace(x, buffer=home, at=flat(index, home.strides), index=index)
        return replace(x, at=_at_point(x.at, point), index=index)

    def saved_value(self, x: Ex, turn: int) -> Ex:
        """What a turn saves."""
        return Rebuilt(lambda y: self.read(y, turn))(x)

    def read(self, x: Ex, turn: int) -> Ex:
        """What an expression of it is."""
        x = self.later(x, turn)
        if not isinstance(x, Load) or x.buffer.name != self.store.buffer.name:
            return x
        return self.at(turn, dict(zip(self.axes, x.index, strict=True)))

    def later(self, x: Ex, turn: int) -> Ex:
        """The same, so many turns later."""
        var = self.together.var
        values = {var: symbol(var.name, var.kind) + turn}

        def position(p: Position) -> Position:
            axes = tuple((name, substitute(stride, values)) for name, stride in p.axes)
            return Position(substitute(p.offset, values), axes)

        if isinstance(x, Load):
            return replace(x, at=position(x.at), index=tuple(map(position, x.index)))
        return Size(substitute(x.dim, values), x.ty) if isinstance(x, Size) else x


def _at_point(p: Position, point: dict[str, Position]) -> Position:
    """A position where the axes are at other positions."""
    total = Position(p.offset)
    for name, stride in p.axes:
        total = total.plus(point[name].times(stride))
    return total
