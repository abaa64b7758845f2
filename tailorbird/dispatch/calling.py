"""Calls of Python from inside loops and branches: one library routine, with the arrays of the turn.

In: a `PythonCall` step. Out: `i32 run_<name>(ptr %f)`: 0 when its results are in their buffers, 1
when plain Python shall run, 2 when an exception is set (an interrupt, or no memory).

Invariants: the GIL is held while Python runs, and behind it. Operands are looked at where they lie,
read-only, and nothing of them is kept: what comes back is copied. It must have the dtypes, ranks
and sizes that were captured, save sizes that nobody knows yet: those are bound here, and no larger
than there is room for.
"""

from __future__ import annotations

from typing import Any

from tailorbird.dispatch import abi, guards
from tailorbird.dispatch.boxing import Boxing, Context
from tailorbird.dispatch.outside import outside
from tailorbird.emit.builder import Module
from tailorbird.emit.frame import Frame
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.scope import bare
from tailorbird.lower.kernel import SIZES, Buffer
from tailorbird.lower.steps import PythonCall


class Caller(Boxing):
    """Writes the run function of one call."""

    def __init__(self, module: Module, frame: Frame, step: PythonCall, context: Context) -> None:
        super().__init__(module)
        self.frame = frame
        self.context = context
        self.step = step

    def emit(self, name: str) -> None:
        t = self.t
        status = t.slot("i32", "0")
        t.do(f"%ctx = load ptr, ptr {self.address('ctx')}")
        self.take_gil()
        count = len(self.step.operands)
        argv = t.slot(f"[{max(count, 1)} x ptr]")
        for k, (x, given) in enumerate(zip(self.step.operands, self.step.node.inputs, strict=True)):
            t.do(f"store ptr {self.operand(x, given)}, ptr {t.offset(argv, 8 * k)}")
        function = t.field("%ctx", self.context.add(outside(self.step.node)), "ptr")
        args = [("ptr", function), ("ptr", argv), ("i64", str(count)), ("ptr", "null")]
        result = self.hold(t.call("tb_PyObject_Vectorcall", "ptr", *args))
        t.require(t.reg(f"icmp ne ptr {result}, {t.data('tb_Py_None')}"), "leave")
        for k, buffer in enumerate(self.step.outputs):
            pair = (("ptr", result), ("i64", str(k)))
            self.copy(t.call("tb_PyTuple_GetItem", "ptr", *pair), buffer)
        t.do("br label %clean")
        for label, code in (("leave", 1), ("failed", 2)):
            t.label(label)
            t.do(f"store i32 {code}, ptr {status}")
            t.do("br label %clean")
        t.label("clean")
        for slot in self.held:
            t.call("tb_Py_DecRef", "void", ("ptr", t.reg(f"load ptr, ptr {slot}")))
        t.do(f"ret i32 {t.reg(f'load i32, ptr {status}')}")
        self.module.functions.append(t.function(f"internal i32 @run_{name}(ptr %f)", "nounwind"))

    def take_gil(self) -> None:
        """As long as the loop ran without it."""
        t = self.t
        state = self.address("gil")
        held = t.reg(f"load ptr, ptr {state}")
        back, on = t.fresh("back"), t.fresh("on")
        t.do(f"br i1 {t.reg(f'icmp eq ptr {held}, null')}, label %{on}, label %{back}")
        t.label(back)
        t.call("tb_PyEval_RestoreThread", "void", ("ptr", held))
        t.do(f"store ptr null, ptr {state}")
        t.do(f"br label %{on}")
        t.label(on)

    def address(self, *key: Any) -> str:
        return self.t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot(*key)}")

    def size(self, dim: Dim) -> str:
        """A size out of the frame."""
        if isinstance(dim, int):
            return str(dim)
        if dim not in self.t.sizes:
            self.t.sizes[dim] = self.t.reg(f"load i64, ptr {self.address('size', dim)}")
        return self.t.sizes[dim]

    def hold(self, obj: str) -> str:
        """A new reference, given up at the end."""
        slot = self.t.slot("ptr", "null")
        self.t.do(f"store ptr {obj}, ptr {slot}")
        self.held.append(slot)
        self.t.require(self.t.reg(f"icmp ne ptr {obj}, null"), "failed")
        return obj

    def operand(self, x: Any, given: Any) -> str:
        if isinstance(x, Expr):
            self.size(x)
        if isinstance(x, Buffer) and x.shape:
            return self.array(x)
        return self.boxed_operand(x, given)

    def array(self, buffer: Buffer) -> str:
        """A read-only array over memory that lies in C order."""
        t = self.t
        rank = len(buffer.shape)
        dims = t.slot(f"[{rank} x i64]")
        for k, d in enumerate(buffer.shape):
            t.do(f"store i64 {self.size(d)}, ptr {t.offset(dims, 8 * k)}")
        kind = guards.descr(t, buffer.ty)
        self.incref(kind)
        head = [("ptr", t.data("tb_ndarray_type")), ("ptr", kind), ("i32", str(rank))]
        flags = ("i32", str(abi.C_CONTIGUOUS | abi.ALIGNED))
        tail = [("ptr", self.pointer(buffer)), flags, ("ptr", "null")]
        args = [*head, ("ptr", dims), ("ptr", "null"), *tail]
        return self.hold(t.call("tb_np_new", "ptr", *args))

    def copy(self, array: str, buffer: Buffer) -> None:
        """A result into its memory."""
        t = self.t
        dims = t.field(array, abi.ARRAY_DIMS, "ptr")
        total, fresh = "1", False
        for k, d in enumerate(buffer.shape):
            found = t.field(dims, 8 * k, "i64")
            sym = bare(d)
            if sym is not None and sym in self.step.binds:
                t.do(f"store i64 {found}, ptr {self.address('size', d)}")
                fresh = True
            else:
                t.require(t.reg(f"icmp eq i64 {found}, {self.size(d)}"), "leave")
            total = t.reg(f"mul i64 {total}, {found}")
        if fresh:
            assert buffer.room is not None
            t.require(t.reg(f"icmp sle i64 {total}, {self.size(buffer.room)}"), "leave")
        size = t.reg(f"mul i64 {total}, {SIZES[buffer.ty]}")
        data = t.field(array, abi.ARRAY_DATA, "ptr")
        args = (("ptr", self.pointer(buffer)), ("ptr", data), ("i64", size), ("i1", "false"))
        t.call("llvm.memcpy.p0.p0.i64", "void", *args)
