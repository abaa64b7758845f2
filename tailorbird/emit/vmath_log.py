"""Logarithms and what is made of them.

log, log2, log10, log1p, arcsinh, arccosh, arctanh, logaddexp, logaddexp2.

In: a `Lanes` and a register x. Out: a register.

x = 2^k m with m in [0.75, 1.5), then m = c (1 + r) with 1/c and log c from register tables
(AVX-512), or c = 1 (no table), so log x = (k ln 2 + log c) + log(1 + r).

Invariant: around x = 1, k = 0 and c = 1, so nothing cancels and the error stays relative.
"""

from __future__ import annotations

import struct

from tailorbird.dataclass import dataclass
from tailorbird.emit import vmath_exp
from tailorbird.emit import vmath_tables as t
from tailorbird.emit.vmath_lanes import Lanes

LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
LOG10_E = 0.4342944819032518
LOG10_2 = 0.3010299956639812
INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class Split:
    """x = 2^k * m."""

    k: str
    m: str


def split(v: Lanes, x: str) -> Split:
    """Exponent and significand in [0.75, 1.5) of a positive x, subnormal or not.

    With AVX-512, k is -inf for 0 and inf for inf, m is 1 there, and NaN for NaN and x < 0.
    """
    if v.b.avx512:
        m = v.significand(x)
        return Split(v.sub(v.exponent(x), v.exponent(m)), m)
    tiny = v.cmp("olt", x, v.k(2.0 ** (1 - v.bias)))
    lift = v.mantissa + 1
    bits = v.to_bits(v.select(tiny, v.mul(x, v.k(2.0**lift)), x))
    # Adding half an octave carries into the exponent exactly where m would be 1.5 or more.
    carried = v.iop("add", bits, v.ki(1 << (v.mantissa - 1)))
    field = v.iop("and", carried, v.ki(-1 << v.mantissa))
    m = v.from_bits(v.iop("add", v.iop("sub", bits, field), v.one_bits()))
    count = v.iop("lshr", carried, v.ki(v.mantissa))
    offset = v.select(tiny, v.k(-float(v.bias + lift)), v.k(-float(v.bias)))
    return Split(v.add(_small_int(v, count), offset), m)


def _small_int(v: Lanes, count: str) -> str:
    """A small non-negative integer as a float."""
    if not v.double:
        return v.b.pure(f"sitofp {v.vit} {count} to {v.vt}")
    (magic,) = struct.unpack("<q", struct.pack("<d", 2.0**52))
    return v.sub(v.from_bits(v.iop("or", count, v.ki(magic))), v.k(2.0**52))


def index(v: Lanes, m: str) -> str:
    """The leading mantissa bits of m, which count table entries."""
    return v.iop("lshr", v.to_bits(m), v.ki(v.mantissa - (4 if v.double else 5)))


def inverse(v: Lanes, m: str) -> str:
    return v.lookup(t.LOG_F64_INVERSES if v.double else t.LOG_F32_INVERSES, index(v, m))


def _log1p_small(v: Lanes, r: str) -> str:
    """log(1 + r) for r in the range the table leaves, or in [-0.25, 0.5] without."""
    if v.b.avx512:
        q = v.poly(r, t.LOG_F64_TABLE if v.double else t.LOG_F32_TABLE)
        return v.fma(v.mul(r, r), q, r)
    if not v.double:
        return v.fma(v.mul(r, r), v.poly(r, t.LOG_F32), r)
    # With s = r / (2 + r): log(1 + r) = r - (h - s (h + R)), h = r^2 / 2, R = s^2 (...)
    s = v.div(r, v.add(r, v.k(2.0)))
    z = v.mul(s, s)
    half = v.mul(v.mul(r, v.k(0.5)), r)
    rest = v.fma(z, v.poly(z, t.LOG_F64), half)
    return v.sub(r, v.fma(v.neg(s), rest, half))


def _edges(v: Lanes, x: str, result: str) -> str:
    """What the table-free path cannot see: 0, inf, negative, NaN."""
    if v.b.avx512:
        return result
    result = v.select(v.cmp("oeq", x, v.k(INF)), x, result)
    result = v.select(v.cmp("ult", x, v.k(0.0)), v.k(NAN), result)
    return v.select(v.cmp("oeq", x, v.k(0.0)), v.k(-INF), result)


def _log(v: Lanes, x: str, unit: float, scale: float, table: tuple[float, ...]) -> str:
    """k * unit + table[j] + log(1 + r) * scale"""
    parts = split(v, x)
    if v.b.avx512:
        r = v.fma(parts.m, inverse(v, parts.m), v.k(-1.0))
        base = v.fma(parts.k, v.k(unit), v.lookup(table, index(v, parts.m)))
    else:
        r = v.sub(parts.m, v.k(1.0))
        base = v.mul(parts.k, v.k(unit)) if unit != 1.0 else parts.k
    small = _log1p_small(v, r)
    total = v.add(base, small) if scale == 1.0 else v.fma(small, v.k(scale), base)
    return _edges(v, x, total)


def log(v: Lanes, x: str) -> str:
    return _log(v, x, LN2, 1.0, t.LOG_F64_STEPS if v.double else t.LOG_F32_STEPS)


def log2(v: Lanes, x: str) -> str:
    return _log(v, x, 1.0, LOG2_E, t.LOG2_F64_STEPS if v.double else t.LOG2_F32_STEPS)


def log10(v: Lanes, x: str) -> str:
    return _log(v, x, LOG10_2, LOG10_E, t.LOG10_F64_STEPS if v.double else t.LOG10_F32_STEPS)


def log1p(v: Lanes, x: str) -> str:
    return v.copysign(log_of_sum(v, v.k(1.0), x, None), x)


def log_of_sum(v: Lanes, x: str, y: str, tail: str | None) -> str:
    """log(x + y + tail), tail far smaller than y; relative error also where the sum is near 1."""
    total, error = v.two_sum(x, y)
    if tail is not None:
        error = v.add(error, tail)
    parts = split(v, total)
    if v.b.avx512:
        error = v.scale(error, v.neg(parts.k))
        c = inverse(v, parts.m)
        r = v.fma(error, c, v.fma(parts.m, c, v.k(-1.0)))
        table = t.LOG_F64_STEPS if v.double else t.LOG_F32_STEPS
        base = v.fma(parts.k, v.k(LN2), v.lookup(table, index(v, parts.m)))
    else:
        down = v.power_of_two(v.to_int(v.neg(v.at_most(parts.k, v.k(100.0)))))
        r = v.fma(error, down, v.sub(parts.m, v.k(1.0)))
        base = v.mul(parts.k, v.k(LN2))
    result = v.add(base, _log1p_small(v, r))
    result = v.select(v.cmp("oeq", total, v.k(INF)), total, result)
    result = v.select(v.cmp("ult", total, v.k(0.0)), v.k(NAN), result)
    return v.select(v.cmp("oeq", total, v.k(0.0)), v.k(-INF), result)


def arcsinh(v: Lanes, x: str) -> str:
    """log(1 + (t + t^2 / (1 + sqrt(1 + t^2)))) for t = |x|; log(2 t) where t is large."""
    size = v.abs(x)
    large = v.cmp("ogt", size, v.k(_LARGE[v.ty]))
    square = v.mul(size, size)
    root = v.sqrt(v.add(square, v.k(1.0)))
    grown = v.add(size, v.div(square, v.add(root, v.k(1.0))))
    return v.copysign(_log_doubled(v, large, size, grown), x)


def arccosh(v: Lanes, x: str) -> str:
    """log(1 + (t + sqrt(2 t + t^2))) for t = x - 1; log(2 x) where x is large."""
    large = v.cmp("ogt", x, v.k(_LARGE[v.ty]))
    beyond = v.sub(x, v.k(1.0))
    grown = v.add(beyond, v.sqrt(v.fma(beyond, beyond, v.add(beyond, beyond))))
    result = _log_doubled(v, large, x, grown)
    return v.select(v.cmp("ult", x, v.k(1.0)), v.k(NAN), result)


# From here on, 1 + t^2 is t^2.
_LARGE = {"float": 1e5, "double": 1e10}


def _log_doubled(v: Lanes, large: str, x: str, grown: str) -> str:
    """log(2 x) where large is set, log(1 + grown) elsewhere."""
    one = v.select(large, v.k(0.0), v.k(1.0))
    result = log_of_sum(v, one, v.select(large, x, grown), None)
    return v.add(result, v.select(large, v.k(LN2), v.k(0.0)))


def arctanh(v: Lanes, x: str) -> str:
    """log(1 + 2 t / (1 - t)) / 2 for t = |x|."""
    size = v.abs(x)
    grown = v.div(v.add(size, size), v.sub(v.k(1.0), size))
    return v.copysign(v.mul(log_of_sum(v, v.k(1.0), grown, None), v.k(0.5)), x)


def _added(v: Lanes, x: str, y: str) -> tuple[str, str]:
    """The larger of x and y, and -|x - y|; equal infinities differ by 0, NaN stays NaN."""
    more = v.select(v.cmp("ogt", x, y), x, y)
    apart = v.neg(v.abs(v.sub(x, y)))
    same = v.cmp("oeq", x, y)
    return v.select(v.cmp("uno", x, x), x, more), v.select(same, v.k(0.0), apart)


def logaddexp(v: Lanes, x: str, y: str) -> str:
    more, apart = _added(v, x, y)
    return v.add(more, log_of_sum(v, v.k(1.0), vmath_exp.exp(v, apart), None))


def logaddexp2(v: Lanes, x: str, y: str) -> str:
    more, apart = _added(v, x, y)
    small = log_of_sum(v, v.k(1.0), vmath_exp.exp2(v, apart), None)
    return v.add(v.mul(small, v.k(LOG2_E)), more)
