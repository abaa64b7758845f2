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

from collections.abc import Callable

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
    """Emit NumPy's function `name` on `<width x ty>` registers; scalars for width 1."""
    function = _FUNCTIONS[name]
    most = FORMATS[ty][3] // (1 if b.avx512 else 2)
    if width == 1:
        return _single(b, function, ty, args)
    if width <= most:
        return function(Lanes(b, ty, width), *args)
    halves = [_half(b, ty, width, args, start) for start in (0, width // 2)]
    low, high = (emit_math(b, name, ty, width // 2, half) for half in halves)
    return b.pure(_shuffle(f"<{width // 2} x {ty}>", low, high, range(width)))


def _single(b: Builder, function: Function, ty: str, args: list[str]) -> str:
    """A scalar in the first lane of a 128-bit register: cheaper than scalar integer detours."""
    v = Lanes(b, ty, 128 // FORMATS[ty][0])
    wide = [b.pure(f"insertelement {v.vt} zeroinitializer, {ty} {a}, i64 0") for a in args]
    return b.pure(f"extractelement {v.vt} {function(v, *wide)}, i64 0")


def _half(b: Builder, ty: str, width: int, args: list[str], start: int) -> list[str]:
    lanes = range(start, start + width // 2)
    return [b.pure(_shuffle(f"<{width} x {ty}>", a, "poison", lanes)) for a in args]


def _shuffle(kind: str, x: str, y: str, lanes: range) -> str:
    picks = ", ".join(f"i32 {i}" for i in lanes)
    return f"shufflevector {kind} {x}, {kind} {y}, <{len(lanes)} x i32> <{picks}>"
