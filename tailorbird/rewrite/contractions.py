"""dot, matmul and einsum: a matrix product where it is one, else a sum of products.

In: nodes of kind contract. Out: rows for the walker. All three become labels: each operand axis has
one (`terms`), and `output` lists those of the result; what is not in the output is summed over.

    matmul   two operands of floats, one summed label that both have, a label of its own for each:
             reads put the axes as (batch, row, summed) and (batch, summed, column); labels beyond
             the last of an operand's own are batch axes that the other broadcasts
    sum      everything else: operands are read along the axes of all labels, with 1 for a label
             they lack, multiplied, and summed. A label twice in one operand is a diagonal

Invariants: an operand's axis of the literal 1 broadcasts against a label that is longer; operands
are cast to the dtype of the result first; the sum of bools is `any`, their product `logical_and`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Node, Operand, View, identity_view, type_of
from tailorbird.ir.types import BOOL
from tailorbird.rewrite.maps import Inputs
from tailorbird.rewrite.walk import Builder, Row

Labels = tuple[str, ...]


def _extents(operands: Sequence[Operand], terms: Sequence[Labels]) -> dict[str, Dim]:
    """How long each label is: the first dimension that is not the literal 1."""
    extents: dict[str, Dim] = {}
    for x, term in zip(operands, terms, strict=True):
        for label, dim in zip(term, type_of(x).shape, strict=True):
            if extents.get(label, 1) == 1:
                extents[label] = dim
    return extents


def _along(
    build: Builder, x: Operand, term: Labels, order: Labels, extents: dict[str, Dim]
) -> Operand:
    """x read along the labels of `order`, with 1 for those it lacks; leading ones are left out."""
    shape = type_of(x).shape
    long = {label for label, dim in zip(term, shape) if dim != 1 or extents[label] == 1}
    while order and order[0] not in term:
        order = order[1:]
    dims: list[tuple[Dim, Dim, int | None]] = []
    for label, dim in zip(term, shape, strict=True):
        spread = dim == 1 and label in long and extents[label] != 1
        dims.append((0, 0, None) if spread else (0, 1, order.index(label)))
    view = View(tuple(dims), tuple(extents[label] if label in long else 1 for label in order))
    return x if view == identity_view(shape) else build("read", x, view=view)


def _matrix_order(terms: Sequence[Labels], output: Labels) -> tuple[Labels, str, str, str] | None:
    """(batch, row, summed, column) labels when this is a matrix product, else None."""
    if len(terms) != 2 or any(len(set(term)) != len(term) for term in terms):
        return None
    a, b = terms
    summed = [label for label in dict.fromkeys(a + b) if label not in output]
    rows = [label for label in output if label not in b]
    columns = [label for label in output if label not in a]
    if len(summed) != 1 or not rows or not columns or not all(summed[0] in t for t in terms):
        return None
    row, column = rows[-1], columns[-1]
    batch = tuple(label for label in output if label not in (row, column))
    return batch, row, summed[0], column


def _matrix_product(
    build: Builder, operands: Sequence[Operand], terms: Sequence[Labels], output: Labels
) -> Operand | None:
    """The contraction as one matmul and a read that orders its axes, if it is one."""
    labels = _matrix_order(terms, output)
    if labels is None:
        return None
    batch, row, summed, column = labels
    extents = _extents(operands, terms)
    ends = [type_of(x).shape[term.index(summed)] for x, term in zip(operands, terms, strict=True)]
    if ends[0] != ends[1]:
        return None
    x = _along(build, operands[0], terms[0], (*batch, row, summed), extents)
    y = _along(build, operands[1], terms[1], (*batch, summed, column), extents)
    found = (*batch, row, column)
    return _along(build, build("matmul", x, y), found, output, extents)


def _order(terms: Sequence[Labels], output: Labels) -> Labels:
    """The order of all labels: that of an operand which has them all, or output before summed."""
    every = dict.fromkeys(label for term in terms for label in term)
    for term in terms:
        kept = tuple(label for label in term if label in output)
        if len(term) == len(every) and set(term) == set(every) and kept == output:
            return term
    return (*output, *(label for label in every if label not in output))


def _sum_of_products(
    build: Builder, operands: Sequence[Operand], terms: Sequence[Labels], output: Labels
) -> Operand:
    extents = _extents(operands, terms)
    order = _order(terms, output)
    parts = [_along(build, x, term, order, extents) for x, term in zip(operands, terms)]
    boolean = type_of(parts[0]).dtype == BOOL
    times = "logical_and" if boolean else "multiply"
    total = reduce(lambda x, y: build(times, x, y), parts)
    axis = tuple(k for k, label in enumerate(order) if label not in output)
    if not axis:
        return total
    if boolean:
        return build.reduce("any", total, axis)
    return build.reduce("sum", total, axis, dtype=type_of(total).dtype)


def contract(
    build: Builder,
    operands: Sequence[Operand],
    terms: Sequence[Labels],
    output: Labels,
    dtype: np.dtype,
) -> Operand:
    """The sum over the labels that are not in the output of the product of the operands."""
    operands = [build.cast(x, dtype) for x in operands]
    if dtype.kind in "fc":
        made = _matrix_product(build, operands, terms, output)
        if made is not None:
            return made
    return _sum_of_products(build, operands, terms, output)


def _names(prefix: str, count: int) -> Labels:
    return tuple(f"{prefix}{k}" for k in range(count))


def _einsum(build: Builder, node: Node, inputs: Inputs) -> Operand:
    before, _, after = node.attrs["subscripts"].replace(" ", "").partition("->")
    terms = [tuple(term) for term in before.split(",")]
    dtype = node.result.type.dtype
    found = contract(build, inputs, terms, tuple(after), dtype)
    alone = set(before) <= {*after, ","} and dtype.kind == "f"
    zeros = len(terms) > 1 and (alone or dtype.kind == "c")  # which BLAS does not begin with
    return build("add", found, 0.0) if zeros else found


def _dot(build: Builder, node: Node, inputs: Inputs) -> Operand:
    """The last axis of the first operand with the last but one of the second."""
    a, b = (type_of(x).rank for x in inputs)
    if not a or not b:
        return build("multiply", *inputs)
    rows = _names("row", a - 1)
    columns = _names("column", b - 1)
    terms = [(*rows, "k"), (*columns[:-1], "k", *columns[-1:])]
    return contract(build, inputs, terms, rows + columns, node.result.type.dtype)


def _matmul(build: Builder, node: Node, inputs: Inputs) -> Operand | None:
    a, b = (type_of(x).rank for x in inputs)
    dtype = node.result.type.dtype
    if dtype.kind in "fc" and a > 1 and b > 1:
        if all(type_of(x).dtype == dtype for x in inputs):
            return None
        return build("matmul", *(build.cast(x, dtype) for x in inputs))
    batch = _names("batch", max(a, b, 2) - 2)
    row: Labels = ("row",) if a > 1 else ()
    column: Labels = ("column",) if b > 1 else ()
    x = (*batch[len(batch) - max(a - 2, 0) :], *row, "k")
    y = (*batch[len(batch) - max(b - 2, 0) :], "k", *column)
    return contract(build, inputs, [x, y], (*batch, *row, *column), dtype)


CONTRACTIONS: dict[str, Row] = {"einsum": _einsum, "dot": _dot, "matmul": _matmul}
