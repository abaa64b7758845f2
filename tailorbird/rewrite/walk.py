"""One walker: rebuilds a graph through a table of rows, until no row applies.

In: a graph and a table from op to row. A row is a function `(build, node, inputs)`: `node` is the
node to replace, `inputs` its operands in the new graph. It returns the operand that takes the place
of the node's result, or None to keep the node. Out: a new graph.

Invariants: the old graph is not changed; both share the values that are parameters. What a row
makes goes through the rows again, so a row may use any op. A replacement has the shape of the
result it replaces and is cast to its dtype. Pure nodes are hash-consed and those that nothing needs
are dropped. A node is needed, too, when it binds a symbol that something needed mentions: by the
type of a result, or as a `bind` node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tailorbird.dataclass import replace
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.ir.node import (
    Graph,
    Node,
    Operand,
    Region,
    Value,
    View,
    leaves,
    map_leaves,
    type_of,
)
from tailorbird.ir.ops import OPS
from tailorbird.ir.scope import binders
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import Type

EFFECTS = frozenset({"call", "check"})


class Builder:
    """Makes nodes in a region: `build("add", x, y)` is the operand that stands for x + y.

    `weak` says that the node being replaced is a Python scalar: what is made of weak operands alone
    is then weak as well.
    """

    __slots__ = ("line", "region", "rows", "weak")

    def __init__(self, region: Region, rows: Mapping[str, Row]) -> None:
        self.region = region
        self.rows = rows
        self.line = ""
        self.weak = False

    def __call__(self, op: str, /, *inputs: Operand, **attrs: Hashable) -> Operand:
        result = infer(op, inputs, attrs)
        if self.weak and all(type_of(x).weak for x in inputs):
            result = replace(result, weak=True)
        return self.emit(Node(op, inputs, attrs, [result], line=self.line), inputs)

    def emit(self, node: Node, inputs: tuple[Operand, ...]) -> Operand:
        """What a node becomes here: what its row makes of it, or the same node."""
        row = self.rows.get(node.op)
        made = None if row is None else row(self, node, inputs)
        if made is None:
            return self.region.add(node.op, inputs, node.attrs, node.result.type, node.line)
        return self._fit(made, node.result.type)

    def _fit(self, x: Operand, wanted: Type) -> Operand:
        """x, cast where its dtype or weakness is not the wanted one."""
        found = type_of(x)
        assert found.shape == wanted.shape, f"{found} cannot stand for {wanted}"
        if found == wanted:
            return x
        return self.region.add("cast", (x,), {"dtype": wanted.dtype}, wanted, self.line)

    # The nodes that rows make most

    def cast(self, x: Operand, dtype: np.dtype) -> Operand:
        """x in a dtype."""
        return x if type_of(x).dtype == dtype else self("cast", x, dtype=dtype)

    def reduce(
        self,
        op: str,
        x: Operand,
        axis: tuple[int, ...],
        keepdims: bool = False,
        dtype: np.dtype | None = None,
    ) -> Operand:
        """A reduction, with the attributes that are not the default."""
        attrs: dict[str, Any] = {"axis": axis}
        if keepdims:
            attrs["keepdims"] = True
        if dtype is not None:
            attrs["dtype"] = dtype
        return self(op, x, **attrs)

    def full(self, x: Operand, like: Type) -> Operand:
        """A scalar in every element of a type."""
        return self("full", x, shape=like.shape, dtype=like.dtype)

    def reshape(self, x: Operand, shape: tuple[Dim, ...]) -> Operand:
        """The elements of x in another shape."""
        return x if type_of(x).shape == shape else self("reshape", x, shape=shape)


Row = Callable[[Builder, Node, tuple[Operand, ...]], Operand | None]


def rebuild(graph: Graph, rows: Mapping[str, Row]) -> Graph:
    """The graph after the rows, without what nothing needs."""
    values: dict[Value, Operand] = {}
    body = _rebuild_region(graph.body, None, rows, values)

    def moved(x: Any) -> Any:
        return values.get(x, x) if isinstance(x, Value) else x

    new = Graph(
        graph.name,
        list(graph.parameters),
        list(graph.ints),
        list(graph.guards),
        body,
        map_leaves(graph.results, moved),
        {p: _value(body, moved(x), p.type) for p, x in graph.finals.items()},
    )
    _Needed(new).prune()
    return new


def replace_value(graph: Graph, old: Value, new: Value) -> None:
    """Puts one value in the place of another, wherever that is read."""

    def moved(x: Operand) -> Operand:
        return new if x is old else x

    for node in graph.body.walk():
        node.inputs = tuple(map(moved, node.inputs))
        for region in node.regions:
            region.yields = tuple(map(moved, region.yields))
    graph.results = map_leaves(graph.results, moved)
    graph.finals = {p: new if x is old else x for p, x in graph.finals.items()}


def _rebuild_region(
    old: Region, parent: Region | None, rows: Mapping[str, Row], values: dict[Value, Operand]
) -> Region:
    new = Region(parent)
    new.parameters = list(old.parameters)
    build = Builder(new, rows)
    for node in old.nodes:
        inputs = _moved(node.inputs, values)
        if len(node.outputs) == 1 and OPS[node.op].kind not in ("region", "effect"):
            build.line = node.line
            build.weak = node.result.type.weak
            _stands_for(node.result, build.emit(node, inputs), values)
            continue
        checked = rows["check"](build, node, inputs) if node.op == "check" in rows else None
        inputs = inputs if checked is None else (checked,)
        regions = [_rebuild_region(region, new, rows, values) for region in node.regions]
        types = [value.type for value in node.outputs]
        copy = new.append(Node(node.op, inputs, dict(node.attrs), types, regions, node.line))
        for before, after in zip(node.outputs, copy.outputs):
            _stands_for(before, after, values)
    new.yields = _moved(old.yields, values)
    return new


def _moved(xs: Sequence[Operand], values: Mapping[Value, Operand]) -> tuple[Operand, ...]:
    return tuple(values.get(x, x) if isinstance(x, Value) else x for x in xs)


def _stands_for(old: Value, new: Operand, values: dict[Value, Operand]) -> None:
    values[old] = new
    if isinstance(new, Value) and not new.name:
        new.name = old.name


def _value(region: Region, x: Operand, wanted: Type) -> Value:
    """x as a value: a literal is wrapped in a node."""
    if isinstance(x, Value):
        return x
    return region.add("cast", (x,), {"dtype": wanted.dtype}, replace(wanted, weak=False))


class _Needed:
    """Which values and symbols something needs, found from the end of the graph backwards."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: set[Value] = set()
        self.symbols: set[Sym] = set()
        self.binders = binders(graph)
        by_type = len(self.binders) > sum(p in self.binders for p in graph.parameters)
        self.tracks = by_type or any(node.op == "bind" for node in graph.body.walk())

    def prune(self) -> None:
        self.use(tuple(leaves(self.graph.results)))
        self.use(tuple(self.graph.finals.values()))
        self.prune_region(self.graph.body)

    def prune_region(self, region: Region) -> None:
        self.use(region.yields)
        kept: list[Node] = []
        for node in reversed(region.nodes):
            if self.needs(node):
                kept.append(node)
                self.use_node(node)
        region.nodes = kept[::-1]
        alive = set(map(id, kept))
        # What was dropped must not be found again by `Region.add`.
        region._seen = {key: node for key, node in region._seen.items() if id(node) in alive}

    def needs(self, node: Node) -> bool:
        if node.op == "bind":
            return Sym(node.attrs["symbol"], "value") in self.symbols
        if node.op in EFFECTS or any(self.needs_value(value) for value in node.outputs):
            return True
        return any(inner.op in EFFECTS for region in node.regions for inner in region.walk())

    def needs_value(self, value: Value) -> bool:
        if value in self.values:
            return True
        return any(sym in self.symbols for _, sym in self.binders.get(value, ()))

    def use_node(self, node: Node) -> None:
        self.use(node.inputs)
        if self.tracks:
            self.use(tuple(node.attrs.values()))
            self.use(tuple(value.type.shape for value in node.outputs))
        for region in node.regions:
            if self.tracks:
                self.use(tuple(value.type.shape for value in region.parameters))
            self.prune_region(region)

    def use(self, x: Any) -> None:
        """Marks every value and symbol in an operand, an attribute or a tuple of them."""
        if isinstance(x, Value):
            self.values.add(x)
        elif isinstance(x, Expr):
            self.symbols |= x.symbols()
        elif isinstance(x, tuple | list):
            for item in x:
                self.use(item)
        elif isinstance(x, View):
            self.use((x.dims, x.shape))
