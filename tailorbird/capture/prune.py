"""What a captured graph does not need: nodes, and values that loops and branches carry in vain.

In: a graph, whose regions are changed in place. Out: the same graph without them.

Invariants: calls and checks are needed, since they may raise or leave. A node is needed for its
results, and for the symbols that the types of its results or a `bind` give a value. A carried value
is needed if its result is, or if something needed in the body reads it; a loop is walked until that
no longer grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tailorbird.ir.expr import Expr, Sym
from tailorbird.ir.node import Graph, Node, Region, Value, View, leaves
from tailorbird.ir.scope import binders

EFFECTS = frozenset(("call", "check"))
BOUNDS = {"loop": 3, "while": 0}


def prune(graph: Graph) -> None:
    """Takes out what no result, final or effect depends on."""
    needed = _Needed(graph)
    needed.use(tuple(leaves(graph.results)))
    needed.use(tuple(graph.finals.values()))
    needed.region(graph.body)
    _Sweep(needed).region(graph.body)


class _Needed:
    """The values and symbols that are needed, found from the end of the graph backwards."""

    def __init__(self, graph: Graph) -> None:
        self.values: set[Value] = set()
        self.symbols: set[Sym] = set()
        self.binders = binders(graph)
        self.effects: dict[Node, bool] = {}

    def use(self, x: Any) -> None:
        """Marks every value and symbol in an operand, an attribute or a tuple of them."""
        if isinstance(x, Value):
            self.values.add(x)
        elif isinstance(x, Expr):
            self.symbols |= x.symbols()
        elif isinstance(x, (tuple, list)):
            for item in x:
                self.use(item)
        elif isinstance(x, View):
            self.use((x.dims, x.shape))

    def value(self, x: Value) -> bool:
        return x in self.values or any(sym in self.symbols for _, sym in self.binders.get(x, ()))

    def node(self, node: Node) -> bool:
        if node.op == "bind":
            return Sym(node.attrs["symbol"], "value") in self.symbols
        return self.has_effect(node) or any(map(self.value, node.outputs))

    def has_effect(self, node: Node) -> bool:
        found = self.effects.get(node)
        if found is None:
            inner = (n for region in node.regions for n in region.nodes)
            found = node.op in EFFECTS or any(map(self.has_effect, inner))
            self.effects[node] = found
        return found

    def carried(self, node: Node, k: int) -> bool:
        """Whether the k-th result of a node with regions is needed, outside or inside."""
        own = [region.parameters[k] for region in node.regions if region.parameters]
        return any(map(self.value, (node.outputs[k], *own)))

    def region(self, region: Region) -> None:
        for node in reversed(region.nodes):
            if self.node(node):
                self.use(tuple(value.type.shape for value in node.outputs))
                self.use(tuple(node.attrs.values()))
                (self.loop if node.op in BOUNDS else self.plain)(node)

    def plain(self, node: Node) -> None:
        """A node that runs its regions at most once."""
        self.use(node.inputs)
        for region in node.regions:
            self.use(pick(region.yields, [k for k, v in enumerate(node.outputs) if self.value(v)]))
            self.region(region)

    def loop(self, node: Node) -> None:
        """A node whose body reads what it yields."""
        first = BOUNDS[node.op]
        self.use(node.inputs[:first])
        size = -1
        while size < len(self.values) + len(self.symbols):
            size = len(self.values) + len(self.symbols)
            kept = [k for k in range(len(node.outputs)) if self.carried(node, k)]
            for region in node.regions:
                if region.parameters or node.outputs:
                    self.use(pick([p.type.shape for p in region.parameters], kept))
                self.use(tuple(yielded(node, region, kept)))
                self.region(region)
        self.use(pick(node.inputs[first:], kept))


def yielded(node: Node, region: Region, kept: Sequence[int]) -> tuple[Any, ...]:
    """The yields of a loop's region for these results, with a flag or a condition."""
    if node.op == "while" and region is node.regions[0]:
        return region.yields
    return (*pick(region.yields, kept), *region.yields[len(node.outputs) :])


def pick(xs: Sequence[Any], places: Iterable[int]) -> tuple[Any, ...]:
    return tuple(xs[k] for k in places)


class _Sweep:
    """Takes out what was not marked."""

    def __init__(self, needed: _Needed) -> None:
        self.needed = needed

    def region(self, region: Region) -> None:
        region.nodes = [node for node in region.nodes if self.needed.node(node)]
        for node in region.nodes:
            if node.regions:
                self.results(node)
            for inner in node.regions:
                self.region(inner)

    def results(self, node: Node) -> None:
        """Drops the results, and what is carried for them, that nothing needs."""
        first = BOUNDS.get(node.op)
        if first is None:
            kept = [k for k, v in enumerate(node.outputs) if self.needed.value(v)]
        else:
            kept = [k for k in range(len(node.outputs)) if self.needed.carried(node, k)]
        if len(kept) == len(node.outputs):
            return
        for region in node.regions:
            region.yields = yielded(node, region, kept)
            if region.parameters:
                region.parameters = list(pick(region.parameters, kept))
        if first is not None:
            node.inputs = (*node.inputs[:first], *pick(node.inputs[first:], kept))
        keep_results(node, kept)


def keep_results(node: Node, kept: Sequence[int]) -> None:
    """A node with only some of its results."""
    node.outputs = pick(node.outputs, kept)
    for k, value in enumerate(node.outputs):
        value.index = k
