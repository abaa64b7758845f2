"""Functions of bytes are looked up.

    f(x), x of bytes        take(f(every byte), x)

where f is any expression of maps over one array of 8-bit integers and scalars that costs more than
looking up: a chain over an image with exp or power in it, say. The table is computed in each call,
256 elements of it, by the same maps, so the answer has the same bits.

In: a graph of core ops that nobody else holds, which is changed in place, and the sizes of the call
that it is made for. Arrays that are not much larger than the table keep their maps: that is a
guard over sizes, and smaller calls get a variant of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tailorbird import knobs
from tailorbird.ir.expr import Dim, Sym, product, substitute
from tailorbird.ir.node import Graph, Guard, Node, Operand, Region, Value, map_leaves
from tailorbird.ir.ops import OPS
from tailorbird.ir.types import INT, Type
from tailorbird.reasons import Why, why_at
from tailorbird.rewrite.walk import rebuild, replace_value

BYTES = 256
SMALLEST = 32 * BYTES  # elements of an array that is looked up
DEAR = 12  # operations of 64 bits that a look-up must save; of narrower ones twice as many
COSTS = {
    **dict.fromkeys(("divide", "sqrt", "remainder", "fmod", "floor_divide", "reciprocal"), 4),
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt"), 10),
    **dict.fromkeys(("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "erf", "expit"), 15),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"), 15),
    **dict.fromkeys(("power", "float_power", "arctan2", "logaddexp", "logaddexp2"), 25),
}


def tabulate(graph: Graph, sizes: Mapping[Sym, int], told: list[Why]) -> Graph:
    """The graph with such functions looked up; `told` gets a line for each."""
    if not knobs.is_on("tables"):
        return graph
    sources = _sources(graph.body)
    changed = False
    for root in _roots(graph, sources):
        source = sources[root]
        if _is_worth_it(root, source, sizes):
            length = product(source.type.shape)
            if not isinstance(length, int):
                graph.guards.append(Guard(">=", length - SMALLEST))
            assert root.node is not None
            operations = len(_chain(root, source))
            told.append(why_at(root.node.line, "looked_up", operations=operations))
            _look_up(graph, root, source)
            changed = True
    return rebuild(graph, {}) if changed else graph


def _sources(region: Region) -> dict[Value, Value]:
    """The one array of bytes that a value is computed from, by maps over it and scalars."""
    found: dict[Value, Value] = {}
    for node in region.nodes:
        if OPS[node.op].kind != "map" or len(node.outputs) != 1:
            continue
        arrays = [x for x in node.inputs if isinstance(x, Value) and x.type.rank]
        bases = {found.get(x, x) for x in arrays}
        if len(bases) == 1:
            (base,) = bases
            alike = all(x.type.shape == node.result.type.shape for x in arrays)
            if alike and base.type.dtype.kind in "iu" and base.type.dtype.itemsize == 1:
                found[node.result] = base
    return found


def _roots(graph: Graph, sources: Mapping[Value, Value]) -> list[Value]:
    """Those of them that something else uses, in program order."""
    used: set[Value] = set()
    for node in graph.body.walk():
        if not any(value in sources for value in node.outputs):
            used.update(x for x in node.inputs if isinstance(x, Value))
        for region in node.regions:
            used.update(x for x in region.yields if isinstance(x, Value))

    def use(x: Operand) -> Operand:
        if isinstance(x, Value):
            used.add(x)
        return x

    map_leaves(graph.results, use)
    used.update(graph.finals.values())
    return [value for value in sources if value in used]


def _chain(root: Value, source: Value) -> list[Node]:
    """The nodes between a source and what is computed from it, each after its operands."""
    chain: dict[Node, None] = {}

    def visit(x: Operand) -> None:
        if isinstance(x, Value) and x.type.rank and x is not source:
            assert x.node is not None
            if x.node not in chain:
                for y in x.node.inputs:
                    visit(y)
                chain[x.node] = None

    visit(root)
    return list(chain)


def _is_worth_it(root: Value, source: Value, sizes: Mapping[Sym, int]) -> bool:
    length = product(source.type.shape)
    count = substitute(length, sizes)
    if not isinstance(count, int) or count < SMALLEST or not _from_arguments(length):
        return False
    chain = _chain(root, source)
    wide = any(node.result.type.dtype.itemsize == 8 for node in chain)
    return sum(COSTS.get(node.op, 1) for node in chain) >= (DEAR if wide else 2 * DEAR)


def _from_arguments(length: Dim) -> bool:
    return isinstance(length, int) or all(s.kind in ("size", "int") for s in length.symbols())


def _look_up(graph: Graph, root: Value, source: Value) -> None:
    """Puts the table in front of a root, and the look-up in its place."""
    assert root.node is not None
    made = _Made(root.node.line)
    index = made.node("arange", (0, 1), {"shape": (BYTES,), "dtype": INT}, Type(INT, (BYTES,)))
    every = made.cast(index, source.type.dtype)
    table = {source: every}
    for node in _chain(root, source):
        inputs = [table.get(x, x) if isinstance(x, Value) else x for x in node.inputs]
        kind = Type(node.result.type.dtype, (BYTES,))
        table[node.result] = made.node(node.op, inputs, node.attrs, kind)
    at = made.cast(source, np.dtype(np.uint8))
    found = made.node("take", (table[root], at), {"axis": 0}, root.type)
    place = graph.body.nodes.index(root.node)
    graph.body.nodes[place:place] = made.nodes
    replace_value(graph, root, found)


class _Made:
    """Nodes on their way into a region."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.nodes: list[Node] = []

    def node(
        self, op: str, inputs: Sequence[Operand], attrs: Mapping[str, object], kind: Type
    ) -> Value:
        self.nodes.append(Node(op, inputs, dict(attrs), [kind], line=self.line))
        return self.nodes[-1].result

    def cast(self, x: Value, dtype: np.dtype) -> Value:
        kind = Type(dtype, x.type.shape)
        return x if x.type == kind else self.node("cast", (x,), {"dtype": dtype}, kind)
