"""Results whose type depends on the path: the graph is left where it is not the usual one.

In: a scalar that may be of several types (`Tracer.loose`), such as a sum that is a Python float
where no round of the loop ran and a NumPy scalar where one did. Out: a check that it is of its own
type.

Invariants: whether a value has its own type is carried beside it, as one more result of each branch
and loop that it comes through; nothing is carried where the answer is the same on all paths.
"""

from __future__ import annotations

from tailorbird.capture.prune import BOUNDS
from tailorbird.capture.tracer import Tracer
from tailorbird.ir.node import Node, Operand, Value, type_of
from tailorbird.ir.types import WEAK_BOOL, Type


def insist(t: Tracer, x: Operand, what: str) -> None:
    """The graph is left unless x is of its own type."""
    if not isinstance(x, Value) or x not in t.loose:
        return
    tag = _Tags(t, x.type, what).of(x)
    if tag is False:
        t.definite(x, what)
    if tag is not True:
        t.check(tag, "!=")


class _Tags:
    """For each value, whether it has the wanted type: a bool, or a value that says it."""

    def __init__(self, t: Tracer, wanted: Type, what: str) -> None:
        self.t = t
        self.wanted = wanted
        self.what = what
        self.known: dict[Value, Operand] = {}

    def of(self, x: Operand) -> Operand:
        if not isinstance(x, Value) or (x not in self.t.loose and x not in self.known):
            return bool(type_of(x) == self.wanted)
        if x not in self.known:
            self.known[x] = self.made(x)
        return self.known[x]

    def made(self, x: Value) -> Operand:
        node = x.node
        if node is None:
            self.t.definite(x, self.what)
            return False
        if node.op == "cast":
            return False
        if node.op == "branch":
            return self.of_branch(node, x.index)
        if node.op in BOUNDS:
            return self.of_loop(node, x.index)
        return self.any_of([self.of(i) for i in node.inputs], x)

    def any_of(self, tags: list[Operand], x: Value) -> Operand:
        open_ = [tag for tag in dict.fromkeys(tags) if isinstance(tag, Value)]
        if True in [tag for tag in tags if not isinstance(tag, Value)]:
            return True
        if len(open_) > 1:
            self.t.definite(x, self.what)
        return open_[0] if open_ else False

    def of_branch(self, node: Node, k: int) -> Operand:
        tags = [self.of(region.yields[k]) for region in node.regions]
        if not isinstance(tags[0], Value) and tags[0] is tags[1]:
            return tags[0]
        for region, tag in zip(node.regions, tags):
            region.yields = (*region.yields, tag)
        return _one_more(node)

    def of_loop(self, node: Node, k: int) -> Operand:
        first = BOUNDS[node.op]
        *_, body = node.regions
        entering = self.of(node.inputs[first + k])
        inside = Value(WEAK_BOOL)
        self.known[body.parameters[k]] = inside
        leaving = self.of(body.yields[k])
        if leaving is inside or (leaving is entering and not isinstance(leaving, Value)):
            return entering
        count = len(node.outputs)
        for region in node.regions:
            region.parameters.append(inside if region is body else Value(WEAK_BOOL))
        node.inputs = (*node.inputs, entering)
        body.yields = (*body.yields[:count], leaving, *body.yields[count:])
        return _one_more(node)


def _one_more(node: Node) -> Value:
    """One more result of a node, a Python bool."""
    value = Value(WEAK_BOOL, node, len(node.outputs))
    node.outputs = (*node.outputs, value)
    return value
