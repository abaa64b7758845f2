"""An entry that fetches what native code takes: parameters, globals, closure cells, constants.

Most functions use a global: `np`, a helper function, a number. This entry checks, in native code,
that the ones a graph relies on are still the same objects, and fetches those that are inputs. What
lies deeper, in objects and containers, is found by Python (`found.py`).

    parameters -> checks -> leaves -> native entry -> rebuild (Python, only if needed)

Invariants: what comes from a global or a cell is held while native code runs, for another thread
may replace it. Where the inputs are the parameters as they come, they are passed on untouched.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tailorbird.assemble import build, jit, symbols
from tailorbird.dispatch.object import Entry

MOST_LEAVES = 64
ARGUMENT, GLOBAL, CELL, CONSTANT = range(4)

_IR = r"""
%place = type { i64, ptr, ptr }
%check = type { %place, ptr }
%context = type { i64, ptr, i64, ptr, ptr, ptr, ptr }
@tb_miss = external global i8
@tb_plain = external global i8
declare ptr @tb_PyDict_GetItemWithError(ptr, ptr)
declare ptr @tb_PyCell_Get(ptr)
declare ptr @tb_PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @tb_Py_IncRef(ptr)
declare void @tb_Py_DecRef(ptr)

; A new reference to what is at a place, or null.
define internal ptr @locate(ptr %place, ptr %args) {
entry:
  %kind = load i64, ptr %place
  %p.a = getelementptr %place, ptr %place, i32 0, i32 1
  %a = load ptr, ptr %p.a
  %p.b = getelementptr %place, ptr %place, i32 0, i32 2
  %b = load ptr, ptr %p.b
  switch i64 %kind, label %constant [i64 $ARGUMENT$, label %argument
                                     i64 $GLOBAL$, label %global
                                     i64 $CELL$, label %cell]
argument:
  %index = ptrtoint ptr %a to i64
  %p.x = getelementptr ptr, ptr %args, i64 %index
  %x = load ptr, ptr %p.x
  br label %found
global:
  %y = call ptr @tb_PyDict_GetItemWithError(ptr %a, ptr %b)
  br label %found
cell:
  %z = call ptr @tb_PyCell_Get(ptr %a)
  ret ptr %z
constant:
  br label %found
found:
  %r = phi ptr [%x, %argument], [%y, %global], [%a, %constant]
  call void @tb_Py_IncRef(ptr %r)
  ret ptr %r
}

define internal void @drop(ptr %leaves, i64 %n) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %p = getelementptr ptr, ptr %leaves, i64 %i
  %x = load ptr, ptr %p
  call void @tb_Py_DecRef(ptr %x)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define ptr @fetched(ptr %self, ptr %args, ptr %ctx) {
entry:
  %leaves = alloca [$MOST$ x ptr]
  %slot = alloca ptr
  %checks = load i64, ptr %ctx
  %p.check = getelementptr %context, ptr %ctx, i32 0, i32 1
  %first.check = load ptr, ptr %p.check
  %p.n = getelementptr %context, ptr %ctx, i32 0, i32 2
  %n = load i64, ptr %p.n
  br label %check
check:
  %k = phi i64 [0, %entry], [%k1, %held]
  %unchecked = icmp slt i64 %k, %checks
  br i1 %unchecked, label %test, label %gather
test:
  %p.test = getelementptr %check, ptr %first.check, i64 %k
  %p.wanted = getelementptr %check, ptr %p.test, i32 0, i32 1
  %wanted = load ptr, ptr %p.wanted
  %is = call ptr @locate(ptr %p.test, ptr %args)
  call void @tb_Py_DecRef(ptr %is)
  %same = icmp eq ptr %is, %wanted
  br i1 %same, label %held, label %miss
held:
  %k1 = add i64 %k, 1
  br label %check
miss:
  ret ptr @tb_miss
gather:
  %as.they.come = icmp slt i64 %n, 0
  br i1 %as.they.come, label %run, label %take
take:
  %p.leaf = getelementptr %context, ptr %ctx, i32 0, i32 3
  %first.leaf = load ptr, ptr %p.leaf
  br label %next
next:
  %i = phi i64 [0, %take], [%i1, %got]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %get, label %run
get:
  %p.place = getelementptr %place, ptr %first.leaf, i64 %i
  %x = call ptr @locate(ptr %p.place, ptr %args)
  %gone = icmp eq ptr %x, null
  br i1 %gone, label %undo, label %got
got:
  %p.out = getelementptr ptr, ptr %leaves, i64 %i
  store ptr %x, ptr %p.out
  %i1 = add i64 %i, 1
  br label %next
undo:
  call void @drop(ptr %leaves, i64 %i)
  ret ptr @tb_miss
run:
  %values = phi ptr [%args, %gather], [%leaves, %next]
  %p.native = getelementptr %context, ptr %ctx, i32 0, i32 4
  %native = load ptr, ptr %p.native
  %p.inner = getelementptr %context, ptr %ctx, i32 0, i32 5
  %inner = load ptr, ptr %p.inner
  %r = call ptr %native(ptr %self, ptr %values, ptr %inner)
  call void @drop(ptr %leaves, i64 %n)
  %p.rebuild = getelementptr %context, ptr %ctx, i32 0, i32 6
  %rebuild = load ptr, ptr %p.rebuild
  %flat = icmp eq ptr %rebuild, null
  %failed = icmp eq ptr %r, null
  %missed = icmp eq ptr %r, @tb_miss
  %lost = icmp eq ptr %r, @tb_plain
  %no.result.1 = or i1 %failed, %missed
  %no.result = or i1 %no.result.1, %lost
  %as.is = or i1 %flat, %no.result
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


class _Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int64), ("a", ctypes.c_void_p), ("b", ctypes.c_void_p)]


class _Check(ctypes.Structure):
    _fields_ = [("place", _Place), ("wanted", ctypes.c_void_p)]


class _Context(ctypes.Structure):
    _fields_ = [
        ("checks", ctypes.c_int64),
        ("first_check", ctypes.c_void_p),
        ("leaves", ctypes.c_int64),
        ("first_leaf", ctypes.c_void_p),
        ("native", ctypes.c_void_p),
        ("inner", ctypes.c_void_p),
        ("rebuild", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Place:
    """Where a value is: an argument's index, a dict and a name, a cell, or the value itself."""

    kind: int
    a: Any
    b: Any = None

    def raw(self) -> _Place:
        if self.kind == ARGUMENT:
            return _Place(self.kind, self.a, None)
        return _Place(self.kind, id(self.a), id(self.b))


def place_of(source: Any, function: Any, names: Sequence[str], constants: Sequence[Any]) -> Any:
    """The place of a path that native code can follow, or None."""
    kind, name = source.root[0], source.root[-1]
    if source.steps:
        return None
    if kind == "arg":
        return Place(ARGUMENT, names.index(name))
    if kind == "global":
        return Place(GLOBAL, function.__globals__, sys.intern(name))
    if kind == "module":
        return Place(GLOBAL, sys.modules[source.root[1]].__dict__, sys.intern(name))
    if kind == "cell":
        return Place(CELL, function.__closure__[function.__code__.co_freevars.index(name)])
    return Place(CONSTANT, constants[name])


def fetched_entry(
    checks: Sequence[tuple[Place, Any]],
    leaves: Sequence[Place] | None,
    native: Entry,
    rebuild: Callable[[Any], Any] | None,
) -> Entry:
    """An entry over a function's parameters, from one over leaves; None: they are the leaves."""
    address, inner, _ = native
    tests = (_Check * max(len(checks), 1))(*(_Check(p.raw(), id(x)) for p, x in checks))
    places = (_Place * max(len(leaves or ()), 1))(*(p.raw() for p in leaves or ()))
    back = None if rebuild is None else id(rebuild)
    context = _Context(
        len(checks),
        ctypes.addressof(tests),
        -1 if leaves is None else len(leaves),
        ctypes.addressof(places),
        address,
        inner,
        back,
    )
    keep = (context, tests, places, checks, leaves, native, rebuild)
    return _library().address("fetched"), ctypes.addressof(context), keep


@functools.cache
def _library() -> jit.Library:
    text = _IR
    numbers = {"ARGUMENT": ARGUMENT, "GLOBAL": GLOBAL, "CELL": CELL, "MOST": MOST_LEAVES}
    for word, value in numbers.items():
        text = text.replace(f"${word}$", str(value))
    library = build.build(text, ["fetched"], symbols.resolve, name="fetched")
    library.make_permanent()
    return library
