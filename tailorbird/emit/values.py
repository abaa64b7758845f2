"""Expressions of a nest become registers.

In: an expression and a lane offset, inside the loops that are open. Out: a register and its width:
1 for what every lane shares, else the lanes of the schedule.

Invariants: an expression is emitted once for a lane offset within the innermost open loop; what
does not change there is hoisted by the builder. Loads of buffers that the nest writes stay in
place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from tailorbird.dataclass import replace
from tailorbird.emit.builder import Builder, Module, vector_type
from tailorbird.emit.casts import cast
from tailorbird.emit.frame import Frame
from tailorbird.emit.memory import Memory, Place
from tailorbird.emit.ops import divide_by_scalar, emit_op
from tailorbird.lower.kernel import (
    Axis,
    Cell,
    Const,
    Ex,
    Index,
    Load,
    Nest,
    Op,
    Scalar,
    Size,
    Store,
    const,
)
from tailorbird.lower.schedule import expressions

Register = tuple[str, int]


def _is_power_of_two(x: Ex) -> bool:
    """Whether dividing by it is an exact product, which LLVM makes of it."""
    return isinstance(x, Const) and abs(math.frexp(x.value)[0]) == 0.5


class Values:
    """The expressions of one nest, and the function that they are emitted into."""

    def __init__(self, module: Module, frame: Frame, nest: Nest) -> None:
        self.module = module
        self.frame = frame
        self.nest = nest
        self.s = nest.schedule
        self.depends: dict[int, bool] = {}
        self.lanes_are_rows = any(a.name == self.s.vector for a in nest.rows)
        self.start()

    def start(self) -> None:
        """A new function."""
        self.b = Builder(self.module)
        stages = self.nest.stages
        written = {s.buffer.name for stage in stages for s in [*stage.head, *stage.stores]}
        if any(s.mask is not None for stage in stages for s in stage.stores):
            written |= {x.buffer.name for x in expressions(self.nest) if isinstance(x, Load)}
        self.memory = Memory(self.b, self.frame, written)
        self.memory.vector, self.memory.width = self.s.vector, self.s.width
        self.cells: dict[str, dict[int, str]] = {}
        self.memo: dict[tuple[int, int], Register] = {}
        self.masks: dict[int, str] = {}  # by lane offset; none outside a tail
        self.together: list[int] = []  # lane offsets whose values may be computed at once

    @contextmanager
    def axis(self, axis: Axis, counter: str) -> Iterator[None]:
        """Inside a loop over an axis."""
        memo, self.memo = self.memo, {}
        self.memory.env[axis.name] = counter
        self.memory.order.append(axis.name)
        yield
        self.memory.order.pop()
        del self.memory.env[axis.name]
        self.memo = memo

    def lane_mask(self, i: str, lane: int, high: str) -> str:
        """The lanes from i + lane on that are below high: a mask register, or a compare without
        AVX-512."""
        b, w = self.b, self.s.width
        left = b.pure(f"sub nsw i64 {high}, {i}")
        if lane:
            left = b.pure(f"sub nsw i64 {left}, {lane}")
            left = b.pure(b.intrinsic("llvm.smax.i64", "i64", ("i64", left), ("i64", "0")))
        left = b.pure(b.intrinsic("llvm.umin.i64", "i64", ("i64", left), ("i64", str(w))))
        if not b.avx512 or w > 32:
            count = b.splat(b.pure(f"trunc i64 {left} to i32"), "i32", w)
            lanes = ", ".join(f"i32 {k}" for k in range(w))
            return b.pure(f"icmp ult <{w} x i32> <{lanes}>, {count}")
        # Not (1 << left) - 1: LLVM would subtract in w bits alone and leave the bits above them
        # set, which it takes for lanes when it widens a store of bytes.
        all_ones = ("i64", "-1")
        ones = b.pure(b.intrinsic("llvm.x86.bmi.bzhi.64", "i64", all_ones, ("i64", left)))
        return b.pure(f"bitcast i{w} {b.pure(f'trunc i64 {ones} to i{w}')} to <{w} x i1>")

    def widened(self, x: Ex, lane: int, ty: str, width: int) -> str:
        """The register of an expression with a number in every lane."""
        register, own = self.value(x, lane)
        return register if own == width else self.b.splat(register, ty, width)

    def follows_lanes(self, x: Ex) -> bool:
        """Whether an expression differs from lane to lane."""
        key = id(x)
        if key not in self.depends:
            if isinstance(x, Op):
                answer = any(self.follows_lanes(a) for a in x.args)
            elif isinstance(x, Load):
                moves = x.at.stride(self.s.vector) != 0
                answer = moves or any(self.follows_lanes(t) for t, _ in x.computed)
            elif isinstance(x, Index):
                answer = x.axis == self.s.vector
            else:
                answer = isinstance(x, Cell) and self.lanes_are_rows
            self.depends[key] = answer and self.s.width > 1
        return self.depends[key]

    def value(self, x: Ex, lane: int) -> Register:
        """The register of an expression at a lane offset, and its width."""
        key = (id(x), lane if self.varies(x) else 0)
        if key not in self.memo:
            self.memo[key] = self.compute(x, lane)
        return self.memo[key]

    def varies(self, x: Ex) -> bool:
        several = self.s.unroll > 1
        return several and (self.follows_lanes(x) or isinstance(x, Cell) or self.s.width == 1)

    def compute(self, x: Ex, lane: int) -> Register:
        b = self.b
        if isinstance(x, Const):
            return b.constant(x.value, x.ty, 1), 1
        if isinstance(x, Size):
            return self.frame.exact(b, x.dim), 1
        if isinstance(x, Scalar):
            return self.frame.scalar(b, x.name, x.ty), 1
        if isinstance(x, Cell):
            width = self.s.width if self.lanes_are_rows else 1
            lanes = self.cells[x.name]
            return lanes[lane if lane in lanes else 0], width
        if isinstance(x, Index):
            return self.index(x, lane)
        if isinstance(x, Load):
            return self.load(x, lane)
        assert isinstance(x, Op)
        return self.op(x, lane)

    def index(self, x: Index, lane: int) -> Register:
        counter = self.memory.env.get(x.axis, "0")
        if x.axis != self.s.vector:
            return counter, 1
        base = self.b.pure(f"add nsw i64 {counter}, {lane}") if lane else counter
        w = self.s.width
        if w == 1:
            return base, 1
        first = self.b.splat(base, "i64", w)
        return self.b.pure(f"add nsw <{w} x i64> {first}, {self.b.iota(w)}"), w

    def load(self, x: Load, lane: int) -> Register:
        computed = [(*self.value(t, lane), stride) for t, stride in x.computed]
        place = self.memory.place(x.buffer, x.at, lane, computed, self.masks.get(lane))
        return self.memory.load(x.buffer, place, x.part)

    def op(self, x: Op, lane: int) -> Register:
        values = [self.value(a, lane) for a in x.args]
        width = max(w for _, w in values)
        types = [a.ty for a in x.args]
        args = [
            r if w == width else self.b.splat(r, ty, width)
            for (r, w), ty in zip(values, types, strict=True)
        ]
        if x.op == "cast":
            return cast(self.b, args[0], types[0], x.ty, width), width
        if x.op == "divide" and width > 1 and values[1][1] == 1 and not _is_power_of_two(x.args[1]):
            return self.quotient(x, lane, values[1][0], width), width
        return emit_op(self.b, x.op, args, types, x.ty, width), width

    def quotient(self, x: Op, lane: int, divisor: str, width: int) -> str:
        """A vector over a scalar; those of the lane offsets that run together share a branch. Over
        a scalar that is 1 unless something holds nothing is divided until it does.
        """
        by = x.args[1]
        if isinstance(by, Op) and by.op == "where" and by.args[2] == const(1.0, x.ty):
            condition, own = self.value(by.args[0], lane)
            if own == 1:
                vt, one = vector_type(x.ty, width), self.widened(x.args[0], lane, x.ty, width)
                call = f"fdiv {vt} {one}, {self.b.splat(divisor, x.ty, width)}"
                return self.b.rare(condition, 1, [(vt, one, call)])[0]
        lanes = self.together if lane in self.together else [lane]
        above = [self.widened(x.args[0], k, x.ty, width) for k in lanes]
        for k, found in zip(lanes, divide_by_scalar(self.b, above, divisor, x.ty, width)):
            self.memo[id(x), k if self.varies(x) else 0] = found, width
        return self.memo[id(x), lane if self.varies(x) else 0][0]

    def store_all(self, stores: list[Store], lane: int) -> None:
        """Stores at one point; every value is computed before the first is stored."""
        if stores and stores[0].mask is not None:
            assert all(store.mask is stores[0].mask for store in stores)
            self.store_where(stores, stores[0].mask, lane)
            return
        ready: list[tuple[Store, Place, list[str], int]] = []
        for store in stores:
            computed = [(*self.value(t, lane), stride) for t, stride in store.computed]
            mask = self.masks.get(lane)
            place = self.memory.place(store.buffer, store.at, lane, computed, mask)
            width = self.s.width if place.stride != 0 or place.offsets else 1
            values = [self.widened(x, lane, x.ty, width) for x in store.value]
            ready.append((store, place, values, width))
        for store, place, values, width in ready:
            self.memory.store(store.buffer, place, values, width)

    def store_where(self, stores: list[Store], mask: Ex, lane: int) -> None:
        """Stores where a mask is set; where no lane of it is, nothing is even loaded."""
        b, w = self.b, self.s.width
        kept = self.widened(mask, lane, "b1", w)
        some = kept
        if w > 1:
            tail = self.masks.get(lane)
            kept = kept if tail is None else b.here(f"and <{w} x i1> {kept}, {tail}")
            some = b.here(f"icmp ne i{w} {b.here(f'bitcast <{w} x i1> {kept} to i{w}')}, 0")
        with b.when(some):
            memo, self.memo = self.memo, dict(self.memo)
            ready = []
            for store in stores:
                computed = [(*self.value(t, lane), stride) for t, stride in store.computed]
                place = self.memory.place(store.buffer, store.at, lane, computed, None)
                values = [self.widened(x, lane, x.ty, w) for x in store.value]
                ready.append((store, place, values))
            for store, place, values in ready:
                where = place if w == 1 else replace(place, mask=kept)
                self.memory.store(store.buffer, where, values, w)
            self.memo = memo
