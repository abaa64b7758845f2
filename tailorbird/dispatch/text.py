"""Straight code for the entry: registers, labels and integer expressions as text.

What is expected is tested together, in one branch: with the next requirement, or before anything is
done or divided. Loads come in between, so what an address depends on is required.
"""

from __future__ import annotations

from tailorbird.emit.builder import Module
from tailorbird.emit.integers import Integers
from tailorbird.ir.expr import Dim, Sym

EAGER = ("sdiv", "srem", "call {i64, i1} @tb_ipow")  # what must not run on wrong numbers


class Text(Integers):
    """Lines of one function. `missed` is the label where a guard that does not hold goes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.count = 0
        self.sizes: dict[Dim, str] = {}
        self.symbols: dict[Sym, str] = {}
        self.exacts: dict[tuple[str, str, str, bool], str] = {}  # powers share their beginnings
        self.pending: list[tuple[Dim, str]] = []  # to compare once their symbols are known
        self.expected: list[str] = []  # conditions that are not tested yet
        self.missed = "miss"

    def do(self, line: str) -> None:
        self.settle()
        self.keep(line)

    def keep(self, line: str) -> None:
        """An instruction whose effect nobody sees after a miss."""
        self.lines.append(f"  {line}")

    def reg(self, text: str) -> str:
        if text.startswith(EAGER):
            self.settle()
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
        if not name.startswith("llvm."):
            self.settle()
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
        if otherwise in ("", self.missed):
            self.expect(condition)
            self.settle()
        else:
            self.settle()
            self.branch(condition, otherwise)

    def expect(self, condition: str) -> None:
        """Goes on only if an i1 holds, else to a miss; tested before anything is done."""
        self.expected.append(condition)

    def settle(self) -> None:
        """Tests what is expected."""
        if not self.expected:
            return
        both, *others = self.expected
        self.expected = []
        for condition in others:
            both = self.reg(f"and i1 {both}, {condition}")
        self.branch(both, self.missed)

    def branch(self, condition: str, otherwise: str) -> None:
        label = self.fresh("ok")
        self.keep(f"br i1 {condition}, label %{label}, label %{otherwise}")
        self.label(label)

    # -- integers

    def size(self, dim: Dim) -> str:
        """The register or literal of an exact integer expression over known symbols."""
        if isinstance(dim, int):
            return str(dim)
        if dim not in self.sizes:
            # Sizes fit 64 bits by nature; what is made of integer arguments is checked.
            kinds = {sym.name if sym.kind == "op" else sym.kind for sym in dim.symbols()}
            checked = not kinds.isdisjoint(("int", "value", "pow"))
            self.sizes[dim] = self.polynomial(dim, checked)
        return self.sizes[dim]

    def exact(self, op: str, a: str, b: str, checked: bool) -> str:
        key = (op, a, b, checked)
        if key not in self.exacts:
            self.exacts[key] = super().exact(*key)
        return self.exacts[key]

    def value_of(self, sym: Sym) -> str:
        assert sym in self.symbols, f"{sym} has no value yet"
        return self.symbols[sym]

    def symbol(self, sym: Sym) -> str:
        if sym not in self.symbols:
            self.symbols[sym] = super().symbol(sym)
        return self.symbols[sym]

    def can_compute(self, dim: Dim) -> bool:
        """Whether every symbol of an expression is known."""
        if isinstance(dim, int):
            return True
        return all(s in self.symbols or s.kind == "op" for s in dim.symbols())

    def function(self, signature: str, attributes: str = "") -> str:
        body = "\n".join([*self.slots, "  br label %begin", "begin:", *self.lines])
        return f"define {signature} {attributes} {{\nentry:\n{body}\n}}\n"
