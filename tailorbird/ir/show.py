"""A graph as text: one node a line, the source line as comment. The grammar is in docs/ir.md.

In: a graph. Out: text that `parse.parse` turns back into an equal graph; it is also what travels
between machines and what the cache is keyed by.

Invariants: the text depends on the graph alone, not on how its values were named while it was made.
Parameters go by their names; results are numbered in program order; what a write or a loop makes of
a value is a version of it, `%A.1`. Attributes are sorted. Floats are written so that every bit
comes back. A static Python object that text cannot carry prints as `opaque(...)`, which does not
parse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Argument, Graph, Node, Operand, Region, Slot, Static, Value
from tailorbird.ir.types import SHORT

REGIONS = {"loop": ("do",), "while": ("test", "do"), "branch": ("then", "else")}
SHOWN_APART = {"read": ("view",), "write": ("view",), "loop": ("var",), "bind": ("symbol",)}
VERSIONS = frozenset({"write", "write_mask", "scatter"})
PLAIN_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*\Z")
TYPE_NAMES: dict[type, str] = {
    **{python: python.__name__ for python in (bool, int, float, complex)},
    **{np.dtype(name).type: short for name, short in SHORT.items()},
}


def show(graph: Graph, lines: bool = True) -> str:
    """The text of a graph; without `lines`, the source lines are left out."""
    return "\n".join(text for text, _ in show_lines(graph, lines)) + "\n"


def show_lines(graph: Graph, lines: bool = True) -> list[tuple[str, Node | None]]:
    """The lines of the text, each with the node it shows."""
    return _Printer(graph, lines).lines


class _Printer:
    """Names every value, then writes line by line."""

    def __init__(self, graph: Graph, comments: bool) -> None:
        self.names = name_values(graph)
        self.comments = comments
        self.lines: list[tuple[str, Node | None]] = []
        self.graph(graph)

    def emit(self, depth: int, text: str, node: Node | None = None) -> None:
        comment = f"   # {node.line}" if node and node.line and self.comments else ""
        self.lines.append(("  " * depth + text + comment, node))

    def graph(self, graph: Graph) -> None:
        ints = f"; ints {', '.join(graph.ints)}" if graph.ints else ""
        name = graph.name if PLAIN_NAME.match(graph.name) else repr(graph.name)
        self.emit(0, f"graph {name}({self.typed(graph.parameters)}{ints})")
        if graph.guards:
            self.emit(1, f"given {', '.join(map(str, graph.guards))}")
        self.nodes(graph.body, 1)
        self.emit(1, f"return {self.item(graph.results)}")
        for parameter, value in graph.finals.items():
            self.emit(1, f"final {self.value(parameter)} := {self.operand(value)}")

    def nodes(self, region: Region, depth: int) -> None:
        for node in region.nodes:
            results = f"{self.typed(node.outputs)} = " if node.outputs else ""
            self.emit(depth, results + self.operation(node), node)
            for label, inner in zip(REGIONS.get(node.op, ()), node.regions):
                parameters = f" ({self.typed(inner.parameters)})" if inner.parameters else ""
                self.emit(depth + 1, label + parameters)
                self.nodes(inner, depth + 2)
                self.emit(depth + 2, f"yield {self.operands(inner.yields)}".rstrip())

    def operation(self, node: Node) -> str:
        text = FORMS.get(node.op, _Printer.plain)(self, node)
        apart = SHOWN_APART.get(node.op, ())
        shown = [self.attribute(k, x) for k, x in sorted(node.attrs.items()) if k not in apart]
        return f"{text} {{{', '.join(shown)}}}" if shown else text

    def plain(self, node: Node) -> str:
        return f"{node.op} {self.operands(node.inputs)}".rstrip()

    def read(self, node: Node) -> str:
        return f"read {self.operand(node.inputs[0])}{node.attrs['view']}"

    def write(self, node: Node) -> str:
        base, x = map(self.operand, node.inputs)
        return f"write {base}{node.attrs['view']} <- {x}"

    def loop(self, node: Node) -> str:
        start, stop, step, *carried = map(self.operand, node.inputs)
        return ", ".join([f"loop {node.attrs['var']} in {start}:{stop}:{step}", *carried])

    def bind(self, node: Node) -> str:
        return f"bind {node.attrs['symbol']} = {self.operand(node.inputs[0])}"

    def attribute(self, name: str, x: Any) -> str:
        if x is True:
            return name
        if name == "dtype" and isinstance(x, np.dtype):
            return f"dtype={SHORT[x.name]}"
        return f"{name}={self.item(x)}"

    def typed(self, values: Iterable[Value]) -> str:
        return ", ".join(f"{self.value(v)}: {v.type}" for v in values)

    def value(self, x: Value) -> str:
        return f"%{self.names.get(x, '?')}"

    def operands(self, xs: Iterable[Operand]) -> str:
        return ", ".join(map(self.operand, xs))

    def operand(self, x: Operand) -> str:
        return self.value(x) if isinstance(x, Value) else literal_text(x)

    def item(self, x: Any) -> str:
        """Anything that can stand in an attribute or a result."""
        if isinstance(x, Value):
            return self.value(x)
        if isinstance(x, Argument):
            return f"argument({self.value(x.parameter)})"
        if isinstance(x, Static):
            return f"static({self.item(x.value)})"
        if type(x) is tuple:
            return f"({', '.join(map(self.item, x))}{',' if len(x) == 1 else ''})"
        if type(x) is list:
            return f"[{', '.join(map(self.item, x))}]"
        if type(x) is dict:
            return f"{{{', '.join(f'{self.item(k)}: {self.item(v)}' for k, v in x.items())}}}"
        return literal_text(x)


FORMS: dict[str, Callable[[_Printer, Node], str]] = {
    "read": _Printer.read,
    "write": _Printer.write,
    "loop": _Printer.loop,
    "bind": _Printer.bind,
}


def float_text(x: float) -> str:
    """A float inside parentheses: the shortest text that is exactly it, or a signed inf or nan."""
    if math.isnan(x):
        return "-nan" if math.copysign(1, x) < 0 else "nan"
    return repr(float(x))


def literal_text(x: Any) -> str:
    """A scalar, or another static value that has no parts."""
    if isinstance(x, Expr) or x is None or type(x) in (bool, int, str):
        return str(x) if isinstance(x, Expr) else repr(x)
    if type(x) is float:
        return repr(x) if math.isfinite(x) else f"float({float_text(x)})"
    if type(x) is complex:
        return f"complex({float_text(x.real)}, {float_text(x.imag)})"
    if isinstance(x, np.generic) and x.dtype.name in SHORT:
        return f"{SHORT[x.dtype.name]}({_scalar_text(x)})"
    if isinstance(x, Slot):
        return f"slot({x.index})"
    if isinstance(x, slice):
        return f"slice({', '.join(map(literal_text, (x.start, x.stop, x.step)))})"
    if isinstance(x, np.dtype) and x.name in SHORT:
        return f"dtype({SHORT[x.name]})"
    if isinstance(x, type) and x in TYPE_NAMES:
        return f"type({TYPE_NAMES[x]})"
    return "ellipsis()" if x is Ellipsis else f"opaque({str(x)!r})"


def _scalar_text(x: Any) -> str:
    if x.dtype.kind == "c":
        return f"{float_text(float(x.real))}, {float_text(float(x.imag))}"
    return float_text(float(x)) if x.dtype.kind == "f" else repr(x.item())


# Names


def name_values(graph: Graph) -> dict[Value, str]:
    """The name of every value, from the structure and the names of the parameters alone."""
    return _Names(graph).names


class _Names:
    """Numbers for new values, versions `root.k` for what is made out of an older one."""

    def __init__(self, graph: Graph) -> None:
        self.names: dict[Value, str] = {}
        self.roots: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {"": 0}
        for k, parameter in enumerate(graph.parameters):
            wanted = re.sub(r"[^\w.]+", "_", parameter.name).strip(".") or f"arg{k}"
            self.give(parameter, wanted if wanted not in self.taken else self.next(wanted))
        self.region(graph.body)

    def give(self, value: Value, name: str, root: str = "") -> None:
        self.names[value] = name
        self.roots[value] = root or name
        self.taken.add(name)

    def next(self, root: str) -> str:
        """The next free version of a root, or the next free number."""
        while True:
            count = self.counts.get(root, 1)
            self.counts[root] = count + 1
            name = f"{root}.{count}" if root else str(count)
            if name not in self.taken:
                return name

    def version(self, value: Value, of: Operand | None) -> None:
        root = self.roots.get(of, "") if isinstance(of, Value) else ""
        self.give(value, self.next(root), root)

    def region(self, region: Region) -> None:
        for node in region.nodes:
            carried = self.carried(node)
            for inner in node.regions:
                for value, of in zip(inner.parameters, carried):
                    self.version(value, of)
                self.region(inner)
            for k, value in enumerate(node.outputs):
                self.version(value, carried[k] if k < len(carried) else None)

    def carried(self, node: Node) -> list[Operand]:
        """The operands that results are versions of, for the ops that make versions."""
        if node.op in VERSIONS:
            return [node.inputs[0]]
        starts = {"loop": 3, "while": 0}
        return list(node.inputs[starts[node.op] :]) if node.op in starts else []
