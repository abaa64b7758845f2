"""Loops and branches become one function: `i32 c(ptr %f)` with the nests of their bodies inside.

In: a `Control` step. Out: a function that returns 0 when it came to its end, 1 when a check failed
and plain Python shall run, 2 when a signal raised an exception.

Invariants: memory that anything in the function writes is read where the program reads it; other
loads may move in front of the innermost loop or branch that they stand in, not further, since only
inside is it known that they are in bounds. Scalars that nobody else sees are stack slots, which
LLVM turns into registers. Integers that capture calls exact leave when they do not fit 64 bits.
Work is counted down, and signals are looked at when the count is used up; from then on the GIL is
released.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack

from tailorbird.emit.builder import MEMORY_TYPES, Builder, Module
from tailorbird.emit.divided import DividedEmitter
from tailorbird.emit.frame import Frame
from tailorbird.emit.integers import Integers
from tailorbird.emit.memory import Memory
from tailorbird.emit.moves import PackEmitter
from tailorbird.emit.nest import NestEmitter
from tailorbird.ir.expr import Dim, Expr, Sym, product
from tailorbird.lower.kernel import PART, Axis, Buffer, Nest
from tailorbird.lower.steps import (
    Bind,
    Branch,
    Check,
    Control,
    Factor,
    Gemm,
    Loop,
    ProgramStep,
    PythonCall,
    While,
    inner_steps,
)
from tailorbird.lower.touch import written_by

BUDGET = 1 << 21  # rough instructions between looks at signals
TURN = 8  # instructions of one turn of a loop, apart from its nests

POLL = """define internal i32 @tb_poll(ptr %state) noinline {
entry:
  %held = load ptr, ptr %state
  %first = icmp eq ptr %held, null
  br i1 %first, label %look, label %back
back:
  call void @tb_PyEval_RestoreThread(ptr %held)
  store ptr null, ptr %state
  br label %look
look:
  %signal = call i32 @tb_PyErr_CheckSignals()
  %fine = icmp eq i32 %signal, 0
  br i1 %fine, label %on, label %stop
on:
  %saved = call ptr @tb_PyEval_SaveThread()
  store ptr %saved, ptr %state
  ret i32 0
stop:
  ret i32 1
}
"""

LibraryEmitter = Callable[[Gemm | Factor | PythonCall, str], list[Hashable]]


class LocalFrame(Frame):
    """The frame as code inside a control function sees it: scalars in stack slots, and integers
    over loop variables computed on the spot.
    """

    def __init__(self, frame: Frame, control: ControlEmitter) -> None:
        self.slots = frame.slots
        self.control = control

    def size(self, b: Builder, dim: Dim) -> str:
        return self.control.size(dim)

    def exact(self, b: Builder, dim: Dim) -> str:
        return self.control.exact_size(dim)

    def pointer(self, b: Builder, name: str) -> str:
        cell = self.control.cells.get(name)
        return cell if cell is not None else super().pointer(b, name)


class _InnerNest(NestEmitter):
    """A nest inside a control function: all of it at once, in the function's own builder."""

    def __init__(self, control: ControlEmitter, nest: Nest) -> None:
        self.control = control
        super().__init__(control.module, control.local, nest)

    def start(self) -> None:
        self.b = self.control.b
        self.memory = Memory(self.b, self.frame, self.control.written)
        self.memory.checks = True
        self.memory.own = {s.buffer.name for g in self.nest.stages for s in (*g.head, *g.stores)}
        self.memory.base = len(self.b.scopes)
        self.memory.vector, self.memory.width = self.s.vector, self.s.width
        self.cells = {}
        self.memo = {}
        self.masks = {}
        self.together = []

    def bounds(self, axis: Axis) -> tuple[str, str]:
        return "0", self.frame.size(self.b, axis.extent)

    def emit(self) -> None:
        with ExitStack() as stack:
            for extent in self.nest.only_if:
                some = self.b.here(f"icmp sgt i64 {self.frame.size(self.b, extent)}, 0")
                stack.enter_context(self.b.when(some))
            self.all_rows()


class _InnerPack(PackEmitter, _InnerNest):
    """A pack inside a control function."""

    def emit(self) -> None:
        self.pack_all()


class ControlEmitter(Integers):
    """Emits one control function into a module."""

    def __init__(
        self, module: Module, frame: Frame, step: Control, library: LibraryEmitter
    ) -> None:
        self.module = module
        self.frame = frame
        self.step = step
        self.library = library
        self.b = Builder(module)
        self.local = LocalFrame(frame, self)
        self.written = written_by(step.steps)
        self.inner = {
            s.var if isinstance(s, Loop) else s.symbol
            for s in inner_steps(step.steps)
            if isinstance(s, Loop | Bind)
        }
        for s in inner_steps(step.steps):
            if isinstance(s, PythonCall):
                self.inner.update(s.binds)
        self.cells: dict[str, str] = {}
        self.types = {buffer.name: _element(buffer) for buffer in step.cells}
        self.symbols: dict[Sym, str] = {}
        self.libraries = 0

    def emit(self) -> None:
        b = self.b
        self.budget = b.cell("i64", str(BUDGET))
        for buffer in self.step.cells:
            self.cells[buffer.name] = b.cell(self.types[buffer.name], "zeroinitializer")
        self.steps(self.step.steps)
        b.do("ret i32 0")
        for label, status in (("leave", 1), ("stopped", 2)):
            b.label(label)
            b.do(f"ret i32 {status}")
        text = b.function(f"i32 @{self.step.name}(ptr %f)", self.module.attributes())
        self.module.functions.append(text)

    # -- integers

    def reg(self, text: str) -> str:
        divides = text.startswith(("sdiv", "srem"))
        if divides and not text.rsplit(" ", 1)[1].lstrip("-").isdigit():
            return self.b.here(text)  # behind the check that the divisor is not 0
        return self.b.pure(text)

    def call(self, name: str, result: str, *args: tuple[str, str]) -> str:
        return self.reg(self.b.intrinsic(name, result, *args))

    def require(self, condition: str, otherwise: str = "") -> None:
        self.b.go_on(condition, otherwise or "leave")

    def value_of(self, sym: Sym) -> str:
        if sym in self.symbols:
            return self.symbols[sym]
        return self.frame.size(self.b, Expr((((sym,), 1),)))

    def size(self, dim: Dim) -> str:
        """An integer for addresses and bounds."""
        if isinstance(dim, int):
            return str(dim)
        if not self.is_inner(dim):
            return self.frame.size(self.b, dim)
        return self.polynomial(dim, any(sym.kind == "value" for sym in dim.symbols()))

    def exact_size(self, dim: Dim) -> str:
        """An integer that the program computes with."""
        if isinstance(dim, int) or not self.is_inner(dim):
            return self.size(dim)
        return self.polynomial(dim, len(dim.terms) > 1 or dim.terms[0] != ((self.only(dim),), 1))

    def only(self, dim: Expr) -> Sym:
        return dim.terms[0][0][0]

    # -- steps

    def steps(self, steps: Sequence[ProgramStep]) -> None:
        for step in steps:
            self.one(step)

    def one(self, step: ProgramStep) -> None:
        if isinstance(step, Nest) and step.divided is not None:
            DividedEmitter(self, step).emit()
        elif isinstance(step, Nest):
            (_InnerPack if step.packs else _InnerNest)(self, step).emit()
        elif isinstance(step, Loop):
            self.loop(step)
        elif isinstance(step, While):
            self.repeat(step)
        elif isinstance(step, Branch):
            self.branch(step)
        elif isinstance(step, Check):
            self.require(self.flag(step.buffer))
        elif isinstance(step, Bind):
            self.bind(step)
        elif isinstance(step, PythonCall):
            self.call_python(step)
        else:
            assert isinstance(step, Gemm | Factor)
            self.call_library(step)

    def flag(self, buffer: Buffer) -> str:
        raw = self.b.here(f"load i8, ptr {self.local.pointer(self.b, buffer.name)}")
        return self.b.here(f"icmp ne i8 {raw}, 0")

    def bind(self, step: Bind) -> None:
        p = self.local.pointer(self.b, step.buffer.name)
        value = self.b.here(f"load i64, ptr {p}")
        if step.dtype == "u64":
            self.require(self.b.here(f"icmp sge i64 {value}, 0"))
        self.symbols[step.symbol] = value

    def loop(self, step: Loop) -> None:
        if step.divided:
            from tailorbird.emit.turns import TurnsEmitter

            TurnsEmitter(self, step).emit()
            return
        low, high = self.exact_size(step.start), self.exact_size(step.stop)
        known = dict(self.symbols)
        with self.b.turns(low, high, step.step) as (counter, behind):
            self.symbols[step.var] = counter
            self.poll(step.body)
            self.steps(step.body)
            if step.until is not None:
                self.b.go_on(self.b.here(f"xor i1 {self.flag(step.until)}, true"), behind)
        self.symbols = known

    def repeat(self, step: While) -> None:
        known = dict(self.symbols)
        with self.b.forever() as behind:
            self.poll(step.body)
            self.steps(step.test)
            self.b.go_on(self.flag(step.flag), behind)
            self.symbols = dict(known)
            self.steps(step.body)
        self.symbols = known

    def branch(self, step: Branch) -> None:
        known = dict(self.symbols)
        holds = self.flag(step.flag)
        fails = self.b.here(f"xor i1 {holds}, true")
        for condition, arm in zip((holds, fails), step.arms):
            if arm:
                with self.b.when(condition):
                    self.steps(arm)
            self.symbols = dict(known)

    def call_library(self, step: Gemm | Factor) -> None:
        """A matrix product by BLAS or a routine of LAPACK."""
        self.b.do(f"call void @run_{self.library_function(step)}(ptr %f)")

    def call_python(self, step: PythonCall) -> None:
        """A routine that Python calls; the sizes that it decides are in the frame behind it."""
        status = self.b.here(f"call i32 @run_{self.library_function(step)}(ptr %f)")
        self.b.go_on(self.b.here(f"icmp ne i32 {status}, 2"), "stopped")
        self.require(self.b.here(f"icmp eq i32 {status}, 0"))
        for sym in step.binds:
            slot = self.frame.address(self.b, "size", Expr((((sym,), 1),)))
            self.symbols[sym] = self.b.here(f"load i64, ptr {slot}")

    def library_function(self, step: Gemm | Factor | PythonCall) -> str:
        """The name of the function of a step outside, which finds its sizes in the frame."""
        self.libraries += 1
        name = f"{self.step.name}_library{self.libraries}"
        for key in self.library(step, name):
            if isinstance(key, tuple) and key[0] == "size" and self.is_inner(key[1]):
                slot = self.frame.address(self.b, *key)
                if self.is_known(key[1]):
                    self.b.do(f"store i64 {self.size(key[1])}, ptr {slot}")
        return name

    def is_inner(self, dim: Dim) -> bool:
        """Whether an integer changes or becomes known inside this function."""
        return isinstance(dim, Expr) and not self.inner.isdisjoint(dim.symbols())

    # -- signals

    def poll(self, body: Sequence[ProgramStep]) -> None:
        """Counts the work of one turn down, and looks at signals when it is used up."""
        b = self.b
        work: Dim = TURN
        for step in body:
            if isinstance(step, Nest):
                points = product(a.extent for a in [*step.rows, *step.inner])
                if self.is_known(points):
                    work = work + points * step.schedule.cost
        rest = self.spend(self.size(work))
        with b.when(b.here(f"icmp slt i64 {rest}, 0")):
            b.do(f"store i64 {BUDGET}, ptr {self.budget}")
            b.go_on(b.here(f"icmp eq i32 {self.look()}, 0"), "stopped")

    def spend(self, work: str) -> str:
        """Counts some work down; what is left."""
        left = self.b.here(f"load i64, ptr {self.budget}")
        rest = self.b.here(f"sub i64 {left}, {work}")
        self.b.do(f"store i64 {rest}, ptr {self.budget}")
        return rest

    def look(self) -> str:
        """Looks at signals; 0 if there is none."""
        self.define_poll()
        return self.b.here(f"call i32 @tb_poll(ptr {self.frame.address(self.b, 'gil')})")

    def define_poll(self) -> None:
        self.b.define("tb_poll", POLL)
        for line in (
            "declare void @tb_PyEval_RestoreThread(ptr)",
            "declare ptr @tb_PyEval_SaveThread()",
            "declare i32 @tb_PyErr_CheckSignals()",
        ):
            self.b.declare(line)

    def is_known(self, dim: Dim) -> bool:
        if isinstance(dim, int):
            return True
        return all(s in self.symbols for s in dim.symbols() if s in self.inner)


def _element(buffer: Buffer) -> str:
    part = PART.get(buffer.ty)
    return f"[2 x {MEMORY_TYPES[part]}]" if part else MEMORY_TYPES[buffer.ty]
