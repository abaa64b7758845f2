"""Elements of a formula are computed, not looked up.

    take(f(arange(n), s), i)      f(where(i < 0, i + n, i), s)

f is any expression of few maps over positions and scalars, of linspace, say: what it computes in
lanes costs less than lanes that each load from a place of their own. The indices are in range where
this stands: what is not known to be is behind a check.
"""

from __future__ import annotations

from tailorbird.ir.node import Node, Operand, Value
from tailorbird.ir.ops import OPS
from tailorbird.ir.types import INT
from tailorbird.rewrite.maps import Inputs
from tailorbird.rewrite.walk import Builder

MOST = 16  # maps of a formula
CHEAP = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "negative", "absolute", "square", "sqrt"),
        *("minimum", "maximum", "where", "cast", "floor", "ceil", "rint", "copysign"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "logical_not"),
    }
)


def element(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    """A `take` along the one axis of a formula."""
    base, index = inputs
    if not isinstance(base, Value) or not isinstance(index, Value) or base.type.rank != 1:
        return None
    picked = index.node is not None and index.node.op == "compress"
    if picked or not index.type.rank or not _is_formula(base):
        return None
    (size,) = base.type.shape
    wide = build.cast(index, INT)
    at = build("where", build("less", wide, 0), build("add", wide, size), wide)
    return _computed(build, base, at, {})


def _is_formula(base: Value) -> bool:
    """Whether a vector is made of positions and scalars alone, by few maps."""
    seen: set[Value] = set()
    stack: list[Operand] = [base]
    while stack:
        x = stack.pop()
        if not isinstance(x, Value) or not x.type.rank or x in seen:
            continue
        seen.add(x)
        node = x.node
        if node is None or x.type.shape != base.type.shape or len(seen) > MOST:
            return False
        if node.op == "arange":
            if node.inputs != (0, 1) or x.type.dtype != INT:
                return False
        elif OPS[node.op].kind == "map" and node.op in CHEAP:
            stack += node.inputs
        else:
            return False
    return len(seen) > 1


def _computed(build: Builder, x: Operand, at: Operand, memo: dict[Value, Operand]) -> Operand:
    """A formula at other positions."""
    if not isinstance(x, Value) or not x.type.rank:
        return x
    if x not in memo:
        node = x.node
        assert node is not None
        if node.op == "arange":
            memo[x] = at
        else:
            inputs = (_computed(build, y, at, memo) for y in node.inputs)
            memo[x] = build(node.op, *inputs, **node.attrs)
    return memo[x]
