"""The shapes that library functions without a handler are documented to give.

In: a function and the template of its call. Out: the shape of every result in terms of the sizes of
the operands, or None when only the call itself can tell. The caller compares it with a real result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.ir.expr import Expr, apply
from tailorbird.ir.node import Operand, Slot, type_of
from tailorbird.ir.shapes import reduce_shape

LIKE_FIRST = """
    sort argsort partition argpartition inv pinv cholesky matrix_power fft ifft fft2 ifft2 fftn
    ifftn fftshift ifftshift unwrap gaussian_filter uniform_filter around round nancumsum
    nancumprod accumulate interp isin digitize i0 gradient expm
"""
LIKE_SECOND = "searchsorted polyval solve"
REDUCES = "median nanmedian nanmean nanmax nanmin nanstd nanvar nanprod"
QUANTILES = "percentile quantile nanpercentile nanquantile"
PLACES = dict.fromkeys(LIKE_FIRST.split(), 0) | dict.fromkeys(LIKE_SECOND.split(), 1)
REDUCES_AT = dict.fromkeys(REDUCES.split(), 1) | dict.fromkeys(QUANTILES.split(), 2)


def kept_shape(t: Tracer, function: Any, template: Any, operands: list[Operand]) -> Shape | None:
    """The shape that every result of the call has, if that is known."""
    name = getattr(function, "__name__", "")
    args, keywords = template
    if isinstance(function, np.ufunc) and function.signature is None:
        return t.broadcast([type_of(x).shape for x in operands])
    if name in PLACES and len(args) > PLACES[name]:
        return _shape_of(t, args[PLACES[name]], operands)
    if name in REDUCES_AT and args:
        return _reduced(t, name, args, dict(keywords), operands)
    if name in OWN_RULES:
        return OWN_RULES[name](t, args, dict(keywords), operands)
    return None


def _shape_of(t: Tracer, x: Any, operands: list[Operand]) -> Shape | None:
    if isinstance(x, (int, float, complex, np.generic)):
        return ()
    if not isinstance(x, Slot):
        return None
    return tuple(map(t.assume.canon, type_of(operands[x.index]).shape))


def _reduced(
    t: Tracer, name: str, args: Any, keywords: dict[str, Any], operands: list[Operand]
) -> Shape | None:
    shape = _shape_of(t, args[0], operands)
    place = REDUCES_AT[name]
    axis = args[place] if len(args) > place else keywords.get("axis")
    quantiles = args[1] if place == 2 and len(args) > 1 else 0.5
    several: tuple[Any, ...] = quantiles if isinstance(quantiles, tuple) else ()
    if not all(isinstance(q, (int, float)) for q in several):
        return None
    if shape is None or not (several or isinstance(quantiles, (int, float))):
        return None
    rank = len(shape)
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(a, int) and -rank <= a < rank for a in axes):
        return None
    rest = reduce_shape(shape, [a % rank for a in axes], bool(keywords.get("keepdims", False)))
    return (len(several), *rest) if several else rest


# Functions with a rule of their own; each takes the tracer, the arguments and the operands


def _cross(t: Tracer, args: Any, keywords: Any, operands: list[Operand]) -> Shape | None:
    shapes = [_shape_of(t, x, operands) for x in args]
    if keywords or len(args) != 2 or not all(s and t.same(s[-1], 3) for s in shapes):
        return None
    return t.broadcast([s for s in shapes if s])


def _window(t: Tracer, args: Any, keywords: Any, operands: list[Operand]) -> Shape | None:
    length = operands[args[0].index] if isinstance(args[0], Slot) else args[0]
    if not isinstance(length, (int, Expr)) or not t.at_least(length, 1):
        return None
    return (t.assume.canon(length),)


def _rfft(t: Tracer, args: Any, keywords: Any, operands: list[Operand]) -> Shape | None:
    shape = _shape_of(t, args[0], operands)
    if not shape or len(args) != 1 or keywords:
        return None
    return (*shape[:-1], apply("floordiv", shape[-1], 2) + 1)


def _convolve(t: Tracer, args: Any, keywords: Any, operands: list[Operand]) -> Shape | None:
    shapes = [_shape_of(t, x, operands) for x in args[:2]]
    mode = args[2] if len(args) > 2 else keywords.get("mode", "full")
    if len(shapes) != 2 or not all(s and len(s) == 1 and t.at_least(s[0], 1) for s in shapes):
        return None
    a, b = (s[0] for s in shapes if s)
    longer, shorter = (a, b) if t.at_least(a, b) else (b, a)
    sizes = {"full": a + b - 1, "same": longer, "valid": longer - shorter + 1}
    return (t.assume.canon(sizes[mode]),) if mode in sizes else None


def _cov(t: Tracer, args: Any, keywords: Any, operands: list[Operand]) -> Shape | None:
    shape = _shape_of(t, args[0], operands)
    if not shape or len(shape) != 2 or len(args) != 1 or keywords.keys() - {"rowvar", "ddof"}:
        return None
    size = shape[0 if keywords.get("rowvar", True) else 1]
    return (size, size) if t.at_least(size, 2) else None


def _insert(t: Tracer, args: Any, keywords: Any, operands: list[Operand]) -> Shape | None:
    shape = _shape_of(t, args[0], operands)
    one = len(args) == 3 and isinstance(args[1], int) and _shape_of(t, args[2], operands) == ()
    return (shape[0] + 1,) if one and shape and len(shape) == 1 and not keywords else None


WINDOWS = "hanning hamming blackman bartlett kaiser"
Rule = Callable[[Tracer, Any, dict[str, Any], list[Operand]], Shape | None]
OWN_RULES: dict[str, Rule] = dict.fromkeys(WINDOWS.split(), _window)
OWN_RULES |= {"cross": _cross, "rfft": _rfft, "convolve": _convolve, "correlate": _convolve}
OWN_RULES |= {"cov": _cov, "corrcoef": _cov, "insert": _insert}
