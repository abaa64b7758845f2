"""Where symbols get their values: sizes from parameters, fresh ones from the value that shows them.

In: a graph. Out: for each value, the (axis, symbol) pairs that it binds. A symbol is bound by the
first value in program order whose type has it alone as a dimension; later values are checked
against it. A symbol bound inside a region is not known outside; a region that runs again binds
again. The symbol of a `bind` node is no size: it is known from there to the end of the region.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.ir.node import Graph, Region, Value, View

Binders = dict[Value, tuple[tuple[int, Sym], ...]]


def bare(dim: Dim) -> Sym | None:
    """The symbol that a dimension is, when it is nothing but a symbol."""
    if not isinstance(dim, Expr) or len(dim.terms) != 1:
        return None
    monomial, coefficient = dim.terms[0]
    if coefficient != 1 or len(monomial) != 1 or monomial[0].kind == "op":
        return None
    return monomial[0]


def sizes_of(graph: Graph, values: Sequence[Any]) -> dict[Sym, int]:
    """The sizes and integers of a call, by symbol."""
    sizes: dict[Sym, int] = {}
    for parameter, value in zip(graph.parameters, values):
        for dim, size in zip(parameter.type.shape, np.shape(value)):
            found = bare(dim)
            if found is not None:
                sizes[found] = size
    for name, value in zip(graph.ints, values[len(graph.parameters) :]):
        sizes[Sym(name, "int")] = value
    return sizes


def symbols_in(x: Any) -> set[Sym]:
    """The symbols in an operand, an attribute, a view, or a tuple of them."""
    if isinstance(x, Expr):
        return set(x.symbols())
    if isinstance(x, View):
        x = (x.dims, x.shape)
    return set().union(*map(symbols_in, x)) if isinstance(x, tuple) else set()


def binders(graph: Graph) -> Binders:
    """Which value binds which symbols, at which axes."""
    found: Binders = {}
    known = {Sym(name, "int") for name in graph.ints}
    _bind(graph.parameters, known, found)
    _bind_region(graph.body, known, found)
    return found


def _bind(values: Iterable[Value], known: set[Sym], found: Binders) -> None:
    for value in values:
        pairs = []
        for axis, dim in enumerate(value.type.shape):
            sym = bare(dim)
            if sym is not None and sym not in known and sym.kind in ("size", "fresh"):
                known.add(sym)
                pairs.append((axis, sym))
        if pairs:
            found[value] = tuple(pairs)


def _bind_region(region: Region, known: set[Sym], found: Binders) -> None:
    for node in region.nodes:
        for inner in node.regions:
            inside = set(known)
            _bind(inner.parameters, inside, found)
            _bind_region(inner, inside, found)
        _bind(node.outputs, known, found)
