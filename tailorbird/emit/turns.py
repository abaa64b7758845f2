"""A loop inside a control function whose turns are divided among threads.

It is a function of its own over a range of its turns, with scalars of its own. Its environment
holds, behind the frame, how it went so far, whose loop it is, and where the state of that thread
is.

Invariants: how it went is 0, or 1 after a check failed, or 2 after a signal; then nobody begins
another part, whoever is inside of one leaves when its work is counted down, and the function around
the loop leaves in the same way. Only the thread whose loop it is looks at signals, also while it
waits for the others.
"""

from __future__ import annotations

from tailorbird.emit.builder import Builder
from tailorbird.emit.control import BUDGET, ControlEmitter, LocalFrame
from tailorbird.emit.environment import Environment, divide, signature
from tailorbird.emit.frame import Frame
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.lower.steps import Control, Loop
from tailorbird.lower.touch import written_by

FIRST = 4  # slots of the environment before what is kept

LOOK = """define internal i32 @tb_look(ptr %env) noinline {
entry:
  %p.went = getelementptr i64, ptr %env, i64 1
  %went = load atomic i64, ptr %p.went monotonic, align 8
  %fine = icmp eq i64 %went, 0
  br i1 %fine, label %whose, label %stop
whose:
  %p.owner = getelementptr i64, ptr %env, i64 2
  %owner = load ptr, ptr %p.owner
  %me = call ptr @llvm.thread.pointer()
  %mine = icmp eq ptr %owner, %me
  br i1 %mine, label %poll, label %on
poll:
  %p.state = getelementptr i64, ptr %env, i64 3
  %state = load ptr, ptr %p.state
  %signal = call i32 @tb_poll(ptr %state)
  %none = icmp eq i32 %signal, 0
  br i1 %none, label %on, label %note
note:
  %before = atomicrmw umax ptr %p.went, i64 2 seq_cst
  br label %stop
on:
  ret i32 0
stop:
  ret i32 1
}
"""


class _TurnFrame(LocalFrame):
    """The frame as code inside a turn sees it: scalars of its own, others as they are around."""

    def __init__(self, frame: Frame, turns: TurnsEmitter) -> None:
        super().__init__(frame, turns)
        self.around = turns.environment

    def pointer(self, b: Builder, name: str) -> str:
        own = self.control.cells.get(name)
        return own if own is not None else self.around.pointer(b, name)


class TurnsEmitter(ControlEmitter):
    """Emits the function of a loop, and the call of it."""

    def __init__(self, around: ControlEmitter, loop: Loop) -> None:
        own = written_by(loop.body)
        cells = [buffer for buffer in around.step.cells if buffer.name in own]
        name = f"{around.step.name}_turns{len(around.module.functions)}"
        step = Control(name, [loop], cells)
        super().__init__(around.module, around.frame, step, around.library)
        self.loop_step = loop
        self.around = around
        self.environment = Environment(around, FIRST)
        self.local = _TurnFrame(around.frame, self)
        self.inner = around.inner

    def emit(self) -> None:
        b, loop = self.b, self.loop_step
        b.do("%f = load ptr, ptr %env")
        self.went = b.pure("getelementptr i64, ptr %env, i64 1")
        before = b.here(f"load atomic i64, ptr {self.went} monotonic, align 8")
        b.go_on(b.here(f"icmp eq i64 {before}, 0"), "stopped")
        self.budget = b.cell("i64", str(BUDGET))
        for buffer in self.step.cells:
            self.cells[buffer.name] = b.cell(self.types[buffer.name], "zeroinitializer")
        start = loop.start
        low = str(start) if isinstance(start, int) else self.environment.exact(b, start)
        with b.turns("%lo", "%hi", 1) as (turn, _):
            far = b.here(f"mul i64 {turn}, {loop.step}") if loop.step != 1 else turn
            self.symbols[loop.var] = b.here(f"add i64 {low}, {far}")
            self.poll(loop.body)
            self.steps(loop.body)
        b.do("ret void")
        b.label("leave")
        b.do(f"%left = atomicrmw umax ptr {self.went}, i64 1 seq_cst")
        b.do("ret void")
        b.label("stopped")
        b.do("ret void")
        attributes = self.module.attributes()
        self.module.functions.append(b.function(signature(self.step.name), attributes))
        self.run_turns()

    def run_turns(self) -> None:
        """Fills the environment, runs the turns, and leaves as they did."""
        around, loop, b = self.around, self.loop_step, self.around.b
        self.define_poll()
        b.define("tb_look", LOOK)
        b.declare("declare ptr @llvm.thread.pointer()")
        me = b.here("call ptr @llvm.thread.pointer()")
        state = around.frame.address(b, "gil")
        env = self.environment.fill((("ptr", "%f"), ("i64", "0"), ("ptr", me), ("ptr", state)))
        count = self.count()
        work = b.here(f"mul i64 {count}, {loop.divided}")
        divide(around, self.step.name, env, (count, work, "1"), "@tb_look")
        went = b.here(
            f"load atomic i64, ptr {b.pure(f'getelementptr i64, ptr {env}, i64 1')}"
            " monotonic, align 8"
        )
        b.go_on(b.here(f"icmp ne i64 {went}, 2"), "stopped")
        around.require(b.here(f"icmp eq i64 {went}, 0"))
        around.spend(work)

    def count(self) -> str:
        """How many turns there are."""
        around, loop, b = self.around, self.loop_step, self.around.b
        ends = [around.exact_size(loop.start), around.exact_size(loop.stop)]
        low, high = ends if loop.step > 0 else reversed(ends)
        far = b.here(f"sub i64 {high}, {low}")
        if abs(loop.step) > 1:
            far = b.here(f"add i64 {far}, {abs(loop.step) - 1}")
            far = b.here(f"sdiv i64 {far}, {abs(loop.step)}")
        return b.here(b.intrinsic("llvm.smax.i64", "i64", ("i64", far), ("i64", "0")))

    # -- what is known around

    def value_of(self, sym: Sym) -> str:
        if sym not in self.symbols and sym in self.around.symbols:
            return self.environment.integer(self.b, "symbol", sym)
        return super().value_of(sym)

    def is_known(self, dim: Dim) -> bool:
        known = {**self.symbols, **self.around.symbols}
        return not isinstance(dim, Expr) or all(
            s in known for s in dim.symbols() if s in self.inner
        )

    def look(self) -> str:
        self.define_poll()
        return self.b.here("call i32 @tb_look(ptr %env)")
