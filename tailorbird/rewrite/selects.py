"""Branches that only choose between cheap scalars become selections.

In: a graph of core ops that nobody else holds; it is changed in place. A branch whose arms have
nothing but scalar maps, few and cheap ones, is computed without a jump: both arms, then `where`. So
loops over elements have no branch to mispredict. Maps have no effects and no traps, so computing
the arm that is not taken changes nothing. An integer that an arm binds is bound for both.
"""

from __future__ import annotations

from tailorbird import knobs
from tailorbird.dataclass import replace
from tailorbird.ir.node import Graph, Node, Operand, Region, Value, map_leaves, type_of
from tailorbird.ir.types import Type

CHEAP = frozenset(
    {
        *("add", "subtract", "multiply", "negative", "positive", "absolute", "square", "copysign"),
        *("minimum", "maximum", "fmin", "fmax", "where", "cast"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "logical_not", "logical_xor"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"),
    }
)
MOST = 12  # maps in both arms together


def select(graph: Graph) -> Graph:
    """The graph, with such branches replaced, innermost first."""
    if not knobs.is_on("select"):
        return graph
    changed: dict[Value, Operand] = {}
    _region(graph.body, changed)
    if changed:
        graph.results = map_leaves(graph.results, lambda x: _moved(x, changed))
        ends = {p: _moved(x, changed) for p, x in graph.finals.items()}
        graph.finals = {p: x for p, x in ends.items() if isinstance(x, Value)}
    return graph


def _moved(x: Operand, changed: dict[Value, Operand]) -> Operand:
    return changed.get(x, x) if isinstance(x, Value) else x


def _region(region: Region, changed: dict[Value, Operand]) -> None:
    nodes: list[Node] = []
    for node in region.nodes:
        node.inputs = tuple(_moved(x, changed) for x in node.inputs)
        for inner in node.regions:
            _region(inner, changed)
        if node.op == "branch" and _is_choice(node):
            nodes += _choose(node, changed)
        else:
            nodes.append(node)
    region.nodes = nodes
    region.yields = tuple(_moved(x, changed) for x in region.yields)


def _is_choice(node: Node) -> bool:
    inside = [inner for region in node.regions for inner in region.nodes]
    ends = [type_of(x) for region in node.regions for x in region.yields]
    if not node.outputs or len(inside) > MOST:
        return False
    if any(t.rank or t.dtype.kind == "c" for t in ends):
        return False
    return all(n.op == "bind" or (n.op in CHEAP and not n.result.type.rank) for n in inside)


def _choose(node: Node, changed: dict[Value, Operand]) -> list[Node]:
    """What stands in place of a branch: the nodes of both arms, and a selection for each result."""
    nodes = [inner for region in node.regions for inner in region.nodes]
    first, second = (region.yields for region in node.regions)
    for result, x, y in zip(node.outputs, first, second):
        kind = Type(result.type.dtype)
        strong = []
        for end in (x, y):
            if type_of(end) != kind:
                nodes.append(Node("cast", [end], {"dtype": kind.dtype}, [kind], line=node.line))
                end = nodes[-1].result
            strong.append(end)
        made = Node("where", [node.inputs[0], *strong], {}, [kind], line=node.line)
        nodes.append(made)
        if result.type.weak:
            weak = replace(kind, weak=True)
            nodes.append(Node("cast", [made.result], {"dtype": kind.dtype}, [weak], line=node.line))
        changed[result] = nodes[-1].result
    return nodes
