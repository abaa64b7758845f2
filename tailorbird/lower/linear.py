"""Routines of LAPACK: what they overwrite is copied first, matrices column by column.

In: a node of an op in `ir/linear.py`. Out: the copies, and a `Factor` step.

Invariants: LAPACK works on memory of ours alone. NumPy hands it columns too, so that rows are
exchanged in the same order and rounding is the same. A result that lies by rows is copied at the
end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailorbird.ir.expr import Dim, product
from tailorbird.ir.node import Node, Value, identity_view
from tailorbird.ir.ops import LINEAR
from tailorbird.lower.kernel import Buffer, c_strides
from tailorbird.lower.steps import Factor

if TYPE_CHECKING:
    from tailorbird.lower.program import Lowerer

IN_PLACE = frozenset(("cholesky",))  # the result is where the operand was
PIVOTS = frozenset(("solve", "inv", "slogdet"))


def column_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Element strides of matrices that lie column by column."""
    *batch, column, row = c_strides((*shape[:-2], shape[-1], shape[-2]))
    return (*batch, row, column)


def is_factor(value: Value) -> bool:
    """Whether a value is a matrix that LAPACK makes."""
    node = value.node
    if node is None or node.op not in LINEAR or node.op == "slogdet":
        return False
    return value is node.outputs[0]


def factor(lowerer: Lowerer, node: Node) -> None:
    """Adds the steps of a node."""
    first = node.inputs[0]
    assert isinstance(first, Value)
    info = node.outputs[-1]
    order = first.type.shape[-1]
    matrices: list[Buffer] = []
    if node.op not in IN_PLACE:
        shape = (*info.type.shape, order, order)
        work = lowerer.new_buffer(first.type.short, shape, "temp", column_strides(shape))
        lowerer.add_copy(first, work, identity_view(shape))
        matrices.append(work)
    columns, target, home = order, None, None
    if is_factor(node.outputs[0]):
        shape = node.outputs[0].type.shape
        columns = shape[-1]
        home = target = lowerer.buffer(node.outputs[0])
        if home.strides != column_strides(shape):
            target = lowerer.new_buffer(home.ty, shape, "temp", column_strides(shape))
        if node.op in IN_PLACE or len(node.inputs) > 1:
            lowerer.add_copy(node.inputs[-1], target, identity_view(shape))
        matrices.append(target)
    vectors = [lowerer.buffer(v) for v in node.outputs[0 if target is None else 1 :]]
    if node.op in PIVOTS:
        vectors.append(lowerer.new_buffer("i64", (order,), "temp"))
    count = product(info.type.shape)
    lowerer.steps.append(Factor(node.op, tuple(matrices), tuple(vectors), order, columns, count))
    if target is not None and home is not None and target is not home:
        lowerer.steps.append(lowerer.copy(target, home, identity_view(home.shape)))
