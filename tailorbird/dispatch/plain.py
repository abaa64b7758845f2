"""The plain function as an entry of the table: the last resort without a detour through Python.

When a call is settled as plain (nothing to compile, or plain was faster), the callable hands its arguments straight to the plain function. A
countdown sends one call in a while to the dispatcher, which may have something new to try.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tailorbird.assemble import build, jit, symbols

FUNCTION, COUNT, COUNTDOWN = 0, 1, 2
IR = """
@tb_miss = external global i8
declare ptr @tb_PyObject_Vectorcall(ptr, ptr, i64, ptr)
define ptr @plain(ptr %self, ptr %args, ptr %ctx) {
entry:
  %p2 = getelementptr i64, ptr %ctx, i64 2
  %left = load i64, ptr %p2
  %less = sub i64 %left, 1
  store i64 %less, ptr %p2
  %over = icmp sle i64 %less, 0
  br i1 %over, label %ask, label %run
ask:
  ret ptr @tb_miss
run:
  %f = load ptr, ptr %ctx
  %p1 = getelementptr i64, ptr %ctx, i64 1
  %n = load i64, ptr %p1
  %r = tail call ptr @tb_PyObject_Vectorcall(ptr %f, ptr %args, i64 %n, ptr null)
  ret ptr %r
}
"""


@functools.cache
def _library() -> jit.Library:
    library = build.build(IR, ["plain"], symbols.resolve, name="plain")
    library.make_permanent()
    return library


class PlainEntry:
    """The entry that calls a plain function with `parameters` positional arguments."""

    def __init__(self, function: Callable[..., Any], parameters: int) -> None:
        self.function = function
        self.words = (ctypes.c_int64 * 3)(id(function), parameters, 0)

    def rest(self, calls: int) -> None:
        """Answers this many calls before the dispatcher is asked again."""
        self.words[COUNTDOWN] = calls

    @property
    def entry(self) -> tuple[int, int, object]:
        return _library().address("plain"), ctypes.addressof(self.words), self
