"""Trigonometry: sin, cos, tan, arcsin, arccos, arctan, arctan2.

In: a `Lanes` and one or two registers. Out: a register.

sin, cos and tan take |x| minus the nearest multiple of pi or pi/2, by three fused steps with pi in
three full-precision pieces. The first step is exact whatever the multiple (the difference fits the
mantissa), so the range is limited only by how well the multiple is known: REACH. Lanes beyond it,
and infinities, go to libm through `b.rare`.

Invariants: work is done on |x| and the sign comes back at the end, so -0 needs no case of its own;
results of sin and cos never leave [-1, 1].
"""

from __future__ import annotations

from tailorbird.emit import vmath_tables as t
from tailorbird.emit.vmath_lanes import Lanes

PI = 3.141592653589793
# Beyond this, the multiple of pi would be off by more than the polynomials allow for.
REACH = {"float": 131072.0, "double": 2.0**45}
INF = float("inf")


def _pi(v: Lanes) -> tuple[float, ...]:
    return t.PI_F64 if v.double else t.PI_F32


def _minus_multiple(v: Lanes, x: str, count: str, unit: float) -> str:
    """x - count * unit * pi, unit a power of two."""
    for piece in _pi(v):
        x = v.fma(count, v.k(-piece * unit), x)
    return x


def _beyond(v: Lanes, name: str, x: str, size: str, value: str) -> str:
    """value, with lanes out of reach replaced by libm's answer."""
    far = v.cmp("ogt", size, v.k(REACH[v.ty]))
    slow = f"vmath_slow_{name}_{v.ty}_{v.width}"
    v.b.declare(f"declare {v.ty} @{name}{'' if v.double else 'f'}({v.ty})")
    v.b.define(slow, _slow_text(v, slow, f"{name}{'' if v.double else 'f'}"))
    call = f"call {v.vt} @{slow}({v.vt} {x}, {v.vt} {value}, {v.mt} {far})"
    return v.b.rare(far, v.width, [(v.vt, value, call)])[0]


def _slow_text(v: Lanes, name: str, libm: str) -> str:
    return f"""
define internal {v.vt} @{name}({v.vt} %x, {v.vt} %value, {v.mt} %far) noinline {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %join]
  %sofar = phi {v.vt} [%value, %entry], [%result, %join]
  %take = extractelement {v.mt} %far, i64 %i
  br i1 %take, label %lane, label %join
lane:
  %argument = extractelement {v.vt} %x, i64 %i
  %exact = call {v.ty} @{libm}({v.ty} %argument)
  %replaced = insertelement {v.vt} %sofar, {v.ty} %exact, i64 %i
  br label %join
join:
  %result = phi {v.vt} [%sofar, %loop], [%replaced, %lane]
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {v.width}
  br i1 %more, label %loop, label %done
done:
  ret {v.vt} %result
}}"""


def _sin_to_half_pi(v: Lanes, r: str) -> str:
    z = v.mul(r, r)
    q = v.estrin(z, t.SIN_F64) if v.double else v.poly(z, t.SIN_F32)
    return _at_most_one(v, v.fma(v.mul(r, z), q, r))


def _at_most_one(v: Lanes, x: str) -> str:
    """Rounding near the peaks must not pass 1; NaN stays NaN."""
    return v.at_least(v.at_most(x, v.k(1.0)), v.k(-1.0))


def _odd_sign(v: Lanes, shifted: str) -> str:
    """The sign bit, set where the count in the low bits is odd."""
    return v.iop("shl", v.to_bits(shifted), v.ki(v.bits - 1))


def sin(v: Lanes, x: str) -> str:
    size = v.abs(x)
    magic = v.k(v.rounder())
    shifted = v.fma(size, v.k(1 / PI), magic)
    r = _minus_multiple(v, size, v.sub(shifted, magic), 1.0)
    sign = v.iop("xor", v.iop("and", v.to_bits(x), v.sign_bit), _odd_sign(v, shifted))
    value = v.flip_sign(_sin_to_half_pi(v, r), sign)
    return _beyond(v, "sin", x, size, value)


def cos(v: Lanes, x: str) -> str:
    """With |x| = (n + 1/2) pi - r, cos x is sin r, negated for odd n."""
    size = v.abs(x)
    magic = v.k(v.rounder())
    shifted = v.add(v.fma(size, v.k(1 / PI), v.k(-0.5)), magic)
    count = v.add(v.sub(shifted, magic), v.k(0.5))
    r = _minus_multiple(v, v.neg(size), count, -1.0)
    value = v.flip_sign(_sin_to_half_pi(v, r), _odd_sign(v, shifted))
    return _beyond(v, "cos", x, size, value)


def tan(v: Lanes, x: str) -> str:
    """sin r / cos r, or -cos r / sin r where an odd multiple of pi/2 was taken off."""
    size = v.abs(x)
    magic = v.k(v.rounder())
    shifted = v.fma(size, v.k(2 / PI), magic)
    r = _minus_multiple(v, size, v.sub(shifted, magic), 0.5)
    z = v.mul(r, r)
    q = v.poly(z, t.TAN_SIN_F64 if v.double else t.TAN_SIN_F32)
    sine = v.fma(v.mul(r, z), q, r)
    p = v.poly(z, t.TAN_COS_F64 if v.double else t.TAN_COS_F32)
    half = v.mul(z, v.k(0.5))
    most = v.sub(v.k(1.0), half)
    lost = v.sub(v.sub(v.k(1.0), most), half)
    cosine = v.add(most, v.fma(v.mul(z, z), p, lost))
    parity = _odd_sign(v, shifted)
    odd = v.icmp("slt", parity, "zeroinitializer")
    ratio = v.div(v.select(odd, cosine, sine), v.select(odd, sine, cosine))
    sign = v.iop("xor", v.iop("and", v.to_bits(x), v.sign_bit), parity)
    return _beyond(v, "tan", x, size, v.flip_sign(ratio, sign))


def _quarters(v: Lanes, count: str, part: str) -> str:
    """count * pi/4 + part, count a small integer."""
    head, tail = (piece / 4 for piece in _pi(v)[:2])
    return v.fma(count, v.k(head), v.fma(count, v.k(tail), part))


def _atan_of_ratio(v: Lanes, above: str, below: str, turned: str | None) -> str:
    """The angle of (below, above), both >= 0; pi minus it where the mask `turned` is set."""
    swap = v.cmp("ogt", above, below)
    low, high = v.select(swap, below, above), v.select(swap, above, below)
    count = v.k(0.0)
    if v.double:
        # atan(a/b) = pi/4 + atan((a - b) / (a + b)) above tan(pi/8): half the coefficients
        far = v.cmp("ogt", low, v.mul(high, v.k(2.0**0.5 - 1)))
        low, high = v.select(far, v.sub(low, high), low), v.select(far, v.add(low, high), high)
        count = v.select(far, v.k(1.0), count)
    s = v.div(low, high)
    z = v.mul(s, s)
    q = v.estrin(z, t.ATAN_F64) if v.double else v.poly(z, t.ATAN_F32)
    angle = v.fma(v.mul(s, z), q, s)
    angle, count = _reflect(v, swap, angle, count, 2.0)
    if turned is not None:
        angle, count = _reflect(v, turned, angle, count, 4.0)
    return _quarters(v, count, angle)


def _reflect(v: Lanes, mask: str, angle: str, count: str, about: float) -> tuple[str, str]:
    """(about quarters) minus (count quarters and angle), where the mask is set."""
    back = v.sub(v.k(about), count)
    return v.select(mask, v.neg(angle), angle), v.select(mask, back, count)


def arctan(v: Lanes, x: str) -> str:
    size = v.at_most(v.abs(x), v.k(1e300 if v.double else 1e30))
    return v.copysign(_atan_of_ratio(v, size, v.k(1.0), None), x)


def arctan2(v: Lanes, y: str, x: str) -> str:
    """0/0 is 0/1; what is near overflow or subnormal has a function of its own."""
    above, below = v.abs(y), v.abs(x)
    most = v.select(v.cmp("ogt", above, below), above, below)
    below = v.select(v.cmp("oeq", most, v.k(0.0)), v.k(1.0), below)
    value = _signed_angle(v, above, below, y, x)
    low, high = _comfortable(v)
    huge = v.cmp("ogt", most, v.k(high))
    least = (v.bias + low) << v.mantissa  # the bits of 2**low
    tiny = v.icmp("ult", v.iop("sub", v.to_bits(most), v.ki(1)), v.ki(least - 1))
    odd = v.mask_op("or", huge, tiny)
    return v.outline("arctan2", odd, value, _scaled_arctan2, [(v.vt, y), (v.vt, x)])


def _signed_angle(v: Lanes, above: str, below: str, y: str, x: str) -> str:
    turned = v.icmp("slt", v.to_bits(x), "zeroinitializer")
    return v.copysign(_atan_of_ratio(v, above, below, turned), y)


def _comfortable(v: Lanes) -> tuple[int, float]:
    """An exponent above the subnormals, and a number below overflow."""
    return 8 - v.bias, 2.0 ** (v.bias - 8)


def _scaled_arctan2(v: Lanes, y: str, x: str) -> str:
    """The same angle away from overflow and subnormals; inf/inf is 1/1, 0/0 is 0/1."""
    above, below = v.abs(y), v.abs(x)
    low, high = _comfortable(v)
    most = v.select(v.cmp("ogt", above, below), above, below)
    factor = v.select(v.cmp("ogt", most, v.k(high)), v.k(2.0**-16), v.k(1.0))
    factor = v.select(v.cmp("olt", most, v.k(2.0**low)), v.k(2.0**60), factor)
    factor = v.select(v.cmp("oeq", most, v.k(INF)), v.k(0.0), factor)
    endless = [v.cmp("oeq", a, v.k(INF)) for a in (above, below)]
    above, below = (
        v.select(mask, v.k(1.0), v.mul(a, factor)) for mask, a in zip(endless, (above, below))
    )
    below = v.select(v.cmp("oeq", most, v.k(0.0)), v.k(1.0), below)
    return _signed_angle(v, above, below, y, x)


def _asin_parts(v: Lanes, x: str) -> tuple[str, str]:
    """The mask |x| > 1/2, and asin |x|, or where the mask is set asin(sqrt((1 - |x|) / 2))."""
    size = v.abs(x)
    far = v.cmp("ogt", size, v.k(0.5))
    reduced = v.mul(v.sub(v.k(1.0), size), v.k(0.5))
    z = v.select(far, reduced, v.mul(size, size))
    s = v.select(far, v.sqrt(reduced), size)
    q = v.poly(z, t.ASIN_F64 if v.double else t.ASIN_F32)
    return far, v.fma(v.mul(s, z), q, s)


def arcsin(v: Lanes, x: str) -> str:
    far, angle = _asin_parts(v, x)
    twice = v.mul(angle, v.k(-2.0))
    near_one = _quarters(v, v.k(2.0), twice)
    return v.copysign(v.select(far, near_one, angle), x)


def arccos(v: Lanes, x: str) -> str:
    """pi/2 - asin x; or 2 asin(...) for x > 1/2, pi minus that for x < -1/2."""
    far, angle = _asin_parts(v, x)
    sign = v.iop("and", v.to_bits(x), v.sign_bit)
    below = v.icmp("slt", v.to_bits(x), "zeroinitializer")
    part = v.select(far, v.add(angle, angle), v.neg(angle))
    count = v.select(far, v.select(below, v.k(4.0), v.k(0.0)), v.k(2.0))
    return _quarters(v, count, v.flip_sign(part, sign))
