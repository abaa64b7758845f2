"""Products whose left factor may be mostly zeros look at it when they run.

    x @ w      x @ w {sparse}, where x may be mostly zeros

In: a graph of core ops that nobody else holds, which is changed in place, the facts of its
parameters, and the sizes of the call it is made for. Only products that are large enough for
looking to cost nothing are marked: each call decides by its own data (`emit/sparse.py`), so a mark
that is wrong costs a glance, and no answer depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailorbird import knobs
from tailorbird.ir.expr import Sym, product, substitute
from tailorbird.ir.node import Graph, Node, Value, type_of
from tailorbird.profile.infer import may_be_zeros
from tailorbird.profile.look import Facts

LARGE = 1 << 22  # products of numbers


def mark_sparse(graph: Graph, facts: Mapping[Value, Facts], sizes: Mapping[Sym, int]) -> Graph:
    """The graph with such products marked."""
    products = [node for node in graph.body.walk() if _is_large(node, sizes)]
    if products and knobs.is_on("sparse"):
        zeros = may_be_zeros(graph, facts)
        for node in products:
            if node.inputs[0] in zeros:
                node.attrs["sparse"] = True
    return graph


def _is_large(node: Node, sizes: Mapping[Sym, int]) -> bool:
    """Whether this is a product of real matrices that is large, as far as its sizes are known."""
    if node.op != "matmul" or node.result.type.dtype.kind != "f":
        return False
    work = product([*node.result.type.shape, type_of(node.inputs[0]).shape[-1]])
    known = substitute(work, sizes)
    return not isinstance(known, int) or known >= LARGE
