"""What a call looks like: the key under which variants are kept.

The key of an array is its dtype, rank and layout, never its sizes; of a number its type; of
anything else that decides code its value. Containers are keyed by their structure. Two calls with
the same key may still need two variants when a guard over sizes differs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tailorbird.profile.look import CONTAINERS, DEEPEST, LONGEST, arrays

NUMBERS = (float, int, complex)
PLAIN_DATA = (bool, str, bytes, type(None))
LARGEST = 2**63  # integers beyond are not compiled, which says nothing about others


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


def key_of(x: Any, depth: int = 0) -> Hashable:
    """The part of a call's key that one argument makes. It runs no code of the caller's."""
    kind = type(x)
    if kind is np.ndarray:
        return ("array", x.dtype, x.ndim, layout(x), x.flags.writeable, x.flags.aligned)
    if kind in NUMBERS:
        return ("number", kind, kind is int and not -LARGEST <= x < LARGEST)
    if isinstance(x, np.generic):
        return ("scalar", x.dtype)
    if kind in CONTAINERS:
        return _key_of_container(x, depth)
    if kind in PLAIN_DATA:
        return (kind, x)
    if kind is slice:
        return (kind, *(key_of(part, depth) for part in (x.start, x.stop, x.step)))
    # What the graph relies on inside an object, or which class it is, is checked by the variant.
    return ("object", kind)


def _key_of_container(x: Any, depth: int) -> Hashable:
    kind = type(x)
    if len(x) > LONGEST or depth > DEEPEST:
        return (kind, "large")
    if kind is not dict:
        return (kind, tuple(key_of(item, depth + 1) for item in x))
    pairs = tuple((_name(k), key_of(item, depth + 1)) for k, item in x.items())
    return (kind, pairs)


def _name(key: Any) -> Hashable:
    return key if type(key) in (str, int) else ("key", type(key))


def elements(x: Any) -> int:
    """How many array elements an argument brings."""
    return sum(array.size for array in arrays(x) if array.ndim)


def bucket(count: int) -> int:
    """Sizes race in classes: log2 of all elements and one more, so that nothing has a class."""
    return (1 + count).bit_length() - 1
