"""Linear algebra: the functions of `np.linalg` that LAPACK does.

In: arrays. Out: nodes of the ops in `ir/linear.py` on float64 or complex128, as NumPy computes, and
a check that no matrix was one for which NumPy raises LinAlgError: there plain Python runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.meeting import along, meet
from tailorbird.capture.opaque import Record
from tailorbird.capture.registry import METHODS, handles
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr, Unhandled
from tailorbird.capture.views import as_arr, insert_axes
from tailorbird.ir.node import Node, Value
from tailorbird.ir.promote import LEGACY, real_dtype
from tailorbird.ir.shapes import infer_all
from tailorbird.ir.types import COMPLEX, FLOAT, Type


def _result_dtype(*arrays: Arr) -> np.dtype:
    """What NumPy returns: single precision only where all operands are."""
    kinds = [x.dtype if x.dtype.kind in "fc" else FLOAT for x in arrays]
    return np.result_type(*kinds)


def _prepared(t: Tracer, x: Arr, dtype: np.dtype) -> Arr:
    """x in the precision that NumPy computes in."""
    wide = COMPLEX if dtype.kind == "c" else FLOAT
    return x if x.dtype == wide else as_arr(t, METHODS["astype"](t, x, wide))


def _square(t: Tracer, a: Any) -> Arr:
    """An array of square matrices."""
    x = as_arr(t, a)
    if x.ndim < 2:
        t.raises(f"LinAlgError: {x.ndim}-dimensional array given")
    if not meet(t, x.shape[-2], x.shape[-1]):
        t.raises("LinAlgError: last 2 dimensions of the array must be square")
    return x


def _squared(shape: Shape) -> Shape:
    return (*shape[:-1], shape[-2])


def _made(t: Tracer, op: str, operands: list[Value]) -> tuple[Value, ...]:
    """All results of an op; the last is checked where it says that NumPy raises."""
    seen = [Value(Type(x.type.dtype, t.shape_of(x.type))) for x in operands]
    types = infer_all(op, seen)
    node = t.region.append(Node(op, operands, {}, types, line=t.place()))
    if op != "slogdet":
        t.check(node.outputs[-1], "==")
    return node.outputs


def _returned(t: Tracer, value: Value, dtype: np.dtype) -> Any:
    """A result in the precision that NumPy returns."""
    found = t.result(value)
    if isinstance(found, Arr):
        found.buffer.contiguous = True
    return found if value.type.dtype == dtype else METHODS["astype"](t, found, dtype)


@handles(np.linalg.cholesky)
def _cholesky(t: Tracer, a: Any) -> Any:
    return _like_operand(t, "cholesky", a)


@handles(np.linalg.inv)
def _inv(t: Tracer, a: Any) -> Any:
    return _like_operand(t, "inv", a)


def _like_operand(t: Tracer, op: str, a: Any) -> Any:
    x = _square(t, a)
    dtype = _result_dtype(x)
    value = along(t, _prepared(t, x, dtype), _squared(x.shape))
    return _returned(t, _made(t, op, [value])[0], dtype)


@handles(np.linalg.solve)
def _solve(t: Tracer, a: Any, b: Any) -> Any:
    x, right = _square(t, a), as_arr(t, b)
    if not right.ndim:
        t.raises("LinAlgError: 0-dimensional array given")
    vector = right.ndim == 1
    if LEGACY and right.ndim == x.ndim - 1 and not vector:
        raise Unhandled  # NumPy 1 takes this for a batch of vectors
    if vector:
        right = insert_axes(t, right, [1])
    if not meet(t, x.shape[-1], right.shape[-2]):
        t.raises("ValueError: solve: sizes do not agree")
    t.broadcast([x.shape[:-2], right.shape[:-2]])
    dtype = _result_dtype(x, right)
    size = x.shape[-2]
    left = along(t, _prepared(t, x, dtype), _squared(x.shape))
    columns = (*right.shape[:-2], size, right.shape[-1])
    found = _made(t, "solve", [left, along(t, _prepared(t, right, dtype), columns)])[0]
    result = _returned(t, found, dtype)
    return result if not vector else _without_column(t, result)


def _without_column(t: Tracer, x: Arr) -> Arr:
    from tailorbird.capture.views import reshape

    return reshape(t, x, x.shape[:-1])


@handles(np.linalg.slogdet)
def _slogdet(t: Tracer, a: Any) -> Any:
    x = _square(t, a)
    dtype = _result_dtype(x)
    value = along(t, _prepared(t, x, dtype), _squared(x.shape))
    sign, logarithm = _made(t, "slogdet", [value])
    record = Record((_returned(t, sign, dtype), _returned(t, logarithm, real_dtype(dtype))))
    record.fields = ("sign", "logabsdet")
    return record


@handles(np.linalg.det)
def _det(t: Tracer, a: Any) -> Any:
    x = _square(t, a)
    dtype = _result_dtype(x)
    value = along(t, _prepared(t, x, dtype), _squared(x.shape))
    sign, logarithm = map(t.result, _made(t, "slogdet", [value]))
    found = elementwise(t, "multiply", [sign, elementwise(t, "exp", [logarithm])])
    return found if found.dtype == dtype else METHODS["astype"](t, found, dtype)
