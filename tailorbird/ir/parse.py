"""Text to graph: a recursive descent over the grammar in docs/ir.md.

In: the text that `show` writes, or text written by hand. Out: a graph; `show(parse(t)) == t` for
text that `show` wrote. What does not follow the grammar raises `ParseError` with line and caret.

Invariants: parsing runs nothing and imports nothing: a function that a `call` names stays a name.
What kind a symbol is follows from where it stands: listed after `ints`, shown by a parameter's
type, the variable of an enclosing loop, bound by a node before it, or else a size known only at
run time.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from tailorbird.ir.items import Items
from tailorbird.ir.node import Graph, Guard, Node, Operand, Region, Value
from tailorbird.ir.ops import OPS
from tailorbird.ir.show import REGIONS, show
from tailorbird.ir.types import LONG, Type

INTERNED: WeakValueDictionary[str, Graph] = WeakValueDictionary()


def parse(text: str) -> Graph:
    """The graph that a text describes; the interned one, if an equal graph was interned."""
    known = INTERNED.get(text)
    if known is not None:
        return known
    parser = _Parser(text)
    try:
        return parser.graph()
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        parser.fail(f"{type(error).__name__}: {error}")


def intern(graph: Graph) -> Graph:
    """The one graph kept for this text, so that `parse(show(g)) is g`. It must not change later."""
    return INTERNED.setdefault(show(graph), graph)


class _Parser(Items):
    """Graphs, regions and nodes."""

    def graph(self) -> Graph:
        self.skip_lines()
        self.expect("graph")
        name = self.item() if self.next.kind == "string" else self.take("name").text
        self.expect("(")
        ints = self.announced_ints()
        self.kinds = dict.fromkeys(ints, "int")
        graph = Graph(name, ints=ints)
        while self.next.kind == "value":
            graph.parameters.append(self.parameter())
            self.accept(",")
        if self.accept(";"):
            self.expect("ints")
            self.series(lambda: self.take("name"))
        self.expect(")")
        self.end_line()
        self.new_kind = "fresh"
        if self.accept("given"):
            graph.guards = self.series(self.guard)
            self.end_line()
        self.nodes(graph.body, "return")
        graph.results = self.item()
        self.end_line()
        self.finals(graph)
        return graph

    def announced_ints(self) -> list[str]:
        """The names after `ints` on this line, read ahead: types may use them."""
        line = [t for t in self.tokens[self.at :] if t.line == self.next.line]
        words = [t.text for t in line]
        start = words.index(";") if ";" in words else len(words)
        return [t.text for t in line[start + 2 :] if t.kind == "name"]

    def guard(self) -> Guard:
        expr = self.dim()
        token = self.take("sign")
        if token.text not in ("==", "!=", ">="):
            self.fail("expected ==, != or >=", token)
        if self.take("int").text != "0":
            self.fail("a guard compares with 0")
        return Guard(token.text, expr)

    def finals(self, graph: Graph) -> None:
        while self.accept("final"):
            parameter = self.value()
            self.expect(":=")
            graph.finals[parameter] = self.value()
            self.end_line()
        if self.next.kind != "end":
            self.fail(f"expected the end, found {self.next}")

    def parameter(self) -> Value:
        """`%x: f32[n]`, a value that is in scope from here."""
        name, type = self.typed()
        self.values[name] = Value(type, name=name[1:])
        return self.values[name]

    def typed(self) -> tuple[str, Type]:
        token = self.take("value")
        if token.text in self.values:
            self.fail(f"{token.text} is defined twice", token)
        self.expect(":")
        return token.text, self.read_type()

    def nodes(self, region: Region, end: str) -> None:
        """The nodes of a region, up to and with the word that ends it."""
        while not self.accept(end):
            region.append(self.node(region))

    def node(self, parent: Region) -> Node:
        results: list[tuple[str, Type]] = []
        if self.next.kind == "value":
            results = self.series(self.typed)
            self.expect("=")
        token = self.take("name")
        if token.text not in OPS:
            self.fail(f"no op {token.text!r}", token)
        attrs: dict[str, Any] = {}
        inputs = self.inputs(token.text, attrs)
        if self.accept("{"):
            attrs.update(self.closed(self.attribute, "}"))
        line = self.end_line()
        regions = [self.region(label, parent, attrs) for label in REGIONS.get(token.text, ())]
        node = Node(token.text, inputs, attrs, [type for _, type in results], regions, line)
        self.values.update(zip([name for name, _ in results], node.outputs))
        return node

    def inputs(self, op: str, attrs: dict[str, Any]) -> list[Operand]:
        """The operands, in the form the op is written in."""
        if op in ("read", "write"):
            base = [self.value()]
            attrs["view"] = self.view()
            if op == "write":
                self.expect("<-")
            return [*base, self.item()] if op == "write" else [*base]
        if op == "loop":
            attrs["var"] = self.take("name").text
            self.expect("in")
            start = self.item()
            self.expect(":")
            stop = self.item()
            self.expect(":")
            bounds = [start, stop, self.item()]
            return [*bounds, *self.series(self.item)] if self.accept(",") else bounds
        if op == "bind":
            name = self.take("name").text
            self.expect("=")
            bound = self.item()
            attrs["symbol"] = name
            self.kinds[name] = "value"
            return [bound]
        if self.next.text == "{" or self.next.kind in ("newline", "comment", "end"):
            return []
        return self.series(self.item)

    def attribute(self) -> tuple[str, Any]:
        name = self.take("name").text
        if not self.accept("="):
            return name, True
        if name == "dtype":
            return name, self.look_up(LONG, "dtype")
        return name, self.item()

    def region(self, label: str, parent: Region, attrs: dict[str, Any]) -> Region:
        """`label (parameters)`, nodes, `yield operands`; the loop's variable is known inside."""
        self.expect(label)
        region = Region(parent)
        before = dict(self.kinds)
        if "var" in attrs:
            self.kinds[attrs["var"]] = "loop"
        if self.accept("("):
            region.parameters = self.closed(self.parameter, ")")
        self.end_line()
        self.nodes(region, "yield")
        if self.next.kind not in ("newline", "comment", "end"):
            region.yields = tuple(self.series(self.item))
        self.kinds = before
        self.end_line()
        return region
