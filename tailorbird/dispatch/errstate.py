"""Whether NumPy has been asked to report floating-point errors.

In: NumPy. Out: IR for `@errstate_quiet() -> i32`, and the addresses that IR needs.

    1   nothing must be reported: the default, or np.errstate with only "ignore" and "warn"
    0   "raise", "call", "print" or "log" is set somewhere: NumPy itself has to run
    -1  a Python exception is set

NumPy 2 keeps the state in a context variable, whose value is a capsule of {int mask, ...}; the
default capsule is compared by address. NumPy 1.26 keeps [bufsize, mask, callback] in the thread's
dictionary under UFUNC_PYVALS, or nothing at all. The mask has three bits for each of divide, over,
under and invalid; 0 is ignore, 1 is warn.

Invariant: `check` proves this on live objects before any of it is used.
"""

from __future__ import annotations

import contextvars
import ctypes
import sys
from typing import Any

import numpy as np

from tailorbird.assemble import process

LOUD_BITS = 0o6666  # the upper two of the three bits of each field
CAPSULE_NAME = b"numpy.ufunc.extobj"
THREAD_KEY = "UFUNC_PYVALS"


def ir() -> str:
    """The IR of `@errstate_quiet` for the NumPy at hand."""
    text = _IR_CONTEXT if process.numpy_major() >= 2 else _IR_THREAD
    return text.replace("$LOUD", str(LOUD_BITS)).replace("$NAME", CAPSULE_NAME.decode())


def symbols() -> dict[str, int]:
    """Addresses of the objects that the IR names; they live as long as NumPy does."""
    if process.numpy_major() >= 2:
        variable = _variable()
        default = contextvars.Context().run(variable.get)
        return {"tb_errstate_variable": id(variable), "tb_errstate_default": id(default)}
    return {"tb_errstate_key": id(_KEY)}


def check() -> bool:
    """Whether NumPy keeps the state where this file says."""
    if process.numpy_major() >= 2:
        return contextvars.Context().run(_check_context)
    with np.errstate(divide="raise"):
        _, mask, _ = np.geterrobj()  # type: ignore[attr-defined]
        return bool(mask & LOUD_BITS)


_KEY = sys.intern(THREAD_KEY)


def _variable() -> Any:
    return process.numpy_core().umath._extobj_contextvar


def _check_context() -> bool:
    masks = {}
    for mode in ("ignore", "warn", "raise", "print"):
        with np.errstate(all=mode):
            masks[mode] = _mask(_variable().get())
    quiet = [bool(masks[mode] & LOUD_BITS) for mode in ("ignore", "warn", "raise", "print")]
    return quiet == [False, False, True, True]


def _mask(capsule: object) -> int:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get = prototype(process.resolve_one("tb_PyCapsule_GetPointer"))
    return ctypes.c_int.from_address(get(capsule, CAPSULE_NAME)).value


_IR_CONTEXT = r"""
@tb_errstate_variable = external global i8
@tb_errstate_default = external global i8
@errstate_name = internal constant [19 x i8] c"$NAME\00"
declare i32 @tb_PyContextVar_Get(ptr, ptr, ptr)
declare ptr @tb_PyCapsule_GetPointer(ptr, ptr)

define internal i32 @errstate_quiet() {
entry:
  %slot = alloca ptr
  %rc = call i32 @tb_PyContextVar_Get(ptr @tb_errstate_variable, ptr null, ptr %slot)
  %bad = icmp slt i32 %rc, 0
  br i1 %bad, label %error, label %got
got:
  %value = load ptr, ptr %slot
  %usual = icmp eq ptr %value, @tb_errstate_default
  br i1 %usual, label %yes, label %look
yes:
  call void @tb_Py_DecRef(ptr %value)
  ret i32 1
look:
  %state = call ptr @tb_PyCapsule_GetPointer(ptr %value, ptr @errstate_name)
  %null = icmp eq ptr %state, null
  br i1 %null, label %drop, label %read
read:
  %mask = load i32, ptr %state
  %loud = and i32 %mask, $LOUD
  %quiet = icmp eq i32 %loud, 0
  %result = zext i1 %quiet to i32
  call void @tb_Py_DecRef(ptr %value)
  ret i32 %result
drop:
  call void @tb_Py_DecRef(ptr %value)
  br label %error
error:
  ret i32 -1
}
"""

_IR_THREAD = r"""
@tb_errstate_key = external global i8
declare ptr @tb_PyThreadState_GetDict()
declare ptr @tb_PyDict_GetItemWithError(ptr, ptr)
declare ptr @tb_PyErr_Occurred()
declare ptr @tb_PyList_GetItem(ptr, i64)
declare i64 @tb_PyLong_AsLong(ptr)

define internal i32 @errstate_quiet() {
entry:
  %dict = call ptr @tb_PyThreadState_GetDict()
  %none = icmp eq ptr %dict, null
  br i1 %none, label %yes, label %find
find:
  %state = call ptr @tb_PyDict_GetItemWithError(ptr %dict, ptr @tb_errstate_key)
  %unset = icmp eq ptr %state, null
  br i1 %unset, label %failed, label %look
failed:
  %raised0 = call ptr @tb_PyErr_Occurred()
  %raised = icmp ne ptr %raised0, null
  br i1 %raised, label %error, label %yes
yes:
  ret i32 1
look:
  %item = call ptr @tb_PyList_GetItem(ptr %state, i64 1)
  %null = icmp eq ptr %item, null
  br i1 %null, label %error, label %read
read:
  %mask = call i64 @tb_PyLong_AsLong(ptr %item)
  %loud = and i64 %mask, $LOUD
  %quiet = icmp eq i64 %loud, 0
  %result = zext i1 %quiet to i32
  ret i32 %result
error:
  ret i32 -1
}
"""
