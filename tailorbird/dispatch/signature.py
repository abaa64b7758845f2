"""What a call looks like: the key under which variants are kept.

The key of an array is its dtype, rank and layout, never its sizes; of a number its type; of
anything else that decides code its value. Containers are keyed by their structure. Two calls with
the same key may still need two variants when a guard over sizes differs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np


def layout(array: np.ndarray) -> str:
    """`C`, `F`, or `S` and the axis of unit stride (`-` when there is none)."""
    flags = array.flags
    if flags.c_contiguous:
        return "C"
    if flags.f_contiguous:
        return "F"
    for axis in reversed(range(array.ndim)):
        if array.strides[axis] == array.itemsize:
            return f"S{axis}"
    return "S-"


def key_of(x: Any) -> Hashable:
    """The part of a call's key that one argument makes."""
    kind = type(x)
    if kind is np.ndarray:
        return ("array", x.dtype, x.ndim, layout(x), x.flags.writeable, x.flags.aligned)
    if kind in (float, int, complex):
        return ("number", kind)
    if isinstance(x, np.generic):
        return ("scalar", x.dtype)
    if kind in (tuple, list):
        return (kind, tuple(key_of(item) for item in x))
    if kind is dict:
        return (kind, tuple((_name(k), key_of(v)) for k, v in x.items()))
    if kind in (bool, str, bytes, type(None), type, np.dtype, slice):
        return (kind, str(x))
    return ("object", kind)  # what the graph relies on inside of it is checked by the variant


def _name(key: Any) -> Hashable:
    return key if isinstance(key, (str, int)) else repr(key)


def elements(x: Any) -> int:
    """How many array elements an argument brings."""
    if type(x) is np.ndarray:
        return x.size if x.ndim else 0
    if type(x) in (tuple, list):
        return sum(elements(item) for item in x)
    if type(x) is dict:
        return sum(elements(item) for item in x.values())
    return 0


def bucket(count: int) -> int:
    """Sizes race in classes: log2 of all elements and one more, so that nothing has a class."""
    return (1 + count).bit_length() - 1
