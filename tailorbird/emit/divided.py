"""A nest inside a control function that is divided among threads.

It is a function of its own, `void <name>(ptr %env, i64 %lo, i64 %hi, i64 %chunk)`, over a range of
its outermost axis. Its environment holds the frame, and after it what it needs to know of the loops
around it: integers over their variables, and the values of scalars that live in registers. All of
that is computed in front of the call, so that threads only read.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tailorbird.emit.builder import Builder
from tailorbird.emit.frame import Frame
from tailorbird.emit.nest import NestEmitter
from tailorbird.ir.expr import Dim, product
from tailorbird.lower.divide import weight
from tailorbird.lower.kernel import Nest

if TYPE_CHECKING:
    from tailorbird.emit.control import ControlEmitter

Key = tuple[str, Any]
FRAME: Key = ("frame", None)


class _Environment(Frame):
    """The frame as threads see it; `kept` lists what is to be put into the environment."""

    def __init__(self, control: ControlEmitter) -> None:
        self.slots = control.frame.slots
        self.control = control
        self.kept: dict[Key, int] = {FRAME: 0}
        self.room = 1

    def keep(self, b: Builder, key: Key, room: int = 1) -> str:
        """Where something lies in the environment."""
        if key not in self.kept:
            self.kept[key] = self.room
            self.room += room
        return b.pure(f"getelementptr i64, ptr %env, i64 {self.kept[key]}")

    def size(self, b: Builder, dim: Dim) -> str:
        if not self.control.is_inner(dim):
            return super().size(b, dim)
        return b.pure(f"load i64, ptr {self.keep(b, ('size', dim))}", safe=True)

    def exact(self, b: Builder, dim: Dim) -> str:
        if not self.control.is_inner(dim):
            return super().exact(b, dim)
        return b.pure(f"load i64, ptr {self.keep(b, ('exact', dim))}", safe=True)

    def pointer(self, b: Builder, name: str) -> str:
        if name not in self.control.cells:
            return super().pointer(b, name)
        return self.keep(b, ("cell", name), 2 if self.control.types[name].startswith("[") else 1)


class DividedEmitter(NestEmitter):
    """Emits the function of a nest that is divided, and the call of it."""

    def __init__(self, control: ControlEmitter, nest: Nest) -> None:
        self.control = control
        self.environment = _Environment(control)
        super().__init__(control.module, self.environment, nest)

    def start(self) -> None:
        super().start()
        self.memory.checks = True
        self.b.do("%f = load ptr, ptr %env")

    def emit(self) -> None:
        b, nest = self.b, self.nest
        with ExitStack() as stack:
            for extent in nest.only_if:
                some = b.pure(f"icmp sgt i64 {self.frame.size(b, extent)}, 0")
                stack.enter_context(b.when(some))
            self.rows(0)
        b.do("ret void")
        wide = 'nounwind "prefer-vector-width"="512"' if self.module.avx512 else "nounwind"
        signature = f"internal void @{nest.name}(ptr %env, i64 %lo, i64 %hi, i64 %chunk)"
        self.module.functions.append(b.function(signature, wide))
        self.call()

    def call(self) -> None:
        """Fills the environment and runs the nest."""
        control, nest, b = self.control, self.nest, self.control.b
        axis = nest.divided
        assert axis is not None
        env = b.cell(f"[{self.environment.room} x i64]")
        for key, slot in self.environment.kept.items():
            place = b.pure(f"getelementptr i64, ptr {env}, i64 {slot}")
            kind, value = self.value_of(key)
            b.do(f"store {kind} {value}, ptr {place}")
        work = product(a.extent for a in [*nest.rows, *nest.inner]) * weight(nest)
        step = nest.schedule.width * nest.schedule.unroll if axis.name == self.s.vector else 1
        numbers = (control.size(axis.extent), control.size(work), str(step))
        pace = f"@{nest.name}.pace"
        b.define(pace, f"{pace} = internal global [4 x i64] zeroinitializer, align 64")
        pointers = (("ptr", f"@{nest.name}"), ("ptr", env))
        integers = (("i64", x) for x in numbers)
        b.do(b.external("tb_divide", "void", *pointers, *integers, ("ptr", pace)))

    def value_of(self, key: Key) -> tuple[str, str]:
        """What belongs into the environment, with its type."""
        control, (what, x) = self.control, key
        if key == FRAME:
            return "ptr", "%f"
        if what == "cell":
            kind = control.types[x]
            return kind, control.b.here(f"load {kind}, ptr {control.cells[x]}")
        return "i64", control.size(x) if what == "size" else control.exact_size(x)
