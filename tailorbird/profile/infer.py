"""What facts of the arguments say about what is computed from them.

In: a graph of core ops, and the facts of its parameters. Out: the values that may be mostly zeros.
"May" is enough: it is looked at when the product runs. Zeros come from arguments that have them,
from `maximum(x, 0)` and what else cuts off, from a selection of 0, and from factors that are bools.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tailorbird.ir.node import Graph, Node, Operand, Value, type_of
from tailorbird.profile.look import NOTHING, Facts

CUTTING = frozenset(("maximum", "minimum", "fmax", "fmin"))
KEEPING = frozenset(
    {
        *("read", "reshape", "cast", "negative", "positive", "absolute", "sqrt", "square", "sign"),
        *("floor", "ceil", "rint", "trunc", "sin", "tan", "sinh", "tanh", "expm1", "log1p"),
    }
)


def may_be_zeros(graph: Graph, facts: Mapping[Value, Facts]) -> set[Value]:
    """The values that may be mostly zeros."""
    found = {p for p in graph.parameters if facts.get(p, NOTHING).zeros}
    for node in graph.body.walk():
        if len(node.outputs) == 1 and _makes_zeros(node, found):
            found.add(node.result)
    return found


def _makes_zeros(node: Node, found: set[Value]) -> bool:
    inputs = node.inputs
    if node.op in CUTTING:
        return any(map(_is_zero, inputs))
    if node.op == "where":
        return any(_is_zero(x) or x in found for x in inputs[1:])
    if node.op == "multiply":
        return any(x in found or _is_mask(x) for x in inputs)
    if node.op == "divide":
        return inputs[0] in found
    return node.op in KEEPING and inputs[0] in found


def _is_zero(x: Operand) -> bool:
    """The number 0, or an array of it."""
    if isinstance(x, Value):
        node = x.node
        return node is not None and node.op in ("full", "cast") and _is_zero(node.inputs[0])
    return isinstance(x, (int, float, np.number)) and not isinstance(x, bool) and x == 0


def _is_mask(x: Operand) -> bool:
    """Bools that stand for numbers."""
    if not isinstance(x, Value) or x.node is None or x.node.op != "cast":
        return False
    return type_of(x.node.inputs[0]).dtype.kind == "b"
