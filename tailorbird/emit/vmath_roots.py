"""Cube root, hypotenuse and the error function.

In: a `Lanes` and one or two registers. Out: a register.

Invariants: no intermediate overflows or loses bits to underflow (arguments are scaled by powers of
two first), so the error does not depend on the size of the argument.
"""

from __future__ import annotations

from tailorbird.emit import vmath_exp, vmath_log
from tailorbird.emit import vmath_tables as t
from tailorbird.emit.vmath_lanes import Lanes

INF = float("inf")


def cbrt(v: Lanes, x: str) -> str:
    """|x| = 2^(3q) m with m in [0.375, 3): guess w = m^(-1/3), refine it, then m w^2."""
    size = v.abs(x)
    parts = vmath_log.split(v, size)
    third = v.round(v.mul(parts.k, v.k(1 / 3)))
    left = v.fma(third, v.k(-3.0), parts.k)
    m = v.mul(parts.m, v.power_of_two(v.to_int(left)))
    w = v.poly(m, t.CBRT_F64 if v.double else t.CBRT_F32)
    for _ in range(2 if v.double else 1):
        # With e = 1 - m w^3, w (1 + e/3 + 2 e^2/9) has an error of the order of e^3.
        e = v.fma(v.neg(v.mul(v.mul(w, w), w)), m, v.k(1.0))
        w = v.fma(v.mul(w, e), v.fma(e, v.k(2 / 9), v.k(1 / 3)), w)
    root = v.mul(v.mul(w, w), m)
    # One step of Newton on root^3 = m takes out what rounding put in.
    miss = v.fma(v.neg(v.mul(root, root)), root, m)
    root = v.fma(v.mul(miss, v.k(1 / 3)), v.mul(w, w), root)
    result = v.copysign(v.mul(root, v.power_of_two(v.to_int(third))), x)
    plain = v.mask_op("and", v.cmp("one", x, v.k(0.0)), v.cmp("olt", size, v.k(INF)))
    return v.select(plain, result, x)


def hypot(v: Lanes, x: str, y: str) -> str:
    a, b = v.abs(x), v.abs(y)
    most = v.select(v.cmp("ogt", a, b), a, b)
    small, large = 2.0 ** (1 - v.bias), 2.0 ** (v.bias - 1)
    unit = v.iop("and", v.to_bits(_between(v, most, small, large)), v.ki(-1 << v.mantissa))
    # 1/unit: exponent fields add up to twice the bias
    inverse = v.from_bits(v.iop("sub", v.ki(2 * v.bias << v.mantissa), unit))
    a, b = v.mul(a, inverse), v.mul(b, inverse)
    length = v.mul(v.sqrt(v.fma(a, a, v.mul(b, b))), v.from_bits(unit))
    endless = v.mask_op("or", *(v.cmp("oeq", v.abs(z), v.k(INF)) for z in (x, y)))
    return v.select(endless, v.k(INF), length)


def _between(v: Lanes, x: str, low: float, high: float) -> str:
    return v.at_least(v.at_most(x, v.k(high)), v.k(low))


def erf(v: Lanes, x: str) -> str:
    if v.b.avx512 and not v.double:
        return _erf_pieces(v, x)
    size = v.at_most(v.abs(x), v.k(6.0 if v.double else 4.0))
    z = v.mul(size, size)
    near = v.fma(size, v.poly(z, t.ERF_F64 if v.double else t.ERF_F32), size)
    beyond = v.sub(size, v.k(1.0))
    logarithm = v.poly(beyond, t.ERFC_F64 if v.double else t.ERFC_F32)
    far = v.sub(v.k(1.0), vmath_exp.exp(v, logarithm))
    return v.copysign(v.select(v.cmp("ogt", size, v.k(1.0)), far, near), x)


def _erf_pieces(v: Lanes, x: str) -> str:
    """A polynomial of degree 4 for each of 32 pieces of [0, 4], coefficients in registers."""
    size = v.at_most(v.abs(x), v.k(31 * t.ERF_WIDTH[0]))
    magic = v.k(v.rounder(t.ERF_WIDTH[0]))
    shifted = v.add(size, magic)
    d = v.sub(size, v.sub(shifted, magic))
    index = v.to_bits(shifted)
    result = v.lookup(t.ERF_F32_C4, index)
    for table in (t.ERF_F32_C3, t.ERF_F32_C2, t.ERF_F32_C1, t.ERF_F32_C0):
        result = v.fma(result, d, v.lookup(table, index))
    return v.copysign(result, x)
