"""The frame: what the entry hands to kernels, eight bytes a slot.

Slots hold sizes (exact integer expressions, computed once at entry), buffer addresses and scalar
arguments. A kernel loads what it uses.
"""

from __future__ import annotations

from collections.abc import Hashable

from tailorbird.emit.builder import MEMORY_TYPES, Builder
from tailorbird.ir.expr import Dim


class Frame:
    """Slot numbers by key: ("size", dim), ("pointer", buffer name), ("scalar", name, type)."""

    def __init__(self) -> None:
        self.slots: dict[Hashable, int] = {}

    def slot(self, *key: Hashable) -> int:
        return self.slots.setdefault(key, len(self.slots))

    def size(self, b: Builder, dim: Dim) -> str:
        """The register or literal of an integer expression."""
        if isinstance(dim, int):
            return str(dim)
        return self.load(b, "i64", "size", dim)

    def exact(self, b: Builder, dim: Dim) -> str:
        """The same, as a number that the program computes with."""
        return self.size(b, dim)

    def pointer(self, b: Builder, name: str) -> str:
        return self.load(b, "ptr", "pointer", name)

    def scalar(self, b: Builder, name: str, ty: str) -> str:
        register = self.load(b, MEMORY_TYPES[ty], "scalar", name, ty)
        return b.pure(f"trunc i8 {register} to i1") if ty == "b1" else register

    def load(self, b: Builder, llvm_type: str, *key: Hashable) -> str:
        address = self.address(b, *key)
        return b.pure(f"load {llvm_type}, ptr {address}, align 8", safe=True)

    def address(self, b: Builder, *key: Hashable) -> str:
        return b.pure(f"getelementptr i64, ptr %f, i64 {self.slot(*key)}")


class Asked(Frame):
    """The same frame, with a list of the slots that somebody asked for."""

    def __init__(self, frame: Frame) -> None:
        self.slots = frame.slots
        self.keys: list[Hashable] = []

    def slot(self, *key: Hashable) -> int:
        self.keys.append(key)
        return super().slot(*key)
