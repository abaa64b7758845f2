"""Fewer arrays that are in memory only to be moved.

In: a graph of core ops. Out: one with the same meaning.

    map of reshapes          a reshape of the map. A reshape needs what was computed in memory:
                             then that is one array behind the map, not several in front of it
    reshape of a reshape     one reshape
    read of a concatenation  a read of the part that it is in

Invariant: a map moves only where every array that it reads is a reshape, and what was reshaped are
arrays of one shape but for axes of one element. A map that reads other arrays too stays with them.
"""

from __future__ import annotations

from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Graph, Node, Operand, Value, View, type_of
from tailorbird.ir.ops import OPS
from tailorbird.rewrite.maps import Inputs
from tailorbird.rewrite.walk import Builder, Row, rebuild

MOVES = frozenset(("reshape", "concatenate"))


def simplify_moves(graph: Graph) -> Graph:
    """The graph, with fewer moves of data."""
    if not any(node.op in MOVES for node in graph.body.walk()):
        return graph
    return rebuild(graph, ROWS)


def _without_ones(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(d for d in shape if d != 1)


def _source(x: Operand) -> Value | None:
    """What is computed and then only has another shape."""
    node = x.node if isinstance(x, Value) else None
    base = node.inputs[0] if node is not None and node.op == "reshape" else None
    if not isinstance(base, Value) or base.node is None:
        return None
    computed = OPS[base.node.op].kind == "map" or base.node.op == "read"
    return base if computed else None


def _reshape(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    """A reshape of a reshape is one."""
    x = inputs[0]
    inner = x.node if isinstance(x, Value) else None
    if inner is None or inner.op != "reshape":
        return None
    return build.reshape(inner.inputs[0], node.attrs["shape"])


def _read(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    """A read of one place along the axis of a concatenation."""
    x, view = inputs[0], node.attrs["view"]
    made = x.node if isinstance(x, Value) else None
    if made is None or made.op != "concatenate":
        return None
    axis: int = made.attrs["axis"]
    at, step, along = view.dims[axis]
    if along is not None or not isinstance(at, int):
        return None
    for part in made.inputs:
        size = type_of(part).shape[axis]
        if not isinstance(size, int):
            return None
        if at < size:
            dims = tuple((at, step, None) if k == axis else d for k, d in enumerate(view.dims))
            return build("read", part, view=View(dims, view.shape))
        at -= size
    return None


def _map(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    """The map of what the reshapes are made of."""
    shape = node.result.type.shape
    arrays = [x for x in inputs if type_of(x).rank]
    sources = [_source(x) for x in arrays]
    first = sources[0] if sources else None
    if first is None or any(type_of(x).shape != shape for x in arrays):
        return None
    form = first.type.shape
    if any(y is None or _without_ones(y.type.shape) != _without_ones(form) for y in sources):
        return None
    if _without_ones(form) == _without_ones(shape):
        return None
    moved = {x: build.reshape(y, form) for x, y in zip(arrays, sources) if y is not None}
    made = build(node.op, *(moved.get(x, x) for x in inputs), **node.attrs)
    return build.reshape(made, shape)


ROWS: dict[str, Row] = {op: _map for op, row in OPS.items() if row.kind == "map"}
ROWS |= {"reshape": _reshape, "read": _read}
