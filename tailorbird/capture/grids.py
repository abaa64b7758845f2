"""Grids and triangles: eye, tri, tril, triu, meshgrid, indices, mgrid.

In: sizes and arrays. Out: arrays made from ranges of row and column numbers that are compared or
broadcast, so that nothing but elementwise ops is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.build import arange, cast, dtype_from, shape_from
from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.registry import handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Unhandled
from tailorbird.capture.views import as_arr, broadcast_view, insert_axes, permute, reshape
from tailorbird.ir.expr import Dim

INT = np.dtype(np.int64)


@handles(np.eye)
def _eye(t: Tracer, N: Any, M: Any = None, k: Any = 0, dtype: Any = np.float64) -> Arr:
    rows = shape_from(t, N)[0]
    columns = rows if M is None else shape_from(t, M)[0]
    below, beside = _coordinates(t, rows, columns)
    hit = elementwise(t, "equal", [elementwise(t, "subtract", [beside, below]), k])
    return cast(t, hit, dtype_from(t, dtype))  # type: ignore[return-value]


@handles(np.identity)
def _identity(t: Tracer, n: Any, dtype: Any = None) -> Arr:
    return _eye(t, n, dtype=np.float64 if dtype is None else dtype)


def _coordinates(t: Tracer, rows: Dim, columns: Dim) -> tuple[Arr, Arr]:
    """Row numbers as a column and column numbers as a row."""
    down = insert_axes(t, arange(t, 0, 1, rows, INT), [1])
    right = insert_axes(t, arange(t, 0, 1, columns, INT), [0])
    return down, right


@handles(np.tri)
def _tri(t: Tracer, N: Any, M: Any = None, k: Any = 0, dtype: Any = np.float64) -> Arr:
    rows = shape_from(t, N)[0]
    columns = rows if M is None else shape_from(t, M)[0]
    return cast(t, _lower(t, rows, columns, k), dtype_from(t, dtype))  # type: ignore[return-value]


def _lower(t: Tracer, rows: Dim, columns: Dim, k: Any) -> Any:
    """True on and below diagonal k."""
    below, beside = _coordinates(t, rows, columns)
    return elementwise(t, "less_equal", [elementwise(t, "subtract", [beside, below]), k])


@handles(np.tril)
def _tril(t: Tracer, m: Any, k: Any = 0) -> Any:
    x = _matrix(t, m)
    mask = _lower(t, x.shape[-2], x.shape[-1], k)
    return elementwise(t, "where", [mask, x, _zero(x)])


@handles(np.triu)
def _triu(t: Tracer, m: Any, k: Any = 0) -> Any:
    x = _matrix(t, m)
    mask = _lower(t, x.shape[-2], x.shape[-1], t.integer(k, "k") - 1)
    return elementwise(t, "where", [mask, _zero(x), x])


def _matrix(t: Tracer, m: Any) -> Arr:
    x = as_arr(t, m)
    if x.ndim < 2:
        raise Unhandled
    return x


def _zero(x: Arr) -> Any:
    return x.dtype.type(0)


@handles(np.meshgrid)
def _meshgrid(
    t: Tracer, *xi: Any, indexing: Any = "xy", sparse: Any = False, copy: Any = True
) -> Any:
    arrays = [as_arr(t, x) for x in xi]
    flat = [reshape(t, x, -1) if x.ndim != 1 else x for x in arrays]
    rank = len(flat)
    sizes = tuple(t.shape_of(x)[0] for x in flat)
    found = []
    for k, x in enumerate(flat):
        shown = insert_axes(t, x, [j for j in range(rank) if j != k])
        if not t.concrete(sparse):
            shown = broadcast_view(t, shown, sizes)
        if indexing == "xy" and rank > 1:
            shown = permute(t, shown, (1, 0, *range(2, rank)))
        found.append(t.array(t.read(shown)) if copy else shown)
    return found if _MESHGRID_IS_LIST else tuple(found)


_MESHGRID_IS_LIST = isinstance(np.meshgrid([1]), list)


@handles(np.indices)
def _indices(t: Tracer, dimensions: Any, dtype: Any = int) -> Any:
    sizes = shape_from(t, dimensions)
    return _grid_array(t, [(0, size) for size in sizes], dtype_from(t, dtype))


def _grid_array(t: Tracer, spans: list[tuple[Dim, Dim]], dtype: np.dtype) -> Arr:
    from tailorbird.capture.joining import joined

    sizes = tuple(size for _, size in spans)
    rows = []
    for x in _sparse_grid(t, spans, dtype):
        rows.append(insert_axes(t, broadcast_view(t, x, sizes), [0]))
    found = joined(t, rows, 0)
    found.buffer.contiguous = True
    return found


def _sparse_grid(t: Tracer, spans: list[tuple[Dim, Dim]], dtype: np.dtype) -> list[Arr]:
    rank = len(spans)
    found = []
    for k, (start, size) in enumerate(spans):
        line = arange(t, start, 1, size, dtype)
        found.append(insert_axes(t, line, [j for j in range(rank) if j != k]))
    return found


def grid(t: Tracer, key: Any, sparse: bool) -> Any:
    """np.mgrid[a:b, c:d] and np.ogrid[...] with steps of one."""
    parts = key if isinstance(key, tuple) else (key,)
    spans: list[tuple[Dim, Dim]] = []
    for part in parts:
        if not isinstance(part, slice) or part.step is not None:
            t.refuse("unsupported_call", name="np.mgrid with a step")
        start = 0 if part.start is None else t.integer(part.start)
        stop = t.integer(part.stop)
        if not t.at_least(stop, start):
            stop = start
        spans.append((start, t.assume.canon(stop - start)))
    if not isinstance(key, tuple):
        return arange(t, spans[0][0], 1, spans[0][1], INT)
    if sparse:
        return tuple(_sparse_grid(t, spans, INT))
    return _grid_array(t, spans, INT)
