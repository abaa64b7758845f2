"""A graph of core ops: what fusing and code generation know, and nothing else.

In: a verified graph. Out: a graph with the same meaning in which only these ops remain:

    maps           every ufunc that has no row below, where (on a bool), cast, erf,
                   real and imag of complex values
    reductions     sum prod min max in the dtype of their operand; argmin argmax of complex;
                   any and all of bools
    scans          cumsum cumprod in the dtype of their operand
    contractions   matmul of floats or complex values of one dtype and of rank 2 or more
    creations      full empty arange
    moves          read write reshape concatenate pad take write_mask (of a scalar) gather scatter
                   extent, and compress by a mask of the shape of its base
    regions        loop while branch, with core ops inside; call, transfer and check as they are

Invariants: decomposing twice changes nothing more; integers, bools and comparisons are bit for bit
NumPy's; floats go through the operations that NumPy goes through, save where a row names its bound.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tailorbird.ir.expr import Dim, apply
from tailorbird.ir.node import Graph, Node, Operand, type_of
from tailorbird.ir.types import INT, PYTHON_TYPES
from tailorbird.rewrite.contractions import CONTRACTIONS
from tailorbird.rewrite.lookups import element
from tailorbird.rewrite.maps import MAPS, Inputs
from tailorbird.rewrite.masks import MASKS
from tailorbird.rewrite.reductions import REDUCTIONS
from tailorbird.rewrite.walk import Builder, Row, rebuild


@cache
def _linspace_dtype(*ends: tuple[np.dtype, bool]) -> np.dtype:
    """The dtype that NumPy's linspace computes in, for two ends given as (dtype, weak)."""
    start, stop = (PYTHON_TYPES[dtype.kind](0) if weak else dtype.type(0) for dtype, weak in ends)
    return np.linspace(start, stop, 0).dtype


def _linspace(build: Builder, node: Node, inputs: Inputs) -> Operand:
    """index * step + start, the last element replaced by stop, as NumPy's own source has it.

    NumPy divides before it multiplies where the step underflows to 0; dividing by 1 elsewhere is
    exact. A step over no intervals is the whole distance.
    """
    count: Dim = node.attrs["shape"][0]
    endpoint: bool = node.attrs["endpoint"]
    work = _linspace_dtype(*((type_of(x).dtype, type_of(x).weak) for x in inputs))
    start, stop = (build.cast(x, work) for x in inputs)
    intervals = apply("max", count - 1 if endpoint else count, 1)
    distance = build("subtract", stop, start)
    step = build("divide", distance, intervals)
    vanishes = build("equal", step, 0)
    divisor = build("where", vanishes, build.cast(intervals, work), 1)
    factor = build("where", vanishes, distance, step)
    index = build("arange", 0, 1, shape=(count,), dtype=INT)
    scaled = build("multiply", build("divide", build.cast(index, work), divisor), factor)
    y = build("add", scaled, start)
    if endpoint:
        last = apply("max", count - 1, 1)
        y = build("where", build("equal", index, last), stop, y)
    return build("floor", y) if node.result.type.dtype.kind in "iu" else y


def _first(rows: list[Row]) -> Row:
    """The first of some rows that applies."""

    def row(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
        return next((x for x in (one(build, node, inputs) for one in rows) if x is not None), None)

    return row


DECOMPOSE: dict[str, Row] = {
    **MAPS,
    **REDUCTIONS,
    **CONTRACTIONS,
    "linspace": _linspace,
    "take": element,
}
DECOMPOSE |= {op: _first([row, *filter(None, [DECOMPOSE.get(op)])]) for op, row in MASKS.items()}


def decompose(graph: Graph) -> Graph:
    """The graph in core ops alone.

    >>> from tailorbird.ir.types import Type
    >>> from tailorbird.ir.node import Value
    >>> x = Value(Type(np.dtype("f4"), (3, 4)), name="x")
    >>> graph = Graph("mean", [x])
    >>> row = Type(np.dtype("f4"), (3,))
    >>> graph.results = graph.body.add("mean", [x], {"axis": (1,), "dtype": row.dtype}, row)
    >>> [node.op for node in decompose(graph).body.nodes]
    ['sum', 'cast', 'divide', 'cast']
    """
    return rebuild(graph, DECOMPOSE)
