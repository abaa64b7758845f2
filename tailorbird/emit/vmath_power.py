"""power: e^(y log|x|) with the logarithm in twice the precision, then the special cases of C99.

In: a `Lanes` and the registers x, y. Out: a register.

An error in y log|x| becomes a relative error of the result, and that product can be 700, so the
logarithm is carried as an unevaluated sum of two numbers, good to a dozen more bits than one has.

Invariant: where 0 < x < inf and y is finite, the core is the answer. Vectors with any other lane
go through a function of their own that has all the cases (`b.rare`): they are rare in practice,
and a dozen comparisons and selects would cost a fifth of the time everywhere else.
"""

from __future__ import annotations

from tailorbird.emit import vmath_exp, vmath_log
from tailorbird.emit import vmath_tables as t
from tailorbird.emit.vmath_lanes import Lanes

INF = float("inf")
NAN = float("nan")


def power(v: Lanes, x: str, y: str) -> str:
    high, low = log_twice(v, v.abs(x))
    product = v.mul(y, high)
    error = v.fma(y, low, v.fma(y, high, v.neg(product)))
    core = vmath_exp.exp_of_sum(v, product, error)
    plain = v.mask_op("and", v.cmp("ogt", x, v.k(0.0)), v.cmp("olt", x, v.k(INF)))
    plain = v.mask_op("and", plain, v.cmp("olt", v.abs(y), v.k(INF)))
    arguments = [(v.vt, x), (v.vt, y), (v.vt, core)]
    return v.outline("power_special", v.mask_not(plain), core, _special, arguments)


def log_twice(v: Lanes, x: str) -> tuple[str, str]:
    """log x for 0 < x < inf, as an unevaluated sum."""
    parts = vmath_log.split(v, x)
    index = vmath_log.index(v, parts.m)
    c = vmath_log.inverse(v, parts.m)
    # m c = 1 + r + r_low exactly: the product is near 1, so taking 1 off loses nothing.
    near_one, r_low = v.two_prod(parts.m, c)
    r = v.sub(near_one, v.k(1.0))
    # r - r^2/2 rounded, and the exact error: r - bent is exact, and so is the fused rest.
    half = v.mul(r, v.k(-0.5))
    bent = v.fma(half, r, r)
    bent_low = v.fma(half, r, v.sub(r, bent))
    base, base_low = _coarse(v, parts.k, index)
    total, total_low = v.fast_two_sum(base, bent)
    square = v.mul(r, r)
    q = v.estrin(r, t.LOG_F64_CUBIC if v.double else t.LOG_F32_CUBIC)
    low = v.add(v.fma(v.mul(square, r), q, bent_low), v.add(base_low, total_low))
    # What r_low adds to the logarithm: r_low / (1 + r)
    low = v.add(low, v.fma(r_low, v.sub(square, r), r_low))
    return v.fast_two_sum(total, low)


def _coarse(v: Lanes, k: str, index: str) -> tuple[str, str]:
    """k ln 2 + log c: the head exact, since all heads lie on one grid, and the tail."""
    unit, unit_low = t.LN2_F64_GRID if v.double else t.LN2_F32_GRID
    heads = t.LOG_F64_HEADS if v.double else t.LOG_F32_HEADS
    tails = t.LOG_F64_TAILS if v.double else t.LOG_F32_TAILS
    head = v.fma(k, v.k(unit), v.lookup(heads, index))
    return head, v.fma(k, v.k(unit_low), v.lookup(tails, index))


def _special(v: Lanes, x: str, y: str, core: str) -> str:
    """All the cases of C99; core holds |x|^y wherever x and y are finite and x is not 0."""
    size, reach = v.abs(x), v.abs(y)
    # 0, inf and powers without end: what grows is inf, what shrinks is 0, 1 stays.
    up = v.icmp("sge", v.to_bits(y), "zeroinitializer")
    large = v.cmp("ogt", size, v.k(1.0))
    grows = v.mask_not(v.mask_op("xor", up, large))
    limit = v.select(grows, v.k(INF), v.k(0.0))
    endless = v.mask_op("or", v.cmp("oeq", reach, v.k(INF)), v.cmp("oeq", size, v.k(INF)))
    endless = v.mask_op("or", endless, v.cmp("oeq", size, v.k(0.0)))
    result = v.select(endless, limit, core)
    whole = v.cmp("oeq", v.floor(y), y)
    half = v.mul(y, v.k(0.5))
    odd = v.mask_op("and", whole, v.cmp("one", v.floor(half), half))
    result = v.select(odd, v.copysign(result, x), result)
    below = v.mask_op("and", v.cmp("olt", x, v.k(0.0)), v.cmp("ogt", x, v.k(-INF)))
    fractional = v.mask_op("and", below, v.cmp("one", v.floor(y), y))
    result = v.select(fractional, v.k(NAN), result)
    result = v.select(v.cmp("uno", x, y), v.k(NAN), result)
    one = v.mask_op("and", v.cmp("oeq", reach, v.k(INF)), v.cmp("oeq", size, v.k(1.0)))
    one = v.mask_op("or", one, v.cmp("oeq", x, v.k(1.0)))
    return v.select(v.mask_op("or", one, v.cmp("oeq", y, v.k(0.0))), v.k(1.0), result)


float_power = power
