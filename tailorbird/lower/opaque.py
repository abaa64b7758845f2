"""Nodes that are left to Python, as calls that need nothing but their operands.

In: a node without generated code. Out: a `call` node whose template holds no symbol: every exact
integer in an attribute becomes an operand. The functions here are the meanings of the moves that
have none in the table of ops, as `ir/interp.py` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Node, Operand, Slot
from tailorbird.ir.ops import OPS

HERE = "tailorbird.lower.opaque"


def as_call(node: Node) -> Node:
    """The node, or a call that does the same with sizes as operands."""
    inputs: list[Operand] = list(node.inputs)

    def lifted(x: Any) -> Any:
        if isinstance(x, Expr):
            inputs.append(x)
            return Slot(len(inputs) - 1)
        if isinstance(x, tuple | list):
            return type(x)(lifted(item) for item in x)
        return x

    if node.op == "call":
        attrs = {**node.attrs, "template": lifted(node.attrs["template"])}
    elif OPS[node.op].meaning is not None and not _has_symbols(tuple(node.attrs.values())):
        return node
    else:
        given = tuple(Slot(k) for k in range(len(node.inputs)))
        # The size of what is picked is known only after the call.
        known = {name: x for name, x in node.attrs.items() if name != "size"}
        named = tuple((name, lifted(x)) for name, x in known.items())
        attrs = {"function": f"{HERE}:run", "template": ((node.op, *given), named)}
    call = Node("call", inputs, attrs, [v.type for v in node.outputs], line=node.line)
    call.outputs = node.outputs
    return call


def _has_symbols(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return any(map(_has_symbols, x))
    return isinstance(x, Expr)


def run(op: str, *operands: Any, **attrs: Any) -> Any:
    """What a node means."""
    meaning = OPS[op].meaning or MOVES[op]
    return meaning(*operands, **attrs)


def _write_mask(base: Any, mask: Any, x: Any) -> Any:
    changed = np.array(base)
    changed[mask] = x
    return changed


def _compress(base: Any, mask: Any) -> Any:
    return base[mask]


def _place(rank: int, indices: tuple[Any, ...], axes: tuple[int, ...] | None) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * rank
    for axis, x in zip(axes or range(len(indices)), indices):
        index[axis] = x
    return tuple(index)


def _gather(base: Any, *indices: Any, axes: tuple[int, ...] | None = None) -> Any:
    return base[_place(base.ndim, indices, axes)]


def _scatter(base: Any, *rest: Any, axes: tuple[int, ...] | None = None) -> Any:
    *indices, x = rest
    changed = np.array(base)
    changed[_place(base.ndim, tuple(indices), axes)] = x
    return changed


MOVES: dict[str, Callable[..., Any]] = {
    "write_mask": _write_mask,
    "compress": _compress,
    "gather": _gather,
    "scatter": _scatter,
}
