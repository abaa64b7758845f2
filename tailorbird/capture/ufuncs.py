"""Ufuncs and their methods: `np.add(a, b, out=..., where=..., dtype=...)`, `np.add.reduce`.

In: a ufunc and its arguments. Out: the abstract result, as an elementwise op of the table. A
ufunc that has no row is called opaquely.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tailorbird.capture import texts
from tailorbird.capture.arith import concretely
from tailorbird.capture.assign import fill, store_out
from tailorbird.capture.build import convert, dtype_from
from tailorbird.capture.elementwise import elementwise, map_value
from tailorbird.capture.reading import read_text
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, is_number
from tailorbird.capture.views import as_arr, insert_axes, makes_contiguous
from tailorbird.ir.node import type_of
from tailorbird.ir.ops import UFUNCS

ROWS: dict[Any, str] = {ufunc: name for name, ufunc in UFUNCS.items()}
ROWS[np.rad2deg] = "degrees"
ROWS[np.deg2rad] = "radians"
SPECIAL = ("erf", "expit")
IGNORED = ("order", "subok")
REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "minimum": "min",
    "maximum": "max",
    "logical_and": "all",
    "logical_or": "any",
}
SCANS = {"add": "cumsum", "multiply": "cumprod"}
RUNNING = {"maximum": texts.running_most, "minimum": texts.running_least}


def row_of(ufunc: np.ufunc) -> str | None:
    """The op that a ufunc is, if it is one."""
    name = ROWS.get(ufunc)
    if name is None and ufunc.__name__ in SPECIAL:
        special = sys.modules.get("scipy.special")
        if getattr(special, ufunc.__name__, None) is ufunc:
            return ufunc.__name__
    return name


def call_ufunc(t: Tracer, ufunc: np.ufunc, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A ufunc applied."""
    options = {k: v for k, v in keywords.items() if k not in IGNORED}
    if ufunc is np.matmul:
        from tailorbird.capture.products import matmul

        return matmul(t, *args, **options)
    if ufunc is np.divmod:
        parts = ("floor_divide", "remainder")
        return tuple(elementwise(t, part, args) for part in parts)
    name = row_of(ufunc)
    known = set(options) <= {"out", "where", "dtype", "casting"}
    if name is None or not known or not ufunc.nin <= len(args) <= ufunc.nin + 1:
        from tailorbird.capture.opaque import call_library

        return call_library(t, ufunc, args, keywords)
    if len(args) > ufunc.nin:
        options["out"] = args[ufunc.nin]
        args = args[: ufunc.nin]
    if not options and all(map(is_number, args)):
        return concretely(t, ufunc, *args)
    return _applied(t, ufunc, name, args, **options)


def _applied(
    t: Tracer,
    ufunc: np.ufunc,
    name: str,
    args: tuple[Any, ...],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    if isinstance(out, tuple):
        out = out[0]
    if casting not in ("same_kind", "unsafe"):
        t.refuse("unsupported_call", name=f"np.{name} with casting={casting!r}")
    operands = [t.operand(a) for a in args]
    if dtype is not None:
        operands = _converted(t, ufunc, operands, dtype_from(t, dtype))
    result = makes_contiguous(t.result(map_value(t, name, operands)), args)
    if where is not True:
        if out is None:
            t.refuse("unsupported_call", name=f"np.{name} with where= and without out=")
        if type_of(t.operand(where)).dtype.kind != "b":
            t.raises("TypeError: cannot cast where= to bool")
        result = elementwise(t, "where", [where, result, out])
    if out is None:
        return result
    if casting == "unsafe" and isinstance(out, Arr):
        fill(t, out, t.operand(result))
        return out
    return store_out(t, result, out)


def _converted(t: Tracer, ufunc: np.ufunc, operands: list[Any], dtype: np.dtype) -> list[Any]:
    """The operands as the loop chosen by `dtype=` takes them."""
    found = tuple(type_of(x).dtype for x in operands)
    signature = (*(None for _ in operands), dtype)
    try:
        loop = ufunc.resolve_dtypes((*found, None), signature=signature, casting="same_kind")
    except TypeError as error:
        t.raises(f"TypeError: {error}")
    return [convert(t, x, t.supported(d)) for x, d in zip(operands, loop)]


# Methods


def call_ufunc_method(
    t: Tracer, ufunc: np.ufunc, method: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """`ufunc.reduce`, `accumulate`, `outer`, `at`."""
    name = row_of(ufunc)
    if method == "at" and name is not None and not keywords:
        from tailorbird.capture.selecting import accumulate_at

        return accumulate_at(t, name, args)
    if method == "outer" and name is not None and len(args) == 2 and not keywords:
        return _outer(t, name, *args)
    if method == "reduce" and name in REDUCTIONS:
        return _reduce(t, REDUCTIONS[name], *args, **keywords)
    if method == "accumulate" and name in SCANS:
        return _accumulate(t, SCANS[name], *args, **keywords)
    if method == "accumulate" and name in RUNNING and len(args) == 1 and not keywords:
        array = as_arr(t, args[0])
        if array.ndim == 1 and array.dtype.kind in "iuf" and t.at_least(array.shape[0], 1):
            return read_text(t, RUNNING[name], (array,))
    from tailorbird.capture.opaque import call_library

    return call_library(t, getattr(ufunc, method), args, keywords)


def _outer(t: Tracer, name: str, a: Any, b: Any) -> Any:
    left, right = as_arr(t, a), as_arr(t, b)
    places = range(left.ndim, left.ndim + right.ndim)
    return elementwise(t, name, [insert_axes(t, left, places), right])


def _reduce(
    t: Tracer,
    name: str,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    **more: Any,
) -> Any:
    from tailorbird.capture.registry import METHODS

    if more:
        t.refuse("unsupported_call", name=f"a reduction with {', '.join(more)}")
    options = {"dtype": dtype} if dtype is not None else {}
    array = as_arr(t, x)
    if array.ndim == 0:
        t.raises("TypeError: cannot reduce on a scalar")
    return METHODS[name](t, array, axis=axis, out=out, keepdims=keepdims, **options)


def _accumulate(
    t: Tracer, name: str, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    from tailorbird.capture.registry import METHODS

    return METHODS[name](t, as_arr(t, x), axis=axis, dtype=dtype, out=out)
