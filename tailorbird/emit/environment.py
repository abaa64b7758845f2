"""What a function that threads run knows of the control function around it.

An environment is memory of eight bytes a slot: the frame first, then what its owner puts there,
then `kept`: integers over the variables of loops around, and the values of scalars that live in
registers. All of that is computed in front of the call, so that threads only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailorbird.emit.builder import Builder
from tailorbird.emit.frame import Frame
from tailorbird.ir.expr import Dim

if TYPE_CHECKING:
    from tailorbird.emit.control import ControlEmitter

Key = tuple[str, Any]


class Environment(Frame):
    """The frame as such a function sees it."""

    def __init__(self, control: ControlEmitter, first: int) -> None:
        self.slots = control.frame.slots
        self.control = control
        self.kept: dict[Key, int] = {}
        self.room = first

    def keep(self, b: Builder, key: Key, room: int = 1) -> str:
        """Where something lies in the environment."""
        if key not in self.kept:
            self.kept[key] = self.room
            self.room += room
        return b.pure(f"getelementptr i64, ptr %env, i64 {self.kept[key]}")

    def integer(self, b: Builder, what: str, x: Any) -> str:
        """An integer that the control function knows."""
        return b.pure(f"load i64, ptr {self.keep(b, (what, x))}", safe=True)

    def size(self, b: Builder, dim: Dim) -> str:
        inner = self.control.is_inner(dim)
        return self.integer(b, "size", dim) if inner else super().size(b, dim)

    def exact(self, b: Builder, dim: Dim) -> str:
        inner = self.control.is_inner(dim)
        return self.integer(b, "exact", dim) if inner else super().exact(b, dim)

    def pointer(self, b: Builder, name: str) -> str:
        if name not in self.control.cells:
            return super().pointer(b, name)
        return self.keep(b, ("cell", name), 2 if self.control.types[name].startswith("[") else 1)

    def fill(self, first: tuple[tuple[str, str], ...]) -> str:
        """Makes it in the control function: what its owner puts there, and what is kept."""
        b = self.control.b
        env = b.cell(f"[{self.room} x i64]")
        values = dict(enumerate(first))
        for key, slot in self.kept.items():
            values[slot] = self.value_of(*key)
        for slot, (kind, value) in values.items():
            b.do(f"store {kind} {value}, ptr {b.pure(f'getelementptr i64, ptr {env}, i64 {slot}')}")
        return env

    def value_of(self, what: str, x: Any) -> tuple[str, str]:
        """What belongs into a slot, with its type."""
        control = self.control
        if what == "cell":
            kind = control.types[x]
            return kind, control.b.here(f"load {kind}, ptr {control.cells[x]}")
        if what == "symbol":
            return "i64", control.value_of(x)
        return "i64", control.size(x) if what == "size" else control.exact_size(x)


def divide(
    control: ControlEmitter, name: str, env: str, numbers: tuple[str, str, str], watch: str
) -> None:
    """Calls a function over some points: numbers are the points, their work, and the step to which
    parts of them are rounded.
    """
    b, pace = control.b, f"@{name}.pace"
    b.define(pace, f"{pace} = internal global [4 x i64] zeroinitializer, align 64")
    pointers = (("ptr", f"@{name}"), ("ptr", env))
    integers = (("i64", x) for x in numbers)
    b.do(b.external("tb_divide", "void", *pointers, *integers, ("ptr", pace), ("ptr", watch)))


def signature(name: str) -> str:
    return f"internal void @{name}(ptr %env, i64 %lo, i64 %hi, i64 %chunk)"
