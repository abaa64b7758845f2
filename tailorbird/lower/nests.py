"""A group becomes a nest: its members, level by level, as stores and folds over the group's axes.

A map that an earlier level computed and a later one needs again is computed again when cheap. When
it is dear (the exponentials of a softmax), it is parked at its own point in the memory of a result
of the same type that a later level will overwrite.
"""

from __future__ import annotations

from collections.abc import Callable

from tailorbird.fuse.flow import (
    Index,
    Position,
    along,
    broadcast_index,
    flat,
    inlines,
    operands_at,
    reduced_operand,
)
from tailorbird.fuse.groups import COSTS, RECOMPUTE, Group, Plan, is_reduction
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Node, Operand, Value, type_of
from tailorbird.lower.index import Inliner, Parts, compare, literal
from tailorbird.lower.kernel import PART, Axis, Buffer, Cell, Ex, Fold, Nest, Stage, Store

BufferOf = Callable[[Value], Buffer]


def build_nest(
    group: Group,
    plan: Plan,
    buffer_of: BufferOf,
    needed: set[Value],
    scalars: dict[Value, str],
) -> Nest:
    """The nest of a group."""
    return _GroupNest(group, plan, buffer_of, needed, scalars).build()


def _read_stored(
    plan: Plan, buffer_of: BufferOf, inliner: Inliner, x: Value, index: Index
) -> Parts | None:
    """A load, for what lives in memory."""
    if x.node is None:
        return None if x in inliner.scalars else inliner.load(buffer_of(x), index)
    if x in plan.stored or not inlines(x.node):
        return inliner.load(buffer_of(x), index)
    return None


def plain_inliner(plan: Plan, buffer_of: BufferOf, scalars: dict[Value, str]) -> Inliner:
    """Reads what is stored, inlines the rest."""
    inliner = Inliner(lambda v, at: _read_stored(plan, buffer_of, inliner, v, at), scalars)
    return inliner


def copy_nest(shape: tuple[Dim, ...], store: Store) -> Nest:
    """One store at every point of a shape."""
    axes = [Axis(f"a{k}", d) for k, d in enumerate(shape)]
    stage = Stage(stores=[store]) if axes else Stage(head=[store])
    return Nest("", axes[:-1], axes[-1:], [stage], nodes=["copy"])


def build_copy(
    x: Operand | Buffer,
    index: Index,
    ty: str,
    plan: Plan,
    buffer_of: BufferOf,
    scalars: dict[Value, str],
) -> Parts:
    """What an operand, broadcast and cast to a type, is at an index; or a buffer of that type."""
    inliner = plain_inliner(plan, buffer_of, scalars)
    if isinstance(x, Buffer):
        return inliner.load(x, index)
    return inliner.as_type(x, broadcast_index(x, index), ty)


RELATIONS = {"==": "equal", "!=": "not_equal", ">=": "greater_equal"}


def build_check(
    node: Node,
    flag: Buffer,
    plan: Plan,
    buffer_of: BufferOf,
    scalars: dict[Value, str],
) -> Nest:
    """flag = whether `x rel 0` for every element."""
    x = node.inputs[0]
    ty = type_of(x).short
    axes = [Axis(f"a{k}", d) for k, d in enumerate(type_of(x).shape)]
    inliner = plain_inliner(plan, buffer_of, scalars)
    parts = inliner.as_type(x, tuple(along(a.name) for a in axes), ty)
    relation = RELATIONS[node.attrs["rel"]]
    holds = compare(relation, parts, literal(0, ty), ty)
    if not axes:
        return Nest("", [], [], [Stage(head=[Store(flag, Position(), (holds,))])], nodes=["check"])
    cell = Cell("c0", "b1")
    fold = Stage(folds=[Fold(cell, "all", holds)])
    end = Stage(head=[Store(flag, Position(), (cell,))])
    return Nest("", [], axes, [fold, end], nodes=["check"])


class _GroupNest:
    def __init__(
        self,
        group: Group,
        plan: Plan,
        buffer_of: BufferOf,
        needed: set[Value],
        scalars: dict[Value, str],
    ) -> None:
        self.group = group
        self.plan = plan
        self.buffer_of = buffer_of
        self.needed = needed
        self.level = 0
        self.cells: dict[Value, Parts] = {}
        self.parked: dict[Value, tuple[int, Buffer]] = {}
        levels = 1 + max(group.levels[m] + (1 if is_reduction(m) else 0) for m in group.members)
        self.stages = [Stage() for _ in range(levels)]
        self.inliners = [Inliner(self.resolve, scalars) for _ in range(levels)]

    def build(self) -> Nest:
        group = self.group
        axes = [Axis(f"a{k}", d) for k, d in enumerate(group.domain)]
        if group.rows is None:
            rows, inner = axes[:-1], axes[-1:]
        else:
            rows = [axes[k] for k in group.rows]
            inner = [a for k, a in enumerate(axes) if k not in group.rows]
        self.park()
        for level in range(len(self.stages)):
            self.level = level
            self.store_parked()
            for member in group.members:
                if group.levels[member] == level:
                    (self.fold if is_reduction(member) else self.store)(member)
        stages = [s for s in self.stages if s.head or s.loops]
        ops = [m.node.op for m in group.members if m.node is not None]
        return Nest("", rows, inner, stages, nodes=self.names() or ops)

    def resolve(self, x: Value, index: Index) -> Parts | None:
        group, inliner = self.group, self.inliners[self.level]
        if x in self.cells:
            return self.cells[x]
        if x in group.index and index == group.index[x]:
            if group.levels[x] < self.level:
                return inliner.load(self.buffer_of(x), index)
            return inliner.compute(x, index)
        if x in self.parked and self.parked[x][0] < self.level and index == group.axes:
            return inliner.load(self.parked[x][1], index)
        return _read_stored(self.plan, self.buffer_of, inliner, x, index)

    # -- members

    def store(self, member: Value) -> None:
        index = self.group.index[member]
        value = self.inliners[self.level].at(member, index)
        stage = self.stages[self.level]
        if not self.group.rows and self.group.domain and member not in self.needed:
            stage.first += value
            return
        at = flat(index, self.buffer_of(member).strides)
        store = Store(self.buffer_of(member), at, value, index=index)
        inner = self.group.rows is None or index == self.group.axes
        if inner and self.group.domain:
            stage.stores.append(store)
        else:
            stage.head.append(store)

    def fold(self, member: Value) -> None:
        node = member.node
        assert node is not None
        group, inliner = self.group, self.inliners[self.level]
        rows = group.rows or ()
        axes = group.axes
        folded = node.attrs["axis"]
        index = reduced_operand(node, tuple(axes[k] for k in rows), tuple(axes[k] for k in folded))
        ty = member.type.short
        operand = node.inputs[0]
        source = type_of(operand).short if node.op in ("argmin", "argmax") else ty
        parts = inliner.as_type(operand, index, source)
        cells = tuple(
            Cell(f"c{len(self.cells)}_{k}", PART.get(ty, ty) if len(parts) > 1 else ty)
            for k in range(len(parts))
        )
        position = self.linear(node, folded) if node.op in ("argmin", "argmax") else None
        stage = self.stages[self.level]
        stage.folds += [Fold(c, node.op, p, position) for c, p in zip(cells, parts, strict=True)]
        self.cells[member] = cells
        if member in self.needed:
            index = group.index[member]
            at = flat(index, self.buffer_of(member).strides)
            store = Store(self.buffer_of(member), at, cells, index=index)
            self.stages[self.level + 1].head.append(store)

    def linear(self, node: Node, folded: tuple[int, ...]) -> Ex:
        """The position argmin and argmax report: the flat index over the folded axes."""
        total = Position()
        step: Dim = 1
        for k in reversed(folded):
            total = total.plus(along(f"a{k}").times(step))
            step = step * self.group.domain[k]
        return self.inliners[self.level].position(total)

    # -- parking

    def park(self) -> None:
        """Finds dear maps that several levels need, and results whose memory can hold them
        meanwhile.
        """
        if not self.group.rows:
            return
        wanted = self.levels_of_inlined()
        free = {m: self.group.levels[m] for m in self.group.members if self.can_lend(m)}
        prices = {
            value: self.cost(value, set()) for value, levels in wanted.items() if len(levels) > 1
        }
        for value in sorted(prices, key=lambda v: -prices[v]):
            levels = wanted[value]
            first = min(levels)
            if prices[value] < RECOMPUTE:
                continue
            lender = next(
                (
                    m
                    for m, level in free.items()
                    if level >= max(levels) and m.type.short == value.type.short
                ),
                None,
            )
            if lender is None or any(
                value in self.cone(p) or p in self.cone(value) for p in self.parked
            ):
                continue
            del free[lender]
            buffer = self.buffer_of(lender)
            self.parked[value] = (first, buffer)

    def store_parked(self) -> None:
        """Parks what this level is the first to compute."""
        for value, (first, buffer) in self.parked.items():
            if first == self.level:
                parts = self.inliners[first].at(value, self.group.axes)
                at = flat(self.group.axes, buffer.strides)
                self.stages[first].stores.append(Store(buffer, at, parts))

    def can_lend(self, m: Value) -> bool:
        return (
            not is_reduction(m)
            and self.group.levels[m] > 0
            and self.group.index[m] == self.group.axes
        )

    def levels_of_inlined(self) -> dict[Value, set[int]]:
        """For every map inlined at its own point, the levels that need it (not looking below the
        outermost such map).
        """
        found: dict[Value, set[int]] = {}
        for member in self.group.members:
            node = member.node
            assert node is not None
            level = self.group.levels[member]
            index = self.group.axes
            roots = (
                [(node.inputs[0], index)]
                if is_reduction(member)
                else list(operands_at(node, self.group.index[member]))
            )
            stack = [r for r in roots if isinstance(r[0], Value)]
            seen: set[tuple[Value, Index]] = set()
            while stack:
                x, at = stack.pop()
                assert isinstance(x, Value)
                if (
                    x.node is None
                    or x in self.plan.stored
                    or not inlines(x.node)
                    or (x, at) in seen
                ):
                    continue
                seen.add((x, at))
                if at == index:
                    found.setdefault(x, set()).add(level)
                stack.extend((y, w) for y, w in operands_at(x.node, at) if isinstance(y, Value))
        return found

    def cone(self, value: Value) -> set[Value]:
        """The maps a value is inlined from, itself included."""
        out: set[Value] = set()
        stack = [value]
        while stack:
            x = stack.pop()
            if x in out or x.node is None or x in self.plan.stored:
                continue
            out.add(x)
            stack.extend(y for y in x.node.inputs if isinstance(y, Value))
        return out

    def cost(self, value: Value, seen: set[Value]) -> int:
        if (
            value in seen
            or value.node is None
            or value in self.plan.stored
            or not inlines(value.node)
        ):
            return 0
        seen.add(value)
        own = COSTS.get(value.node.op, 1)
        return own + sum(self.cost(x, seen) for x in value.node.inputs if isinstance(x, Value))

    def names(self) -> list[str]:
        """The ops the nest came from, in graph order, for `explain`."""
        seen: dict[Value, None] = {}

        def visit(x: Value) -> None:
            if (
                x in seen
                or x.node is None
                or (x in self.plan.stored and x not in self.group.members)
            ):
                return
            for y in x.node.inputs:
                if isinstance(y, Value):
                    visit(y)
            seen[x] = None

        for member in self.group.members:
            visit(member)
        return [
            x.node.op
            for x in seen
            if x.node is not None and x.node.op not in ("read", "reshape", "cast")
        ]


def build_scan(node: Node, plan: Plan, buffer_of: BufferOf, scalars: dict[Value, str]) -> Nest:
    """A running sum or product along one axis: a fold that stores at every step."""
    value = node.result
    shape = value.type.shape
    axes = [Axis(f"a{k}", d) for k, d in enumerate(shape)]
    axis: int = node.attrs["axis"]
    index = tuple(along(a.name) for a in axes)
    inliner = plain_inliner(plan, buffer_of, scalars)
    ty = value.type.short
    parts = inliner.as_type(node.inputs[0], index, ty)
    target = buffer_of(value)
    op = "sum" if node.op == "cumsum" else "prod"
    cells = tuple(Cell(f"c{k}", PART.get(ty, ty)) for k in range(len(parts)))
    folds = [Fold(c, op, p) for c, p in zip(cells, parts, strict=True)]
    stage = Stage(folds=folds, stores=[Store(target, flat(index, target.strides), cells)])
    rows = [a for k, a in enumerate(axes) if k != axis]
    return Nest("", rows, [axes[axis]], [stage], nodes=[node.op], scan=True)
