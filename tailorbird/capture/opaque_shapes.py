"""The shapes that library functions without a handler are documented to give.

In: a function and the template of its call. Out: the shape of every result in terms of the sizes of
the operands, or None when only the call itself can tell. The caller compares it with a real result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.ir.node import Operand, Slot, type_of
from tailorbird.ir.shapes import reduce_shape

LIKE_FIRST = """
    sort argsort partition argpartition inv pinv cholesky matrix_power fft ifft fft2 ifft2 fftn
    ifftn fftshift ifftshift unwrap gaussian_filter uniform_filter around round nancumsum
    nancumprod interp isin digitize i0 gradient expm
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
    return None


def _shape_of(t: Tracer, x: Any, operands: list[Operand]) -> Shape | None:
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
    if shape is None or not isinstance(quantiles, (int, float)):
        return None
    rank = len(shape)
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(a, int) and -rank <= a < rank for a in axes):
        return None
    return reduce_shape(shape, [a % rank for a in axes], bool(keywords.get("keepdims", False)))
