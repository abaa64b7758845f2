"""Functions of NumPy's own C that are written as NumPy programs in `texts.py`.

In: a function and its abstract arguments. Out: what its program comes to. What its arguments ask
for that the program does not do is `Unhandled`: it is called opaquely.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.capture import texts
from tailorbird.capture.advanced import select, store
from tailorbird.capture.attempt import Attempt
from tailorbird.capture.build import convert, filled
from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.reading import read_text
from tailorbird.capture.reduce import reduced
from tailorbird.capture.registry import FUNCTIONS, METHODS, handles
from tailorbird.capture.selecting import flat
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Handler, Scal, Unhandled, is_number, is_static
from tailorbird.capture.views import as_arr, index
from tailorbird.errors import Refused
from tailorbird.ir.expr import Expr, apply
from tailorbird.ir.node import Value
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.types import FLOAT, INT

CORE: Any = importlib.import_module("numpy.core.multiarray" if LEGACY else "numpy._core.multiarray")


def written(*functions: Any, method: str = "") -> Callable[[Handler], Handler]:
    """Registers a handler; where what it records is refused, the function is called opaquely."""

    def register(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def attempted(t: Tracer, *args: Any, **keywords: Any) -> Any:
            before = Attempt(t)
            try:
                return handler(t, *args, **keywords)
            except (Refused, Unhandled):
                before.abandon()
                raise Unhandled from None

        handles(*functions, method=method)(attempted)
        return handler

    return register


def _cast(t: Tracer, x: Any, kind: np.dtype) -> Any:
    return METHODS["astype"](t, x, kind, copy=False)


def _number(t: Tracer, x: Any) -> bool:
    """Whether something is one number."""
    return is_number(x) or isinstance(x, (Expr, Scal))


# Searching


@written(np.searchsorted, method="searchsorted")
def _searchsorted(t: Tracer, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    base = as_arr(t, a)
    one = _number(t, v)
    found = as_arr(t, v)
    if sorter is not None or base.ndim != 1 or side not in ("left", "right"):
        raise Unhandled
    if "c" in (base.dtype.kind, found.dtype.kind):
        raise Unhandled
    kind = t.supported(np.promote_types(base.dtype, found.dtype))
    base = _cast(t, base, kind)
    read_text(t, texts.is_sorted, (base,))
    if not one and not t.at_least(base.shape[0], 1):
        return filled(t, t.shape_of(found), 0, INT)
    if not one:
        search = texts.search_left if side == "left" else texts.search_right
        return read_text(t, search, (base, _cast(t, found, kind)))
    find = texts.find_left if side == "left" else texts.find_right
    return read_text(t, find, (base, scalar_of(t, v, kind)))


def scalar_of(t: Tracer, x: Any, kind: np.dtype) -> Any:
    """A number as a NumPy scalar of a dtype."""
    value = convert(t, t.operand(x), kind)
    return Scal(value) if isinstance(value, Value) else value


@written(np.digitize)
def _digitize(t: Tracer, x: Any, bins: Any, right: Any = False) -> Any:
    """Bins that go up; those that go down are left to NumPy."""
    side = "left" if t.concrete(right) else "right"
    return _searchsorted(t, bins, x, side)


@written(CORE.interp)
def _interp(t: Tracer, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    at, places, values = (as_arr(t, v) for v in (x, xp, fp))
    kinds = {v.dtype.kind for v in (at, places, values)}
    if "c" in kinds or places.ndim != 1 or values.ndim != 1 or _number(t, x):
        raise Unhandled
    if not t.at_least(places.shape[0], 1) or not t.same(places.shape[0], values.shape[0]):
        raise Unhandled
    at, places, values = (_cast(t, v, FLOAT) for v in (at, places, values))
    ends = [
        index(t, values, k) if end is None else scalar_of(t, end, FLOAT)
        for k, end in ((0, left), (-1, right))
    ]
    return read_text(t, texts.interpolated, (at, places, values, *ends))


# Sums of products of vectors


@written(CORE.correlate)
def _correlate(t: Tracer, a: Any, v: Any, mode: Any = 0) -> Any:
    return _convolved(t, as_arr(t, a), METHODS["conj"](t, _turned(t, v)), mode)


@written(np.correlate)
def _np_correlate(t: Tracer, a: Any, v: Any, mode: Any = "valid") -> Any:
    return _correlate(t, a, v, mode)


@written(np.convolve)
def _convolve(t: Tracer, a: Any, v: Any, mode: Any = "full") -> Any:
    x, y = as_arr(t, a), as_arr(t, v)
    if x.ndim != 1 or y.ndim != 1:
        raise Unhandled
    return (
        _convolved(t, x, y, mode)
        if t.at_least(x.shape[0], y.shape[0])
        else _convolved(t, y, x, mode)
    )


def _turned(t: Tracer, x: Any) -> Arr:
    return as_arr(t, index(t, as_arr(t, x), slice(None, None, -1)))


def _convolved(t: Tracer, a: Arr, v: Any, mode: Any) -> Any:
    v = as_arr(t, v)
    kind = t.supported(np.result_type(a.dtype, v.dtype))
    if a.ndim != 1 or v.ndim != 1 or kind.kind == "b" or mode not in ("full", "same", "valid"):
        raise Unhandled
    n, m = a.shape[0], v.shape[0]
    if not t.at_least(m, 1) or not t.at_least(n, m):
        raise Unhandled
    a, v = _cast(t, a, kind), _cast(t, v, kind)
    if mode == "valid":
        return read_text(t, texts.convolved_inside, (a, v, kind))
    whole = read_text(t, texts.convolved, (a, v, kind))
    if mode == "full":
        return whole
    start = m - 1 - apply("floordiv", m, 2)
    return METHODS["copy"](t, index(t, whole, slice(start, start + n)))


# Counting


@written(np.histogram)
def _histogram(
    t: Tracer,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    """Bins of one width."""
    x = flat(t, as_arr(t, a))
    if x.dtype.kind not in "iuf" or not _is_count(bins) or t.concrete(density):
        raise Unhandled
    number = t.integer(bins)
    if not t.at_least(number, 1) or not t.at_least(x.shape[0], 1):
        raise Unhandled
    value = None if weights is None else _weights(t, x, weights)
    first, last, span = _from_data(t, x) if range is None else _from_range(t, x, range)
    kind = np.result_type(*(_kind(v) for v in (first, last)), x.dtype)
    kind = t.supported(kind if kind.kind == "f" else np.result_type(kind, float))
    edges = FUNCTIONS[np.linspace](t, first, last, number + 1, dtype=kind)
    wide = _cast(t, x, kind)
    place = read_text(t, texts.counts, (wide, first, last, span, edges, number))
    one: Any = 1
    if range is not None:
        ends = [
            elementwise(t, "greater_equal", [x, first]),
            elementwise(t, "less_equal", [x, last]),
        ]
        keep = elementwise(t, "logical_and", ends)
        place = elementwise(t, "where", [keep, place, 0])
        one = elementwise(t, "where", [keep, 1 if value is None else value, 0])
    elif value is not None:
        one = value
    sums = filled(t, (number,), 0, INT if value is None else FLOAT)
    t.inside.add((t.region, t.read(place), sums.shape[0]))
    store(t, select(t, sums, (place,)), t.operand(one), "add")
    return (sums if value is None else _cast(t, sums, as_arr(t, weights).dtype)), edges


def _is_count(bins: Any) -> bool:
    return isinstance(bins, (int, np.integer, Expr)) or (
        isinstance(bins, Scal) and bins.dtype.kind in "iu"
    )


def _kind(x: Any) -> Any:
    """What stands for a number in promotion."""
    if isinstance(x, Scal):
        return x.dtype if not x.type.weak else 0.0
    return 0 if isinstance(x, Expr) else x


def _weights(t: Tracer, x: Arr, weights: Any) -> Any:
    given = flat(t, as_arr(t, weights))
    if given.dtype.kind != "f" or not t.same(given.shape[0], x.shape[0]):
        raise Unhandled
    return _cast(t, given, FLOAT)


def _from_data(t: Tracer, x: Arr) -> tuple[Any, Any, Any]:
    """The first and the last edge and what is between: the extremes, half of 1 further where they
    are one.
    """
    first, last = (reduced(t, name, x, (0,)) for name in ("min", "max"))
    if x.dtype.kind == "f":
        for end in (first, last):
            t.check(t.operand(elementwise(t, "isfinite", [end])), "!=")
        span = elementwise(t, "subtract", [last, first])
    else:
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        ends = [_cast(t, end, unsigned) for end in (last, first)]
        span = _cast(t, elementwise(t, "subtract", ends), FLOAT)
        first, last = (_cast(t, end, FLOAT) for end in (first, last))
    flat_out = elementwise(t, "equal", [first, last])
    half = span.dtype.type(0.5)
    first, other = (
        elementwise(t, "where", [flat_out, elementwise(t, name, [end, half]), end])
        for name, end in (("subtract", first), ("add", last))
    )
    return (
        first,
        other,
        elementwise(t, "where", [flat_out, elementwise(t, "subtract", [other, first]), span]),
    )


def _from_range(t: Tracer, x: Arr, range: Any) -> tuple[Any, Any, Any]:
    """The same, from two numbers that are known."""
    ends = list(range) if isinstance(range, (tuple, list)) else []
    if len(ends) != 2 or not is_static(ends) or not all(isinstance(e, (int, float)) for e in ends):
        raise Unhandled
    first, last = ends
    if not (np.isfinite(first) and np.isfinite(last)) or first > last:
        raise Unhandled
    if first == last:
        first, last = first - 0.5, last + 0.5
    span = np.subtract(last, first)
    return first, last, span.astype(np.uint64) if span.dtype.kind == "i" else span
