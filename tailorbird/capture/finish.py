"""The end of a capture: results, written arguments, and the graph in canonical form.

In: the tracer and what the function returned. Out: a verified `Graph`.

Invariants: every type, view and attribute is rewritten by the final substitution, so that equal
sizes are equal text; equal nodes are one node again; nodes that nothing needs are gone, but calls
and checks stay, since they may raise or leave. Capturing twice gives the same text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.heap import is_choice
from tailorbird.capture.loops import replace_values
from tailorbird.capture.prune import BOUNDS, EFFECTS, keep_results, pick, prune, yielded
from tailorbird.capture.tags import insist
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import (
    Arr,
    BorrowedDict,
    BorrowedList,
    Buffer,
    Poison,
    Scal,
    kind_name,
    sides,
)
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import (
    Argument,
    Graph,
    Node,
    Operand,
    Region,
    Static,
    Value,
    View,
    leaves,
    map_leaves,
)
from tailorbird.ir.types import Type

STATIC_RESULTS = (bool, float, complex, str, bytes, type(None), np.generic, np.dtype, type)
MOST_NESTED = 800  # which takes a second or two to compile
NOT_PURE = EFFECTS | {"bind", "transfer"}


def finished(t: Tracer, returned: Any) -> Graph:
    """The graph of a function that returned this."""
    results = _Results(t).structure(returned)
    finals = _finals(t)
    return _Canonical(t).graph(results, finals)


def _nested(region: Region) -> int:
    """How many nodes there are in loops and under branches."""
    inner = [inside for node in region.nodes for inside in node.regions]
    return sum(len(r.nodes) + _nested(r) for r in inner)


class _Results:
    """Turns what was returned into a structure of leaves, and refuses shared memory."""

    def __init__(self, t: Tracer) -> None:
        self.t = t
        self.buffers: set[Buffer] = set()
        self.containers: set[int] = set()

    def structure(self, x: Any) -> Any:
        if isinstance(x, Arr):
            return self.array(x)
        if isinstance(x, Scal):
            insist(self.t, x.value, "the result")
            return x.value
        if isinstance(x, Poison):
            self.t.refuse("joined_value", name=x.reason)
        if isinstance(x, Expr):
            return self.t.assume.canon(x)
        if type(x) is int:
            return x
        if type(x) in (tuple, list, dict):
            return self.container(x)
        if isinstance(x, STATIC_RESULTS) or x is Ellipsis:
            return Static(x)
        if isinstance(x, (BorrowedList, BorrowedDict)):
            self.t.refuse("returns_view", name="a container of the caller's")
        self.t.refuse("unsupported_type", name="the result", type=kind_name(x))

    def container(self, x: Any) -> Any:
        if type(x) is not tuple:
            if id(x) in self.containers:
                self.t.refuse("returns_view", name="a container that is returned twice")
            self.containers.add(id(x))
        if type(x) is dict:
            return {key: self.structure(item) for key, item in x.items()}
        return type(x)(self.structure(item) for item in x)

    def array(self, x: Arr) -> Any:
        root = x.buffer.root
        if x is root.handle and root.argument is not None:
            return Argument(root.argument)
        roots = {side.buffer.root for side in sides(x)}
        if is_choice(x) and any(root.argument is not None for root in roots):
            self.t.refuse("joined_value", name="what is returned, which is one of two arrays,")
        for root in roots:
            self.alone(root)
        self.buffers |= roots
        if not x.shape:
            self.t.refuse("returns_zero_d", name="the result")
        return self.t.read(x)

    def alone(self, root: Buffer) -> None:
        """Nobody else has the memory of a result."""
        if root.argument is not None:
            self.t.refuse("returns_view", name=f"a view of {root.argument.name}")
        if root.lent:
            self.t.refuse("lent_array", name="returned")
        if root in self.buffers:
            self.t.refuse("returns_view", name="an array that is returned twice")


def _finals(t: Tracer) -> dict[Value, Value]:
    """The arguments that were written, with what they hold at the end."""
    found: dict[Value, Value] = {}
    for x in t.lifted.values():
        if not isinstance(x, Arr) or x.buffer.argument is None:
            continue
        if x.buffer.content is not x.buffer.argument:
            _refuse_overlap(t, x.buffer.argument)
            found[x.buffer.argument] = x.buffer.content
    return found


def _refuse_overlap(t: Tracer, written: Value) -> None:
    if overlaps_itself(t.live[written]):
        t.refuse("overlap", name=written.name, other="itself")
    for other in t.parameters:
        live = t.live[other]
        if other is written or not isinstance(live, np.ndarray):
            continue
        if np.may_share_memory(t.live[written], live):
            t.refuse("overlap", name=other.name, other=written.name)


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether two elements may be one: a stride does not step over what the shorter ones reach."""
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape) if n > 1)
    reach = array.itemsize - 1
    for stride, size in axes:
        if stride <= reach:
            return bool(array.size)
        reach += (size - 1) * stride
    return False


class _Canonical:
    """Rewrites the whole graph by the final substitution, into new values and nodes."""

    def __init__(self, t: Tracer) -> None:
        self.t = t
        self.canon = t.assume.canon
        self.new: dict[Value, Operand] = {}
        self.region = Region()

    def graph(self, results: Any, finals: dict[Value, Value]) -> Graph:
        t = self.t
        parameters = [self.parameter(p) for p in t.parameters]
        for node in t.region.nodes:
            self.node(node)
        changed = map_leaves(results, self.leaf)
        ends = {self.value(p): self.value(v) for p, v in finals.items()}
        guards = t.assume.owed()
        graph = Graph(t.name, parameters, list(t.ints), guards, self.region, changed, ends)
        prune(graph)
        size = _nested(graph.body)
        if size > MOST_NESTED:
            t.refuse("too_large", name=t.name, size=f"{size} operations in loops and branches")
        self.drop_unused_constants(graph)
        return graph

    def drop_unused_constants(self, graph: Graph) -> None:
        """A constant that only told positions is no parameter; what the caller passes always is."""
        used = {leaf for leaf in leaves(graph.results) if isinstance(leaf, Value)}
        used |= set(graph.finals.values())
        for node in graph.body.walk():
            inner = (x for region in node.regions for x in region.yields)
            used |= {x for x in (*node.inputs, *inner) if isinstance(x, Value)}
        pairs = list(zip(graph.parameters, self.t.sources))
        kept = [(p, s) for p, s in pairs if p in used or s.root[0] != "static"]
        graph.parameters = [p for p, _ in kept]
        self.t.sources = [s for _, s in kept]

    def parameter(self, old: Value) -> Value:
        made = Value(self.type(old.type), name=old.name)
        self.new[old] = made
        return made

    # rewriting

    def node(self, old: Node) -> None:
        inputs = [self.operand(x) for x in old.inputs]
        attrs = {name: self.attribute(x) for name, x in old.attrs.items()}
        types = [self.type(v.type) for v in old.outputs]
        if old.regions or len(old.outputs) != 1 or old.op in NOT_PURE:
            regions = [self.inner(region) for region in old.regions]
            made = Node(old.op, inputs, attrs, types, regions, old.line)
            self.new.update(zip(old.outputs, made.outputs))
            self.region.append(made)
            self.take_out(made)
            return
        if self.changes_nothing(old.op, inputs, attrs, types[0]):
            self.new[old.result] = inputs[0]
        else:
            self.new[old.result] = self.region.add(old.op, inputs, attrs, types[0], old.line)

    def inner(self, old: Region) -> Region:
        """A region of a node, rewritten."""
        outer, self.region = self.region, Region(self.region)
        made = self.region
        made.parameters = [self.parameter(p) for p in old.parameters]
        for node in old.nodes:
            self.node(node)
        made.yields = tuple(map(self.operand, old.yields))
        self.region = outer
        return made

    def take_out(self, node: Node) -> None:
        """What a loop turns out not to change is used as it entered."""
        if node.op not in BOUNDS:
            return
        *_, body = node.regions
        entering = node.inputs[BOUNDS[node.op] :]
        same = [k for k, p in enumerate(body.parameters) if body.yields[k] is p]
        if not same:
            return
        kept = [k for k in range(len(node.outputs)) if k not in same]
        outside: dict[Value, Operand] = {node.outputs[k]: entering[k] for k in same}
        for region in node.regions:
            replace_values(region, {region.parameters[k]: entering[k] for k in same})
            region.yields = yielded(node, region, kept)
            region.parameters = list(pick(region.parameters, kept))
        node.inputs = (*node.inputs[: BOUNDS[node.op]], *pick(entering, kept))
        keep_results(node, kept)
        for old, new in self.new.items():
            if isinstance(new, Value) and new in outside:
                self.new[old] = outside[new]

    def changes_nothing(
        self, op: str, inputs: list[Operand], attrs: dict[str, Any], kind: Type
    ) -> bool:
        """A view of everything, or a reshape to the same shape, once sizes are known equal."""
        if op not in ("read", "reshape") or not isinstance(inputs[0], Value):
            return False
        if inputs[0].type.shape != kind.shape:
            return False
        return op == "reshape" or all(dim == (0, 1, k) for k, dim in enumerate(attrs["view"].dims))

    def operand(self, x: Operand) -> Operand:
        if isinstance(x, Value):
            return self.new[x]
        return self.canon(x) if isinstance(x, Expr) else x

    def value(self, x: Value) -> Value:
        found = self.new[x]
        assert isinstance(found, Value)
        return found

    def leaf(self, x: Any) -> Any:
        if isinstance(x, Argument):
            return Argument(self.value(x.parameter))
        return self.operand(x) if isinstance(x, (Value, Expr)) else x

    def type(self, old: Type) -> Type:
        if not old.shape:
            return old
        return Type(old.dtype, tuple(map(self.canon, old.shape)), old.weak)

    def attribute(self, x: Any) -> Any:
        if isinstance(x, Expr):
            return self.canon(x)
        if isinstance(x, View):
            dims = tuple((self.canon(a), self.canon(b), axis) for a, b, axis in x.dims)
            return View(dims, tuple(map(self.canon, x.shape)))
        if isinstance(x, tuple):
            return tuple(map(self.attribute, x))
        return x
