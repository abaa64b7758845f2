"""How CPython and NumPy lay out the objects that guards read.

In: nothing. Out: byte offsets as constants, and `check()`, which proves them on live objects
before any code that uses them may run.

Invariants: the offsets are those of a CPython with a GIL and of NumPy 1.26 to 2.x. If `check`
finds anything else it is Refused with a reason, and everything stays plain. It runs once per
process (microseconds).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.errors import Refused
from tailorbird.reasons import why

HEAD = object.__basicsize__  # PyObject_HEAD: 16, and 32 without a GIL
TYPE = HEAD - 8  # ob_type

# PyArrayObject_fields
ARRAY_DATA = HEAD
ARRAY_NDIM = HEAD + 8  # a C int
ARRAY_DIMS = HEAD + 16
ARRAY_STRIDES = HEAD + 24
ARRAY_BASE = HEAD + 32
ARRAY_DESCR = HEAD + 40
ARRAY_FLAGS = HEAD + 48  # a C int

# Bits of ARRAY_FLAGS
C_CONTIGUOUS = 0x1
F_CONTIGUOUS = 0x2
OWNDATA = 0x4
ALIGNED = 0x100
WRITEABLE = 0x400

# PyArray_Descr, as far as NumPy 1.26 and 2.x agree
DESCR_SCALAR = HEAD
DESCR_ORDER = HEAD + 10  # a C char
SWAPPED = ord(">")

# The value inside float, complex and NumPy scalar objects; the size and items of a tuple
FLOAT_VALUE = HEAD
COMPLEX_VALUE = HEAD
SCALAR_VALUE = HEAD
TUPLE_SIZE = HEAD
TUPLE_ITEMS = HEAD + 8

# The callable of dispatch/object.py
CALL_VECTORCALL = HEAD
CALL_DICT = HEAD + 8
CALL_WEAKREFS = HEAD + 16
CALL_TABLE = HEAD + 24
CALL_OWNER = HEAD + 32
CALL_SIZE = HEAD + 40


@functools.cache
def check() -> None:
    """Refuse, with a reason, if objects are not laid out as this file says."""
    for name, holds in CHECKS:
        try:
            good = holds()
        except (AttributeError, ValueError, IndexError):
            good = False
        if not good:
            raise Refused(why("abi_mismatch", name=name))


def _read(value: object, offset: int, kind: Any = ctypes.c_int64) -> Any:
    return kind.from_address(id(value) + offset).value


def _words(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address))


def _header() -> bool:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return HEAD == 16 and gil and _read([], TYPE) == id(list)


def _array() -> bool:
    whole = np.zeros((3, 6), np.float32)
    view = whole[:, 1::2]
    return (
        _read(view, ARRAY_DATA) == view.ctypes.data
        and _read(view, ARRAY_NDIM, ctypes.c_int32) == 2
        and _words(_read(view, ARRAY_DIMS), 2) == view.shape
        and _words(_read(view, ARRAY_STRIDES), 2) == view.strides
        and _read(view, ARRAY_BASE) == id(whole)
        and _read(view, ARRAY_DESCR) == id(view.dtype)
        and _read(view, TYPE) == id(np.ndarray)
    )


def _flags() -> bool:
    owner = np.zeros((3, 5))
    frozen = owner.T[::2]
    frozen.flags.writeable = False
    packed = np.zeros(17, np.uint8)[1:].view(np.float64)
    bits = {
        C_CONTIGUOUS: "c_contiguous",
        F_CONTIGUOUS: "f_contiguous",
        OWNDATA: "owndata",
        ALIGNED: "aligned",
        WRITEABLE: "writeable",
    }
    return all(
        bool(_read(array, ARRAY_FLAGS, ctypes.c_int32) & bit) == getattr(array.flags, name)
        for array in (owner, owner.T, frozen, packed)
        for bit, name in bits.items()
    )


def _dtypes() -> bool:
    swapped = np.dtype(np.float64).newbyteorder()
    return all(
        _read(found, DESCR_SCALAR) == id(found.type)
        and _read(found, DESCR_ORDER, ctypes.c_char) == found.byteorder.encode()
        for found in (np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.bool_), swapped)
    )


def _numbers() -> bool:
    value = 1.5
    pair = complex(2.5, -3.5)
    doubles = ctypes.c_double * 2
    return (
        _read(value, FLOAT_VALUE, ctypes.c_double) == value
        and tuple(doubles.from_address(id(pair) + COMPLEX_VALUE)) == (2.5, -3.5)
        and _read(np.float64(value), SCALAR_VALUE, ctypes.c_double) == value
        and _read(np.float32(value), SCALAR_VALUE, ctypes.c_float) == value
        and _read(np.int16(-7), SCALAR_VALUE, ctypes.c_int16) == -7
        and _read(np.uint64(7), SCALAR_VALUE, ctypes.c_uint64) == 7
    )


def _tuple() -> bool:
    first, second = object(), object()
    pair = (first, second)
    return _read(pair, TUPLE_SIZE) == 2 and _words(id(pair) + TUPLE_ITEMS, 2) == (
        id(first),
        id(second),
    )


CHECKS: tuple[tuple[str, Callable[[], bool]], ...] = (
    ("object headers", _header),
    ("arrays", _array),
    ("array flags", _flags),
    ("dtypes", _dtypes),
    ("numbers", _numbers),
    ("tuples", _tuple),
)
