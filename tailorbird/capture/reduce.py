"""Reductions and running reductions.

In: an array, axes and options as NumPy takes them. Out: `sum`, `mean`, `argmax`, `cumsum` ...
nodes with axes counted from the front and the dtype NumPy accumulates in. An axis that must not
be empty is guarded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.assign import store_out
from tailorbird.capture.build import convert, dtype_from
from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.masks import counted
from tailorbird.capture.registry import ATTRIBUTES, METHODS, handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Handler, Scal, Unhandled, is_number, is_static
from tailorbird.capture.views import as_arr, insert_axes, normal_axes, normal_axis, reshape
from tailorbird.ir.expr import Expr, product
from tailorbird.ir.node import type_of
from tailorbird.ir.promote import mean_dtype, sum_dtype
from tailorbird.ir.types import Type

EXTREMES = {"min": "minimum", "max": "maximum"}
NO_EMPTY = frozenset(("min", "max", "argmin", "argmax"))
COUNTS_IN_PYTHON = not isinstance(np.count_nonzero(np.zeros(1)), np.generic)


def reduced(
    t: Tracer, name: str, x: Arr, axes: tuple[int, ...], keepdims: Any = False, **attrs: Any
) -> Any:
    """One reduction node over axes that are already counted from the front."""
    if name in NO_EMPTY:
        _never_empty(t, x, axes)
    options: dict[str, Any] = {"axis": axes, **attrs}
    if t.concrete(keepdims, "keepdims"):
        options["keepdims"] = True
    return t.result(t.inferred(name, [t.read(x)], options))


def _never_empty(t: Tracer, x: Arr, axes: tuple[int, ...]) -> None:
    for axis in axes:
        if not t.at_least(x.shape[axis], 1):
            t.raises("ValueError: zero-size array to reduction operation which has no identity")


def finish(t: Tracer, result: Any, out: Any) -> Any:
    """The result, or `out` with the result in it; the shapes must be the same."""
    if out is None:
        return result
    shape = type_of(t.operand(result)).shape
    if isinstance(out, Arr) and not (len(shape) == out.ndim and all(map(t.same, shape, out.shape))):
        t.raises("ValueError: output parameter for reduction operation has a wrong shape")
    return store_out(t, result, out)


def _summed_as(t: Tracer, x: Arr, dtype: Any, out: Any) -> np.dtype:
    """The dtype to add up in, or to multiply: where `out=` has a wider one, that."""
    if dtype is None and isinstance(out, Arr):
        found = np.result_type(x.dtype, out.dtype)
        if found.kind in "fc":
            return t.supported(found)
    return dtype_from(t, dtype, sum_dtype(x.dtype))


def _as_it_comes(out: Any, kind: np.dtype) -> None:
    """NumPy computes means and the like in `out=` itself, step by step."""
    if isinstance(out, Arr) and out.dtype != kind:
        raise Unhandled


def _sum_like(name: str) -> Handler:
    def handler(
        t: Tracer,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
    ) -> Any:
        exact = _exact(t, name, a)
        if exact is not None and axis is None and dtype is None and out is None and not keepdims:
            return exact
        x = as_arr(t, a)
        kind = _summed_as(t, x, dtype, out)
        axes = normal_axes(t, axis, x.ndim)
        return finish(t, reduced(t, name, x, axes, keepdims, dtype=kind), out)

    return handler


def _exact(t: Tracer, name: str, a: Any) -> Any:
    """`np.prod(x.shape)`: an exact integer as a NumPy int64."""
    if not isinstance(a, (tuple, list)) or not a:
        return None
    if not all(isinstance(d, (int, Expr)) and not isinstance(d, bool) for d in a):
        return None
    if is_static(a):
        return getattr(np, name)(a)
    total = product(a) if name == "prod" else sum(a)
    kind = np.dtype(np.int64)
    if isinstance(total, int):
        return np.int64(total)
    return Scal(t.emit("cast", [t.assume.canon(total)], {"dtype": kind}, Type(kind)))


def _extreme(name: str) -> Handler:
    def handler(
        t: Tracer,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = None,
    ) -> Any:
        if initial is None and isinstance(a, (tuple, list)) and a and all(map(is_number, a)):
            return getattr(np, name)(a)
        x = as_arr(t, a)
        if initial is not None and (name not in EXTREMES or x.dtype.kind == "c"):
            raise Unhandled
        found = reduced(t, name, x, normal_axes(t, axis, x.ndim), keepdims)
        if initial is not None:
            start = convert(t, t.operand(initial), x.dtype)
            found = elementwise(t, EXTREMES[name], [found, start])
        return finish(t, found, out)

    return handler


def _mean(
    t: Tracer, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    x = as_arr(t, a)
    kind = dtype_from(t, dtype, mean_dtype(x.dtype))
    _as_it_comes(out, kind)
    axes = normal_axes(t, axis, x.ndim)
    return finish(t, reduced(t, "mean", x, axes, keepdims, dtype=kind), out)


def _spread(name: str) -> Handler:
    def handler(
        t: Tracer,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
    ) -> Any:
        x = as_arr(t, a)
        kind = dtype_from(t, dtype, mean_dtype(x.dtype))
        _as_it_comes(out, np.zeros((), kind).real.dtype)
        axes = normal_axes(t, axis, x.ndim)
        attrs: dict[str, Any] = {"ddof": t.concrete(ddof, "ddof")}
        if dtype is not None or kind.kind != "c":
            attrs["dtype"] = kind
        return finish(t, reduced(t, name, x, axes, keepdims, **attrs), out)

    return handler


def _arg(name: str) -> Handler:
    def handler(
        t: Tracer, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False
    ) -> Any:
        x = as_arr(t, a)
        axes = normal_axes(t, axis, x.ndim) if axis is None else (normal_axis(t, axis, x.ndim),)
        if axis is None and x.ndim > 1:
            _never_empty(t, x, axes)
        if isinstance(out, Arr) and not np.can_cast(out.dtype, np.intp):
            t.raises("TypeError: cannot cast array data according to the rule 'safe'")
        return finish(t, reduced(t, name, x, axes, keepdims), out)

    return handler


def _register() -> None:
    for name in ("sum", "prod"):
        handles(getattr(np, name), method=name)(_sum_like(name))
    for name in ("min", "max", "any", "all"):
        handles(getattr(np, name), method=name)(_extreme(name))
    handles(np.amin)(METHODS["min"])
    handles(np.amax)(METHODS["max"])
    handles(np.mean, method="mean")(_mean)
    for name in ("var", "std"):
        handles(getattr(np, name), method=name)(_spread(name))
    for name in ("argmin", "argmax"):
        handles(getattr(np, name), method=name)(_arg(name))


_register()


@handles(np.count_nonzero)
def _count_nonzero(t: Tracer, a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    x = as_arr(t, a)
    if axis is None and not keepdims and COUNTS_IN_PYTHON:
        return counted(t, x) if x.ndim else t.refuse("promotion", name="np.count_nonzero")
    return reduced(t, "count_nonzero", x, normal_axes(t, axis, x.ndim), keepdims)


@handles(np.ptp)
def _ptp(t: Tracer, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    _as_it_comes(out, as_arr(t, a).dtype)
    largest = METHODS["max"](t, a, axis=axis, keepdims=keepdims)
    smallest = METHODS["min"](t, a, axis=axis, keepdims=keepdims)
    return finish(t, elementwise(t, "subtract", [largest, smallest]), out)


@handles(np.average)
def _average(t: Tracer, a: Any, axis: Any = None, weights: Any = None) -> Any:
    x = as_arr(t, a)
    if weights is None:
        summed = normal_axes(t, axis, x.ndim)
        if not all(t.at_least(d, 1) for k, d in enumerate(x.shape) if k not in summed):
            t.raises("ZeroDivisionError")
        return _mean(t, x, axis)
    w = as_arr(t, weights)
    if w.ndim == 1 and x.ndim > 1 and isinstance(axis, int):
        at = normal_axis(t, axis, x.ndim)
        if not t.same(w.shape[0], x.shape[at]):
            t.raises("ValueError: Shape of weights must be consistent with shape of a")
        return _weighed(t, x, insert_axes(t, w, [k for k in range(x.ndim) if k != at]), at)
    if x.ndim != w.ndim or not all(map(t.same, x.shape, w.shape)):
        raise Unhandled
    return _weighed(t, x, w, axis)


def _weighed(t: Tracer, x: Arr, w: Arr, axis: Any) -> Any:
    """The average with weights that lie like x, or are the same along some of its axes."""
    kind = np.result_type(x.dtype, w.dtype, *([np.float64] if x.dtype.kind in "iub" else []))
    axes = normal_axes(t, axis, x.ndim)
    total = reduced(t, "sum", w, axes, dtype=t.supported(kind))
    t.check(t.operand(total), "!=")
    weighed = as_arr(t, elementwise(t, "multiply", [METHODS["astype"](t, x, kind), w]))
    return elementwise(t, "divide", [reduced(t, "sum", weighed, axes, dtype=kind), total])


@handles(np.nansum)
def _nansum(
    t: Tracer, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    x = as_arr(t, a)
    if x.dtype.kind in "fc":
        x = as_arr(t, elementwise(t, "where", [elementwise(t, "isnan", [x]), 0, x]))
    return METHODS["sum"](t, x, axis, dtype, out, keepdims)


@handles(np.linalg.norm)
def _norm(t: Tracer, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    array = as_arr(t, x)
    if array.dtype.kind in "iub":
        array = as_arr(t, METHODS["astype"](t, array, np.float64))
    axes = normal_axes(t, axis, array.ndim)
    vector = len(axes) == 1
    size = as_arr(t, elementwise(t, "absolute", [array]))
    if vector and ord in (np.inf, -np.inf):
        return reduced(t, "max" if ord > 0 else "min", size, axes, keepdims)
    if vector and ord == 1:
        return reduced(t, "sum", size, axes, keepdims, dtype=size.dtype)
    frobenius = ord == "fro" and len(axes) == 2
    whole = ord is None and (axis is None or len(axes) <= 2)
    if not (whole or frobenius or (vector and ord == 2)):
        raise Unhandled
    parts = [array]
    if array.dtype.kind == "c":
        parts = [ATTRIBUTES[name](t, array) for name in ("real", "imag")]
    terms = [elementwise(t, "square", [part]) for part in parts]
    squares = as_arr(t, elementwise(t, "add", terms) if len(terms) == 2 else terms[0])
    total = reduced(t, "sum", squares, axes, keepdims, dtype=squares.dtype)
    return elementwise(t, "sqrt", [total])


# Running reductions


def _scan(name: str) -> Handler:
    def handler(t: Tracer, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = as_arr(t, a)
        if axis is None:
            x = reshape(t, x, -1) if x.ndim != 1 else x
            axis = 0
        at = normal_axis(t, axis, x.ndim)
        kind = _summed_as(t, x, dtype, out)
        value = t.inferred(name, [t.read(x)], {"axis": at, "dtype": kind})
        return finish(t, t.result(value), out)

    return handler


for _name in ("cumsum", "cumprod"):
    handles(getattr(np, _name), method=_name)(_scan(_name))
