"""Straight code for the entry: registers, labels and integer expressions as text."""

from __future__ import annotations

from tailorbird.emit.builder import Module
from tailorbird.ir.expr import Dim, Expr, Sym


class Text:
    """Lines of one function. `missed` is the label where a guard that does not hold goes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.count = 0
        self.sizes: dict[Dim, str] = {}
        self.symbols: dict[Sym, str] = {}
        self.pending: list[tuple[Dim, str]] = []  # to compare once their symbols are known
        self.missed = "miss"

    def do(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def reg(self, text: str) -> str:
        self.count += 1
        register = f"%r{self.count}"
        self.lines.append(f"  {register} = {text}")
        return register

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def slot(self, llvm_type: str, initial: str | None = None, align: int = 8) -> str:
        """A stack slot, made at the top of the function and set there."""
        self.count += 1
        register = f"%s{self.count}"
        self.slots.append(f"  {register} = alloca {llvm_type}, align {align}")
        if initial is not None:
            self.slots.append(f"  store {llvm_type} {initial}, ptr {register}")
        return register

    def call(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """Calls a runtime function; the register of its result."""
        self.module.declarations[f"declare {result} @{name}({', '.join(t for t, _ in args)})"] = (
            None
        )
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.reg(text)

    def data(self, name: str) -> str:
        """The address of a runtime object."""
        self.module.declarations[f"@{name} = external global i8"] = None
        return f"@{name}"

    def field(self, base: str, offset: int, llvm_type: str) -> str:
        """Loads a field of a struct."""
        return self.reg(f"load {llvm_type}, ptr {self.offset(base, offset)}")

    def offset(self, base: str, offset: int) -> str:
        return self.reg(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def require(self, condition: str, otherwise: str = "") -> None:
        """Goes on only if an i1 holds; else to a label, which is a miss unless it is named."""
        label = self.fresh("ok")
        self.do(f"br i1 {condition}, label %{label}, label %{otherwise or self.missed}")
        self.label(label)

    # -- integers

    def size(self, dim: Dim) -> str:
        """The register or literal of an exact integer expression over known symbols."""
        if isinstance(dim, int):
            return str(dim)
        if dim not in self.sizes:
            self.sizes[dim] = self.polynomial(dim)
        return self.sizes[dim]

    def polynomial(self, dim: Expr) -> str:
        """Sizes fit 64 bits by nature; what is made of integer arguments is checked."""
        checked = any(sym.kind in ("int", "op") for sym in dim.symbols())
        total = ""
        for monomial, coefficient in dim.terms:
            term = str(coefficient)
            for sym in monomial:
                factor = self.symbol(sym)
                term = factor if term == "1" else self.exact("mul", term, factor, checked)
            total = self.exact("add", total, term, checked) if total else term
        return total

    def exact(self, op: str, a: str, b: str, checked: bool) -> str:
        """A sum or product; when checked, one that leaves 64 bits is a miss."""
        if not checked:
            return self.reg(f"{op} i64 {a}, {b}")
        pair = self.call(f"llvm.s{op}.with.overflow.i64", "{i64, i1}", ("i64", a), ("i64", b))
        return self.unless_over(pair)

    def unless_over(self, pair: str) -> str:
        """The number of {number, whether it overflowed}."""
        over = self.reg(f"extractvalue {{i64, i1}} {pair}, 1")
        self.require(self.reg(f"xor i1 {over}, true"))
        return self.reg(f"extractvalue {{i64, i1}} {pair}, 0")

    def symbol(self, sym: Sym) -> str:
        if sym not in self.symbols:
            assert sym.kind == "op", f"{sym} has no value yet"
            args = [self.size(a) for a in sym.args]
            self.symbols[sym] = getattr(self, f"op_{sym.name}")(*args)
        return self.symbols[sym]

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
        q, _, lower = self.divided(a, b)
        return self.reg(f"select i1 {lower}, i64 {self.reg(f'sub i64 {q}, 1')}, i64 {q}")

    def op_mod(self, a: str, b: str) -> str:
        _, r, lower = self.divided(a, b)
        return self.reg(f"select i1 {lower}, i64 {self.reg(f'add i64 {r}, {b}')}, i64 {r}")

    def op_pow(self, a: str, b: str) -> str:
        """By a loop in a helper; a negative exponent is a miss."""
        self.module.definitions.setdefault("tb_ipow", IPOW)
        name = "declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)"
        self.module.declarations[name] = None
        return self.unless_over(self.reg(f"call {{i64, i1}} @tb_ipow(i64 {a}, i64 {b})"))

    def divided(self, a: str, b: str) -> tuple[str, str, str]:
        zero = self.reg(f"icmp eq i64 {b}, 0")
        self.require(self.reg(f"xor i1 {zero}, true"))
        q = self.reg(f"sdiv i64 {a}, {b}")
        r = self.reg(f"srem i64 {a}, {b}")
        crossed = self.reg(f"icmp slt i64 {self.reg(f'xor i64 {r}, {b}')}, 0")
        some = self.reg(f"icmp ne i64 {r}, 0")
        return q, r, self.reg(f"and i1 {crossed}, {some}")

    def can_compute(self, dim: Dim) -> bool:
        """Whether every symbol of an expression is known."""
        if isinstance(dim, int):
            return True
        return all(s in self.symbols or s.kind == "op" for s in dim.symbols())

    def function(self, signature: str, attributes: str = "") -> str:
        body = "\n".join([*self.slots, "  br label %begin", "begin:", *self.lines])
        return f"define {signature} {attributes} {{\nentry:\n{body}\n}}\n"


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
