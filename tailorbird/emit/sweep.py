"""A nest that folds down the rows of an array, for one block of them at a time.

`<name>.block(ptr %f, i64 %lo, i64 %hi, i64 %first, i64 %last)` folds rows %lo to %hi of columns
%first to %last. What is folded so far waits in memory; with the last rows the results are stored.
"""

from __future__ import annotations

from tailorbird.emit.builder import vector_type
from tailorbird.emit.nest import NestEmitter, partial_name
from tailorbird.lower.kernel import SIZES, Axis, Fold

SLACK = 128  # columns beyond the last that lanes without one may write


class SweptEmitter(NestEmitter):
    """Emits the block function of a nest that is swept."""

    def emit(self) -> None:
        self.rows(0)
        self.b.do("ret void")
        self.finish(f"{self.nest.name}.block", "i64 %lo, i64 %hi, i64 %first, i64 %last")

    def bounds(self, axis: Axis) -> tuple[str, str]:
        return ("%lo", "%hi") if axis is self.nest.inner[0] else ("%first", "%last")

    def is_short(self) -> bool:
        """Block sums are short, and there are few."""
        return True

    def row(self, lanes: list[int]) -> None:
        b, (stage, *rest) = self.b, self.nest.stages
        self.memo, self.together = {}, lanes
        self.stage_in_lanes(stage, lanes)
        cells = {
            (f.cell.name, lane): b.cell(self.vector(f), self.cells[f.cell.name][lane])
            for f in stage.folds
            for lane in lanes
        }
        with b.when(b.pure("icmp sgt i64 %lo, 0")):
            for fold in stage.folds:
                for lane in lanes:
                    self.add_waiting(fold, lane, cells[fold.cell.name, lane])
        for fold in stage.folds:
            for lane in lanes:
                found = b.here(f"load {self.vector(fold)}, ptr {cells[fold.cell.name, lane]}")
                self.cells[fold.cell.name][lane] = found
        end = self.frame.size(b, self.nest.inner[0].extent)
        with b.when(b.pure(f"icmp slt i64 %hi, {end}")):
            for fold in stage.folds:
                for lane in lanes:
                    value = self.cells[fold.cell.name][lane]
                    b.do(f"store {self.vector(fold)} {value}, {self.waiting(fold, lane)}")
        with b.when(b.pure(f"icmp sge i64 %hi, {end}")):
            for later in rest:
                self.memo = {}
                for lane in lanes:
                    self.store_all(later.head, lane)
        self.memo = {}

    def vector(self, fold: Fold) -> str:
        return vector_type(fold.value.ty, self.s.width)

    def waiting(self, fold: Fold, lane: int) -> str:
        """Where the sums of earlier blocks are."""
        b, ty = self.b, fold.value.ty
        base = self.frame.pointer(b, partial_name(self.nest, fold))
        counter = self.memory.env[self.s.vector]
        at = b.pure(f"add nsw i64 {counter}, {lane}") if lane else counter
        size = SIZES[ty]
        place = b.pure(f"getelementptr i8, ptr {base}, i64 {b.pure(f'mul nsw i64 {at}, {size}')}")
        return f"ptr {place}, align {size}"

    def add_waiting(self, fold: Fold, lane: int, cell: str) -> None:
        b, vt = self.b, self.vector(fold)
        before = b.here(f"load {vt}, {self.waiting(fold, lane)}")
        total = b.here(f"fadd {vt} {before}, {b.here(f'load {vt}, ptr {cell}')}")
        b.do(f"store {vt} {total}, ptr {cell}")
