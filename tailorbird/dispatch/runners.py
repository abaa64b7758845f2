"""How a step is called: a nest in one piece or in chunks over the pool (products: `products.py`).

In: a nest, and the sizes as registers. Out: one call of `assemble/steps_ir.py`, where the rest is.
Work is points times the schedule's cost. Chunks of a fold depend on the sizes alone, never on the
number of threads, so results do not change with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailorbird.assemble.steps_ir import PARALLEL
from tailorbird.dispatch.text import Text
from tailorbird.emit.builder import Module
from tailorbird.emit.frame import Frame
from tailorbird.emit.nest import has_partials
from tailorbird.ir.expr import Dim, product
from tailorbird.lower.kernel import SIZES, Axis, Nest
from tailorbird.lower.steps import Sweep

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


def run_nest(
    t: Text, nest: Nest, size: Callable[[Dim], str], release: str, fold: tuple[str, str] | None
) -> str:
    """Calls a nest; the register of the status. `size` gives the register of a size, `fold` is the
    chunk and the count of a fold.
    """
    axis = chunk_axis(nest)
    whole = axis is None or (nest.scan and not nest.rows)
    n = "1" if axis is None else size(axis.extent)
    work = "0" if whole else t.reg(f"mul i64 {size(points(nest))}, {nest.schedule.cost}")
    head = [("ptr", f"@{nest.name}")]
    tail = [("ptr", "%f"), ("i64", n), ("i64", work)]
    if has_partials(nest) and not whole:
        assert fold is not None, "its chunks were counted when its memory was laid out"
        chunk, count = fold
        head += [("ptr", f"@{nest.name}_end")]
        tail += [("i64", chunk), ("i64", count), ("i32", str(int(nest.schedule.backward)))]
        return t.call("tb_fold", "i32", *head, *tail, ("i32", release))
    vector = axis is not None and axis.name == nest.schedule.vector
    step = nest.schedule.width * nest.schedule.unroll if vector else 1
    return t.call("tb_map", "i32", *head, *tail, ("i64", str(step)), ("i32", release))


class Runner:
    """Writes the run function of a step into the module, where `run_nest` is not enough."""

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

    # -- sweeps

    def sweep(self, step: Sweep) -> None:
        """Both nests block by block; one after the other where several threads share the work."""
        t = self.text()
        rows = self.size(t, step.down.inner[0].extent)
        columns = self.size(t, step.down.rows[0].extent)
        both = sum(n.schedule.cost for n in step.nests)
        work = t.reg(f"mul i64 {self.size(t, points(step.down))}, {both}")
        big = t.reg(f"icmp sge i64 {work}, {PARALLEL}")
        t.module.declarations["@tb_threads = external global i64"] = None
        threads = t.reg("load atomic i64, ptr @tb_threads monotonic, align 8")
        several = t.reg(f"icmp sgt i64 {threads}, 1")
        parallel = t.reg(f"and i1 {big}, {several}")
        t.do(f"br i1 {parallel}, label %many, label %one")
        t.label("many")
        for nest in step.nests:
            run_nest(t, nest, lambda dim: self.size(t, dim), "0", None)
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
