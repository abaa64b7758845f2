"""Exponentials: exp, exp2, expm1, sinh, cosh, tanh.

In: a `Lanes` and a register x. Out: a register.

All start from one reduction: x = (k + j/steps) ln 2 + r, so that e^x = 2^k T_j (1 + s), where
T_j = 2^(j/steps) comes from a register table (AVX-512) or is 1 (no table), and s = e^r - 1 is a
short polynomial. `rounder` arithmetic leaves j in the low bits of the shifted value, and `scale`
takes the floor of k + j/steps, so neither j nor k costs an instruction.

Invariant: with a table, r is forced into its range after the reduction, so an infinite or huge x
reaches `scale` with a finite positive factor and an infinite or huge power, and a NaN with a NaN
power; `scale` then gives inf, 0 or NaN. Without one, x is clamped before.
"""

from __future__ import annotations

from tailorbird.dataclass import dataclass
from tailorbird.emit import vmath_tables as t
from tailorbird.emit.vmath_lanes import Lanes

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453


@dataclass(frozen=True)
class Reduced:
    """x = power * ln 2 + r, with power a multiple of 1/steps counted in the low bits of index."""

    power: str
    index: str
    r: str


def _steps(v: Lanes) -> int:
    return 2 * v.native if v.b.avx512 else 1


def _nearest(v: Lanes, x: str, per_unit: float) -> tuple[str, str]:
    """The multiple of 1/steps nearest to x * per_unit, and a register whose low bits count it."""
    magic = v.k(v.rounder(1 / _steps(v)))
    shifted = v.fma(x, v.k(per_unit), magic)
    return v.sub(shifted, magic), v.to_bits(shifted)


def _reduce(v: Lanes, x: str, tail: str | None = None) -> Reduced:
    head, rest = t.LN2_F64 if v.double else t.LN2_F32
    power, index = _nearest(v, x, LOG2_E)
    r = v.fma(power, v.k(-rest), v.fma(power, v.k(-head), x))
    return Reduced(power, index, _contain(v, r if tail is None else v.add(r, tail)))


def _contain(v: Lanes, r: str) -> str:
    """r itself where x was in range, something small where it was not."""
    return v.within(r, 0.0625) if v.b.avx512 else r


def _clamp(v: Lanes, x: str, unit: float) -> str:
    """x cut to where the result is certainly 0 or inf; AVX-512 needs no such care."""
    if v.b.avx512:
        return x
    limit = (1090.0 if v.double else 160.0) * unit
    return v.at_least(v.at_most(x, v.k(limit)), v.k(-limit))


def _step(v: Lanes, index: str) -> str:
    return v.lookup(t.EXP2_F64_STEPS if v.double else t.EXP2_F32_STEPS, index)


def _rest(v: Lanes, r: str) -> str:
    """e^r - 1, good to an absolute error of an ulp of 1."""
    if not v.b.avx512:
        return _relative_rest(v, r)
    if v.double:
        return v.fma(v.mul(r, r), v.poly(r, t.EXP_F64_TABLE), r)
    return v.mul(r, v.poly(r, t.EXP_F32_TABLE))


def _relative_rest(v: Lanes, r: str, left: str | None = None) -> str:
    """e^r - 1 + left, good to a relative error of an ulp; left is far smaller than an ulp of 1."""
    square = v.mul(r, r)
    if v.b.avx512:
        q = v.poly(r, t.EXPM1_F64_TABLE if v.double else t.EXPM1_F32_TABLE)
    else:
        q = v.estrin(r, t.EXPM1_F64) if v.double else v.poly(r, t.EXPM1_F32)
    return v.fma(square, q, r) if left is None else v.add(r, v.fma(square, q, left))


def _finish(v: Lanes, power: str, index: str, rest: str, shift: int = 0) -> str:
    """2^(power + shift) * (1 + rest), where index counts power's steps."""
    if not v.b.avx512:
        return v.scale_counted(v.add(rest, v.k(1.0)), index, shift)
    step = _step(v, index)
    if shift:
        power = v.add(power, v.k(float(shift)))
    return v.scale(v.fma(step, rest, step), power)


def exp(v: Lanes, x: str) -> str:
    return _exp(v, x, 0)


def _exp(v: Lanes, x: str, shift: int) -> str:
    """e^x * 2^shift, a little closer where it is a step on the way to something else."""
    x = _clamp(v, x, LN2)
    reduced = _reduce(v, x)
    rest = _relative_rest(v, reduced.r) if shift else _rest(v, reduced.r)
    return _finish(v, reduced.power, reduced.index, rest, shift)


def exp_of_sum(v: Lanes, x: str, tail: str) -> str:
    """e^(x + tail), tail far smaller than x, or anything where x is out of range."""
    if not v.b.avx512:
        tail = v.select(v.cmp("olt", v.abs(x), v.k(1000.0)), tail, v.k(0.0))
        x = _clamp(v, x, LN2)
    reduced = _reduce(v, x, tail)
    return _finish(v, reduced.power, reduced.index, _rest(v, reduced.r))


def exp2(v: Lanes, x: str) -> str:
    x = _clamp(v, x, 1.0)
    power, index = _nearest(v, x, 1.0)
    r = _contain(v, v.mul(v.sub(x, power), v.k(LN2)))
    return _finish(v, power, index, _rest(v, r))


def expm1(v: Lanes, x: str) -> str:
    below = v.at_least(x, v.k(-40.0 if v.double else -20.0))
    return v.copysign(_expm1_table(v, below) if v.b.avx512 else _expm1_plain(v, below), x)


def _expm1_table(v: Lanes, x: str) -> str:
    reduced = _reduce(v, x)
    step = _step(v, reduced.index)
    left = v.lookup(t.EXP2_F64_RESTS if v.double else t.EXP2_F32_RESTS, reduced.index)
    rest = _relative_rest(v, reduced.r, left)
    whole = v.floor(reduced.power)
    # 2^k (T + T s) - 1 = 2^k ((T - 2^-k) + T s)
    return v.scale(v.fma(step, rest, v.sub(step, v.scale(v.k(1.0), v.neg(whole)))), whole)


def _expm1_plain(v: Lanes, x: str) -> str:
    x = v.at_most(x, v.k(750.0 if v.double else 110.0))
    reduced = _reduce(v, x)
    rest = _relative_rest(v, reduced.r)
    # 2^-k only matters while k is small, and must stay in range where it does not
    count = v.at_most(reduced.power, v.k(100.0))
    inverse = v.power_of_two(v.to_int(v.neg(count)))
    inside = v.add(v.sub(v.k(1.0), inverse), rest)
    return v.scale_counted(inside, reduced.index)


def cosh(v: Lanes, x: str) -> str:
    half = _exp(v, v.abs(x), -1)
    return v.add(half, v.div(v.k(0.25), half))


def sinh(v: Lanes, x: str) -> str:
    """An odd polynomial up to 1; beyond, (e^|x| - e^-|x|) / 2 does not cancel."""
    size = v.abs(x)
    z = v.mul(size, size)
    q = v.poly(z, t.SINH_F64 if v.double else t.SINH_F32)
    near = v.fma(v.mul(size, z), q, size)
    half = _exp(v, size, -1)
    far = v.sub(half, v.div(v.k(0.25), half))
    return v.copysign(v.select(v.cmp("olt", size, v.k(1.0)), near, far), x)


def tanh(v: Lanes, x: str) -> str:
    """With |x| = k ln2/2 + r, c = 2^k and u = tanh r:

    tanh |x| = ((c - 1) + (c + 1) u) / ((c + 1) + (c - 1) u), which is u itself for k = 0.
    """
    size = v.at_most(v.abs(x), v.k(20.0 if v.double else 9.5))
    magic = v.k(v.rounder())
    shifted = v.fma(size, v.k(2 * LOG2_E), magic)
    r = v.fma(v.sub(shifted, magic), v.k(-LN2 / 2), size)
    power = v.power_of_two(v.to_bits(shifted))
    z = v.mul(r, r)
    q = v.poly(z, t.TANH_F64 if v.double else t.TANH_F32)
    u = v.fma(v.mul(r, z), q, r)
    less, more = v.sub(power, v.k(1.0)), v.add(power, v.k(1.0))
    return v.copysign(v.div(v.fma(more, u, less), v.fma(less, u, more)), x)
