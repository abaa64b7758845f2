"""The table from map to LLVM code, by op and by kind of type.

Each row is a function of `Lanes`: the builder, the width, the operands' registers and types, and
the result's type. Semantics are NumPy's: integers wrap, division by zero gives 0 for integers,
shifts past the width give 0 or the sign, nan is carried by maximum and minimum, remainders have the
divisor's sign.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from tailorbird.dataclass import dataclass
from tailorbird.emit.builder import LLVM_TYPES, Builder, vector_type
from tailorbird.emit.casts import BITS, cast, is_float, is_signed
from tailorbird.emit.lengths import RELATIONS, compared
from tailorbird.emit.libm import call_library
from tailorbird.emit.vmath import VECTOR_MATH, emit_math


@dataclass
class Lanes:
    """Operands of one map, all of the same width."""

    b: Builder
    width: int
    args: list[str]
    types: list[str]
    result: str

    def vt(self, ty: str | None = None) -> str:
        return vector_type(ty or self.types[0], self.width)

    def pure(self, text: str) -> str:
        return self.b.pure(text)

    def const(self, value: float | int, ty: str | None = None) -> str:
        return self.b.constant(value, ty or self.types[0], self.width)

    def suffix(self, ty: str | None = None) -> str:
        name = (ty or self.types[0]).replace("u", "i").replace("b1", "i1")
        return name if self.width == 1 else f"v{self.width}{name}"

    def intrinsic(self, name: str, *args: str, ty: str | None = None) -> str:
        vt = self.vt(ty)
        return self.pure(
            self.b.intrinsic(f"llvm.{name}.{self.suffix(ty)}", vt, *((vt, a) for a in args))
        )

    def select(self, condition: str, a: str, b: str, ty: str | None = None) -> str:
        return self.pure(
            f"select {self.vt('b1')} {condition}, {self.vt(ty)} {a}, {self.vt(ty)} {b}"
        )

    def fcmp(self, relation: str, a: str, b: str) -> str:
        return self.pure(f"fcmp {relation} {self.vt()} {a}, {b}")

    def icmp(self, relation: str, a: str, b: str, ty: str | None = None) -> str:
        return self.pure(f"icmp {relation} {self.vt(ty)} {a}, {b}")

    def bits(self, op: str, a: str, b: str, ty: str = "b1") -> str:
        return self.pure(f"{op} {self.vt(ty)} {a}, {b}")

    def flip(self, a: str) -> str:
        return self.bits("xor", a, self.b.constant(1, "b1", self.width))


# -- arithmetic


def _arithmetic(float_op: str, int_op: str, bool_op: str) -> Callable[[Lanes], str]:
    def emit(x: Lanes) -> str:
        ty = x.types[0]
        op = float_op if is_float(ty) else bool_op if ty == "b1" else int_op
        return x.pure(f"{op} {x.vt()} {x.args[0]}, {x.args[1]}")

    return emit


def _negative(x: Lanes) -> str:
    if is_float(x.types[0]):
        return x.pure(f"fneg {x.vt()} {x.args[0]}")
    return x.pure(
        f"sub {x.vt()} zeroinitializer, {x.args[0]}"
        if x.width > 1
        else f"sub {x.vt()} 0, {x.args[0]}"
    )


def _absolute(x: Lanes) -> str:
    if is_float(x.types[0]):
        return x.intrinsic("fabs", x.args[0])
    if not is_signed(x.types[0]):
        return x.args[0]
    return x.pure(
        x.b.intrinsic(f"llvm.abs.{x.suffix()}", x.vt(), (x.vt(), x.args[0]), ("i1", "false"))
    )


def _sign(x: Lanes) -> str:
    a, zero, one = x.args[0], x.const(0), x.const(1)
    if is_float(x.types[0]):
        positive = x.select(x.fcmp("ogt", a, zero), one, zero)
        signed = x.select(x.fcmp("olt", a, zero), x.const(-1), positive)
        return x.select(x.fcmp("uno", a, a), a, signed)
    positive = x.select(x.icmp("ne", a, zero), one, zero)
    if not is_signed(x.types[0]):
        return positive
    return x.select(x.icmp("slt", a, zero), x.const(-1), positive)


def _signbit(x: Lanes) -> str:
    ty = x.types[0]
    if is_float(ty):
        whole = "i32" if ty == "f32" else "i64"
        raw = x.pure(f"bitcast {x.vt()} {x.args[0]} to {x.vt(whole)}")
        return x.icmp("slt", raw, x.const(0, whole), whole)
    return x.icmp("slt", x.args[0], x.const(0))


def _extreme(relation: str, skip_nan: bool, name: str) -> Callable[[Lanes], str]:
    def emit(x: Lanes) -> str:
        a, b = x.args
        ty = x.types[0]
        if ty == "b1":
            return x.bits("or" if name == "max" else "and", a, b)
        if not is_float(ty):
            return x.intrinsic(("s" if is_signed(ty) else "u") + name, a, b)
        picked = x.select(x.fcmp(f"o{relation}", a, b), a, b)  # b when either is nan
        if skip_nan:
            return x.select(x.fcmp("uno", b, b), a, picked)
        return x.select(x.fcmp("uno", a, a), a, picked)

    return emit


def _reciprocal(x: Lanes) -> str:
    """Of integers: NumPy divides in double and casts."""
    wide = cast(x.b, x.args[0], x.types[0], "f64", x.width)
    one = x.b.constant(1.0, "f64", x.width)
    quotient = x.pure(f"fdiv {x.vt('f64')} {one}, {wide}")
    return cast(x.b, quotient, "f64", x.result, x.width)


# -- integer division and shifts


def _safe_divisor(x: Lanes) -> tuple[str, str]:
    """A divisor that cannot trap, and where the real one is zero."""
    a, b = x.args
    ty = x.types[0]
    zero = x.icmp("eq", b, x.const(0))
    bad = zero
    if is_signed(ty):
        lowest = x.icmp("eq", a, x.const(-(2 ** (BITS[ty] - 1))))
        bad = x.bits("or", zero, x.bits("and", lowest, x.icmp("eq", b, x.const(-1))))
    return x.select(bad, x.const(1), b), zero


def _integer_divide(x: Lanes) -> tuple[str, str, str, str]:
    """Quotient and remainder towards zero, whether floor differs, and where the divisor is zero."""
    ty = x.types[0]
    if _literal(x.args[1], ty) in (None, 0.0, -1.0):
        divisor, zero = _safe_divisor(x)
    else:
        divisor, zero = x.args[1], x.const(0, "b1")  # LLVM multiplies instead
    kind = "s" if is_signed(ty) else "u"
    q = x.pure(f"{kind}div {x.vt()} {x.args[0]}, {divisor}")
    r = x.pure(f"{kind}rem {x.vt()} {x.args[0]}, {divisor}")
    if not is_signed(ty):
        return q, r, x.const(0, "b1"), zero
    signs = x.icmp("slt", x.bits("xor", r, divisor, ty), x.const(0))
    return q, r, x.bits("and", signs, x.icmp("ne", r, x.const(0))), zero


def _floor_divide(x: Lanes) -> str:
    if is_float(x.types[0]):
        return _float_divmod(x)[0]
    q, _, lower, zero = _integer_divide(x)
    q = x.select(lower, x.pure(f"sub {x.vt()} {q}, {x.const(1)}"), q)
    return x.select(zero, x.const(0), q)


def _remainder(x: Lanes) -> str:
    if is_float(x.types[0]):
        return _float_divmod(x)[1]
    _, r, lower, zero = _integer_divide(x)
    r = x.select(lower, x.pure(f"add {x.vt()} {r}, {x.args[1]}"), r)
    return x.select(zero, x.const(0), r)


def _fmod(x: Lanes) -> str:
    if is_float(x.types[0]):
        return call_library(x.b, "fmod", x.types[0], x.width, x.args)
    _, r, _, zero = _integer_divide(x)
    return x.select(zero, x.const(0), r)


def _float_divmod(x: Lanes) -> tuple[str, str]:
    """NumPy's npy_divmod."""
    a, b = x.args
    zero = x.const(0.0)
    mod = call_library(x.b, "fmod", x.types[0], x.width, [a, b])
    div = x.pure(f"fdiv {x.vt()} {x.pure(f'fsub {x.vt()} {a}, {mod}')}, {b}")
    some = x.fcmp("une", mod, zero)
    crossed = x.bits("xor", x.fcmp("olt", b, zero), x.fcmp("olt", mod, zero))
    fix = x.bits("and", some, crossed)
    mod_fixed = x.select(fix, x.pure(f"fadd {x.vt()} {mod}, {b}"), mod)
    div = x.select(fix, x.pure(f"fsub {x.vt()} {div}, {x.const(1.0)}"), div)
    mod_fixed = x.select(some, mod_fixed, x.intrinsic("copysign", zero, b))
    floor = x.intrinsic("floor", div)
    over = x.fcmp("ogt", x.pure(f"fsub {x.vt()} {div}, {floor}"), x.const(0.5))
    floor = x.select(over, x.pure(f"fadd {x.vt()} {floor}, {x.const(1.0)}"), floor)
    quotient = x.pure(f"fdiv {x.vt()} {a}, {b}")
    floor = x.select(x.fcmp("une", div, zero), floor, x.intrinsic("copysign", zero, quotient))
    by_zero = x.fcmp("oeq", b, zero)
    return x.select(by_zero, quotient, floor), x.select(by_zero, mod, mod_fixed)


def _shift(left: bool) -> Callable[[Lanes], str]:
    def emit(x: Lanes) -> str:
        a, b = x.args
        ty = x.types[0]
        inside = x.icmp("ult", b, x.const(BITS[ty]))
        amount = x.select(inside, b, x.const(0))
        if left:
            return x.select(inside, x.pure(f"shl {x.vt()} {a}, {amount}"), x.const(0))
        if not is_signed(ty):
            return x.select(inside, x.pure(f"lshr {x.vt()} {a}, {amount}"), x.const(0))
        sign = x.pure(f"ashr {x.vt()} {a}, {x.const(BITS[ty] - 1)}")
        return x.select(inside, x.pure(f"ashr {x.vt()} {a}, {amount}"), sign)

    return emit


# -- comparisons and logic


def _compare(ordered: str, integer: str) -> Callable[[Lanes], str]:
    def emit(x: Lanes) -> str:
        ty, other = x.types
        if is_float(ty):
            return x.fcmp(ordered, *x.args)
        if ty != other:
            return _compare_mixed(x, integer)
        sign = "" if integer in ("eq", "ne") else "s" if is_signed(ty) else "u"
        return x.icmp(sign + integer, *x.args)

    return emit


def _compare_mixed(x: Lanes, relation: str) -> str:
    """int64 against uint64, exactly: a negative one is below everything unsigned."""
    signed_first = is_signed(x.types[0])
    signed = x.args[0] if signed_first else x.args[1]
    negative = x.icmp("slt", signed, x.const(0, "i64"), "i64")
    unsigned = relation if relation in ("eq", "ne") else f"u{relation}"
    plain = x.icmp(unsigned, x.args[0], x.args[1], "i64")
    below = relation in ("lt", "le") if signed_first else relation in ("gt", "ge")
    return x.select(negative, x.const(relation == "ne" or below, "b1"), plain, "b1")


def _logic(op: str) -> Callable[[Lanes], str]:
    def emit(x: Lanes) -> str:
        return x.bits(op, x.args[0], x.args[1], x.types[0])

    return emit


def _invert(x: Lanes) -> str:
    ty = x.types[0]
    return x.bits("xor", x.args[0], x.const(1 if ty == "b1" else -1), ty)


def _where(x: Lanes) -> str:
    return x.select(x.args[0], x.args[1], x.args[2], x.types[1])


def _isinf(x: Lanes) -> str:
    return x.fcmp("oeq", x.intrinsic("fabs", x.args[0]), x.const(math.inf))


def _isfinite(x: Lanes) -> str:
    return x.fcmp("olt", x.intrinsic("fabs", x.args[0]), x.const(math.inf))


def _heaviside(x: Lanes) -> str:
    a, at_zero = x.args
    step = x.select(x.fcmp("olt", a, x.const(0.0)), x.const(0.0), x.const(1.0))
    known = x.select(x.fcmp("oeq", a, x.const(0.0)), at_zero, step)
    return x.select(x.fcmp("uno", a, a), a, known)


def _bitwise_count(x: Lanes) -> str:
    ty = x.types[0]
    if ty == "b1":
        return cast(x.b, x.args[0], "b1", "u8", x.width)
    return cast(x.b, x.intrinsic("ctpop", _absolute(x)), ty, "u8", x.width)


# -- powers


def _power(x: Lanes) -> str:
    """A literal small exponent becomes products; anything else is the function."""
    exponent = _literal(x.args[1], x.types[1])
    base = x.args[0]
    if exponent is not None:
        if exponent == int(exponent) and 0 <= exponent <= (4 if is_float(x.types[0]) else 64):
            return _repeated(x, base, int(exponent))
        if exponent == -1.0 and is_float(x.types[0]):
            return x.pure(f"fdiv {x.vt()} {x.const(1.0)}, {base}")
    return emit_math(x.b, "power", LLVM_TYPES[x.types[0]], x.width, x.args)


def _literal(register: str, ty: str) -> float | None:
    """The number a constant register stands for."""
    text = register.removeprefix("splat (").removesuffix(")").split()[-1]
    if text.startswith("0x"):
        return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
    return float(text) if text.lstrip("-").isdigit() and not is_float(ty) else None


def _repeated(x: Lanes, base: str, exponent: int) -> str:
    multiply = "fmul" if is_float(x.types[0]) else "mul"
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else x.pure(f"{multiply} {x.vt()} {result}, {base}")
        exponent >>= 1
        if exponent:
            base = x.pure(f"{multiply} {x.vt()} {base}, {base}")
    return result if result is not None else x.const(1)


# -- computed indices


def _index_clamp(x: Lanes) -> str:
    last = x.pure(f"sub {x.vt()} {x.args[1]}, {x.const(1)}")
    return x.intrinsic("smax", x.intrinsic("smin", x.args[0], last), x.const(0))


def _index_wrap(x: Lanes) -> str:
    return _remainder(x)


def _fold_back(
    period_from: Callable[[Lanes], str], mirror_from: Callable[[Lanes, str], str]
) -> Callable[[Lanes], str]:
    def emit(x: Lanes) -> str:
        period = x.intrinsic("smax", period_from(x), x.const(1))
        m = _remainder(Lanes(x.b, x.width, [x.args[0], period], ["i64", "i64"], "i64"))
        return x.intrinsic("smin", m, mirror_from(x, m))

    return emit


def _twice(x: Lanes, less: int) -> str:
    doubled = x.pure(f"shl {x.vt()} {x.args[1]}, {x.const(1)}")
    return x.pure(f"sub {x.vt()} {doubled}, {x.const(less)}") if less else doubled


_index_reflect = _fold_back(
    lambda x: _twice(x, 2), lambda x, m: x.pure(f"sub {x.vt()} {_twice(x, 2)}, {m}")
)
_index_symmetric = _fold_back(
    lambda x: _twice(x, 0), lambda x, m: x.pure(f"sub {x.vt()} {_twice(x, 1)}, {m}")
)


def _intrinsic(name: str) -> Callable[[Lanes], str]:
    return lambda x: x.intrinsic(name, *x.args)


TABLE: dict[str, Callable[[Lanes], str]] = {
    "add": _arithmetic("fadd", "add", "or"),
    "subtract": _arithmetic("fsub", "sub", "xor"),
    "multiply": _arithmetic("fmul", "mul", "and"),
    "divide": _arithmetic("fdiv", "udiv", "and"),
    "negative": _negative,
    "absolute": _absolute,
    "fabs": _absolute,
    "sign": _sign,
    "signbit": _signbit,
    "reciprocal": _reciprocal,
    "rint": _intrinsic("roundeven"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "sqrt": _intrinsic("sqrt"),
    "copysign": _intrinsic("copysign"),
    "maximum": _extreme("gt", False, "max"),
    "minimum": _extreme("lt", False, "min"),
    "fmax": _extreme("gt", True, "max"),
    "fmin": _extreme("lt", True, "min"),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "left_shift": _shift(True),
    "right_shift": _shift(False),
    "equal": _compare("oeq", "eq"),
    "not_equal": _compare("une", "ne"),
    "less": _compare("olt", "lt"),
    "less_equal": _compare("ole", "le"),
    "greater": _compare("ogt", "gt"),
    "greater_equal": _compare("oge", "ge"),
    "logical_and": _logic("and"),
    "logical_or": _logic("or"),
    "logical_xor": _logic("xor"),
    "bitwise_and": _logic("and"),
    "bitwise_or": _logic("or"),
    "bitwise_xor": _logic("xor"),
    "logical_not": _invert,
    "invert": _invert,
    "where": _where,
    "isnan": lambda x: x.fcmp("uno", x.args[0], x.args[0]),
    "isinf": _isinf,
    "isfinite": _isfinite,
    "heaviside": _heaviside,
    "bitwise_count": _bitwise_count,
    "power": _power,
    **{f"length_{relation}": compared(relation) for relation in RELATIONS},
    "index_clamp": _index_clamp,
    "index_wrap": _index_wrap,
    "index_reflect": _index_reflect,
    "index_symmetric": _index_symmetric,
}


def emit_op(b: Builder, op: str, args: list[str], types: list[str], result: str, width: int) -> str:
    """The register that holds a map of registers."""
    row = TABLE.get(op)
    if row is not None:
        return row(Lanes(b, width, args, types, result))
    if op in VECTOR_MATH:
        return emit_math(b, op, LLVM_TYPES[types[0]], width, args)
    return call_library(b, op, types[0], width, args)


# Where one step rounds right: exponents of the least operand (without AVX-512), of the least and
# the largest divisor; bits of the mantissa; exponent bias.
QUOTIENT_RANGE = {"f32": (63, -60, 20, 23, 127), "f64": (500, -400, 100, 52, 1023)}
NOT_NORMAL = 0xBF  # vfpclass: zero, denormal, infinite or nan


def divide_by_scalar(b: Builder, xs: Sequence[str], divisor: str, ty: str, width: int) -> list[str]:
    """Vectors over one divisor: products with its reciprocal, and one step that rounds them right.

    q = x * r; q + (x - q * s) * r is the correctly rounded quotient (Markstein) as long as the
    residual is exact, and it is when it is a normal number. If any vector has another residual, and
    whenever the divisor is out of range, all are divided: one branch for all of them. Half of the
    vectors are divided in any case: the divider works while the multipliers do.
    """
    lanes, one = Lanes(b, width, [], [ty], ty), Lanes(b, 1, [], [ty], ty)
    vt = lanes.vt()
    _, low, high, _, _ = QUOTIENT_RANGE[ty]
    s = b.splat(divisor, ty, width)
    r = b.splat(b.pure(f"fdiv {one.vt()} {one.const(1.0)}, {divisor}"), ty, width)
    odd = b.splat(_outside(one, divisor, low, high), "b1", width)
    choices, half = [], len(xs) // 2
    divided = [b.pure(f"fdiv {vt} {x}, {s}") for x in xs[:half]]
    for x in xs[half:]:
        q = b.pure(f"fmul {vt} {x}, {r}")
        rest = lanes.intrinsic("fma", b.pure(f"fneg {vt} {q}"), s, x)
        odd = lanes.bits("or", odd, _not_normal(lanes, rest, ty))
        choices.append((vt, lanes.intrinsic("fma", rest, r, q), f"fdiv {vt} {x}, {s}"))
    return divided + b.rare(odd, width, choices)


def _not_normal(x: Lanes, rest: str, ty: str) -> str:
    """Where a residual is zero, subnormal, infinite, nan, or anything near."""
    b, bits = x.b, BITS[ty] * x.width
    if b.avx512 and bits in (256, 512):
        name = f"llvm.x86.avx512.fpclass.{'ps' if ty == 'f32' else 'pd'}.{bits}"
        return b.pure(b.intrinsic(name, x.vt("b1"), (x.vt(), rest), ("i32", str(NOT_NORMAL))))
    most = QUOTIENT_RANGE[ty][0]
    return _outside(x, rest, -most, most)


def _outside(x: Lanes, a: str, low: int, high: int) -> str:
    """Whether |a| is not in [2**low, 2**high): one compare of its bits without the sign."""
    ty = x.types[0]
    *_, mantissa, bias = QUOTIENT_RANGE[ty]
    whole = "u32" if ty == "f32" else "u64"
    bits = x.pure(f"bitcast {x.vt()} {a} to {x.vt(whole)}")
    unsigned = x.bits("shl", bits, x.const(1, whole), whole)
    first, last = ((bias + e) << (mantissa + 1) for e in (low, high))
    above = x.bits("sub", unsigned, x.const(first, whole), whole)
    return x.icmp("uge", above, x.const(last - first, whole), whole)
