"""A nest inside a control function that is divided among threads: a function of its own over a
range of its outermost axis, and the call of it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tailorbird.emit.environment import Environment, divide, signature
from tailorbird.emit.nest import NestEmitter
from tailorbird.ir.expr import product
from tailorbird.lower.divide import lengths, weight
from tailorbird.lower.kernel import Nest

if TYPE_CHECKING:
    from tailorbird.emit.control import ControlEmitter


class DividedEmitter(NestEmitter):
    """Emits the function of a nest, and the call of it."""

    def __init__(self, control: ControlEmitter, nest: Nest) -> None:
        self.control = control
        self.environment = Environment(control, 1)
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
            self.all_rows()
        b.do("ret void")
        attributes = self.module.attributes()
        self.module.functions.append(b.function(signature(nest.name), attributes))
        self.call()

    def call(self) -> None:
        """Fills the environment and runs the nest."""
        control, nest, axis = self.control, self.nest, self.nest.divided
        assert axis is not None
        env = self.environment.fill((("ptr", "%f"),))
        work = product(lengths(nest)) * weight(nest)
        step = nest.schedule.width * nest.schedule.unroll if axis.name == self.s.vector else 1
        numbers = (control.size(axis.extent), control.size(work), str(step))
        divide(control, nest.name, env, numbers, "null")
