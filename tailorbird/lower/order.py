"""In which order the axes of a map's result lie: NumPy keeps the order of its operands.

In: a value, and the order in which parameters and stored values lie. Out: "F" when every operand of
full shape lies in Fortran order, else "C". Transposed reads turn one into the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailorbird.ir.node import Node, Value, View
from tailorbird.ir.ops import OPS

FLIPPED = {"C": "F", "F": "C"}


def layout_order(layout: str, rank: int) -> str:
    """The order of an argument by its layout."""
    return "F" if layout == "F" or (layout == "S0" and rank == 2) else "C"


def order_of(value: Value, known: Mapping[Value, str], memo: dict[Value, str]) -> str:
    """The order NumPy would give a value of rank 2 or more."""
    if value in known:
        return known[value]
    if value not in memo:
        memo[value] = "C"
        if value.node is not None:
            memo[value] = _of_node(value.node, value, known, memo)
    return memo[value]


def _of_node(node: Node, value: Value, known: Mapping[Value, str], memo: dict[Value, str]) -> str:
    if OPS[node.op].kind == "map":
        shape = value.type.shape
        whole = [x for x in node.inputs if isinstance(x, Value) and x.type.shape == shape]
        found = {order_of(x, known, memo) for x in whole}
        return "F" if found == {"F"} else "C"
    if node.op == "read" and isinstance(node.inputs[0], Value):
        below = order_of(node.inputs[0], known, memo)
        return {1: below, -1: FLIPPED[below]}.get(_turn(node.attrs["view"]), "C")
    return "C"


def _turn(view: View) -> int:
    """1 when a view keeps the axes in order, -1 when it reverses them, else 0."""
    axes = [axis for _, _, axis in view.dims]
    rank = len(view.shape)
    if axes == list(range(rank)):
        return 1
    return -1 if axes == list(reversed(range(rank))) else 0
