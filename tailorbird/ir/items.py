"""The small parts of graph text: expressions, types, views, operands, attributes, results.

In: tokens. Out: the Python value of each part. Reading a part runs nothing and imports nothing; a
Python object that text cannot carry is a `ParseError`. The grammar is in docs/ir.md.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.ir.expr import FUNCTIONS, Dim, apply, divide_exactly, symbol
from tailorbird.ir.node import Argument, Slot, Static, Value, View
from tailorbird.ir.show import TYPE_NAMES
from tailorbird.ir.tokens import Reader
from tailorbird.ir.types import LONG, Type

CONSTANTS = {"None": None, "True": True, "False": False}
TYPES = {name: python for python, name in TYPE_NAMES.items()}


class Items(Reader):
    """Expressions, types, views, and everything that can stand as an operand or attribute."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.values: dict[str, Value] = {}
        self.kinds: dict[str, str] = {}
        self.new_kind = "size"

    # Expressions and types

    def dim(self) -> Dim:
        total = self.term()
        while self.next.text in ("+", "-"):
            self.accept("+")
            total = total + self.term()
        return total

    def term(self) -> Dim:
        sign = -1 if self.accept("-") else 1
        result = sign * self.factor()
        while self.accept("*"):
            result = result * self.factor()
        return result

    def factor(self) -> Dim:
        if self.next.kind == "int":
            return int(self.take("int").text)
        if self.next.text in CONSTANTS:
            self.fail(f"expected a size or an integer, found {self.next}")
        name = self.take("name").text
        if name in FUNCTIONS and self.accept("("):
            return self.applied(name, self.closed(self.dim, ")"))
        return symbol(name, self.kinds.setdefault(name, self.new_kind))

    def applied(self, name: str, arguments: list[Dim]) -> Dim:
        if len(arguments) != 2:
            self.fail(f"{name} takes two expressions")
        if name == "pow" and isinstance(arguments[1], int) and not 0 <= arguments[1] <= 64:
            self.fail("an exponent lies between 0 and 64")
        return apply(name, *arguments)

    def look_up(self, table: dict[str, Any], what: str, prefix: str = "") -> Any:
        token = self.take("name")
        if token.text.removeprefix(prefix) not in table:
            self.fail(f"no {what} {token.text!r}", token)
        return table[token.text.removeprefix(prefix)]

    def read_type(self) -> Type:
        if self.next.text.startswith("py_"):
            return Type(self.look_up(LONG, "dtype", "py_"), weak=True)
        dtype = self.look_up(LONG, "dtype")
        return Type(dtype, tuple(self.closed(self.dim, "]")) if self.accept("[") else ())

    # Views: `[1:n0-1, i, *1]`. Slices give result axes in order, or each says its own after `@`.

    def view(self) -> View:
        opening = self.next
        self.expect("[")
        dims: list[tuple[Dim, Dim, int | None]] = []
        shape: dict[int, Dim] = {}
        for start, step, count, axis in self.closed(self.index, "]"):
            if count is None:
                dims.append((start or 0, 0, None))
                continue
            axis = len(shape) if axis is None else axis
            if shape.setdefault(axis, count) != count:
                self.fail(f"two sizes for result axis {axis}", opening)
            if start is not None:
                dims.append((start, step, axis))
        if sorted(shape) != list(range(len(shape))):
            self.fail("the view leaves out a result axis", opening)
        return View(tuple(dims), tuple(shape[k] for k in range(len(shape))))

    def index(self) -> tuple[Dim | None, Dim, Dim | None, int | None]:
        """Start (None: no base axis), step, count (None: a fixed index) and result axis if said."""
        if self.accept("*"):
            return None, 0, self.dim(), self.axis()
        start = self.dim()
        if not self.accept(":"):
            return start, 0, None, None
        counted = self.accept("(")
        middle = self.dim()
        if counted:
            self.expect(")")
        step = self.dim() if self.accept(":") else 1
        count = middle if counted else divide_exactly(middle - start, step)
        if count is None:
            self.fail(f"the step {step} does not divide {middle - start}")
        return start, step, count, self.axis()

    def axis(self) -> int | None:
        return int(self.take("int").text) if self.accept("@") else None

    # Operands, attributes, results

    def value(self) -> Value:
        token = self.take("value")
        if token.text not in self.values:
            self.fail(f"{token.text} is not defined here", token)
        return self.values[token.text]

    def item(self) -> Any:
        """An operand, an attribute, a result or a static value."""
        token = self.next
        if token.kind == "value":
            return self.value()
        if token.kind == "string":
            return ast.literal_eval(self.take("string").text)
        if token.text in CONSTANTS:
            return CONSTANTS[self.take("name").text]
        if token.kind == "name" and self.second.text == "(" and token.text not in FUNCTIONS:
            return self.constructed()
        if self.accept("("):
            return tuple(self.closed(self.item, ")"))
        if self.accept("["):
            return self.closed(self.item, "]")
        if self.accept("{"):
            return dict(self.closed(self.pair, "}"))
        first = self.second if token.text == "-" else token
        return self.real() if first.kind == "float" else self.dim()

    def pair(self) -> tuple[Any, Any]:
        key = self.item()
        self.expect(":")
        return key, self.item()

    def real(self) -> float:
        sign = -1.0 if self.accept("-") else 1.0
        token = self.next
        if token.kind not in ("float", "int") and token.text not in ("inf", "nan"):
            self.fail(f"expected a number, found {token}")
        return math.copysign(float(self.take(token.kind).text), sign)

    def constructed(self) -> Any:
        """`name(...)`: what a bare number or name cannot say."""
        token = self.take("name")
        self.expect("(")
        if token.text in NAMED:
            result = self.look_up(NAMED[token.text], token.text)
            self.expect(")")
            return result
        if token.text not in MAKERS:
            self.fail(f"{token.text}(...) is nothing that text can carry", token)
        kind = LONG[token.text].kind if token.text in LONG else ""
        real = kind in ("f", "c") or token.text in ("float", "complex")
        arguments = self.closed(self.real if real else self.item, ")")
        try:
            return MAKERS[token.text](*arguments)
        except (TypeError, ValueError, OverflowError) as error:
            self.fail(f"{token.text}: {error}", token)


def _scalar(dtype: np.dtype) -> Callable[..., Any]:
    return lambda *x: dtype.type(complex(*x) if dtype.kind == "c" else x[0])


NAMED: dict[str, dict[str, Any]] = {"dtype": LONG, "type": TYPES}
MAKERS: dict[str, Callable[..., Any]] = {
    "argument": Argument,
    "complex": complex,
    "ellipsis": lambda: Ellipsis,
    "float": float,
    "slice": slice,
    "slot": Slot,
    "static": Static,
    **{short: _scalar(dtype) for short, dtype in LONG.items()},
}
