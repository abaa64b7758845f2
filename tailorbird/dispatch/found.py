"""An entry for variants whose inputs have to be looked for.

Arrays inside tuples, dicts and objects, globals, closure cells and constants are found at each call
by a Python function written for the capture (`trampoline.py`). This entry calls it with the
function's parameters and hands the tuple it gives to native code.

    parameters -> finder (Python) -> leaves -> native entry -> rebuild (Python, only if needed)

Invariants: the leaves are held while native code runs. After `SETTLED` calls in a row that were
lost to the plain function the finder is asked only once in `LOOK_EVERY` calls, so that looking for
inputs costs a plain call next to nothing.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tailorbird.assemble import build, jit, symbols
from tailorbird.dispatch import abi
from tailorbird.dispatch.object import Entry

SETTLED, LOOK_EVERY = 16, 64

_IR = r"""
%context = type { ptr, i64, ptr, ptr, ptr, i64 }
@tb_miss = external global i8
@tb_plain = external global i8
@tb_Py_None = external global i8
declare ptr @tb_PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @tb_Py_DecRef(ptr)

define ptr @found(ptr %self, ptr %args, ptr %ctx) {
entry:
  %slot = alloca ptr
  %p.row = getelementptr %context, ptr %ctx, i32 0, i32 5
  %row = load i64, ptr %p.row
  %row.1 = add i64 %row, 1
  %settled = icmp sge i64 %row, $SETTLED$
  %turn = and i64 %row, $TURN$
  %between = icmp ne i64 %turn, 0
  %skip = and i1 %settled, %between
  br i1 %skip, label %lost, label %look
lost:
  store i64 %row.1, ptr %p.row
  ret ptr @tb_plain
look:
  %finder = load ptr, ptr %ctx
  %p.n = getelementptr %context, ptr %ctx, i32 0, i32 1
  %n = load i64, ptr %p.n
  %leaves = call ptr @tb_PyObject_Vectorcall(ptr %finder, ptr %args, i64 %n, ptr null)
  %raised = icmp eq ptr %leaves, null
  br i1 %raised, label %error, label %looked
error:
  ret ptr null
looked:
  %none = icmp eq ptr %leaves, @tb_Py_None
  br i1 %none, label %nothing, label %run
nothing:
  call void @tb_Py_DecRef(ptr %leaves)
  store i64 0, ptr %p.row
  ret ptr @tb_miss
run:
  %p.native = getelementptr %context, ptr %ctx, i32 0, i32 2
  %native = load ptr, ptr %p.native
  %p.inner = getelementptr %context, ptr %ctx, i32 0, i32 3
  %inner = load ptr, ptr %p.inner
  %items = getelementptr i8, ptr %leaves, i64 $TUPLE_ITEMS$
  %r = call ptr %native(ptr %self, ptr %items, ptr %inner)
  call void @tb_Py_DecRef(ptr %leaves)
  %plain = icmp eq ptr %r, @tb_plain
  br i1 %plain, label %lost, label %answered
answered:
  store i64 0, ptr %p.row
  %p.rebuild = getelementptr %context, ptr %ctx, i32 0, i32 4
  %rebuild = load ptr, ptr %p.rebuild
  %flat = icmp eq ptr %rebuild, null
  %failed = icmp eq ptr %r, null
  %missed = icmp eq ptr %r, @tb_miss
  %as.is.1 = or i1 %flat, %failed
  %as.is = or i1 %as.is.1, %missed
  br i1 %as.is, label %done, label %shape
done:
  ret ptr %r
shape:
  store ptr %r, ptr %slot
  %shaped = call ptr @tb_PyObject_Vectorcall(ptr %rebuild, ptr %slot, i64 1, ptr null)
  call void @tb_Py_DecRef(ptr %r)
  ret ptr %shaped
}
"""


class _Context(ctypes.Structure):
    _fields_ = [
        ("finder", ctypes.c_void_p),
        ("parameters", ctypes.c_int64),
        ("native", ctypes.c_void_p),
        ("inner", ctypes.c_void_p),
        ("rebuild", ctypes.c_void_p),
        ("row", ctypes.c_int64),
    ]


def found_entry(
    finder: Callable[..., Any],
    parameters: int,
    native: Entry,
    rebuild: Callable[[Any], Any] | None,
) -> Entry:
    """An entry over a function's parameters, from one over the leaves that `finder` finds."""
    address, inner, _ = native
    back = None if rebuild is None else id(rebuild)
    context = _Context(id(finder), parameters, address, inner, back, 0)
    keep = (context, finder, native, rebuild)
    return _library().address("found"), ctypes.addressof(context), keep


@functools.cache
def _library() -> jit.Library:
    text = _IR
    numbers = {"SETTLED": SETTLED, "TURN": LOOK_EVERY - 1, "TUPLE_ITEMS": abi.TUPLE_ITEMS}
    for word, value in numbers.items():
        text = text.replace(f"${word}$", str(value))
    library = build.build(text, ["found"], symbols.resolve, name="found")
    library.make_permanent()
    return library
