"""Instructions as text, placed where they belong.

A pure instruction is looked up by its text and, when new, appended to the outermost open scope in
which all its operands live. A loop's text goes into its parent when the loop closes, so what was
hoisted out of it lands before it. Hence common subexpressions, invariant code and addresses need no
pass of their own; LLVM only promotes the cells (SROA) and generates code.

Loads of memory that the function writes are pinned (`here`); other loads are pure. Cells are stack
slots.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

REGISTER = re.compile(r"%[A-Za-z][\w.]*")
FUNCTION = re.compile(r"define (?P<linkage>.*?)@(?P<name>[\w.]+)(?P<rest>.*)", re.DOTALL)
LLVM_TYPES = {
    "b1": "i1", "i8": "i8", "u8": "i8", "i16": "i16", "u16": "i16", "i32": "i32", "u32": "i32",
    "i64": "i64", "u64": "i64", "f32": "float", "f64": "double",
}  # fmt: skip
MEMORY_TYPES = {**LLVM_TYPES, "b1": "i8"}


def _reads_memory(text: str) -> bool:
    return "ptr" in text and not text.startswith("getelementptr")


def vector_type(ty: str, width: int) -> str:
    """`<8 x float>`, or the scalar type."""
    return LLVM_TYPES[ty] if width == 1 else f"<{width} x {LLVM_TYPES[ty]}>"


def number(value: float | int, ty: str) -> str:
    """A literal; floats as exact hexadecimal."""
    if ty in ("f32", "f64"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    if ty == "b1":
        return "true" if value else "false"
    return str(int(value))


class Scope:
    """Lines of one region of code, and the pure values made in it."""

    __slots__ = ("lines", "values")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, str] = {}


class Module:
    """What functions share: declarations, helper definitions, external symbols."""

    def __init__(self, avx512: bool) -> None:
        self.avx512 = avx512
        self.declarations: dict[str, None] = {}
        self.definitions: dict[str, str] = {}
        self.functions: list[str] = []

    def attributes(self) -> str:
        """Of functions that work on vectors: a vector that is spilled must not lie across two cache
        lines, so the stack is aligned for it.
        """
        wide = '"prefer-vector-width"="512" ' if self.avx512 else ""
        return f'nounwind {wide}"stackrealign"'

    def text(self) -> str:
        """All of it; functions that are the same but for their names are written once."""
        seen: dict[tuple[str, str], str] = {}
        parts = [*self.declarations, *self.definitions.values()]
        for text in self.functions:
            found = FUNCTION.fullmatch(text)
            assert found is not None, text
            name = found["name"]
            first = seen.setdefault((found["linkage"], found["rest"]), name)
            parts.append(text if first == name else f"@{name} = alias i8, ptr @{first}")
        return "\n".join(parts) + "\n"


class Builder:
    """The body of one function under construction."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.avx512 = module.avx512
        self.scopes = [Scope()]
        self.depth: dict[str, int] = {}
        self.cells: list[str] = []
        self.block = "entry"
        self.count = 0
        self.barrier = 0  # the scope that loads stay inside: one that may not run at all

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"%{prefix}{self.count}"

    # -- instructions

    def pure(self, text: str, safe: bool = False) -> str:
        """The value of a pure instruction, made once, as far out as its operands allow; a load goes
        no further than the barrier, unless its address is known to be safe.
        """
        for scope in self.scopes:
            if text in scope.values:
                return scope.values[text]
        depth = self.depth_of(text)
        if not safe and depth < self.barrier and _reads_memory(text):
            depth = self.barrier
        register = self.name()
        scope = self.scopes[depth]
        scope.lines.append(f"  {register} = {text}")
        scope.values[text] = register
        self.depth[register] = depth
        return register

    def depth_of(self, text: str) -> int:
        """The scope in which all operands of an instruction are known."""
        return max((self.depth.get(r, 0) for r in REGISTER.findall(text)), default=0)

    def here(self, text: str) -> str:
        """The value of an instruction that must stay where it is."""
        register = self.name()
        self.scopes[-1].lines.append(f"  {register} = {text}")
        self.depth[register] = len(self.scopes) - 1
        return register

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self.scopes[-1].lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.scopes[-1].lines.append(f"{name}:")
        self.block = name

    def declare(self, line: str) -> None:
        self.module.declarations[line] = None

    def define(self, name: str, text: str) -> None:
        self.module.definitions.setdefault(name, text)

    def intrinsic(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """The text of a call, declared."""
        self.declare(f"declare {result} @{name}({', '.join(t for t, _ in args)})")
        return f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"

    def external(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """The text of a call of a runtime symbol."""
        return self.intrinsic(name, result, *args)

    # -- values

    def constant(self, value: float | int, ty: str, width: int) -> str:
        literal = number(value, ty)
        return literal if width == 1 else f"splat ({LLVM_TYPES[ty]} {literal})"

    def splat(self, register: str, ty: str, width: int) -> str:
        """A scalar in every lane."""
        if width == 1 or register.startswith("splat"):
            return register
        if not register.startswith("%"):
            return f"splat ({LLVM_TYPES[ty]} {register})"
        vt = vector_type(ty, width)
        first = self.pure(f"insertelement {vt} poison, {LLVM_TYPES[ty]} {register}, i64 0")
        return self.pure(
            f"shufflevector {vt} {first}, {vt} poison, <{width} x i32> zeroinitializer"
        )

    def iota(self, width: int) -> str:
        return "<" + ", ".join(f"i64 {k}" for k in range(width)) + ">"

    # -- cells and control

    def cell(self, llvm_type: str, initial: str | None = None) -> str:
        """A stack slot; SROA turns it into a register."""
        register = self.name("cell")
        self.cells.append(f"  {register} = alloca {llvm_type}, align 64")
        if initial is not None:
            self.do(f"store {llvm_type} {initial}, ptr {register}")
        return register

    @contextmanager
    def loop(self, low: str, high: str, step: int | str = 1) -> Iterator[str]:
        """A counted loop, skipped when empty; yields the counter."""
        self.count += 1
        n = self.count
        counter = f"%i{n}"
        self.scopes.append(Scope())
        self.depth[counter] = len(self.scopes) - 1
        self.block = f"L{n}"
        yield counter
        self.do(f"%n{n} = add nsw i64 {counter}, {step}")
        self.do(f"%c{n} = icmp slt i64 %n{n}, {high}")
        self.do(f"br i1 %c{n}, label %L{n}, label %X{n}")
        scope = self.scopes.pop()
        parent = self.scopes[-1].lines
        parent.append(f"  %g{n} = icmp slt i64 {low}, {high}")
        parent.append(f"  br i1 %g{n}, label %P{n}, label %X{n}")
        parent.append(f"P{n}:")
        parent.append(f"  br label %L{n}")
        parent.append(f"L{n}:")
        parent.append(f"  {counter} = phi i64 [{low}, %P{n}], [%n{n}, %{self.block}]")
        parent.extend(scope.lines)
        parent.append(f"X{n}:")
        self.block = f"X{n}"

    @contextmanager
    def shielded(self) -> Iterator[Scope]:
        """A scope that may not run: loads stay inside. The caller places its lines."""
        self.scopes.append(Scope())
        around, self.barrier = self.barrier, len(self.scopes) - 1
        yield self.scopes[-1]
        self.scopes.pop()
        self.barrier = around

    @contextmanager
    def turns(self, low: str, high: str, step: int) -> Iterator[tuple[str, str]]:
        """A counted loop around anything: loads that do not change run once, if it runs at all.
        Yields the counter and the label behind it.
        """
        self.count += 1
        n = self.count
        cell = self.cell("i64")
        with self.shielded() as before:
            self.scopes.append(Scope())
            counter = self.here(f"load i64, ptr {cell}")
            self.block = f"L{n}"
            yield counter, f"X{n}"
            after = self.here(f"add nsw i64 {counter}, {step}")
            self.do(f"store i64 {after}, ptr {cell}")
            on = self.here(f"icmp {'slt' if step > 0 else 'sgt'} i64 {after}, {high}")
            self.do(f"br i1 {on}, label %L{n}, label %X{n}")
            body = self.scopes.pop()
        self.do(f"store i64 {low}, ptr {cell}")
        some = self.here(f"icmp {'slt' if step > 0 else 'sgt'} i64 {low}, {high}")
        self.do(f"br i1 {some}, label %P{n}, label %X{n}")
        self.label(f"P{n}")
        self.scopes[-1].lines += [*before.lines, f"  br label %L{n}", f"L{n}:", *body.lines]
        self.label(f"X{n}")

    @contextmanager
    def forever(self) -> Iterator[str]:
        """A loop that ends by a branch to the label it yields."""
        self.count += 1
        n = self.count
        with self.shielded() as body:
            self.block = f"L{n}"
            yield f"X{n}"
            self.do(f"br label %L{n}")
        self.do(f"br label %L{n}")
        self.scopes[-1].lines += [f"L{n}:", *body.lines]
        self.label(f"X{n}")

    def go_on(self, condition: str, otherwise: str) -> None:
        """Goes on only if an i1 holds, else to a label."""
        self.count += 1
        self.do(f"br i1 {condition}, label %K{self.count}, label %{otherwise}")
        self.label(f"K{self.count}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Code that runs only if the condition (an i1) holds."""
        self.count += 1
        n = self.count
        with self.shielded() as scope:
            yield
        parent = self.scopes[-1].lines
        parent.append(f"  br i1 {condition}, label %T{n}, label %E{n}")
        parent.append(f"T{n}:")
        parent.extend(scope.lines)
        parent.append(f"  br label %E{n}")
        parent.append(f"E{n}:")
        self.block = f"E{n}"

    def rare(self, mask: str, width: int, choices: Sequence[tuple[str, str, str]]) -> list[str]:
        """For each choice (type, value, call) the value, or the result of the call when any lane of
        the mask is set: one branch for all of them, made once, as far out as their operands allow.
        """
        key = f"rare {mask}, {choices}"
        for scope in self.scopes:
            if key in scope.values:
                return scope.values[key].split()
        condition = mask
        if width > 1:
            bits = self.pure(f"bitcast <{width} x i1> {mask} to i{width}")
            condition = self.pure(f"icmp ne i{width} {bits}, 0")
        depth = max((self.depth.get(r, 0) for r in REGISTER.findall(key)), default=0)
        inside, self.scopes = self.scopes[depth + 1 :], self.scopes[: depth + 1]
        block = self.block
        slots = [self.cell(kind, value) for kind, value, _ in choices]
        with self.when(condition):
            for slot, (kind, _, call) in zip(slots, choices, strict=True):
                self.do(f"store {kind} {self.here(call)}, ptr {slot}")
        loads = zip(slots, choices, strict=True)
        found = [self.here(f"load {kind}, ptr {slot}") for slot, (kind, _, _) in loads]
        self.scopes[-1].values[key] = " ".join(found)
        self.scopes = self.scopes + inside
        if inside:
            self.block = block
        return found

    def function(self, signature: str, attributes: str) -> str:
        """The finished function."""
        body = "\n".join([*self.cells, *self.scopes[0].lines])
        return f"define {signature} {attributes} {{\nentry:\n{body}\n}}\n"
