"""Functions that choose and clean values: where, clip, round, isclose, nan_to_num, take and others.

In: arrays and scalars. Out: elementwise ops of the table, composed as NumPy's own code composes
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailorbird.capture.arith import binary, unary
from tailorbird.capture.assign import store_out
from tailorbird.capture.build import convert
from tailorbird.capture.call import call
from tailorbird.capture.containers import iterate
from tailorbird.capture.elementwise import elementwise, map_value, must_fit
from tailorbird.capture.masks import nonzero
from tailorbird.capture.reduce import reduced
from tailorbird.capture.registry import METHODS, handles
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Scal, Unhandled
from tailorbird.capture.views import as_arr
from tailorbird.ir.node import Operand, type_of
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.types import PYTHON_TYPES, WEAK_BOOL

CLIP_KEEPS = bool(np.signbit(np.clip(np.array([-0.0, -0.0]), 0.0, 1.0))[0])


@handles(np.where)
def _where(t: Tracer, condition: Any, *choices: Any) -> Any:
    if len(choices) == 0:
        return nonzero(t, condition)
    if len(choices) != 2:
        t.raises("ValueError: either both or neither of x and y should be given")
    test = t.operand(condition)
    if type_of(test).dtype.kind != "b":
        test = map_value(t, "not_equal", [test, 0])
    value = map_value(t, "where", [test, *(t.operand(x) for x in choices)])
    return as_arr(t, t.result(value))


@handles(np.select)
def _select(t: Tracer, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The first choice whose condition holds: a chain of where, from the last to the first, in the
    dtype that all choices have together.
    """
    tests, choices = (iterate(t, x, "np.select") for x in (condlist, choicelist))
    if not tests or len(tests) != len(choices):
        t.raises("ValueError: np.select needs as many conditions as choices")
    operands = [t.operand(x) for x in (*choices, default)]
    if LEGACY and any(not type_of(x).rank for x in operands[:-1]):
        t.refuse("promotion", name="np.select of numbers")
    kind = _together(t, operands, "np.select")
    if kind.kind == "u" and any(type_of(x).weak for x in operands[:-1]):
        t.raises(f"TypeError: cannot copy int64 to {kind} with same_kind")
    found: Any = _in_dtype(t, operands[-1], kind)
    for test, choice in reversed(list(zip(tests, operands))):
        if as_arr(t, test).dtype.kind != "b":
            t.raises("TypeError: invalid entry in condlist: should be boolean ndarray")
        found = map_value(t, "where", [t.operand(test), _in_dtype(t, choice, kind), found])
    return as_arr(t, t.result(found))


def _together(t: Tracer, operands: Sequence[Operand], name: str) -> np.dtype:
    """The dtype that operands have together; Python's numbers do not widen."""
    types = map(type_of, operands)
    return t.supported(
        np.result_type(*(PYTHON_TYPES[k.dtype.kind]() if k.weak else k.dtype for k in types)), name
    )


def _in_dtype(t: Tracer, x: Operand, dtype: np.dtype) -> Operand:
    if type_of(x).weak and dtype.kind in "iu":
        must_fit(t, x, dtype)
    return x if type_of(x).dtype == dtype and not type_of(x).weak else convert(t, x, dtype)


@handles(np.clip, method="clip")
def _clip(t: Tracer, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Any:
    """min(max(a, low), high) in the dtype that the three have together. Of equal zeros the second
    is taken: that of the bound, but the array's where two numbers bound it and NumPy keeps it.
    """
    bounds = [b for b in (a_min, a_max) if b is not None]
    x = t.operand(a)
    operands = [x, *(t.operand(b) for b in bounds)]
    types = [type_of(o) for o in operands]
    if type_of(x).dtype.kind == "b" or type_of(x).weak or any(k.dtype.kind == "c" for k in types):
        raise Unhandled
    kind = _together(t, operands, "np.clip")
    value = x if kind == type_of(x).dtype else convert(t, x, kind)
    keeps = CLIP_KEEPS and len(bounds) == 2 and not any(k.shape for k in types[1:])
    for name, bound in (("maximum", a_min), ("minimum", a_max)):
        if bound is not None:
            pair = [value, t.operand(bound)]
            value = map_value(t, name, pair[::-1] if keeps else pair)
    result = t.result(value) if bounds else METHODS["copy"](t, a)  # type: ignore[arg-type]
    return result if out is None else store_out(t, result, out)


@handles(np.round, np.around, method="round")
def _round(t: Tracer, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if t.concrete(decimals, "decimals") != 0 or as_arr(t, a).dtype.kind not in "f":
        raise Unhandled
    result = elementwise(t, "rint", [a])
    return result if out is None else store_out(t, result, out)


@handles(np.fix)
def _fix(t: Tracer, x: Any) -> Any:
    if as_arr(t, x).dtype.kind != "f":
        raise Unhandled
    return elementwise(t, "trunc", [x])


@handles(np.sinc)
def _sinc(t: Tracer, x: Any) -> Any:
    array = as_arr(t, x)
    if array.dtype.kind != "f":
        raise Unhandled
    tiny = np.finfo(array.dtype).eps
    scaled = elementwise(t, "multiply", [np.pi, array])
    zero = elementwise(t, "equal", [scaled, 0])
    safe = elementwise(t, "where", [zero, array.dtype.type(tiny), scaled])
    return elementwise(t, "divide", [elementwise(t, "sin", [safe]), safe])


@handles(method="conj")
def _conj(t: Tracer, x: Any) -> Any:
    if x.dtype.kind != "c":
        return x
    return elementwise(t, "conjugate", [x])


@handles(method="conjugate")
def _conjugate(t: Tracer, x: Any) -> Any:
    return _conj(t, x)


# Comparing


@handles(np.isclose)
def _isclose(
    t: Tracer, a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False
) -> Any:
    """As NumPy has it: near and b finite, or equal. Python's numbers stay what they are."""
    left, right = (_kept(t, x) for x in (a, b))
    if type_of(t.operand(right)).dtype.kind not in "fc" or t.concrete(equal_nan):
        raise Unhandled
    distance = unary(t, "absolute", binary(t, "subtract", left, right))
    spread = binary(t, "multiply", rtol, unary(t, "absolute", right))
    near = elementwise(t, "less_equal", [distance, binary(t, "add", atol, spread)])
    finite = elementwise(t, "logical_and", [near, elementwise(t, "isfinite", [right])])
    return elementwise(t, "logical_or", [finite, elementwise(t, "equal", [left, right])])


def _kept(t: Tracer, x: Any) -> Any:
    """What np.isclose compares: an array, or a number as it is."""
    if LEGACY or isinstance(x, (list, tuple)) or not type_of(t.operand(x)).weak:
        return as_arr(t, x)
    return float(x) if isinstance(x, int) else x


@handles(np.nan_to_num)
def _nan_to_num(
    t: Tracer, x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    array = as_arr(t, x)
    if array.dtype.kind == "c" or not t.concrete(copy):
        raise Unhandled
    if array.dtype.kind != "f":
        return t.array(t.read(array))
    limits = np.finfo(array.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    found: Any = array
    tests = [elementwise(t, "isnan", [array])]
    tests += [elementwise(t, "equal", [array, limit]) for limit in (np.inf, -np.inf)]
    for test, filling in zip(tests, (nan, high, low)):
        chosen = _filling(t, filling, array.dtype)
        found = elementwise(t, "where", [test, chosen, found])
    return found


def _filling(t: Tracer, x: Any, dtype: np.dtype) -> Operand:
    """A number as np.copyto converts it into an array of floats."""
    value = t.operand(x)
    if type_of(value).shape:
        raise Unhandled
    if type_of(value).dtype.kind == "c":
        t.raises(f"TypeError: cannot cast a complex number to {dtype} with same_kind")
    return convert(t, value, dtype)


@handles(np.array_equal)
def _array_equal(t: Tracer, a1: Any, a2: Any, equal_nan: Any = False) -> Any:
    if equal_nan is not False:
        raise Unhandled
    a, b = as_arr(t, a1), as_arr(t, a2)
    if a.ndim != b.ndim or not all(t.equal(x, y) for x, y in zip(a.shape, b.shape)):
        return False
    alike = t.array(map_value(t, "equal", [t.read(a), t.read(b)]))
    every = reduced(t, "all", alike, tuple(range(a.ndim)))
    return Scal(t.emit("cast", [t.operand(every)], {"dtype": WEAK_BOOL.dtype}, WEAK_BOOL))


@handles(np.allclose)
def _allclose(t: Tracer, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8) -> Any:
    near = as_arr(t, call(t, np.isclose, (a, b), {"rtol": rtol, "atol": atol}))
    every = reduced(t, "all", near, tuple(range(near.ndim)))
    return Scal(t.emit("cast", [t.operand(every)], {"dtype": WEAK_BOOL.dtype}, WEAK_BOOL))
