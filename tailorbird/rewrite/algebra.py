"""Sums of products are computed in the order that costs least.

    a @ b @ v                a @ (b @ v)
    sum(x @ w, axis=1)       x @ sum(w, axis=1)
    trace(a @ b)             sum(a * b.T)
    diag(d) @ x              d[:, None] * x
    (a @ b)[3]               a[3] @ b

and whatever else `products.py` reads as factors with labelled axes: orders of up to `MOST` factors
are compared by what they cost for the sizes of the call at hand, and the cheapest is taken where
that saves a third (`MARGIN`), or half (`GUARDED`).

In: a captured graph that nobody else holds, which is changed in place. Out: the graph.

Invariants:
- Where numbers are multiplied in other groups than written, every element of the result has to be
  finite, else the order that is written is computed as well: a branch in the graph. An infinity or
  nan anywhere in between reaches the result, so a finite one says that nothing overflowed and that
  no nan was lost. The error bound stays the same: as many factors in every product, sums no longer
  than before.
- `TAILOR_OFF=algebra` and `tailor(exact=True)` keep the order that is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

from tailorbird import knobs
from tailorbird.dataclass import dataclass
from tailorbird.ir.expr import Dim, Sym, substitute
from tailorbird.ir.node import Graph, Node, Operand, Region, Value, identity_view, leaves, type_of
from tailorbird.ir.ops import OPS
from tailorbird.reasons import Why, why_at
from tailorbird.rewrite.contractions import contract
from tailorbird.rewrite.products import Labels, Product, Unlike
from tailorbird.rewrite.reductions import REDUCTIONS
from tailorbird.rewrite.walk import Builder, rebuild, replace_value

MOST = 6  # factors whose orders are compared
MARGIN = 1.5  # times that what is written must cost more
GUARDED = 2.0  # the same where it may have to be computed as well
LARGE = 1 << 14  # cost from which it matters
STREAMED = 8  # cost of a product of two numbers that is no part of a matrix product
ROOTS = frozenset({"matmul", "dot", "sum", "read"})


def reorder(graph: Graph, sizes: Mapping[Sym, int], told: list[Why]) -> Graph:
    """The graph with its products in the cheapest order; `told` gets a line for each."""
    if not knobs.is_on("algebra") or not any(n.op in ("matmul", "dot") for n in graph.body.nodes):
        return graph
    graph = rebuild(graph, {"mean": REDUCTIONS["mean"]})
    uses = _uses(graph)
    done: set[Node] = set()
    changed = False
    for node in graph.body.nodes[::-1]:
        if node.op not in ROOTS or node in done or node.result.type.dtype.kind != "f":
            continue
        try:
            product = Product(node, uses)
        except Unlike:
            continue
        done.update(product.nodes)
        changed |= _reordered(graph, node, product, sizes, told)
    return rebuild(graph, {}) if changed else graph


def _uses(graph: Graph) -> Counter[Value]:
    """How often each value is read."""
    found: Counter[Value] = Counter()
    for node in graph.body.walk():
        found.update(x for x in node.inputs if isinstance(x, Value))
        for region in node.regions:
            found.update(x for x in region.yields if isinstance(x, Value))
    found.update(x for x in leaves(graph.results) if isinstance(x, Value))
    found.update(graph.finals.values())
    return found


def _reordered(
    graph: Graph, root: Node, product: Product, sizes: Mapping[Sym, int], told: list[Why]
) -> bool:
    """Puts one product in its cheapest order; whether that pays."""
    output = product.output
    known = {label: substitute(extent, sizes) for label, extent in product.extents.items()}
    extents = {label: extent for label, extent in known.items() if isinstance(extent, int)}
    before = _written(product.nodes, sizes)
    if len(extents) < len(known) or before < LARGE or len(set(output)) < len(output):
        return False
    if not 2 <= len(product.factors) <= MOST:
        return False
    tree = _cheapest(product.terms, output, extents)
    guarded = tree.regroups or product.spread
    if tree.cost * (GUARDED if guarded else MARGIN) > before:
        return False
    region = Region()
    build = Builder(region, {})
    build.line = root.line
    result = _made(build, tree, product, output)
    if product.spread:
        result = build("add", result, 0.0)  # to a sum of zeros, so that -0 is 0 as written
    if not isinstance(result, Value) or result.type != root.result.type:
        return False
    at = graph.body.nodes.index(root)
    finite = _all_finite(build, result) if guarded else result
    graph.body.nodes[at:at] = region.nodes
    if guarded:
        _branch(graph, root, result, finite)
    else:
        replace_value(graph, root.result, result)
    times = f"{before / max(tree.cost, 1.0):.3g}"
    told.append(why_at(root.line, "reordered", factors=len(product.factors), times=times))
    return True


def _all_finite(build: Builder, x: Value) -> Operand:
    finite = build("isfinite", x)
    return build.reduce("all", finite, tuple(range(x.type.rank))) if x.type.rank else finite


def _branch(graph: Graph, root: Node, result: Value, condition: Operand) -> None:
    """Puts the result in the place of a node where the condition holds; else the node runs, and
    what is computed for it alone.
    """
    at = graph.body.nodes.index(root)
    kept, written = Region(graph.body), _taken_out(graph, root)
    kept.yields = (result,)
    kinds = [root.result.type]
    branch = Node("branch", [condition], {}, kinds, [kept, written], root.line)
    graph.body.nodes.insert(at + 1 - len(written.nodes), branch)
    replace_value(graph, root.result, branch.result)
    written.yields = (root.result,)


def _taken_out(graph: Graph, root: Node) -> Region:
    """A region of its own for a node and what is computed for it alone."""
    taken = {root}
    readers: dict[Value, list[Node]] = {}
    ends = {x for x in (*leaves(graph.results), *graph.finals.values()) if isinstance(x, Value)}
    for node in graph.body.walk():
        for x in node.inputs:
            if isinstance(x, Value):
                readers.setdefault(x, []).append(node)
        ends.update(x for r in node.regions for x in r.yields if isinstance(x, Value))
    for node in graph.body.nodes[::-1]:
        read = [reader for value in node.outputs for reader in readers.get(value, ())]
        pure = OPS[node.op].kind not in ("effect", "region") and ends.isdisjoint(node.outputs)
        if pure and read and taken.issuperset(read):
            taken.add(node)
    region = Region(graph.body)
    region.nodes = [node for node in graph.body.nodes if node in taken]
    graph.body.nodes = [node for node in graph.body.nodes if node not in taken]
    return region


def _written(nodes: Sequence[Node], sizes: Mapping[Sym, int]) -> float:
    """What the nodes cost as they are written."""
    total = 0.0
    for node in nodes:
        shape: tuple[Dim, ...] = node.result.type.shape
        first, weight = type_of(node.inputs[0]).shape, 1
        if node.op in ("matmul", "dot"):
            ranks = [type_of(x).rank for x in node.inputs]
            shape, weight = (*shape, first[-1]), 1 if ranks == [2, 2] else STREAMED
        elif node.op == "sum":
            shape = first
        found = [substitute(d, sizes) for d in shape]
        if node.op == "reshape" or any(not isinstance(d, int) for d in found):
            continue
        total += weight * prod(d for d in found if isinstance(d, int))
    return total


@dataclass(frozen=True)
class Tree:
    """How factors are multiplied: one of them, or two trees. `regroups` says that it is not just
    every product of one number of each that is summed.
    """

    labels: Labels
    cost: float
    regroups: bool
    factor: int = -1
    sides: tuple[Tree, ...] = ()


def _cheapest(terms: Sequence[Labels], output: Labels, extents: Mapping[str, int]) -> Tree:
    """The best of all orders: for every set of factors the best way to join two parts of it."""
    every = frozenset(range(len(terms)))
    best: dict[frozenset[int], Tree] = {}

    def kept(inside: frozenset[int], labels: Labels) -> Labels:
        """The labels that something outside of a set of factors still needs."""
        needed = {x for k in every - inside for x in terms[k]} | set(output)
        return tuple(x for x in dict.fromkeys(labels) if x in needed)

    for k, term in enumerate(terms):
        own = kept(frozenset([k]), term)
        summed = own != term
        best[frozenset([k])] = Tree(own, summed * prod(extents[x] for x in term), summed, k)
    for size in range(2, len(terms) + 1):
        for chosen in map(frozenset, combinations(sorted(every), size)):
            first = min(chosen)
            ways = []
            for count in range(1, size):
                for part in map(frozenset, combinations(sorted(chosen), count)):
                    if first in part:
                        a, b = best[part], best[chosen - part]
                        labels = kept(chosen, (*a.labels, *b.labels))
                        cost = a.cost + b.cost + _joined(a.labels, b.labels, labels, extents)
                        regroups = len(terms) > 2 or a.regroups or b.regroups
                        ways.append(Tree(labels, cost, regroups, sides=(a, b)))
            best[chosen] = min(ways, key=lambda tree: tree.cost)
    return best[every]


def _joined(a: Labels, b: Labels, kept: Labels, extents: Mapping[str, int]) -> float:
    """What multiplying two costs: little where it is a product of matrices."""
    every = dict.fromkeys((*a, *b))
    summed = [x for x in every if x not in kept]
    shared = len(summed) == 1 and summed[0] in a and summed[0] in b
    both = any(x not in b for x in a) and any(x not in a for x in b)
    return (1 if shared and both else STREAMED) * prod(extents[x] for x in every)


def _made(build: Builder, tree: Tree, product: Product, wanted: Labels) -> Operand:
    """The nodes of a tree."""
    if not tree.sides:
        factor, term = product.factors[tree.factor], product.terms[tree.factor]
        x = factor.array
        if factor.view != identity_view(type_of(x).shape):
            x = build("read", x, view=factor.view)
        return x if term == wanted else contract(build, [x], [term], wanted, product.dtype)
    pair = [_made(build, side, product, side.labels) for side in tree.sides]
    return contract(build, pair, [side.labels for side in tree.sides], wanted, product.dtype)
