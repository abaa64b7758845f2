"""How a step runs: a nest in one piece or in chunks over the pool (products: `products.py`).

`run_<name>(ptr %f)` is made for each step. Work is points times the schedule's cost; below
`PARALLEL` one thread is enough. Chunks of a fold depend on the sizes alone, never on the number of
threads, so results do not change with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tailorbird.dispatch.text import Text
from tailorbird.emit.builder import Module
from tailorbird.emit.frame import Frame
from tailorbird.emit.nest import has_partials
from tailorbird.ir.expr import Dim, product
from tailorbird.lower.kernel import SIZES, Axis, Nest
from tailorbird.lower.steps import Sweep

PARALLEL = 1 << 20  # points * cost from which threads pay
FOLD_POINTS = 1 << 16  # points in one chunk of a fold
SWEEP = 1 << 18  # bytes of the rows in one block of a sweep
SWEEP_ROWS = (4, 256)  # and the least and most of them


def chunk_axis(nest: Nest) -> Axis | None:
    if nest.rows:
        return nest.rows[0]
    return nest.inner[0] if nest.inner else None


def points(nest: Nest) -> Dim:
    """All points of a nest."""
    return product(a.extent for a in [*nest.rows, *nest.inner])


class Runner:
    """Writes the run function of each step into the module."""

    def __init__(self, module: Module, frame: Frame) -> None:
        self.module = module
        self.frame = frame

    def text(self) -> Text:
        return Text(self.module)

    def size(self, t: Text, dim: Dim) -> str:
        """A size out of the frame."""
        if isinstance(dim, int):
            return str(dim)
        address = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot('size', dim)}")
        return t.reg(f"load i64, ptr {address}")

    def pointer(self, t: Text, name: str) -> str:
        address = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot('pointer', name)}")
        return t.reg(f"load ptr, ptr {address}")

    def close(self, t: Text, name: str) -> None:
        self.module.functions.append(t.function(f"internal void @{name}(ptr %f)", "nounwind"))

    # -- nests

    def nest(self, nest: Nest) -> None:
        t = self.text()
        axis = chunk_axis(nest)
        n = "1" if axis is None else self.size(t, axis.extent)
        if axis is None or (nest.scan and not nest.rows):
            t.do(f"call void @{nest.name}(ptr %f, i64 0, i64 {n}, i64 0)")
            t.do("ret void")
            self.close(t, f"run_{nest.name}")
            return
        total = self.size(t, points(nest))
        if has_partials(nest):
            self.folding(t, nest, n)
        else:
            self.mapping(t, nest, axis, n, total)

    def is_parallel(self, t: Text, total: str, cost: int) -> str:
        """Whether the work is worth waking other threads for."""
        work = t.reg(f"mul i64 {total}, {cost}")
        big = t.reg(f"icmp sge i64 {work}, {PARALLEL}")
        threads = self.threads(t)
        several = t.reg(f"icmp sgt i64 {threads}, 1")
        return t.reg(f"and i1 {big}, {several}")

    def threads(self, t: Text) -> str:
        t.module.declarations["@tb_threads = external global i64"] = None
        return t.reg("load atomic i64, ptr @tb_threads monotonic, align 8")

    def mapping(self, t: Text, nest: Nest, axis: Axis, n: str, total: str) -> None:
        parallel = self.is_parallel(t, total, nest.schedule.cost)
        t.do(f"br i1 {parallel}, label %many, label %one")
        t.label("one")
        t.do(f"call void @{nest.name}(ptr %f, i64 0, i64 {n}, i64 0)")
        t.do("ret void")
        t.label("many")
        pieces = t.reg(f"mul i64 {self.threads(t)}, 4")
        chunk = t.ceil_div(n, pieces)
        if axis.name == nest.schedule.vector:
            step = nest.schedule.width * nest.schedule.unroll
            chunk = t.reg(f"and i64 {t.reg(f'add i64 {chunk}, {step - 1}')}, {-step}")
        chunk = t.op_max(chunk, "1")
        self.parfor(t, nest, n, chunk)
        t.do("ret void")
        self.close(t, f"run_{nest.name}")
        self.chunk_function(nest)

    def parfor(self, t: Text, nest: Nest, n: str, chunk: str) -> None:
        count = t.ceil_div(n, chunk)
        job = t.slot("[3 x i64]")
        t.do(f"store ptr %f, ptr {job}")
        t.do(f"store i64 {n}, ptr {t.offset(job, 8)}")
        t.do(f"store i64 {chunk}, ptr {t.offset(job, 16)}")
        t.call("tb_parfor", "void", ("ptr", f"@chunk_{nest.name}"), ("ptr", job), ("i64", count))

    def chunk_function(self, nest: Nest) -> None:
        t = self.text()
        frame = t.reg("load ptr, ptr %job")
        n = t.field("%job", 8, "i64")
        chunk = t.field("%job", 16, "i64")
        low = t.reg(f"mul i64 %c, {chunk}")
        high = t.op_min(t.reg(f"add i64 {low}, {chunk}"), n)
        t.do(f"call void @{nest.name}(ptr {frame}, i64 {low}, i64 {high}, i64 %c)")
        t.do("ret void")
        signature = f"internal void @chunk_{nest.name}(ptr %job, i64 %c)"
        self.module.functions.append(t.function(signature, "nounwind"))

    def folding(self, t: Text, nest: Nest, n: str) -> None:
        """Partial folds of fixed chunks, then the fold of the partial ones."""
        chunk = self.size_slot(t, "chunk", nest.name)
        count = self.size_slot(t, "chunks", nest.name)
        several = t.reg(f"icmp sgt i64 {count}, 1")
        worth = self.is_parallel(t, self.size(t, points(nest)), nest.schedule.cost)
        parallel = t.reg(f"and i1 {several}, {worth}")
        t.do(f"br i1 {parallel}, label %many, label %head")
        t.label("many")
        self.parfor(t, nest, n, chunk)
        t.do("br label %end")
        t.label("head")
        t.do("br label %loop")
        t.label("loop")
        t.do("%c = phi i64 [0, %head], [%c1, %loop]")
        t.do("%c1 = add i64 %c, 1")
        which = t.reg(f"sub i64 {count}, %c1") if nest.schedule.backward else "%c"
        low = t.reg(f"mul i64 {which}, {chunk}")
        high = t.op_min(t.reg(f"add i64 {low}, {chunk}"), n)
        t.do(f"call void @{nest.name}(ptr %f, i64 {low}, i64 {high}, i64 {which})")
        t.do(f"%more = icmp slt i64 %c1, {count}")
        t.do("br i1 %more, label %loop, label %end")
        t.label("end")
        t.do(f"call void @{nest.name}_end(ptr %f, i64 0, i64 {count}, i64 0)")
        t.do("ret void")
        self.close(t, f"run_{nest.name}")
        self.chunk_function(nest)

    # -- sweeps

    def sweep(self, step: Sweep) -> None:
        """Both nests block by block; one after the other where several threads share the work."""
        t = self.text()
        rows = self.size(t, step.down.inner[0].extent)
        columns = self.size(t, step.down.rows[0].extent)
        both = sum(n.schedule.cost for n in step.nests)
        parallel = self.is_parallel(t, self.size(t, points(step.down)), both)
        t.do(f"br i1 {parallel}, label %many, label %one")
        t.label("many")
        for nest in step.nests:
            t.do(f"call void @run_{nest.name}(ptr %f)")
        t.do("ret void")
        t.label("one")
        with self.blocks(t, step.down, rows, columns) as (low, high):
            for nest in step.nests:
                if nest is step.down:
                    self.block(t, nest, low, high, "0", columns)
                else:
                    t.do(f"call void @{nest.name}(ptr %f, i64 {low}, i64 {high}, i64 0)")
        t.do("ret void")
        self.close(t, f"run_{step.name}")

    def swept(self, nest: Nest) -> None:
        """All blocks of some columns."""
        t = self.text()
        rows = self.size(t, nest.inner[0].extent)
        columns = self.size(t, nest.rows[0].extent)
        with self.blocks(t, nest, rows, columns) as (low, high):
            self.block(t, nest, low, high, "%lo", "%hi")
        t.do("ret void")
        signature = f"internal void @{nest.name}(ptr %f, i64 %lo, i64 %hi, i64 %chunk)"
        self.module.functions.append(t.function(signature, "nounwind"))

    def block(self, t: Text, nest: Nest, low: str, high: str, first: str, last: str) -> None:
        where = f"i64 {low}, i64 {high}, i64 {first}, i64 {last}"
        t.do(f"call void @{nest.name}.block(ptr %f, {where})")

    @contextmanager
    def blocks(self, t: Text, nest: Nest, rows: str, columns: str) -> Iterator[tuple[str, str]]:
        """A loop over blocks of rows that fit the cache; one, empty, if there are no rows."""
        width = max(SIZES[fold.value.ty] for fold in nest.stages[0].folds)
        long = t.op_max(t.reg(f"mul i64 {columns}, {width}"), "1")
        fit = t.op_max(t.reg(f"sdiv i64 {SWEEP}, {long}"), str(SWEEP_ROWS[0]))
        step = t.op_min(fit, str(SWEEP_ROWS[1]))
        at = t.slot("i64", "0")
        head, end = t.fresh("block"), t.fresh("swept")
        t.do(f"br label %{head}")
        t.label(head)
        low = t.reg(f"load i64, ptr {at}")
        high = t.op_min(t.reg(f"add i64 {low}, {step}"), rows)
        yield low, high
        t.do(f"store i64 {high}, ptr {at}")
        t.do(f"br i1 {t.reg(f'icmp slt i64 {high}, {rows}')}, label %{head}, label %{end}")
        t.label(end)

    def size_slot(self, t: Text, *key: str) -> str:
        address = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot(*key)}")
        return t.reg(f"load i64, ptr {address}")
