"""Vector elementary functions, inlined by the code generator as LLVM IR text.

In: a builder, a NumPy function name, an element type ("float" or "double"), a lane count and
argument registers. Out: the result register, within 4 ulp of the true value over the whole range,
with NumPy's answer at 0, -0, inf, NaN and the thresholds.

Invariants: straight-line code with selects, except `b.rare` for arguments too large to reduce in
line; no lane can spoil another; the bits of a result do not depend on its lane. The functions are
in `vmath_exp`, `vmath_log`, `vmath_trig`, ... and are written on `Lanes`; this file picks one and
fits the caller's width to what it can work on.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tailorbird.emit.vmath_lanes import FORMATS, Builder, Lanes

# Each file is loaded when one of its functions is first used: a first call waits for what it needs.
HOMES = {
    "vmath_exp": "exp exp2 expm1 sinh cosh tanh",
    "vmath_log": "log log2 log10 log1p arcsinh arccosh arctanh logaddexp logaddexp2",
    "vmath_trig": "sin cos tan arcsin arccos arctan arctan2",
    "vmath_power": "power float_power",
    "vmath_roots": "cbrt hypot erf",
}
_HOME = {name: home for home, names in HOMES.items() for name in names.split()}

VECTOR_MATH: frozenset[str] = frozenset(_HOME)


@functools.cache
def _function(name: str) -> Callable[..., str]:
    module: Any = importlib.import_module(f"tailorbird.emit.{_HOME[name]}")
    found: Callable[..., str] = getattr(module, name)
    return found


def emit_math(b: Builder, name: str, ty: str, width: int, args: list[str]) -> str:
    """Emit NumPy's function `name` on `<width x ty>` registers; scalars for width 1.

    The width is a power of two. Less than 128 bits is widened, more than a register is halved.
    """
    assert width & (width - 1) == 0, width
    bits, *_, native = FORMATS[ty]
    least, most = 128 // bits, native if b.avx512 else native // 2
    if width < least:
        wide = [_widened(b, ty, width, least, a) for a in args]
        return _narrowed(b, ty, width, least, emit_math(b, name, ty, least, wide))
    if width <= most:
        return _function(name)(Lanes(b, ty, width), *args)
    half = width // 2
    parts = [_part(b, ty, width, args, start) for start in (0, half)]
    low, high = (emit_math(b, name, ty, half, part) for part in parts)
    return b.pure(_shuffle(f"<{half} x {ty}>", low, high, range(width)))


def _widened(b: Builder, ty: str, width: int, wanted: int, x: str) -> str:
    """x followed by zeros; for a scalar this is cheaper than integer detours would be."""
    if width == 1:
        return b.pure(f"insertelement <{wanted} x {ty}> zeroinitializer, {ty} {x}, i64 0")
    lanes = [i if i < width else width for i in range(wanted)]
    return b.pure(_shuffle(f"<{width} x {ty}>", x, "zeroinitializer", lanes))


def _narrowed(b: Builder, ty: str, width: int, wide: int, x: str) -> str:
    if width == 1:
        return b.pure(f"extractelement <{wide} x {ty}> {x}, i64 0")
    return b.pure(_shuffle(f"<{wide} x {ty}>", x, "poison", range(width)))


def _part(b: Builder, ty: str, width: int, args: list[str], start: int) -> list[str]:
    lanes = range(start, start + width // 2)
    return [b.pure(_shuffle(f"<{width} x {ty}>", a, "poison", lanes)) for a in args]


def _shuffle(kind: str, x: str, y: str, lanes: Sequence[int]) -> str:
    picks = ", ".join(f"i32 {i}" for i in lanes)
    return f"shufflevector {kind} {x}, {kind} {y}, <{len(lanes)} x i32> <{picks}>"
