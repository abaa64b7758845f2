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

from collections.abc import Callable, Sequence

from tailorbird.emit import vmath_exp, vmath_log, vmath_power, vmath_roots, vmath_trig
from tailorbird.emit.vmath_lanes import FORMATS, Builder, Lanes

Function = Callable[..., str]

_FUNCTIONS: dict[str, Function] = {
    "exp": vmath_exp.exp,
    "exp2": vmath_exp.exp2,
    "expm1": vmath_exp.expm1,
    "sinh": vmath_exp.sinh,
    "cosh": vmath_exp.cosh,
    "tanh": vmath_exp.tanh,
    "log": vmath_log.log,
    "log2": vmath_log.log2,
    "log10": vmath_log.log10,
    "log1p": vmath_log.log1p,
    "arcsinh": vmath_log.arcsinh,
    "arccosh": vmath_log.arccosh,
    "arctanh": vmath_log.arctanh,
    "logaddexp": vmath_log.logaddexp,
    "logaddexp2": vmath_log.logaddexp2,
    "sin": vmath_trig.sin,
    "cos": vmath_trig.cos,
    "tan": vmath_trig.tan,
    "arcsin": vmath_trig.arcsin,
    "arccos": vmath_trig.arccos,
    "arctan": vmath_trig.arctan,
    "arctan2": vmath_trig.arctan2,
    "power": vmath_power.power,
    "float_power": vmath_power.power,
    "cbrt": vmath_roots.cbrt,
    "hypot": vmath_roots.hypot,
    "erf": vmath_roots.erf,
}

VECTOR_MATH: frozenset[str] = frozenset(_FUNCTIONS)


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
        return _FUNCTIONS[name](Lanes(b, ty, width), *args)
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
