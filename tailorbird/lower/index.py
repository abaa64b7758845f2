"""Values to expressions: what a graph value is at one index, in terms of loads and maps.

In: an operand and an index (positions over the nest's axes). Out: one expression, or a pair (real,
imaginary) for complex types. The same value at the same index gives the same expression object, so
sharing in the graph stays sharing in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.fuse.flow import Index, Position, Term, broadcast_index, flat, inlines, operands_at
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Node, Operand, Value, type_of
from tailorbird.ir.ops import OPS
from tailorbird.ir.shapes import result_dtype
from tailorbird.ir.types import SHORT
from tailorbird.lower import complex as pairs
from tailorbird.lower.kernel import PART, Buffer, Const, Ex, Load, Op, Scalar, Size, const
from tailorbird.lower.kernel import Index as AxisIndex

Parts = tuple[Ex, ...]


def is_complex(ty: str) -> bool:
    return ty in PART


def literal(x: Any, ty: str) -> Parts:
    """A scalar written in the graph, as a constant of a type."""
    if isinstance(x, Expr):
        return convert((Size(x),), "i64", ty)
    if is_complex(ty):
        value = complex(x)
        return const(value.real, PART[ty]), const(value.imag, PART[ty])
    if isinstance(x, (complex, np.complexfloating)):
        x = x.real
    if ty == "b1":
        return (Const(str(int(bool(x))), "b1"),)
    return (const(x, ty),)


def convert(parts: Parts, source: str, target: str) -> Parts:
    """A cast between types, as NumPy casts."""
    if source == target:
        return parts
    if is_complex(target):
        if is_complex(source):
            return tuple(convert((p,), PART[source], PART[target])[0] for p in parts)
        return convert(parts, source, PART[target])[0], const(0.0, PART[target])
    if is_complex(source):
        if target == "b1":
            real, imag = (convert((p,), PART[source], "b1")[0] for p in parts)
            return (Op("logical_or", (real, imag), "b1"),)
        return convert(parts[:1], PART[source], target)
    (x,) = parts
    if isinstance(x, Const) and not (source[0] == "f" and target[0] != "f"):
        return literal(x.value, target)
    return (Op("cast", (x,), target),)


def compare(op: str, a: Parts, b: Parts, ty: str) -> Ex:
    """A comparison of two numbers of a type."""
    if is_complex(ty):
        return pairs.apply(op, [a, b], [ty, ty], "b1")[0]
    return Op(op, (*a, *b), "b1")


class Inliner:
    """Builds expressions for one nest. `resolve` says how a stored value is read: a cell, a
    load, or None to inline it.
    """

    def __init__(
        self, resolve: Callable[[Value, Index], Parts | None], scalars: dict[Value, str]
    ) -> None:
        self.resolve = resolve
        self.scalars = scalars
        self.memo: dict[tuple[Value, Index], Parts] = {}

    def at(self, x: Operand, index: Index) -> Parts:
        """The operand at an index, in its own type."""
        if not isinstance(x, Value):
            return literal(x, type_of(x).short)
        key = (x, index)
        if key not in self.memo:
            self.memo[key] = self.resolve(x, index) or self.compute(x, index)
        return self.memo[key]

    def as_type(self, x: Operand, index: Index, ty: str) -> Parts:
        """The operand at an index, cast."""
        if not isinstance(x, Value):
            return literal(x, ty)
        return convert(self.at(x, index), x.type.short, ty)

    def compute(self, x: Value, index: Index) -> Parts:
        if x.node is None:
            return self.scalar(x)
        assert inlines(x.node), f"{x.node.op} is not inlined"
        if OPS[x.node.op].kind == "map":
            return self.map(x.node, index)
        if OPS[x.node.op].kind == "create":
            return self.create(x.node, index)
        if x.node.op == "write_mask":
            return self.masked(x.node, index)
        operand, where = next(operands_at(x.node, index))
        return self.at(operand, where)

    def masked(self, node: Node, index: Index) -> Parts:
        """The new value where the mask is set, else the base."""
        ty = node.result.type.short
        base, mask, new = (
            self.as_type(x, at, wanted)
            for (x, at), wanted in zip(operands_at(node, index), (ty, "b1", ty), strict=True)
        )
        part = PART.get(ty, ty)
        return tuple(Op("where", (*mask, x, y), part) for x, y in zip(new, base, strict=True))

    def scalar(self, x: Value) -> Parts:
        name, ty = self.scalars[x], x.type.short
        if is_complex(ty):
            return Scalar(f"{name}.re", PART[ty]), Scalar(f"{name}.im", PART[ty])
        return (Scalar(name, ty),)

    def map(self, node: Node, index: Index) -> Parts:
        places = [where for _, where in operands_at(node, index)]
        result = node.result.type.short
        if node.op == "cast":
            return self.as_type(node.inputs[0], places[0], result)
        if node.op in ("real", "imag"):
            return (self.at(node.inputs[0], places[0])[0 if node.op == "real" else 1],)
        if node.op == "complex":
            part = PART[result]
            return tuple(self.as_type(x, at, part)[0] for x, at in zip(node.inputs, places))
        if node.op == "where":
            types = ["b1", result, result]
        elif node.op == "erf":
            types = [result]
        else:
            dtypes, _ = result_dtype(node.op, tuple(type_of(x) for x in node.inputs))
            types = [SHORT[d.name] for d in dtypes]
        args = [
            self.as_type(x, at, ty) for x, at, ty in zip(node.inputs, places, types, strict=True)
        ]
        if any(is_complex(ty) for ty in types):
            return pairs.apply(node.op, args, types, result)
        return (Op(node.op, tuple(a for (a,) in args), result),)

    def create(self, node: Node, index: Index) -> Parts:
        ty = node.result.type.short
        if node.op == "full":
            filling = node.inputs[0]
            return self.as_type(filling, broadcast_index(filling, index), ty)
        if node.op == "empty":
            return literal(0, ty)
        return self.arange(node, index, ty)

    def arange(self, node: Node, index: Index, ty: str) -> Parts:
        """NumPy fills from the first two elements: first + i * (second - first)."""
        start, step = node.inputs
        if ty[0] in "iu" and all(isinstance(x, (int, Expr)) for x in (start, step)):
            exact = Position(start).plus(index[0].times(step))  # type: ignore[arg-type]
            return convert((self.position(exact),), "i64", ty)
        i = self.position(index[0])
        scalar_type = PART.get(ty, ty)
        work = "i64" if ty == "b1" else scalar_type
        first = self.as_type(start, (), work)[0]
        wide = "i64" if work[0] in "iu" else "f64"
        second = Op(
            "add", (self.as_type(start, (), wide)[0], self.as_type(step, (), wide)[0]), wide
        )
        delta = Op("subtract", (convert((second,), wide, work)[0], first), work)
        product = Op("multiply", (convert((i,), "i64", work)[0], delta), work)
        total: Parts = (Op("add", (first, product), work),)
        return convert(total, work, ty)

    def position(self, p: Position) -> Ex:
        """A position as an integer expression."""
        total: Ex | None = Size(p.offset) if p.offset != 0 or not (p.axes or p.terms) else None
        for axis, stride in p.axes:
            total = _plus(total, _scaled(AxisIndex(axis), stride))
        for term, stride in p.terms:
            total = _plus(total, _scaled(self.term(term), stride))
        assert total is not None
        return total

    def term(self, term: Term) -> Ex:
        """An index that has to be computed."""
        if term.kind == "load":
            assert term.value is not None
            i = self.as_type(term.value, term.positions, "i64")[0]
            if never_negative(term.value):
                return i
            wrapped = Op("add", (i, Size(term.extent)), "i64")
            return Op("where", (Op("less", (i, const(0, "i64")), "b1"), wrapped, i), "i64")
        i = self.position(term.positions[0])
        return Op(f"index_{term.kind}", (i, Size(term.extent)), "i64")

    def load(self, buffer: Buffer, index: Index) -> Parts:
        """The element of a buffer at an index."""
        at = flat(index, buffer.strides)
        computed = tuple((self.term(term), stride) for term, stride in at.terms)
        plain = Position(at.offset, at.axes)
        if is_complex(buffer.ty):
            part = PART[buffer.ty]
            halves = (Load(buffer, plain, part, k, computed, index) for k in (0, 1))
            return tuple(halves)
        return (Load(buffer, plain, buffer.ty, -1, computed, index),)


def never_negative(x: Operand) -> bool:
    """Whether an index is unsigned, or was before it was cast to a wider type."""
    if isinstance(x, Value) and x.node is not None and x.node.op == "cast":
        x = x.node.inputs[0]
    dtype = type_of(x).dtype
    return dtype.kind == "u" and dtype.itemsize < 8


def _scaled(x: Ex, stride: Dim) -> Ex:
    return x if stride == 1 else Op("multiply", (x, Size(stride)), "i64")


def _plus(total: Ex | None, x: Ex) -> Ex:
    return x if total is None else Op("add", (total, x), "i64")
