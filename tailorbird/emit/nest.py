"""A nest becomes one function: `void k(ptr %f, i64 %lo, i64 %hi, i64 %chunk)` over a range of its
outermost axis.

Lanes follow the vector axis. If that is an inner axis, a row is folded across lanes; if it is a row
axis, lanes are rows and folds stay in their lanes. The main loop runs `unroll` vectors at a time;
what is left over runs masked, one vector at a time along a row, all at once across rows.

Float sums are taken in blocks. A block sum goes to a compensated total, so that the error stays
that of one block; a sum that fits one block never meets the total.

A nest without rows that folds is cut into chunks whose partial results go to memory; `k_end` folds
those and stores the results.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

from tailorbird.emit.ahead import fetch, read_next
from tailorbird.emit.builder import MEMORY_TYPES, Module
from tailorbird.emit.casts import is_float
from tailorbird.emit.folds import Accumulator, Compensated, merged
from tailorbird.emit.frame import Frame
from tailorbird.emit.masked import kept_lanes, skipping_loop, summand, take_masked
from tailorbird.emit.past import emit_past
from tailorbird.emit.turned import TurnedEmitter
from tailorbird.emit.values import Values
from tailorbird.lower.kernel import Axis, Fold, Nest, Op, Stage
from tailorbird.lower.schedule import dear_maps

BLOCK = 4096  # elements of a float sum between compensated additions, along lanes
LANE_BLOCK = 64  # the same where every lane has a sum of its own
Sums = dict[str, list[Accumulator]]


def partial_name(nest: Nest, fold: Fold) -> str:
    """The buffer of a fold's partial results."""
    return f"{nest.name}.{fold.cell.name}"


def has_partials(nest: Nest) -> bool:
    """Whether a nest folds everything, in chunks."""
    return not nest.rows and not nest.scan and any(stage.folds for stage in nest.stages)


def is_float_sum(fold: Fold) -> bool:
    return fold.op == "sum" and is_float(fold.value.ty)


class NestEmitter(Values):
    """Emits the function or functions of one nest into a module.

    `views` are the rows that run together: this one, and others that only differ in where they are.
    """

    def __init__(self, module: Module, frame: Frame, nest: Nest) -> None:
        self.views: list[NestEmitter] = [self]
        super().__init__(module, frame, nest)

    def emit(self) -> None:
        if has_partials(self.nest):
            self.emit_partials()
            return
        self.all_rows()
        self.b.do("ret void")
        self.finish(self.nest.name)

    def finish(self, name: str, ranges: str = "i64 %lo, i64 %hi, i64 %chunk") -> None:
        signature = f"void @{name}(ptr %f, {ranges})"
        text = self.b.function(signature, self.module.attributes())
        self.module.functions.append(text)

    # -- loops

    def all_rows(self) -> None:
        if self.s.past:
            emit_past(self)
        else:
            self.rows(0)

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
            if depth == len(order) - 1 and self.s.together > 1:
                low = self.several_rows(order[depth], low, high)
            with self.b.loop(low, high) as i, self.axis(order[depth], i):
                self.rows(depth + 1)
            return
        if not self.lanes_are_rows:
            self.row([0])
            return
        (vector,) = (a for a in self.nest.rows if a.name == self.s.vector)
        low, high = self.bounds(vector)
        self.vector_loop(vector, low, high, self.row)

    def several_rows(self, axis: Axis, low: str, high: str) -> str:
        """Rows that run together, as long as there are enough; the first row that is left."""
        b, many = self.b, self.s.together
        count = high if low == "0" else b.pure(f"sub nsw i64 {high}, {low}")
        whole = b.pure(f"and i64 {count}, {-many}")
        middle = whole if low == "0" else b.pure(f"add nsw i64 {low}, {whole}")
        with b.loop(low, middle, many) as i, ExitStack() as stack:
            self.views = [self, *(self.another() for _ in range(many - 1))]
            for k, view in enumerate(self.views):
                at = b.pure(f"add nsw i64 {i}, {k}") if k else i
                stack.enter_context(view.here(axis, at))
            self.row([0])
        self.views = [self]
        return middle

    def another(self) -> NestEmitter:
        """A view of the same function that can be elsewhere."""
        view = copy.copy(self)
        view.memory = copy.copy(self.memory)
        view.memory.env, view.memory.order = dict(self.memory.env), list(self.memory.order)
        view.cells, view.memo = {}, {}
        return view

    @contextmanager
    def here(self, axis: Axis, counter: str) -> Iterator[None]:
        """Inside a loop over an axis, this view alone."""
        with super().axis(axis, counter):
            yield

    @contextmanager
    def axis(self, axis: Axis, counter: str) -> Iterator[None]:
        with ExitStack() as stack:
            for view in self.views:
                stack.enter_context(view.here(axis, counter))
            yield

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
        if self.lanes_are_rows and width > 1 and unroll > 1 and not self.nest.turns:
            # Columns left over: one sweep over all of them, unless they fit one vector.
            left = b.pure(f"sub nsw i64 {high}, {middle}")
            several = b.pure(f"icmp sgt i64 {left}, {width}")
            end = b.pure(f"select i1 {several}, i64 {high}, i64 {middle}")
            lanes = [k * width for k in range(unroll)]
            self.masked_loop(axis, middle, end, high, lanes, body)
            middle = end
        self.masked_loop(axis, middle, high, high, [0], body)

    def masked_loop(
        self,
        axis: Axis,
        low: str,
        end: str,
        high: str,
        lanes: list[int],
        body: Callable[[list[int]], None],
    ) -> None:
        """From low to end, only the lanes below high."""
        width = self.s.width
        with self.b.loop(low, end, width * len(lanes)) as i, self.axis(axis, i):
            masks = {k: self.lane_mask(i, k, high) for k in lanes} if width > 1 else {}
            for view in self.views:
                view.masks = masks
            body(lanes)
            for view in self.views:
                view.masks = {}

    def inner_loops(self, axes: list[Axis], body: Callable[[], None]) -> None:
        if not axes:
            body()
            return
        low, high = self.bounds(axes[0])
        with self.b.loop(low, high) as i, self.axis(axes[0], i):
            self.inner_loops(axes[1:], body)

    def row(self, lanes: list[int]) -> None:
        """All stages of one row, or of a vector of rows for each lane offset."""
        for stage in self.nest.stages:
            for view in self.views:
                view.memo = {}
                view.together = lanes
                for lane in lanes:
                    view.store_all(stage.head, lane)
            if not stage.loops:
                continue
            if stage.turns is not None:
                TurnedEmitter(self, stage, stage.turns, lanes).emit()
            elif self.lanes_are_rows or not self.s.vector:
                self.stage_in_lanes(stage, lanes)
            else:
                self.stage_across_lanes(stage)

    def compute_first(self, stage: Stage, lane: int) -> None:
        for x in stage.first:
            self.value(x, lane)

    # -- sums in blocks

    def blocked_loops(
        self,
        axes: list[Axis],
        size: int,
        run: Callable[[Axis, str, str], None],
        flush: Callable[[], None],
    ) -> None:
        """Loops over inner axes, the last by `run(axis, low, high)`; flushes every `size` points or
        fewer, but not after the last of them.
        """
        b = self.b
        *others, last = axes

        def innermost() -> None:
            low, high = self.bounds(last)
            with b.loop(low, high, size) as start:
                after = b.pure(f"add nsw i64 {start}, {size}")
                end = b.pure(b.intrinsic("llvm.smin.i64", "i64", ("i64", after), ("i64", high)))
                run(last, start, end)
                with b.when(b.pure(f"icmp slt i64 {end}, {high}")):
                    flush()

        if not others:
            innermost()
        else:
            self.outer_blocks(others, last, size, innermost, flush)

    def outer_blocks(
        self,
        axes: list[Axis],
        last: Axis,
        size: int,
        innermost: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        """The outermost inner axis in blocks of about `size` points."""
        b = self.b
        rest = self.points(a for a in self.nest.inner if a not in (axes[0], last))
        rest = b.pure(f"mul nsw i64 {rest}, {self.additions(last)}")
        most = b.pure(b.intrinsic("llvm.smax.i64", "i64", ("i64", rest), ("i64", "1")))
        rows = b.pure(f"sdiv i64 {size}, {most}")
        rows = b.pure(b.intrinsic("llvm.smax.i64", "i64", ("i64", rows), ("i64", "1")))
        low, high = self.bounds(axes[0])
        with b.loop(low, high, rows) as start:
            after = b.pure(f"add nsw i64 {start}, {rows}")
            end = b.pure(b.intrinsic("llvm.smin.i64", "i64", ("i64", after), ("i64", high)))
            with b.loop(start, end) as i, self.axis(axes[0], i):
                self.inner_loops(axes[1:], innermost)
            with b.when(b.pure(f"icmp slt i64 {end}, {high}")):
                flush()

    def points(self, axes: Iterable[Axis]) -> str:
        """How many points these axes have inside the bounds of this call."""
        total = "1"
        for axis in axes:
            low, high = self.bounds(axis)
            count = high if low == "0" else self.b.pure(f"sub nsw i64 {high}, {low}")
            total = count if total == "1" else self.b.pure(f"mul nsw i64 {total}, {count}")
        return total

    def additions(self, axis: Axis) -> str:
        """The points of an axis, as a block counts them: where lanes follow it, each vector that is
        left over goes to the first accumulator alone, which adds as for a whole turn of all.
        """
        points, width = self.points([axis]), self.s.width
        if axis.name != self.s.vector or self.lanes_are_rows:
            return points
        left = self.b.pure(f"and i64 {points}, {width * self.s.unroll - 1}")
        whole = self.b.pure(f"sub nsw i64 {points}, {left}")
        more = self.b.pure(f"add nsw i64 {left}, {width - 1}")
        vectors = self.b.pure(f"and i64 {more}, {-width}")
        more = self.b.pure(f"mul nsw i64 {vectors}, {self.s.unroll}")
        return self.b.pure(f"add nsw i64 {whole}, {more}")

    # -- lanes are rows: folds stay in their lanes

    def stage_in_lanes(self, stage: Stage, lanes: list[int]) -> None:
        width = self.s.width if self.lanes_are_rows else 1
        scan = self.nest.scan
        keys = [(fold, lane) for fold in stage.folds for lane in lanes]
        sums = {(f.cell.name, lane): Accumulator(self.b, f, width, scan) for f, lane in keys}
        totals = {
            (f.cell.name, lane): Compensated(self.b, f.value.ty, width)
            for f, lane in keys
            if is_float_sum(f) and not scan and not self.is_short()
        }

        def body() -> None:
            for lane in lanes:
                self.compute_first(stage, lane)
                for fold in stage.folds:
                    a = sums[fold.cell.name, lane]
                    kept = None if fold.mask is None else kept_lanes(self, fold.mask, lane)
                    self.take(fold, a, lane, kept)
                    if scan:
                        self.cells.setdefault(fold.cell.name, {})[lane] = a.get()
                self.store_all(stage.stores, lane)

        def one_axis(axis: Axis, low: str, high: str) -> None:
            with self.b.loop(low, high) as i, self.axis(axis, i):
                body()

        def flush() -> None:
            for key, total in totals.items():
                total.take(sums[key])

        if totals:
            self.blocked_loops(self.nest.inner, LANE_BLOCK, one_axis, flush)
        else:
            self.inner_loops(self.nest.inner, body)
        for fold, lane in keys:
            a = sums[fold.cell.name, lane]
            total = totals.get((fold.cell.name, lane))
            result = a.in_lanes() if total is None else total.result(a.get())
            self.cells.setdefault(fold.cell.name, {})[lane] = result

    def is_short(self) -> bool:
        """Whether every fold surely fits one block."""
        total = 1
        for axis in self.nest.inner:
            if not isinstance(axis.extent, int):
                return False
            total *= axis.extent
        return total <= LANE_BLOCK

    # -- lanes along a row: folds are merged across lanes

    def stage_across_lanes(self, stage: Stage) -> None:
        for view, found in zip(self.views, self.across(stage), strict=True):
            for fold, (value, position) in found:
                view.cells[fold.cell.name] = {0: position or value}

    def across(self, stage: Stage) -> list[list[tuple[Fold, tuple[str, str]]]]:
        """The loops of a stage: other inner axes, then blocks, then vectors; the closed folds of
        every view.
        """
        (vector,) = (a for a in self.nest.inner if a.name == self.s.vector)
        others = [a for a in self.nest.inner if a is not vector]
        width, unroll = self.s.width, self.s.unroll
        sums: list[Sums] = [
            {
                f.cell.name: [Accumulator(self.b, f, width) for _ in range(unroll)]
                for f in stage.folds
            }
            for _ in self.views
        ]
        totals = [
            {
                f.cell.name: Compensated(self.b, f.value.ty, width)
                for f in stage.folds
                if is_float_sum(f)
            }
            for _ in self.views
        ]

        coming, dear = read_next(self.nest, stage), dear_maps(stage)

        def body(lanes: list[int]) -> None:
            for view in self.views:
                view.together = lanes
            for x, lane, view in product(dear, lanes, self.views):
                view.value(x, lane)
            for k, lane in enumerate(lanes):
                for view, own in zip(self.views, sums, strict=True):
                    view.compute_first(stage, lane)
                    for fold in stage.folds:
                        if fold.mask is None:
                            view.take(fold, own[fold.cell.name][k], lane, view.masks.get(lane))
                    view.store_all(stage.stores, lane)
                    if not view.masks:
                        fetch(view, coming, lane, len(self.views))
            take_masked(self.views, stage, lanes, sums)

        def vectors(axis: Axis, low: str, high: str) -> None:
            skipping_loop(self, stage, axis, low, high, body)

        def flush() -> None:
            for own, found in zip(sums, totals, strict=True):
                for name, total in found.items():
                    total.take(merged(own[name]))
                    for a in own[name][1:]:
                        a.reset()

        if any(totals):
            self.blocked_loops([*others, vector], BLOCK, vectors, flush)
        else:
            self.inner_loops(others, lambda: vectors(vector, *self.bounds(vector)))
        return [
            [(f, self.close_fold(f, own[f.cell.name], found.get(f.cell.name))) for f in stage.folds]
            for own, found in zip(sums, totals, strict=True)
        ]

    def close_fold(
        self, fold: Fold, sums: list[Accumulator], total: Compensated | None
    ) -> tuple[str, str]:
        """The fold over all lanes: (value, position or empty)."""
        if sums[0].has_position:
            one = Accumulator(self.b, fold, 1)
            for a in sums:
                one.merge_position(*a.reduced())
            return one.reduced()
        first = merged(sums)
        if total is not None:
            first.put(total.result(first.get()))
        return first.reduced()

    def take(self, fold: Fold, accumulator: Accumulator, lane: int, mask: str | None) -> None:
        """One value a lane into an accumulator; a product that is summed is fused into it."""
        width = accumulator.width
        x, mask = summand(self, fold, lane, mask)
        if is_float_sum(fold) and isinstance(x, Op) and x.op == "multiply" and not self.nest.scan:
            left, right = (self.widened(y, lane, x.ty, width) for y in x.args)
            accumulator.add_product(left, right, mask)
            return
        position = ""
        if fold.position is not None:
            position = self.widened(fold.position, lane, "i64", width)
        accumulator.add(self.widened(x, lane, x.ty, width), mask, position)

    # -- nests without rows that fold

    def emit_partials(self) -> None:
        """One chunk's folds to memory, then a second function that folds the chunks."""
        stage, *rest = self.nest.stages
        for fold, (value, position) in self.across(stage)[0]:
            self.put_partial(fold, value, position)
        self.b.do("ret void")
        self.finish(self.nest.name)
        self.emit_end(stage, rest)

    def partial(self, fold: Fold, chunk: str, kind: str) -> str:
        base = self.frame.pointer(self.b, partial_name(self.nest, fold) + kind)
        return self.b.pure(f"getelementptr i64, ptr {base}, i64 {chunk}")

    def put_partial(self, fold: Fold, value: str, position: str) -> None:
        ty = fold.value.ty
        stored = self.b.pure(f"zext i1 {value} to i8") if ty == "b1" else value
        self.b.do(f"store {MEMORY_TYPES[ty]} {stored}, ptr {self.partial(fold, '%chunk', '')}")
        if position:
            self.b.do(f"store i64 {position}, ptr {self.partial(fold, '%chunk', '.at')}")

    def get_partial(self, fold: Fold, chunk: str) -> tuple[str, str]:
        ty = fold.value.ty
        value = self.b.here(f"load {MEMORY_TYPES[ty]}, ptr {self.partial(fold, chunk, '')}")
        if ty == "b1":
            value = self.b.here(f"trunc i8 {value} to i1")
        if fold.position is None:
            return value, ""
        return value, self.b.here(f"load i64, ptr {self.partial(fold, chunk, '.at')}")

    def emit_end(self, stage: Stage, rest: list[Stage]) -> None:
        """Folds the partial results of %hi chunks."""
        self.start()
        b = self.b
        ones = {f.cell.name: Accumulator(b, f, 1) for f in stage.folds}
        totals = {
            f.cell.name: Compensated(b, f.value.ty, 1) for f in stage.folds if is_float_sum(f)
        }
        with b.loop("0", "%hi") as chunk:
            for fold in stage.folds:
                one = ones[fold.cell.name]
                value, position = self.get_partial(fold, chunk)
                if fold.cell.name in totals:
                    totals[fold.cell.name].add(value)
                elif position:
                    one.merge_position(value, position)
                else:
                    one.add(value, None)
        for fold in stage.folds:
            name = fold.cell.name
            if name in totals:
                self.cells[name] = {0: totals[name].result(ones[name].get())}
            else:
                value, position = ones[name].reduced()
                self.cells[name] = {0: position or value}
        for later in rest:
            self.store_all(later.head, 0)
        b.do("ret void")
        self.finish(f"{self.nest.name}_end")
