"""Where things are in this process: libc, libm, CPython's C API, NumPy's C API table.

In: a name or a slot. Out: an address. `resolve` is what the runtime's own modules (pool, memory,
call stub) are linked with; generated code gets the longer list of `symbols.py`.

Invariant: a name that does not exist is a CompileError naming it, never a null address.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from tailorbird.errors import CompileError

PREFIX = "tb_"
LIBRARIES = ("libm.so.6", "libgcc_s.so.1", "libc.so.6")

# Slots of NumPy's _ARRAY_API, the same from 1.22 to 2.x (numpy/__multiarray_api.h).
NUMPY_SLOTS = {
    "PyArray_Type": 2,
    "PyArray_Scalar": 60,
    "PyArray_NewFromDescr": 94,
    "PyDataMem_SetHandler": 304,
    "PyDataMem_GetHandler": 305,
}


def address_of(function: Any) -> int:
    """The address of a ctypes function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def library_symbol(name: str) -> int | None:
    """The address of a function in libm, libgcc or libc, or None."""
    for path in LIBRARIES:
        try:
            return address_of(getattr(ctypes.CDLL(path), name))
        except (AttributeError, OSError):
            continue
    return None


@functools.cache
def python_symbol(name: str) -> int | None:
    """The address of a function or an object that CPython exports, or None."""
    try:
        return address_of(getattr(ctypes.pythonapi, name))
    except AttributeError:
        return None


@functools.cache
def numpy_symbol(name: str) -> int | None:
    """The address of an entry of NumPy's C API table, or None."""
    slot = NUMPY_SLOTS.get(name)
    return _numpy_table()[slot] if slot is not None else None


def resolve(names: Iterable[str]) -> dict[str, int]:
    """Addresses of plain C names, and of `tb_NAME` for names of CPython and NumPy."""
    return {name: resolve_one(name) for name in names}


def resolve_one(name: str) -> int:
    """The address of one name; a CompileError if there is no such name here."""
    bare = name.removeprefix(PREFIX)
    found = library_symbol(name) if bare == name else python_symbol(bare) or numpy_symbol(bare)
    if not found:
        raise CompileError(f"the code needs {name!r}, which this process does not have")
    return found


def numpy_core() -> Any:
    """`numpy._core`, or `numpy.core` before NumPy 2."""
    return importlib.import_module("numpy._core" if numpy_major() >= 2 else "numpy.core")


def numpy_major() -> int:
    """1 or 2: the two keep a few things in different places."""
    return int(np.__version__.split(".")[0])


def capsule_pointer(capsule: Any) -> int:
    """The address in a PyCapsule."""
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    named = name(resolve_one("tb_PyCapsule_GetName"))(capsule)
    return int(get(resolve_one("tb_PyCapsule_GetPointer"))(capsule, named))


@functools.cache
def _numpy_table() -> Any:
    address = capsule_pointer(numpy_core()._multiarray_umath._ARRAY_API)
    table = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
    if table[NUMPY_SLOTS["PyArray_Type"]] != id(np.ndarray):
        raise CompileError("NumPy's C API table is not where it should be")
    return table
