"""A nest becomes one function: `void k(ptr %f, i64 %lo, i64 %hi, i64 %chunk)` over a range of its
outermost axis.

Lanes follow the vector axis. If that is an inner axis, a row is folded across lanes; if it is a row
axis, lanes are rows and folds stay in their lanes. The main loop runs `unroll` vectors at a time;
what is left over runs one masked vector at a time.

A nest without rows that folds is cut into chunks whose partial results go to memory; `k_end` folds
those and stores the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailorbird.emit.builder import MEMORY_TYPES, Builder, Module, vector_type
from tailorbird.emit.folds import Accumulator, Compensated
from tailorbird.emit.frame import Frame
from tailorbird.emit.memory import Memory
from tailorbird.emit.ops import cast, emit_op, is_float
from tailorbird.lower.kernel import (
    Axis,
    Cell,
    Const,
    Ex,
    Fold,
    Index,
    Load,
    Nest,
    Op,
    Scalar,
    Size,
    Stage,
    Store,
)

BLOCK = 4096  # elements of a float sum between compensated additions
Register = tuple[str, int]


def partial_name(nest: Nest, fold: Fold) -> str:
    """The buffer of a fold's partial results."""
    return f"{nest.name}.{fold.cell.name}"


def has_partials(nest: Nest) -> bool:
    return not nest.rows and any(stage.folds for stage in nest.stages)


class NestEmitter:
    """Emits the function or functions of one nest into a module."""

    def __init__(self, module: Module, frame: Frame, nest: Nest) -> None:
        self.module = module
        self.frame = frame
        self.nest = nest
        self.s = nest.schedule
        self.depends: dict[int, bool] = {}
        self.lanes_are_rows = any(a.name == self.s.vector for a in nest.rows)
        self.attributes = 'nounwind "prefer-vector-width"="512"' if module.avx512 else "nounwind"

    def start(self) -> None:
        self.b = Builder(self.module)
        written = {
            store.buffer.name
            for stage in self.nest.stages
            for store in [*stage.head, *stage.stores]
        }
        self.memory = Memory(self.b, self.frame, written)
        self.memory.vector, self.memory.width = self.s.vector, self.s.width
        self.cells: dict[str, dict[int, str]] = {}
        self.memo: dict[tuple[int, int], Register] = {}
        self.mask: str | None = None

    def emit(self) -> None:
        self.start()
        if has_partials(self.nest):
            self.emit_partials()
            return
        self.rows(0)
        self.b.do("ret void")
        self.finish(self.nest.name)

    def finish(self, name: str) -> None:
        signature = f"void @{name}(ptr %f, i64 %lo, i64 %hi, i64 %chunk)"
        self.module.functions.append(self.b.function(signature, self.attributes))

    # -- loops

    @contextmanager
    def axis(self, axis: Axis, counter: str) -> Iterator[None]:
        memo, self.memo = self.memo, {}
        self.memory.env[axis.name] = counter
        self.memory.order.append(axis.name)
        yield
        self.memory.order.pop()
        del self.memory.env[axis.name]
        self.memo = memo

    def bounds(self, axis: Axis) -> tuple[str, str]:
        first = self.nest.rows[0] if self.nest.rows else self.nest.inner[0]
        if axis is first:
            return "%lo", "%hi"
        return "0", self.frame.size(self.b, axis.extent)

    def rows(self, depth: int) -> None:
        """The row loops; the vector axis, if it is a row, runs innermost."""
        order = [a for a in self.nest.rows if a.name != self.s.vector]
        if depth < len(order):
            low, high = self.bounds(order[depth])
            with self.b.loop(low, high) as i, self.axis(order[depth], i):
                self.rows(depth + 1)
            return
        if not self.lanes_are_rows:
            self.row([0])
            return
        (vector,) = (a for a in self.nest.rows if a.name == self.s.vector)
        low, high = self.bounds(vector)
        self.vector_loop(vector, low, high, self.row)

    def vector_loop(
        self, axis: Axis, low: str, high: str, body: Callable[[list[int]], None]
    ) -> None:
        """Full steps of unroll * width, then masked vectors."""
        b, width, unroll = self.b, self.s.width, self.s.unroll
        step = width * unroll
        if step == 1:
            with b.loop(low, high) as i, self.axis(axis, i):
                body([0])
            return
        count = high if low == "0" else b.pure(f"sub nsw i64 {high}, {low}")
        whole = b.pure(f"and i64 {count}, {-step}")
        middle = whole if low == "0" else b.pure(f"add nsw i64 {low}, {whole}")
        with b.loop(low, middle, step) as i, self.axis(axis, i):
            body([k * width for k in range(unroll)])
        with b.loop(middle, high, width) as i, self.axis(axis, i):
            old, self.mask = self.mask, self.lane_mask(i, high) if width > 1 else None
            body([0])
            self.mask = old

    def lane_mask(self, i: str, high: str) -> str:
        w = self.s.width
        call = self.b.intrinsic(
            f"llvm.get.active.lane.mask.v{w}i1.i64", f"<{w} x i1>", ("i64", i), ("i64", high)
        )
        return self.b.pure(call)

    def row(self, lanes: list[int]) -> None:
        """All stages of one row, or of a vector of rows for each lane offset."""
        for stage in self.nest.stages:
            self.memo = {}
            for store in stage.head:
                for lane in lanes:
                    self.store(store, lane)
            if stage.loops:
                self.stage(stage, lanes)

    def stage(self, stage: Stage, lanes: list[int]) -> None:
        if self.lanes_are_rows or not self.s.vector:
            self.stage_in_lanes(stage, lanes)
        else:
            self.stage_across_lanes(stage)

    # -- lanes are rows: folds stay in their lanes

    def stage_in_lanes(self, stage: Stage, lanes: list[int]) -> None:
        width = self.s.width if self.lanes_are_rows else 1
        sums = {
            (fold.cell.name, lane): Accumulator(self.b, fold, width)
            for fold in stage.folds
            for lane in lanes
        }

        def body() -> None:
            for lane in lanes:
                for fold in stage.folds:
                    position = (
                        self.widened(fold.position, lane, "i64", width)
                        if fold.position is not None
                        else ""
                    )
                    value = self.widened(fold.value, lane, fold.value.ty, width)
                    sums[fold.cell.name, lane].add(value, None, position)
                    if self.nest.scan:
                        self.cells.setdefault(fold.cell.name, {})[lane] = sums[
                            fold.cell.name, lane
                        ].get()
                for store in stage.stores:
                    self.store(store, lane)

        self.inner_loops(self.nest.inner, body)
        for fold in stage.folds:
            for lane in lanes:
                a = sums[fold.cell.name, lane]
                if a.has_position:
                    result = self.b.here(f"load {a.place_type}, ptr {a.place}")
                else:
                    result = self.settled(fold, a.lanes_with_nan(), width)
                self.cells.setdefault(fold.cell.name, {})[lane] = result

    def inner_loops(self, axes: list[Axis], body: Callable[[], None]) -> None:
        if not axes:
            body()
            return
        low, high = self.bounds(axes[0])
        with self.b.loop(low, high) as i, self.axis(axes[0], i):
            self.inner_loops(axes[1:], body)

    def settled(self, fold: Fold, register: str, width: int) -> str:
        """A float sum of nothing is +0, although sums start from -0."""
        if fold.op != "sum" or not is_float(fold.value.ty):
            return register
        total = "1"
        for axis in self.nest.inner:
            total = self.b.pure(f"mul i64 {total}, {self.frame.size(self.b, axis.extent)}")
        empty = self.b.pure(f"icmp eq i64 {total}, 0")
        vt = vector_type(fold.value.ty, width)
        zero = self.b.constant(0.0, fold.value.ty, width)
        return self.b.here(f"select i1 {empty}, {vt} {zero}, {vt} {register}")

    # -- lanes along a row: folds are merged across lanes

    def stage_across_lanes(self, stage: Stage) -> None:
        accumulators, totals = self.open_folds(stage)
        self.across(stage, accumulators, totals)
        for fold in stage.folds:
            value, position = self.close_fold(
                fold, accumulators[fold.cell.name], totals.get(fold.cell.name)
            )
            self.cells[fold.cell.name] = {0: position or self.settled(fold, value, 1)}

    def open_folds(
        self, stage: Stage
    ) -> tuple[dict[str, list[Accumulator]], dict[str, Compensated]]:
        unroll = self.s.unroll
        accumulators = {}
        totals = {}
        for fold in stage.folds:
            accumulators[fold.cell.name] = [
                Accumulator(self.b, fold, self.s.width) for _ in range(unroll)
            ]
            if fold.op == "sum" and is_float(fold.value.ty):
                totals[fold.cell.name] = Compensated(self.b, fold.value.ty, self.s.width)
        return accumulators, totals

    def across(
        self,
        stage: Stage,
        accumulators: dict[str, list[Accumulator]],
        totals: dict[str, Compensated],
    ) -> None:
        """The loops of a stage: other inner axes, then blocks, then vectors."""
        (vector,) = (a for a in self.nest.inner if a.name == self.s.vector)
        others = [a for a in self.nest.inner if a is not vector]
        b = self.b

        def body(lanes: list[int]) -> None:
            for k, lane in enumerate(lanes):
                for fold in stage.folds:
                    self.accumulate(fold, accumulators[fold.cell.name][k], lane)
                for store in stage.stores:
                    self.store(store, lane)

        def vectors() -> None:
            low, high = self.bounds(vector)
            if not totals:
                self.vector_loop(vector, low, high, body)
                return
            with b.loop(low, high, BLOCK) as start:
                after = b.pure(f"add nsw i64 {start}, {BLOCK}")
                end = b.pure(b.intrinsic("llvm.smin.i64", "i64", ("i64", after), ("i64", high)))
                self.vector_loop(vector, start, end, body)
                for name, total in totals.items():
                    first = self.merged(accumulators[name])
                    total.add(first.get())
                    for a in accumulators[name]:
                        a.reset()

        self.inner_loops(others, vectors)

    def merged(self, accumulators: list[Accumulator]) -> Accumulator:
        """Everything in the first accumulator, as a tree."""
        todo = list(accumulators)
        while len(todo) > 1:
            half = len(todo) // 2
            for k in range(half):
                todo[k].merge(todo[k + half])
            todo = todo[:half] + todo[2 * half :]
        return todo[0]

    def close_fold(
        self, fold: Fold, accumulators: list[Accumulator], total: Compensated | None
    ) -> Register | tuple[str, str]:
        if total is not None:
            accumulators[0].put(total.result())
            return accumulators[0].reduced()
        if accumulators[0].has_position:
            one = Accumulator(self.b, fold, 1)
            for a in accumulators:
                one.merge_position(*a.reduced())
            return one.reduced()
        return self.merged(accumulators).reduced()

    def accumulate(self, fold: Fold, accumulator: Accumulator, lane: int) -> None:
        width = self.s.width
        position = (
            self.widened(fold.position, lane, "i64", width) if fold.position is not None else ""
        )
        product = fold.value
        if (
            fold.op == "sum"
            and is_float(fold.value.ty)
            and isinstance(product, Op)
            and product.op == "multiply"
        ):
            left, right = (self.widened(x, lane, product.ty, width) for x in product.args)
            accumulator.add("", self.mask, factors=(left, right))
            return
        accumulator.add(self.widened(fold.value, lane, fold.value.ty, width), self.mask, position)

    # -- nests without rows that fold

    def emit_partials(self) -> None:
        """One chunk's folds to memory, then a second function that folds the chunks."""
        stage, *rest = self.nest.stages
        if self.s.vector:
            accumulators, totals = self.open_folds(stage)
            self.across(stage, accumulators, totals)
            closed = {
                f.cell.name: self.close_fold(f, accumulators[f.cell.name], totals.get(f.cell.name))
                for f in stage.folds
            }
        else:
            ones = {f.cell.name: Accumulator(self.b, f, 1) for f in stage.folds}
            self.inner_loops(self.nest.inner, lambda: self.scalar_body(stage, ones))
            closed = {name: a.reduced() for name, a in ones.items()}
        for fold in stage.folds:
            value, position = closed[fold.cell.name]
            self.put_partial(fold, value, str(position))
        self.b.do("ret void")
        self.finish(self.nest.name)
        self.emit_end(stage, rest)

    def scalar_body(self, stage: Stage, ones: dict[str, Accumulator]) -> None:
        for fold in stage.folds:
            position = self.widened(fold.position, 0, "i64", 1) if fold.position is not None else ""
            ones[fold.cell.name].add(self.widened(fold.value, 0, fold.value.ty, 1), None, position)

    def partial(self, fold: Fold, chunk: str, kind: str) -> str:
        base = self.frame.pointer(self.b, partial_name(self.nest, fold) + kind)
        return self.b.pure(f"getelementptr i64, ptr {base}, i64 {chunk}")

    def put_partial(self, fold: Fold, value: str, position: str) -> None:
        ty = fold.value.ty
        stored = self.b.pure(f"zext i1 {value} to i8") if ty == "b1" else value
        self.b.do(f"store {MEMORY_TYPES[ty]} {stored}, ptr {self.partial(fold, '%chunk', '')}")
        if position:
            self.b.do(f"store i64 {position}, ptr {self.partial(fold, '%chunk', '.at')}")

    def emit_end(self, stage: Stage, rest: list[Stage]) -> None:
        """Folds the partial results of %hi chunks."""
        self.start()
        b = self.b
        ones = {f.cell.name: Accumulator(b, f, 1) for f in stage.folds}
        totals = {
            f.cell.name: Compensated(b, f.value.ty, 1)
            for f in stage.folds
            if f.op == "sum" and is_float(f.value.ty)
        }
        with b.loop("0", "%hi") as chunk:
            for fold in stage.folds:
                ty = fold.value.ty
                value = b.here(f"load {MEMORY_TYPES[ty]}, ptr {self.partial(fold, chunk, '')}")
                if ty == "b1":
                    value = b.here(f"trunc i8 {value} to i1")
                one = ones[fold.cell.name]
                if fold.cell.name in totals:
                    totals[fold.cell.name].add(value)
                elif one.has_position:
                    one.merge_position(
                        value, b.here(f"load i64, ptr {self.partial(fold, chunk, '.at')}")
                    )
                else:
                    one.add(value, None)
        for fold in stage.folds:
            one = ones[fold.cell.name]
            if fold.cell.name in totals:
                self.cells[fold.cell.name] = {
                    0: self.settled(fold, totals[fold.cell.name].result(), 1)
                }
            else:
                value, position = one.reduced()
                self.cells[fold.cell.name] = {0: position or value}
        for later in rest:
            for store in later.head:
                self.store(store, 0)
        b.do("ret void")
        self.finish(f"{self.nest.name}_end")

    # -- expressions

    def widened(self, x: Ex, lane: int, ty: str, width: int) -> str:
        register, own = self.value(x, lane)
        return register if own == width else self.b.splat(register, ty, width)

    def follows_lanes(self, x: Ex) -> bool:
        """Whether an expression differs from lane to lane."""
        key = id(x)
        if key not in self.depends:
            if isinstance(x, Op):
                answer = any(self.follows_lanes(a) for a in x.args)
            elif isinstance(x, Load):
                answer = x.at.stride(self.s.vector) != 0 or any(
                    self.follows_lanes(t) for t, _ in x.computed
                )
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
        return self.s.unroll > 1 and (
            self.follows_lanes(x) or isinstance(x, Cell) or self.s.width == 1
        )

    def compute(self, x: Ex, lane: int) -> Register:
        b = self.b
        if isinstance(x, Const):
            return b.constant(x.value, x.ty, 1), 1
        if isinstance(x, Size):
            return self.frame.size(b, x.dim), 1
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
        if self.s.width == 1:
            return base, 1
        w = self.s.width
        return self.b.pure(
            f"add nsw <{w} x i64> {self.b.splat(base, 'i64', w)}, {self.b.iota(w)}"
        ), w

    def load(self, x: Load, lane: int) -> Register:
        computed = [(*self.value(t, lane), stride) for t, stride in x.computed]
        place = self.memory.place(x.buffer, x.at, lane, computed, self.mask)
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
        return emit_op(self.b, x.op, args, types, x.ty, width), width

    def store(self, store: Store, lane: int) -> None:
        place = self.memory.place(store.buffer, store.at, lane, [], self.mask)
        along = place.stride != 0 and self.s.width > 1
        width = self.s.width if along else 1
        values = []
        for x in store.value:
            values.append(self.widened(x, lane, x.ty, width))
        self.memory.store(store.buffer, place, values, width)
