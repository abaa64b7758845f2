"""The vocabulary vector math is written in: arithmetic on registers of one vector type.

In: a builder (`pure`, `declare`, `define`, `rare`, `avx512`), an element type and a lane count.
Out: names of SSA registers. Every method emits at most a few instructions and returns a register.

Invariants: nothing here has side effects in the emitted code; no fast-math flag is ever written,
so the order of operations in the source is the order in the machine, which the error-free
transformations (`two_sum`, `two_prod`) rely on. The 512-bit-era instructions (`scalef`, `getexp`,
`getmant`, `range`, table permutes) are used only where the builder allows them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol


class Builder(Protocol):
    """What the code generator offers to vector math."""

    avx512: bool

    def pure(self, text: str, /) -> str: ...

    def declare(self, line: str, /) -> None: ...

    def define(self, name: str, text: str, /) -> None: ...

    def rare(
        self, mask: str, width: int, choices: Sequence[tuple[str, str, str]], /
    ) -> list[str]: ...


class Recorder:
    """A builder for the body of an outlined function; module-level text goes to the outer one."""

    def __init__(self, outer: Builder) -> None:
        self.avx512 = outer.avx512
        self.declare = outer.declare
        self.define = outer.define
        self.rare = outer.rare
        self.lines: list[str] = []
        self._known: dict[str, str] = {}

    def pure(self, text: str) -> str:
        if text not in self._known:
            self._known[text] = f"%r{len(self.lines)}"
            self.lines.append(f"{self._known[text]} = {text}")
        return self._known[text]


# element type -> (bits, mantissa bits, exponent bias, lanes of a 512-bit register)
FORMATS = {"float": (32, 23, 127, 16), "double": (64, 52, 1023, 8)}


def literal(value: float, ty: str) -> str:
    """The exact LLVM spelling of a float, rounded to `ty` first."""
    if ty == "float":
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    return "0x{:016X}".format(*struct.unpack("<Q", struct.pack("<d", value)))


class Lanes:
    """Emits arithmetic on `<width x ty>`, width 2 or more."""

    def __init__(self, b: Builder, ty: str, width: int) -> None:
        self.b, self.ty, self.width = b, ty, width
        self.bits, self.mantissa, self.bias, self.native = FORMATS[ty]
        self.it = f"i{self.bits}"
        self.vt = f"<{width} x {ty}>"
        self.vit = f"<{width} x {self.it}>"
        self.mt = f"<{width} x i1>"
        self.double = ty == "double"

    # Constants

    def k(self, value: float) -> str:
        return f"splat ({self.ty} {literal(value, self.ty)})"

    def ki(self, value: int) -> str:
        return f"splat ({self.it} {value})"

    @property
    def sign_bit(self) -> str:
        return self.ki(-(1 << (self.bits - 1)))

    # Floating point

    def _binary(self, op: str, x: str, y: str) -> str:
        return self.b.pure(f"{op} {self.vt} {x}, {y}")

    def add(self, x: str, y: str) -> str:
        return self._binary("fadd", x, y)

    def sub(self, x: str, y: str) -> str:
        return self._binary("fsub", x, y)

    def mul(self, x: str, y: str) -> str:
        return self._binary("fmul", x, y)

    def div(self, x: str, y: str) -> str:
        return self._binary("fdiv", x, y)

    def neg(self, x: str) -> str:
        return self.b.pure(f"fneg {self.vt} {x}")

    def _intrinsic(self, name: str, *args: str) -> str:
        full = f"llvm.{name}.v{self.width}f{self.bits}"
        self.b.declare(f"declare {self.vt} @{full}({', '.join([self.vt] * len(args))})")
        return self.b.pure(f"call {self.vt} @{full}({', '.join(f'{self.vt} {a}' for a in args)})")

    def fma(self, x: str, y: str, z: str) -> str:
        """x * y + z, rounded once."""
        return self._intrinsic("fma", x, y, z)

    def abs(self, x: str) -> str:
        return self._intrinsic("fabs", x)

    def sqrt(self, x: str) -> str:
        return self._intrinsic("sqrt", x)

    def copysign(self, size: str, sign: str) -> str:
        return self._intrinsic("copysign", size, sign)

    def round(self, x: str) -> str:
        """To the nearest integer, ties to even."""
        return self._intrinsic("roundeven", x)

    def floor(self, x: str) -> str:
        return self._intrinsic("floor", x)

    def cmp(self, predicate: str, x: str, y: str) -> str:
        return self.b.pure(f"fcmp {predicate} {self.vt} {x}, {y}")

    def select(self, mask: str, x: str, y: str) -> str:
        return self.b.pure(f"select {self.mt} {mask}, {self.vt} {x}, {self.vt} {y}")

    def at_most(self, x: str, limit: str) -> str:
        """min(x, limit); NaN in x stays NaN. One instruction."""
        return self.select(self.cmp("olt", limit, x), limit, x)

    def at_least(self, x: str, limit: str) -> str:
        """max(x, limit); NaN in x stays NaN. One instruction."""
        return self.select(self.cmp("ogt", limit, x), limit, x)

    def poly(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner: c0 + c1 x + c2 x^2 + ..."""
        result = self.k(coefficients[-1])
        for c in coefficients[-2::-1]:
            result = self.fma(result, x, self.k(c))
        return result

    def estrin(self, x: str, coefficients: Sequence[float]) -> str:
        """The same by halves: shorter chains, a few more multiplications."""
        terms = [self.k(c) for c in coefficients]
        power = x
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2])
            rest = terms[len(terms) & ~1 :]
            terms = [self.fma(high, power, low) for low, high in pairs] + rest
            if len(terms) > 1:
                power = self.mul(power, power)
        return terms[0]

    # Error-free transformations

    def two_sum(self, x: str, y: str) -> tuple[str, str]:
        """x + y as a rounded sum and its exact error, for any x and y."""
        total = self.add(x, y)
        part = self.sub(total, x)
        error = self.add(self.sub(x, self.sub(total, part)), self.sub(y, part))
        return total, error

    def fast_two_sum(self, x: str, y: str) -> tuple[str, str]:
        """The same for |x| >= |y|."""
        total = self.add(x, y)
        return total, self.sub(y, self.sub(total, x))

    def two_prod(self, x: str, y: str) -> tuple[str, str]:
        product = self.mul(x, y)
        return product, self.fma(x, y, self.neg(product))

    # Bits

    def to_bits(self, x: str) -> str:
        return self.b.pure(f"bitcast {self.vt} {x} to {self.vit}")

    def from_bits(self, x: str) -> str:
        return self.b.pure(f"bitcast {self.vit} {x} to {self.vt}")

    def iop(self, op: str, x: str, y: str) -> str:
        """add, sub, and, or, xor, shl, lshr, ashr on lanes of integers."""
        return self.b.pure(f"{op} {self.vit} {x}, {y}")

    def icmp(self, predicate: str, x: str, y: str) -> str:
        return self.b.pure(f"icmp {predicate} {self.vit} {x}, {y}")

    def mask_op(self, op: str, x: str, y: str) -> str:
        return self.b.pure(f"{op} {self.mt} {x}, {y}")

    def mask_not(self, x: str) -> str:
        return self.mask_op("xor", x, "splat (i1 true)")

    def flip_sign(self, x: str, sign_bits: str) -> str:
        """x with its sign bit xor-ed by the integer lanes `sign_bits` (only that bit set)."""
        return self.from_bits(self.iop("xor", self.to_bits(x), sign_bits))

    def rounder(self, step: float = 1.0) -> float:
        """Added to a value, this leaves the nearest multiple of `step` in the low mantissa bits."""
        return 1.5 * 2.0**self.mantissa * step

    # Code that is seldom needed

    def outline(
        self,
        name: str,
        mask: str,
        value: str,
        body: Callable[..., str],
        arguments: Sequence[tuple[str, str]],
    ) -> str:
        """value, or where any lane of mask is set body(lanes, *arguments), as a function."""
        full = f"vmath_{name}_{self.ty}_{self.width}"
        inside = Recorder(self.b)
        result = body(
            Lanes(inside, self.ty, self.width), *(f"%a{i}" for i in range(len(arguments)))
        )
        takes = ", ".join(f"{kind} %a{i}" for i, (kind, _) in enumerate(arguments))
        lines = "\n  ".join([*inside.lines, f"ret {self.vt} {result}"])
        self.b.define(
            full, f"define internal {self.vt} @{full}({takes}) noinline {{\n  {lines}\n}}"
        )
        gives = ", ".join(map(" ".join, arguments))
        call = f"call {self.vt} @{full}({gives})"
        return self.b.rare(mask, self.width, [(self.vt, value, call)])[0]

    # What AVX-512 has an instruction for

    def _avx512(self, name: str, *operands: tuple[str, str]) -> str:
        """Call llvm.x86.avx512.mask.<name> with every lane on; operands are (type, value)."""
        size = self.width * self.bits
        full = f"llvm.x86.avx512.mask.{name}.p{'d' if self.double else 's'}.{size}"
        given = [*operands, (self.vt, "zeroinitializer"), (f"i{max(8, self.width)}", "-1")]
        if size == 512:
            given.append(("i32", "4"))
        self.b.declare(f"declare {self.vt} @{full}({', '.join(kind for kind, _ in given)})")
        return self.b.pure(f"call {self.vt} @{full}({', '.join(map(' '.join, given))})")

    def scale(self, x: str, power: str) -> str:
        """x * 2**floor(power), rounded once, also into the subnormals and to infinity.

        Without AVX-512, power must be an integer with |power| < twice the largest exponent,
        and x neither huge nor tiny.
        """
        if self.b.avx512:
            return self._avx512("scalef", (self.vt, x), (self.vt, power))
        return self.scale_counted(x, self.to_int(power))

    def scale_counted(self, x: str, count: str, shift: int = 0) -> str:
        """The same, by the integer in the low bits of count, plus shift; the high bits are free."""
        if shift:
            count = self.iop("add", count, self.ki(shift))
        half = self.iop("lshr", count, self.ki(1))
        near = self.mul(x, self.power_of_two(half))
        return self.mul(near, self.power_of_two(self.iop("sub", count, half)))

    def to_int(self, x: str) -> str:
        """Small integer-valued floats as integers, right in the low bits only."""
        return self.to_bits(self.add(x, self.k(self.rounder())))

    def one_bits(self) -> str:
        """1.0 as an integer."""
        return self.ki(self.bias << self.mantissa)

    def exponent_field(self, power: str) -> str:
        return self.iop("shl", power, self.ki(self.mantissa))

    def power_of_two(self, power: str) -> str:
        """2**power for integers within the normal range, taken from the low bits."""
        return self.from_bits(self.iop("add", self.exponent_field(power), self.one_bits()))

    def exponent(self, x: str) -> str:
        """floor(log2(|x|)) of any x, subnormals too; -inf for 0 and inf for inf. AVX-512 only."""
        return self._avx512("getexp", (self.vt, x))

    def significand(self, x: str) -> str:
        """x scaled by a power of two into [0.75, 1.5); NaN for x < 0. AVX-512 only."""
        return self._avx512("getmant", (self.vt, x), ("i32", "11"))

    def within(self, x: str, limit: float) -> str:
        """The smaller of |x| and limit, with the sign of x; limit where x is NaN. AVX-512 only."""
        return self._avx512("range", (self.vt, x), (self.vt, self.k(limit)), ("i32", "2"))

    def lookup(self, table: Sequence[float], index: str) -> str:
        """table[index mod len(table)]; the table has two full registers of entries."""
        assert len(table) == 2 * self.native
        if not self.b.avx512:
            return self._gather(table, index)
        low, high = self._vector(table[: self.native]), self._vector(table[self.native :])
        full = Lanes(self.b, self.ty, self.native)
        name = f"llvm.x86.avx512.vpermi2var.p{'d' if self.double else 's'}.512"
        self.b.declare(f"declare {full.vt} @{name}({full.vt}, {full.vit}, {full.vt})")
        wide = self._resize(self.vit, index, self.width, self.native)
        found = self.b.pure(
            f"call {full.vt} @{name}({full.vt} {low}, {full.vit} {wide}, {full.vt} {high})"
        )
        return self._resize(full.vt, found, self.native, self.width)

    def _vector(self, values: Sequence[float]) -> str:
        return "<" + ", ".join(f"{self.ty} {literal(v, self.ty)}" for v in values) + ">"

    def _resize(self, vector_type: str, x: str, lanes: int, wanted: int) -> str:
        """The first `wanted` lanes of x; lanes beyond x's own hold nothing in particular."""
        if lanes == wanted:
            return x
        picks = ", ".join(f"i32 {i}" if i < lanes else "i32 poison" for i in range(wanted))
        return self.b.pure(
            f"shufflevector {vector_type} {x}, {vector_type} poison, <{wanted} x i32> <{picks}>"
        )

    def _gather(self, table: Sequence[float], index: str) -> str:
        values = self._vector(table)
        name = f"vmath_table_{zlib.crc32(values.encode()):08x}"
        self.b.define(
            name, f"@{name} = internal constant [{len(table)} x {self.ty}] [{values[1:-1]}]"
        )
        inside = self.iop("and", index, self.ki(len(table) - 1))
        pointers = self.b.pure(f"getelementptr {self.ty}, ptr @{name}, {self.vit} {inside}")
        full = f"llvm.masked.gather.v{self.width}f{self.bits}.v{self.width}p0"
        kinds = f"<{self.width} x ptr>, i32, {self.mt}, {self.vt}"
        self.b.declare(f"declare {self.vt} @{full}({kinds})")
        return self.b.pure(
            f"call {self.vt} @{full}(<{self.width} x ptr> {pointers}, i32 {self.bits // 8}, "
            f"{self.mt} splat (i1 true), {self.vt} poison)"
        )
