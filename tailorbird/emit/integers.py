"""Exact integer expressions as LLVM text, for whoever has registers, calls and a way out.

In: a dim over symbols that `value_of` knows. Out: a register or a literal. What may leave 64 bits
is checked where `checked` says so: it leaves through `expect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tailorbird.emit.builder import Module
from tailorbird.ir.expr import Dim, Expr, Sym

IPOW = """define internal {i64, i1} @tb_ipow(i64 %a, i64 %b) {
entry:
  %negative = icmp slt i64 %b, 0
  br label %loop
loop:
  %r = phi i64 [1, %entry], [%r1, %body]
  %k = phi i64 [0, %entry], [%k1, %body]
  %over = phi i1 [%negative, %entry], [%over1, %body]
  %c = icmp slt i64 %k, %b
  %on = xor i1 %over, true
  %go = and i1 %c, %on
  br i1 %go, label %body, label %done
body:
  %p = call {i64, i1} @llvm.smul.with.overflow.i64(i64 %r, i64 %a)
  %r1 = extractvalue {i64, i1} %p, 0
  %over1 = extractvalue {i64, i1} %p, 1
  %k1 = add i64 %k, 1
  br label %loop
done:
  %s0 = insertvalue {i64, i1} poison, i64 %r, 0
  %s1 = insertvalue {i64, i1} %s0, i1 %over, 1
  ret {i64, i1} %s1
}
"""


class Integers(ABC):
    """The arithmetic; `reg`, `call`, `require` and perhaps `expect` are the caller's."""

    module: Module

    @abstractmethod
    def reg(self, text: str) -> str:
        """The register of a pure instruction."""

    @abstractmethod
    def call(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """The register of a pure call."""

    @abstractmethod
    def require(self, condition: str, otherwise: str = "") -> None:
        """Goes on only if an i1 holds."""

    def expect(self, condition: str) -> None:
        """Goes on only if an i1 holds, but may say so later: before anything is done by it."""
        self.require(condition)

    @abstractmethod
    def size(self, dim: Dim) -> str:
        """The register or literal of an expression."""

    @abstractmethod
    def value_of(self, sym: Sym) -> str:
        """The register of a symbol that is no function."""

    def polynomial(self, dim: Expr, checked: bool) -> str:
        total = ""
        for monomial, coefficient in dim.terms:
            term = ""
            for sym in monomial:  # the coefficient last: terms share what is before it
                factor = self.symbol(sym)
                term = self.exact("mul", term, factor, checked) if term else factor
            if coefficient != 1 or not term:
                number = str(coefficient)
                term = self.exact("mul", term, number, checked) if term else number
            total = self.exact("add", total, term, checked) if total else term
        return total

    def exact(self, op: str, a: str, b: str, checked: bool) -> str:
        """A sum or product; when checked, one that leaves 64 bits leaves."""
        if not checked:
            return self.reg(f"{op} i64 {a}, {b}")
        pair = self.call(f"llvm.s{op}.with.overflow.i64", "{i64, i1}", ("i64", a), ("i64", b))
        return self.unless_over(pair)

    def unless_over(self, pair: str) -> str:
        """The number of {number, whether it overflowed}."""
        over = self.reg(f"extractvalue {{i64, i1}} {pair}, 1")
        self.expect(self.reg(f"xor i1 {over}, true"))
        return self.reg(f"extractvalue {{i64, i1}} {pair}, 0")

    def symbol(self, sym: Sym) -> str:
        if sym.kind != "op":
            return self.value_of(sym)
        args = [self.size(a) for a in sym.args]
        return getattr(self, f"op_{sym.name}")(*args)

    def ceil_div(self, a: str, b: str) -> str:
        """a / b rounded up, for positive b."""
        last = self.reg(f"sub i64 {b}, 1")
        raised = self.reg(f"add i64 {a}, {last}")
        return self.reg(f"sdiv i64 {raised}, {b}")

    def op_min(self, a: str, b: str) -> str:
        return self.call("llvm.smin.i64", "i64", ("i64", a), ("i64", b))

    def op_max(self, a: str, b: str) -> str:
        return self.call("llvm.smax.i64", "i64", ("i64", a), ("i64", b))

    def op_floordiv(self, a: str, b: str) -> str:
        if _is_power_of_two(b):
            return self.reg(f"ashr i64 {a}, {int(b).bit_length() - 1}")
        q, _, lower = self.divided(a, b)
        return self.reg(f"select i1 {lower}, i64 {self.reg(f'sub i64 {q}, 1')}, i64 {q}")

    def op_mod(self, a: str, b: str) -> str:
        if _is_power_of_two(b):
            return self.reg(f"and i64 {a}, {int(b) - 1}")
        _, r, lower = self.divided(a, b)
        return self.reg(f"select i1 {lower}, i64 {self.reg(f'add i64 {r}, {b}')}, i64 {r}")

    def op_pow(self, a: str, b: str) -> str:
        """By a loop in a helper; a negative exponent leaves."""
        self.module.definitions.setdefault("tb_ipow", IPOW)
        name = "declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)"
        self.module.declarations[name] = None
        return self.unless_over(self.reg(f"call {{i64, i1}} @tb_ipow(i64 {a}, i64 {b})"))

    def divided(self, a: str, b: str) -> tuple[str, str, str]:
        """Quotient and remainder towards zero, and whether the floor is one lower."""
        if not b.lstrip("-").isdigit():
            self.require(self.reg(f"icmp ne i64 {b}, 0"))
        q = self.reg(f"sdiv i64 {a}, {b}")
        r = self.reg(f"srem i64 {a}, {b}")
        crossed = self.reg(f"icmp slt i64 {self.reg(f'xor i64 {r}, {b}')}, 0")
        some = self.reg(f"icmp ne i64 {r}, 0")
        return q, r, self.reg(f"and i1 {crossed}, {some}")


def _is_power_of_two(x: str) -> bool:
    return x.isdigit() and int(x).bit_count() == 1
