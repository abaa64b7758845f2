"""Entries that find what native code takes, in LLVM IR: compiled with the stub, once.

`fetched` checks globals, cells and parameters by identity and fetches from there (`fetch.py`);
`found` asks a Python function (`found.py`). The declarations they need are the stub's.
"""

from __future__ import annotations

from tailorbird.dispatch import abi

EXPORTS = ("fetched", "found")
MOST_LEAVES = 64
ARGUMENT, GLOBAL, CELL, CONSTANT = range(4)  # kinds of places
SETTLED, LOOK_EVERY = 16, 64  # losses in a row, and how often the finder is asked from then on


def ir() -> str:
    """The text of both."""
    text = _FETCHED + _FOUND
    numbers = {
        "ARGUMENT": ARGUMENT,
        "GLOBAL": GLOBAL,
        "CELL": CELL,
        "MOST_LEAVES": MOST_LEAVES,
        "SETTLED": SETTLED,
        "TURN": LOOK_EVERY - 1,
        "TUPLE_ITEMS": abi.TUPLE_ITEMS,
    }
    for word, value in numbers.items():
        text = text.replace(f"${word}$", str(value))
    return text


_FETCHED = r"""
%place = type { i64, ptr, ptr }
%check = type { %place, ptr }
%fetch = type { i64, ptr, i64, ptr, ptr, ptr, ptr }

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

define internal void @give.up(ptr %leaves, i64 %n) {
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
  %leaves = alloca [$MOST_LEAVES$ x ptr]
  %slot = alloca ptr
  %checks = load i64, ptr %ctx
  %p.check = getelementptr %fetch, ptr %ctx, i32 0, i32 1
  %first.check = load ptr, ptr %p.check
  %p.n = getelementptr %fetch, ptr %ctx, i32 0, i32 2
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
  %p.leaf = getelementptr %fetch, ptr %ctx, i32 0, i32 3
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
  call void @give.up(ptr %leaves, i64 %i)
  ret ptr @tb_miss
run:
  %values = phi ptr [%args, %gather], [%leaves, %next]
  %p.native = getelementptr %fetch, ptr %ctx, i32 0, i32 4
  %native = load ptr, ptr %p.native
  %p.inner = getelementptr %fetch, ptr %ctx, i32 0, i32 5
  %inner = load ptr, ptr %p.inner
  %r = call ptr %native(ptr %self, ptr %values, ptr %inner)
  call void @give.up(ptr %leaves, i64 %n)
  %p.rebuild = getelementptr %fetch, ptr %ctx, i32 0, i32 6
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

_FOUND = r"""
%find = type { ptr, i64, ptr, ptr, ptr, i64, ptr }

define ptr @found(ptr %self, ptr %args, ptr %ctx) {
entry:
  %slot = alloca ptr
  %p.row = getelementptr %find, ptr %ctx, i32 0, i32 5
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
  %p.n = getelementptr %find, ptr %ctx, i32 0, i32 1
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
  %p.native = getelementptr %find, ptr %ctx, i32 0, i32 2
  %native = load ptr, ptr %p.native
  %p.inner = getelementptr %find, ptr %ctx, i32 0, i32 3
  %inner = load ptr, ptr %p.inner
  %items = getelementptr i8, ptr %leaves, i64 $TUPLE_ITEMS$
  %r = call ptr %native(ptr %self, ptr %items, ptr %inner)
  %plain = icmp eq ptr %r, @tb_plain
  %missed = icmp eq ptr %r, @tb_miss
  %left = or i1 %plain, %missed
  %p.undo = getelementptr %find, ptr %ctx, i32 0, i32 6
  %undo = load ptr, ptr %p.undo
  %can.undo = icmp ne ptr %undo, null
  %back = and i1 %left, %can.undo
  br i1 %back, label %take.back, label %ended
take.back:
  store ptr %leaves, ptr %slot
  %none.left = call ptr @tb_PyObject_Vectorcall(ptr %undo, ptr %slot, i64 1, ptr null)
  %broken = icmp eq ptr %none.left, null
  br i1 %broken, label %give.up, label %ended
give.up:
  call void @tb_Py_DecRef(ptr %leaves)
  ret ptr null
ended:
  call void @tb_Py_DecRef(ptr %leaves)
  br i1 %plain, label %lost, label %answered
answered:
  store i64 0, ptr %p.row
  %p.rebuild = getelementptr %find, ptr %ctx, i32 0, i32 4
  %rebuild = load ptr, ptr %p.rebuild
  %flat = icmp eq ptr %rebuild, null
  %failed = icmp eq ptr %r, null
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
