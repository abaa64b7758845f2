"""Folds: how accumulators start, take a value, are merged, and become one number.

Sums of floats along the lanes are taken in blocks; block sums are added with a compensated
(two-sum) total, so that the error stays as small as NumPy's pairwise summation whatever the length.
Minima and maxima of floats carry a flag for nan. argmin and argmax carry the position.
"""

from __future__ import annotations

import math

from tailorbird.emit.builder import LLVM_TYPES, Builder, vector_type
from tailorbird.emit.casts import is_float, is_signed
from tailorbird.emit.ops import Lanes, emit_op
from tailorbird.lower.kernel import Fold, identity

UNSET = 2**63 - 1  # position of an arg fold that has seen nothing


class Accumulator:
    """One accumulator: a cell for the value, and one for the nan flag or the position if needed."""

    def __init__(self, b: Builder, fold: Fold, width: int, scan: bool = False) -> None:
        self.b = b
        self.fold = fold
        self.op = fold.op
        self.width = width
        self.ty = fold.value.ty
        self.vt = vector_type(self.ty, width)
        start = b.constant(identity(self.op, self.ty, scan), self.ty, width)
        self.cell = b.cell(self.vt, start)
        self.nan = (
            b.cell(vector_type("b1", width), b.constant(0, "b1", width)) if self.tracks_nan else ""
        )
        self.place = (
            b.cell(self.place_type, b.constant(UNSET, "i64", width)) if self.has_position else ""
        )

    @property
    def tracks_nan(self) -> bool:
        return self.op in ("min", "max") and is_float(self.ty)

    @property
    def has_position(self) -> bool:
        return self.op in ("argmin", "argmax")

    @property
    def place_type(self) -> str:
        return vector_type("i64", self.width)

    def get(self) -> str:
        return self.b.here(f"load {self.vt}, ptr {self.cell}")

    def put(self, register: str) -> None:
        self.b.do(f"store {self.vt} {register}, ptr {self.cell}")

    def reset(self) -> None:
        self.put(self.b.constant(identity(self.op, self.ty), self.ty, self.width))

    def add(self, value: str, mask: str | None, position: str = "") -> None:
        """Takes one value a lane, in the lanes of the mask."""
        if self.has_position:
            self.add_positioned(value, position, mask)
            return
        old = self.get()
        new = self.combine(old, value)
        self.put(new if mask is None else self.pick(mask, new, old))
        if not self.tracks_nan:
            return
        flags = vector_type("b1", self.width)
        bad = self.b.here(f"fcmp uno {self.vt} {value}, {value}")
        if mask is not None:
            bad = self.b.here(f"and {flags} {bad}, {mask}")
        seen = self.b.here(f"load {flags}, ptr {self.nan}")
        self.b.do(f"store {flags} {self.b.here(f'or {flags} {seen}, {bad}')}, ptr {self.nan}")

    def add_product(self, left: str, right: str, mask: str | None) -> None:
        """Adds a product, rounded once."""
        old = self.get()
        operands = ((self.vt, x) for x in (left, right, old))
        new = self.b.here(self.b.intrinsic(f"llvm.fma.{self.suffix()}", self.vt, *operands))
        self.put(new if mask is None else self.pick(mask, new, old))

    def suffix(self) -> str:
        return self.ty if self.width == 1 else f"v{self.width}{self.ty}"

    def pick(self, mask: str, a: str, b: str, vt: str = "") -> str:
        vt = vt or self.vt
        return self.b.here(f"select {vector_type('b1', self.width)} {mask}, {vt} {a}, {vt} {b}")

    def combine(self, a: str, b: str) -> str:
        """Two partial results, nan aside."""
        if self.op in ("min", "max") and is_float(self.ty):
            relation = "olt" if self.op == "min" else "ogt"
            return self.pick(self.b.here(f"fcmp {relation} {self.vt} {b}, {a}"), b, a)
        table = {
            "sum": "add",
            "prod": "multiply",
            "min": "minimum",
            "max": "maximum",
            "any": "logical_or",
            "all": "logical_and",
        }
        return emit_op(self.b, table[self.op], [a, b], [self.ty, self.ty], self.ty, self.width)

    def better(self, new: str, old: str) -> str:
        """Whether a value replaces another for argmin or argmax: nan wins, and the first nan
        stays.
        """
        x = Lanes(self.b, self.width, [], [self.ty], "b1")
        less = self.op == "argmin"
        if not is_float(self.ty):
            sign = "s" if is_signed(self.ty) else "u"
            return x.icmp(f"{sign}{'lt' if less else 'gt'}", new, old)
        wins = x.fcmp("olt" if less else "ogt", new, old)
        nan = x.bits("and", x.fcmp("uno", new, new), x.fcmp("ord", old, old))
        return x.bits("or", wins, nan)

    def add_positioned(self, value: str, position: str, mask: str | None) -> None:
        old = self.get()
        at = self.b.here(f"load {self.place_type}, ptr {self.place}")
        unset = self.b.here(
            f"icmp eq {self.place_type} {at}, {self.b.constant(UNSET, 'i64', self.width)}"
        )
        take = self.b.here(f"or {vector_type('b1', self.width)} {self.better(value, old)}, {unset}")
        if mask is not None:
            take = self.b.here(f"and {vector_type('b1', self.width)} {take}, {mask}")
        self.put(self.pick(take, value, old))
        best = self.pick(take, position, at, self.place_type)
        self.b.do(f"store {self.place_type} {best}, ptr {self.place}")

    def merge(self, other: Accumulator) -> None:
        """Takes everything another accumulator of the same width holds."""
        self.put(self.combine(self.get(), other.get()))
        if self.tracks_nan:
            flags = vector_type("b1", self.width)
            seen = [self.b.here(f"load {flags}, ptr {a.nan}") for a in (self, other)]
            self.b.do(
                f"store {flags} {self.b.here(f'or {flags} {seen[0]}, {seen[1]}')}, ptr {self.nan}"
            )

    # -- one number

    def reduced(self) -> tuple[str, str]:
        """The fold over all lanes: (value, position or empty)."""
        value = self.get()
        if self.has_position:
            return self.reduced_position(value)
        if self.width > 1:
            value = self.across(value)
        if self.tracks_nan:
            value = self.with_nan(value)
        return value, ""

    def across(self, value: str) -> str:
        scalar = LLVM_TYPES[self.ty]
        name = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "any": "or", "all": "and"}[
            self.op
        ]
        if is_float(self.ty):
            if self.op in ("sum", "prod"):
                start = self.b.constant(identity(self.op, self.ty), self.ty, 1)
                call = self.b.intrinsic(
                    f"llvm.vector.reduce.f{name}.{self.suffix()}",
                    scalar,
                    (scalar, start),
                    (self.vt, value),
                )
                return self.b.here(call.replace("call", "call reassoc", 1))
            call = self.b.intrinsic(
                f"llvm.vector.reduce.f{name}.{self.suffix()}", scalar, (self.vt, value)
            )
            return self.b.here(call.replace("call", "call nnan", 1))
        if self.op in ("min", "max") and self.ty != "b1":
            name = ("s" if is_signed(self.ty) else "u") + name
        elif self.ty == "b1":
            name = {"min": "and", "max": "or"}.get(name, name)
        suffix = self.suffix().replace("u", "i").replace("b1", "i1")
        return self.b.here(
            self.b.intrinsic(f"llvm.vector.reduce.{name}.{suffix}", scalar, (self.vt, value))
        )

    def with_nan(self, value: str) -> str:
        flag = self.b.here(f"load {vector_type('b1', self.width)}, ptr {self.nan}")
        if self.width > 1:
            bits = self.b.here(f"bitcast <{self.width} x i1> {flag} to i{self.width}")
            flag = self.b.here(f"icmp ne i{self.width} {bits}, 0")
        nan = self.b.constant(math.nan, self.ty, 1)
        return self.b.here(
            f"select i1 {flag}, {LLVM_TYPES[self.ty]} {nan}, {LLVM_TYPES[self.ty]} {value}"
        )

    def in_lanes(self) -> str:
        """The result of every lane (each its own row), nan included."""
        if self.has_position:
            return self.b.here(f"load {self.place_type}, ptr {self.place}")
        value = self.get()
        if not self.tracks_nan:
            return value
        flags = self.b.here(f"load {vector_type('b1', self.width)}, ptr {self.nan}")
        return self.pick(flags, self.b.constant(math.nan, self.ty, self.width), value)

    def reduced_position(self, value: str) -> tuple[str, str]:
        """Over lanes one by one: the better value, and the earlier position among equals."""
        at = self.b.here(f"load {self.place_type}, ptr {self.place}")
        if self.width == 1:
            return value, at
        one = Accumulator(self.b, self.fold, 1)
        for k in range(self.width):
            v = self.b.here(f"extractelement {self.vt} {value}, i64 {k}")
            p = self.b.here(f"extractelement {self.place_type} {at}, i64 {k}")
            one.merge_position(v, p)
        return one.get(), self.b.here(f"load i64, ptr {one.place}")

    def merge_position(self, value: str, position: str) -> None:
        """A scalar candidate: wins when better, or equal and earlier; a lane that saw nothing
        never wins.
        """
        b = self.b
        old, at = self.get(), b.here(f"load i64, ptr {self.place}")
        x = Lanes(b, 1, [], [self.ty], "b1")
        if is_float(self.ty):
            both = x.bits("and", x.fcmp("uno", value, value), x.fcmp("uno", old, old))
            same = x.bits("or", x.fcmp("oeq", value, old), both)
        else:
            same = x.icmp("eq", value, old)
        tie = b.here(f"and i1 {same}, {b.here(f'icmp slt i64 {position}, {at}')}")
        take = b.here(f"or i1 {self.better(value, old)}, {tie}")
        take = b.here(f"or i1 {take}, {b.here(f'icmp eq i64 {at}, {UNSET}')}")
        take = b.here(f"and i1 {take}, {b.here(f'icmp ne i64 {position}, {UNSET}')}")
        self.put(self.pick(take, value, old))
        b.do(f"store i64 {self.pick(take, position, at, 'i64')}, ptr {self.place}")


def merged(accumulators: list[Accumulator]) -> Accumulator:
    """Everything in the first accumulator, as a tree."""
    todo = list(accumulators)
    while len(todo) > 1:
        half = len(todo) // 2
        for k in range(half):
            todo[k].merge(todo[k + half])
        todo = todo[:half] + todo[2 * half :]
    return todo[0]


class Compensated:
    """A running total of block sums with the rounding errors kept beside it."""

    def __init__(self, b: Builder, ty: str, width: int) -> None:
        self.b = b
        self.ty = ty
        self.width = width
        self.vt = vector_type(ty, width)
        zero = b.constant(0.0, ty, width)
        self.total = b.cell(self.vt, zero)
        self.error = b.cell(self.vt, zero)

    def take(self, block: Accumulator) -> None:
        """Adds a block's sum and lets the block start again."""
        self.add(block.get())
        block.reset()

    def add(self, x: str) -> None:
        """total, error += x by two-sum."""
        b, vt = self.b, self.vt
        s = b.here(f"load {vt}, ptr {self.total}")
        t = b.here(f"fadd {vt} {s}, {x}")
        v = b.here(f"fsub {vt} {t}, {s}")
        back = b.here(f"fsub {vt} {t}, {v}")
        left = b.here(f"fsub {vt} {s}, {back}")
        right = b.here(f"fsub {vt} {x}, {v}")
        lost = b.here(f"fadd {vt} {left}, {right}")
        e = b.here(f"load {vt}, ptr {self.error}")
        b.do(f"store {vt} {t}, ptr {self.total}")
        b.do(f"store {vt} {b.here(f'fadd {vt} {e}, {lost}')}, ptr {self.error}")

    def result(self, rest: str) -> str:
        """The total with its errors, and what is still in the block that was not taken.

        The errors of an infinite or nan total mean nothing: they are nan and left out.
        """
        b, vt = self.b, self.vt
        t = b.here(f"load {vt}, ptr {self.total}")
        e = b.here(f"load {vt}, ptr {self.error}")
        known = b.here(f"fcmp ord {vt} {e}, {e}")
        flags = vector_type("b1", self.width)
        zero = b.constant(0.0, self.ty, self.width)
        e = b.here(f"select {flags} {known}, {vt} {e}, {vt} {zero}")
        return b.here(f"fadd {vt} {b.here(f'fadd {vt} {t}, {e}')}, {rest}")
