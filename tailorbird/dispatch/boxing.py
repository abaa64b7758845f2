"""Python objects of numbers: results that the entry returns, operands of opaque calls.

In: buffers and exact integers known to the entry. Out: registers of object pointers. References are
new; those that are not returned are in `held` and given up when the call ends.
"""

from __future__ import annotations

from typing import Any

from tailorbird.dataclass import dataclass, field
from tailorbird.dispatch import guards
from tailorbird.dispatch.leaf import OBJECTS
from tailorbird.dispatch.text import Text
from tailorbird.emit.builder import LLVM_TYPES, Module
from tailorbird.emit.frame import Frame
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Argument, Static, Value
from tailorbird.lower.kernel import Buffer


@dataclass
class Context:
    """What the words of a variant's context hold after the counters: Python objects, in order."""

    objects: list[Any] = field(default_factory=list)

    def add(self, obj: Any) -> int:
        """The byte offset of an object's word."""
        self.objects.append(obj)
        return 8 * (OBJECTS + len(self.objects) - 1)


class Boxing:
    """The text of an entry, its frame and context, and the objects it holds."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.frame = Frame()
        self.context = Context()
        self.t = Text(module)
        self.objects: dict[str, str] = {}  # buffer name -> stack slot of its array object
        self.held: list[str] = []  # stack slots of references to give up at the end
        self.arguments: dict[Value, str] = {}

    def incref(self, obj: str) -> None:
        self.t.call("tb_Py_IncRef", "void", ("ptr", obj))

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer, out of the frame."""
        slot = self.frame.slot("pointer", buffer.name)
        return self.t.reg(f"load ptr, ptr {self.t.reg(f'getelementptr i64, ptr %f, i64 {slot}')}")

    def boxed_operand(self, x: Any, node_input: Any) -> str:
        """An operand of an opaque call as a Python object."""
        t = self.t
        if isinstance(x, Buffer):
            if x.name in self.objects:
                return t.reg(f"load ptr, ptr {self.objects[x.name]}")
            weak = isinstance(node_input, Value) and node_input.type.weak
            obj = self.box_weak(node_input, x) if weak else self.scalar_object(x)
        elif isinstance(x, Value):
            return self.arguments[x]
        elif isinstance(x, Expr):
            obj = t.call("tb_PyLong_FromLongLong", "ptr", ("i64", t.size(x)))
        else:
            return t.field("%ctx", self.context.add(x), "ptr")
        slot = t.slot("ptr", "null")
        t.do(f"store ptr {obj}, ptr {slot}")
        self.held.append(slot)
        t.require(t.reg(f"icmp ne ptr {obj}, null"), "failed")
        return obj

    def scalar_object(self, buffer: Buffer) -> str:
        """A NumPy scalar."""
        kind = guards.descr(self.t, buffer.ty)
        args = (("ptr", self.pointer(buffer)), ("ptr", kind), ("ptr", "null"))
        return self.t.call("tb_PyArray_Scalar", "ptr", *args)

    def box(self, x: Any, lowered: Any) -> str:
        """A new reference to one result."""
        t = self.t
        if isinstance(x, Argument):
            obj = self.arguments[x.parameter]
            self.incref(obj)
            return obj
        if isinstance(x, Value):
            if lowered.name in self.objects:
                obj = t.reg(f"load ptr, ptr {self.objects[lowered.name]}")
                self.incref(obj)
                return obj
            return self.box_weak(x, lowered) if x.type.weak else self.scalar_object(lowered)
        if isinstance(x, Expr):
            return t.call("tb_PyLong_FromLongLong", "ptr", ("i64", t.size(x)))
        obj = t.field("%ctx", self.context.add(x.value if isinstance(x, Static) else x), "ptr")
        self.incref(obj)
        return obj

    def box_weak(self, x: Value, buffer: Buffer) -> str:
        """A Python number."""
        t = self.t
        pointer = self.pointer(buffer)
        kind = x.type.short
        if kind == "f64":
            return t.call(
                "tb_PyFloat_FromDouble", "ptr", ("double", t.reg(f"load double, ptr {pointer}"))
            )
        if kind == "c128":
            parts = [t.field(pointer, 8 * k, "double") for k in range(2)]
            return t.call("tb_PyComplex_FromDoubles", "ptr", *(("double", p) for p in parts))
        if kind == "b1":
            raw = t.reg(f"zext i8 {t.reg(f'load i8, ptr {pointer}')} to i64")
            return t.call("tb_PyBool_FromLong", "ptr", ("i64", raw))
        raw = t.reg(f"load {LLVM_TYPES[kind]}, ptr {pointer}")
        return t.call("tb_PyLong_FromLongLong", "ptr", ("i64", raw))
