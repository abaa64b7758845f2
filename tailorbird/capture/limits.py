"""How small and how large integers computed from arrays can be, by the ops that made them.

In: a value, a limit. Out: whether all its elements surely are on the right side of it; False where
nobody knows. Sums and products are not followed, for they may wrap around.
"""

from __future__ import annotations

import numpy as np

from tailorbird.capture.tracer import Tracer
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Node, Operand, Value, type_of

SAME_ELEMENTS = frozenset(("read", "reshape", "compress", "take", "gather"))
DEEPEST = 8


def is_within(t: Tracer, x: Operand, size: Dim) -> bool:
    """Whether 0 <= x < size, for all elements; that a size is not 0 may become a guard."""
    if _is_inside(t, x, size):
        return True
    if isinstance(size, int) or t.assume.hint(size) in (None, 0):
        return False
    mark = t.assume.enter()
    t.assume.suppose(t.assume.canon(size - 1))
    found = _is_inside(t, x, size)
    t.assume.leave(mark)
    return found and t.at_least(size, 1)


def _is_inside(t: Tracer, x: Operand, size: Dim) -> bool:
    return _is_beyond(t, x, 0, 1) and _is_beyond(t, x, t.assume.canon(size - 1), -1)


def _is_beyond(t: Tracer, x: Operand, limit: Dim, sign: int, deep: int = DEEPEST) -> bool:
    """Whether x >= limit for a sign of 1, x <= limit for one of -1."""
    if isinstance(x, (int, np.integer, Expr)) and not isinstance(x, bool):
        exact = x if isinstance(x, Expr) else int(x)
        return t.assume.proved(t.assume.canon((exact - limit) * sign))
    if not isinstance(x, Value) or not deep:
        return False
    kind = x.type.dtype.kind
    if kind not in "biu":
        return False
    if kind in "bu" and sign > 0 and t.assume.proved(t.assume.canon(-limit)):
        return True
    if kind == "b":
        return sign < 0 and t.assume.proved(t.assume.canon(limit - 1))
    node = x.node
    if node is None:
        return False
    if node.op in ("maximum", "minimum"):
        one_is_enough = (node.op == "maximum") == (sign > 0)
        found = (_is_beyond(t, y, limit, sign, deep - 1) for y in node.inputs)
        return any(found) if one_is_enough else all(found)
    if node.op == "where":
        return all(_is_beyond(t, y, limit, sign, deep - 1) for y in node.inputs[1:])
    wider = node.op == "cast" and np.can_cast(type_of(node.inputs[0]).dtype, x.type.dtype)
    if wider or node.op in SAME_ELEMENTS:
        return _is_beyond(t, node.inputs[0], limit, sign, deep - 1)
    end = _end_of(t, node, sign)
    return end is not None and t.assume.proved(t.assume.canon((end - limit) * sign))


def _end_of(t: Tracer, node: Node, sign: int) -> Dim | None:
    """The least, or the most, that an op of its own gives."""
    if node.op == "arange" and node.inputs == (0, 1):
        return 0 if sign > 0 else node.attrs["shape"][0] - 1
    if node.op == "remainder":
        by = node.inputs[1]
        by = int(by) if isinstance(by, np.integer) else by
        if isinstance(by, (int, Expr)) and t.assume.proved(t.assume.canon(by - 1)):
            return 0 if sign > 0 else by - 1
    return None
