"""Library functions that count where integers lie close together, and do as NumPy does elsewhere.

In: what the function of NumPy takes. Out: what it gives, bit for bit. Whether a call counts is
looked up in its data each time: the look ends at the first block of elements that lie too far
apart, and what is counted is small enough for the first cache.

    sort, unique (counts too), median, stable argsort      of at least `SMALLEST` integers

Invariants: an argument that is not an ndarray of native integers, or an option that is not listed
here, is NumPy's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from tailorbird.ir.types import SHORT, SUPPORTED

SMALLEST = 1 << 13  # elements
LARGEST = 1 << 31  # what 32 bits count
_kernels: dict[str, Any] = {}


class Counted(NamedTuple):
    """The smallest value, and how often it and each one after it occur."""

    low: int
    counts: np.ndarray

    @property
    def bits(self) -> ctypes.c_int64:
        """The smallest value in 64 bits."""
        return ctypes.c_int64(self.low)


def count(x: Any) -> Counted | None:
    """The counts of an array, if it is one of many integers that lie close together."""
    if type(x) is not np.ndarray or x.dtype.kind not in "iu" or not x.dtype.isnative:
        return None
    if not SMALLEST <= x.size < LARGEST or not x.flags.c_contiguous or x.dtype not in SUPPORTED:
        return None
    kernels = _kernels_of(SHORT[x.dtype.name])
    tables = np.empty(kernels.tables, np.uint32)
    counts, low = np.empty(kernels.span, np.int64), ctypes.c_int64()
    span = kernels.count(
        x.ctypes.data, x.size, tables.ctypes.data, counts.ctypes.data, ctypes.byref(low)
    )
    if not span:
        return None
    lowest = low.value + 2**64 if x.dtype == np.uint64 and low.value < 0 else low.value
    return Counted(lowest, counts[:span])


def values(counted: Counted, dtype: np.dtype) -> np.ndarray:
    """Every value from the smallest to the largest."""
    every = np.arange(len(counted.counts), dtype=np.uint64) + np.uint64(counted.low % 2**64)
    return every.astype(dtype)


def sort(a: Any, *args: Any, **kwargs: Any) -> Any:
    """`np.sort` of one axis."""
    if type(a) is np.ndarray and a.ndim == 1 and not args and not kwargs:
        counted = count(a)
        if counted is not None:
            out, counts = np.empty_like(a), counted.counts
            spread = _kernels_of(SHORT[a.dtype.name]).spread
            spread(counts.ctypes.data, counted.bits, len(counts), out.ctypes.data)
            return out
    return np.sort(a, *args, **kwargs)


def argsort(a: Any, *args: Any, **kwargs: Any) -> Any:
    """`np.argsort` of one axis, where equal elements keep their order."""
    stable = kwargs in ({"kind": "stable"}, {"stable": True})
    if type(a) is np.ndarray and a.ndim == 1 and not args and stable:
        counted = count(a)
        if counted is not None:
            out = np.empty(a.shape, np.int64)
            starts = np.concatenate(([0], np.cumsum(counted.counts)))
            order = _kernels_of(SHORT[a.dtype.name]).order
            places = starts.ctypes.data, out.ctypes.data
            order(a.ctypes.data, a.size, counted.bits, len(counted.counts), *places)
            return out
    return np.argsort(a, *args, **kwargs)


def unique(ar: Any, *args: Any, **kwargs: Any) -> Any:
    """`np.unique`, of all elements, with how often each occurs if that is asked for."""
    if not args and kwargs.keys() <= {"return_counts"}:
        counted = count(ar)
        if counted is not None:
            occurring = np.flatnonzero(counted.counts)
            found = values(counted, ar.dtype)[occurring]
            wanted = kwargs.get("return_counts", False)
            return (found, counted.counts[occurring].astype(np.intp)) if wanted else found
    return np.unique(ar, *args, **kwargs)


def median(a: Any, *args: Any, **kwargs: Any) -> Any:
    """`np.median` of all elements: the middle one, or the mean of the two in the middle."""
    if not args and not kwargs:
        counted = count(a)
        if counted is not None:
            below = np.cumsum(counted.counts)
            middle = np.searchsorted(below, [(a.size - 1) // 2, a.size // 2], side="right")
            return np.mean(values(counted, a.dtype)[middle])
    return np.median(a, *args, **kwargs)


FITTED: dict[str, Callable[..., Any]] = {
    "numpy:sort": sort,
    "numpy:argsort": argsort,
    "numpy:unique": unique,
    "numpy:median": median,
}


class _Kernels(NamedTuple):
    count: Any
    spread: Any
    order: Any
    tables: int
    span: int


def _kernels_of(ty: str) -> _Kernels:
    """The compiled kernels of a type."""
    if ty not in _kernels:
        from tailorbird.assemble import build
        from tailorbird.assemble.target import host
        from tailorbird.emit import counting

        made_for = (ty, host().vector_bytes)
        exports = ("count", "spread", "order")
        library = build.build_runtime(
            f"counting_{ty}", counting.emit_module, made_for, exports, _resolve
        )
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        counts = ctypes.CFUNCTYPE(number, pointer, number, pointer, pointer, pointer)
        spreads = ctypes.CFUNCTYPE(None, pointer, number, number, pointer)
        orders = ctypes.CFUNCTYPE(None, pointer, number, number, number, pointer, pointer)
        _kernels[ty] = _Kernels(
            counts(library.address("count")),
            spreads(library.address("spread")),
            orders(library.address("order")),
            counting.TABLES * (counting.SPAN + 1),
            counting.SPAN,
        )
    return _kernels[ty]


def _resolve(names: Iterable[str]) -> dict[str, int]:
    from tailorbird.assemble import process

    return process.resolve(names)
