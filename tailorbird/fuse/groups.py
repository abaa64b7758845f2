"""Greedy fusion: maps and reductions that share a domain become one group.

Some values must be in memory (`stored`): results, reductions, and what a step that is not a loop
nest reads. Every other map is inlined where it is used, at whatever index. A stored value joins the
latest group that has its domain, that already holds or shares what it reads, and that runs no
earlier than everything it needs.

A loop or a branch is a step that holds steps of its own. What crosses into it is stored, so that
it is computed once; and a map that reads memory which changes before the map is used is stored
where it stands (`versions.py` knows when memory changes).

Invariants:
- A group has one domain (a shape). Once a reduction has joined, its kept axes are the group's
  `rows`; each row runs level by level, and a member reads another member only at the row (and, for
  a map, the point) where that one was made.
- A reduction of everything (`rows == ()`) ends its group for its readers: they need the whole array
  to be folded first.
- A map inlined in several groups, or at several indices, is stored instead when that is cheaper
  (`RECOMPUTE`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailorbird.dataclass import dataclass, field
from tailorbird.fuse.capable import folds
from tailorbird.fuse.flow import ZERO, Index, along, inlines, operands_at, reduced_operand
from tailorbird.fuse.keep import keep_versions
from tailorbird.fuse.versions import Versions, has_regions, versions_of
from tailorbird.ir.expr import Dim, Sym
from tailorbird.ir.node import (
    Graph,
    Node,
    Operand,
    Region,
    Value,
    identity_view,
    leaves,
    map_leaves,
    type_of,
)
from tailorbird.ir.ops import LINEAR, OPS
from tailorbird.ir.scope import symbols_in

# Rough instructions for one element; what is not named costs 1.
COSTS = {
    "divide": 4, "sqrt": 4, "floor_divide": 8, "remainder": 8, "fmod": 20, "exp": 12, "exp2": 12,
    "expm1": 14, "log": 14, "log2": 14, "log10": 14, "log1p": 16, "sin": 18, "cos": 18, "tan": 24,
    "tanh": 16, "sinh": 18, "cosh": 18, "arcsin": 20, "arccos": 20, "arctan": 18, "arctan2": 26,
    "arcsinh": 24, "arccosh": 24, "arctanh": 24, "power": 40, "hypot": 10, "cbrt": 20, "erf": 24,
    "logaddexp": 30, "logaddexp2": 30, "take": 4, "gather": 6, "pad": 4, "read": 0, "reshape": 0,
    "cast": 1, "full": 0,
}  # fmt: skip
DEAR = 12  # a map from which it pays to compute whole lanes of it, and not one for each line
RECOMPUTE = 8  # storing and loading an element costs about this much
SHIFTED = 32  # the same where rows that run together share most of what is computed again
MEMBERS = 24
DEEPEST = 64  # maps inlined into each other
COPYING = frozenset({"concatenate", "write", "check", "call", "bind", *LINEAR})
MOVING = frozenset({"compress", "scatter"})  # they compute what they move, and read where to
EFFECTS = frozenset({"call", "check", "bind"})
LOOKING_UP = frozenset({"take", "gather"})
INDEX = Sym("", "value")


@dataclass(eq=False)
class Group:
    """Nodes that become one loop nest."""

    domain: tuple[Dim, ...]
    rows: tuple[int, ...] | None = None
    members: list[Value] = field(default_factory=list)
    levels: dict[Value, int] = field(default_factory=dict)
    index: dict[Value, Index] = field(default_factory=dict)
    reads: set[Value] = field(default_factory=set)

    @property
    def axes(self) -> Index:
        return tuple(along(f"a{k}") for k in range(len(self.domain)))


@dataclass(eq=False)
class Single:
    """A node that is a step of its own: a contraction, a scan, a concatenation, a write, an
    opaque call.
    """

    node: Node


@dataclass(eq=False)
class Nested:
    """A loop or a branch: the node, and the steps of each of its regions."""

    node: Node
    bodies: list[list[Step]]


Step = Group | Single | Nested


@dataclass
class Plan:
    """The steps in order, the values that live in memory, and who shares which where there are
    loops or branches.
    """

    steps: list[Step]
    stored: set[Value]
    versions: Versions | None = None

    def walk(self) -> Iterator[Step]:
        """Every step, those inside others too."""
        pending = self.steps[::-1]
        while pending:
            step = pending.pop()
            yield step
            if isinstance(step, Nested):
                pending += [inner for body in step.bodies for inner in body]


def is_table(value: Value, index: Index) -> bool:
    """Whether elements of an array of fixed size are looked up."""
    fixed = all(isinstance(d, int) for d in value.type.shape)
    return fixed and any(term.kind == "load" for p in index for term, _ in p.terms)


def is_reduction(x: Value | Node) -> bool:
    """A reduction that is generated (others are steps of their own)."""
    node = x.node if isinstance(x, Value) else x
    return node is not None and OPS[node.op].kind == "reduce" and folds(node)


def fuse(graph: Graph) -> Plan:
    """Groups the nodes of a graph."""
    separate_copies(graph)
    versions = versions_of(graph) if has_regions(graph) else None
    extra: set[Value] = set()
    for _ in range(4):
        planner = _Planner(graph, extra, versions)
        plan = planner.plan()
        more = planner.worth_storing() - extra
        if not more:
            break
        extra |= more
    return plan


def separate_copies(graph: Graph) -> Graph:
    """A result that is an argument's value, or the same value twice, gets a copy of its own."""
    seen: set[Value] = set()

    def copied(x: Any) -> Any:
        if not isinstance(x, Value) or (x.node is not None and x not in seen):
            if isinstance(x, Value):
                seen.add(x)
            return x
        node = Node("read", [x], {"view": identity_view(x.type.shape)}, [x.type])
        return graph.body.append(node).result

    graph.results = map_leaves(graph.results, copied)
    return graph


def must_store(graph: Graph) -> set[Value]:
    """Values that have to be in memory whatever the groups are."""
    stored = {x for x in leaves(graph.results) if isinstance(x, Value) and x.node is not None}
    stored |= {v for v in graph.finals.values() if v.node is not None}
    depth: dict[Value, int] = {}
    for node in graph.body.walk():
        if node.regions:
            ends = (x for region in node.regions for x in region.yields if isinstance(x, Value))
            stored |= {x for x in (*node.outputs, *_values(node), *ends) if x.node is not None}
            continue
        if inlines(node):
            value = node.result
            depth[value] = 1 + max((depth.get(x, 0) for x in _values(node)), default=0)
            if value in stored or depth[value] > DEEPEST:
                stored.add(value)
                depth[value] = 0
            continue
        stored |= set(node.outputs)
        if not is_reduction(node):
            stored |= {x for x in _values(node) if _needs_memory(node, x)}
    return stored


def _values(node: Node) -> list[Value]:
    return [x for x in node.inputs if isinstance(x, Value)]


def _needs_memory(node: Node, x: Value) -> bool:
    """Whether a step that is not a nest of a group reads an operand from memory of its own.

    Copies compute what they copy. A contraction reads a plain view of something stored as it lies.
    """
    if x.node is None:
        return False
    if node.op in COPYING and inlines(x.node):
        return False
    if node.op in MOVING and x is node.inputs[0] and x not in node.inputs[1:]:
        return not inlines(x.node)
    if node.op == "matmul" and x.node.op == "read":
        base = x.node.inputs[0]
        return not (isinstance(base, Value) and (base.node is None or not inlines(base.node)))
    return True


class _Planner:
    def __init__(self, graph: Graph, extra: set[Value], versions: Versions | None) -> None:
        self.graph = graph
        self.versions = versions
        self.stored = must_store(graph) | extra
        if versions is not None:
            keep_versions(graph, versions, self.stored)
        self.steps: list[Step] = []
        self.place: dict[Value | Sym, int] = {}
        self.symbols: dict[Value, frozenset[Sym]] = {}
        self.uses: dict[Value, set[tuple[int, Index]]] = {}
        self.spread: set[Value] = set()  # maps whose elements are read again and again
        self.checked = -1  # the last step that checks something, before which nothing looks up
        self.count = 0  # of steps in regions that are done, so that places differ

    def plan(self) -> Plan:
        return Plan(self.region(self.graph.body), self.stored, self.versions)

    def region(self, region: Region) -> list[Step]:
        """The steps of a region; what was made around it is there before the first of them."""
        around = self.steps, self.place, self.checked
        self.steps, self.place, self.checked = [], {}, -1
        for node in region.nodes:
            if node.regions:
                self.add(Nested(node, [self.region(inner) for inner in node.regions]))
                continue
            wanted = [v for v in node.outputs if v in self.stored]
            if (not wanted and node.op not in EFFECTS) or self.is_only_room(node):
                continue
            if is_reduction(node) or inlines(node):
                self.settle(node.result)
            else:
                self.add(Single(node))
        steps = self.steps
        self.count += len(steps)
        self.steps, self.place, self.checked = around
        return steps

    def is_only_room(self, node: Node) -> bool:
        """An empty array is memory and no work."""
        return node.op == "empty" and self.versions is not None

    def add(self, step: Single | Nested) -> None:
        self.steps.append(step)
        node = step.node
        made: list[Value | Sym] = list(node.outputs)
        made += [s for v in node.outputs for s in symbols_in(v.type.shape) if s.kind == "fresh"]
        if node.op == "bind":
            made.append(Sym(node.attrs["symbol"], "value"))
        if node.op == "check":
            self.checked = len(self.steps) - 1
        for x in made:
            self.place.setdefault(x, len(self.steps) - 1)

    def settle(self, value: Value) -> None:
        """Puts a stored map or reduction into a group."""
        alone = self.versions is not None and value in self.versions.alone
        for position in range(-1 if alone else len(self.steps) - 1, -1, -1):
            group = self.steps[position]
            if isinstance(group, Group) and self.joins(value, group, position):
                return
        group = self.fresh(value)
        self.steps.append(group)
        joined = self.joins(value, group, len(self.steps) - 1)
        assert joined, f"{value} does not fit a group of its own"

    def fresh(self, value: Value) -> Group:
        node = value.node
        assert node is not None
        if is_reduction(value):
            return Group(type_of(node.inputs[0]).shape)
        return Group(value.type.shape)

    def joins(self, value: Value, group: Group, position: int) -> bool:
        """Adds the value to the group if that is legal and shares something."""
        for sym in self.symbols_of(value):
            checked = self.checked if sym.kind == "value" else -1
            if max(self.place.get(sym, -1), checked) >= position:
                return False
        for rows, index, roots in self.fits(value, group):
            found = self.explore(roots, group, position)
            if found is None:
                continue
            level, reads, visited = found
            shares = (
                not group.members
                or bool(reads & group.reads)
                or any(m in reads for m in group.members)
            )
            if not shares or len(group.members) >= MEMBERS:
                continue
            group.members.append(value)
            group.levels[value] = level
            group.index[value] = index
            group.reads |= reads
            if rows is not None:
                group.rows = rows
            self.place[value] = position
            for inlined, at in visited:
                self.uses.setdefault(inlined, set()).add((self.count + position, at))
                if is_table(inlined, at) or self.is_spread(inlined, at, group):
                    self.spread.add(inlined)
            return True
        return False

    def fits(
        self, value: Value, group: Group
    ) -> list[tuple[tuple[int, ...] | None, Index, list[tuple[Operand, Index]]]]:
        """The ways a value's shape fits a group: (rows it needs, where it is stored, what it
        reads).
        """
        node = value.node
        assert node is not None
        axes = group.axes
        if is_reduction(value):
            if type_of(node.inputs[0]).shape != group.domain:
                return []
            folded = node.attrs["axis"]
            rows = tuple(k for k in range(len(axes)) if k not in folded)
            if group.rows is not None and group.rows != rows:
                return []
            if node.attrs.get("keepdims"):
                index = tuple(axes[k] if k in rows else ZERO for k in range(len(axes)))
            else:
                index = tuple(axes[k] for k in rows)
            operand = reduced_operand(
                node, tuple(axes[k] for k in rows), tuple(axes[k] for k in folded)
            )
            return [(rows, index, [(node.inputs[0], operand)])]
        ways: list[tuple[tuple[int, ...] | None, Index, list[tuple[Operand, Index]]]] = []
        shape = value.type.shape
        if shape == group.domain:
            ways.append((None, axes, list(operands_at(node, axes))))
        elif group.rows:
            kept = tuple(group.domain[k] for k in group.rows)
            ones = tuple(d if k in group.rows else 1 for k, d in enumerate(group.domain))
            for form, index in (
                (kept, tuple(axes[k] for k in group.rows)),
                (ones, tuple(axes[k] if k in group.rows else ZERO for k in range(len(axes)))),
            ):
                if shape == form:
                    ways.append((None, index, list(operands_at(node, index))))
        return ways

    def explore(
        self, roots: list[tuple[Operand, Index]], group: Group, position: int
    ) -> tuple[int, set[Value], list[tuple[Value, Index]]] | None:
        """Walks what a value reads: its level in the group, the memory it reads, the maps it
        inlines. None: not legal here.
        """
        level = 0
        reads: set[Value] = set()
        visited: dict[tuple[Value, Index], None] = {}
        stack = [r for r in roots if isinstance(r[0], Value)]
        while stack:
            x, index = stack.pop()
            assert isinstance(x, Value)
            if x.node is None:
                reads.add(x)
                continue
            if x in self.stored or not inlines(x.node):
                reads.add(x)
                if x in group.index:
                    if index != group.index[x] or (is_reduction(x) and not group.rows):
                        return None
                    level = max(level, group.levels[x] + (1 if is_reduction(x) else 0))
                elif self.source_place(x) >= position:
                    return None
                continue
            if (x, index) in visited:
                continue
            visited[x, index] = None
            stack.extend((y, at) for y, at in operands_at(x.node, index) if isinstance(y, Value))
        return level, reads, list(visited)

    def symbols_of(self, x: Value) -> frozenset[Sym]:
        """The symbols bound at run time that computing x from memory needs to know; `INDEX` where
        an array of indices says what is read, behind the check that they are in bounds.
        """
        if x not in self.symbols:
            node = x.node
            assert node is not None
            found = symbols_in((*node.inputs, *node.attrs.values(), x.type.shape))
            known = {s for s in found if s.kind in ("value", "fresh")}
            if node.op in LOOKING_UP:
                known.add(INDEX)
            for y in node.inputs:
                inlined = isinstance(y, Value) and y.node is not None and y not in self.stored
                if inlined and inlines(y.node):  # type: ignore[union-attr,arg-type]
                    known |= self.symbols_of(y)  # type: ignore[arg-type]
            self.symbols[x] = frozenset(known)
        return self.symbols[x]

    def source_place(self, x: Value) -> int:
        """The step that makes a stored value, or what a reshape of it aliases; -1 around it all."""
        while x not in self.place:
            base = x.node.inputs[0] if x.node is not None and x.node.op == "reshape" else None
            if not isinstance(base, Value):
                return -1
            x = base
        return self.place[x]

    def worth_storing(self) -> set[Value]:
        """Inlined maps that several groups, or several indices, would compute again at too high
        a price.
        """
        out = set()
        for value, uses in self.uses.items():
            places = {position for position, _ in uses}
            indices = {at for _, at in uses}
            if value.type.rank == 0 or (len(places) == 1 and len(indices) == 1):
                continue
            shared = len(places) == 1 and len({at[:-1] for at in indices}) > 1
            price = self.cost(value, {})
            dear = len(places) > 1 and price >= RECOMPUTE
            if dear or price * (len(indices) - 1) >= (SHIFTED if shared else RECOMPUTE):
                out.add(value)
        return out | self.worth_lanes()

    def worth_lanes(self) -> set[Value]:
        """Dear maps that would be computed one by one, for a line or a look-up each: the last of
        each chain.
        """
        dear = {x for x in self.spread if x.type.rank and self.cost(x, {}) >= DEAR}
        inner = {y for x in dear for y in self.inlined_by(x)}
        return dear - inner

    def inlined_by(self, value: Value) -> set[Value]:
        """The maps that are computed on the way to a value."""
        found: set[Value] = set()
        stack = [value]
        while stack:
            node = stack.pop().node
            for x in () if node is None else node.inputs:
                if isinstance(x, Value) and x not in found and x not in self.stored:
                    found.add(x)
                    stack.append(x)
        return found

    def is_spread(self, value: Value, index: Index, group: Group) -> bool:
        """Whether an array of several elements is read at the same place along a whole line."""
        if group.rows is not None:
            return False
        long = [k for k, d in enumerate(group.domain) if d != 1]
        walked = {name for p in index for name, _ in p.axes}
        if any(p.terms for p in index):
            return False
        return bool(long and walked) and f"a{long[-1]}" not in walked

    def cost(self, value: Value, memo: dict[Value, int]) -> int:
        """Instructions to compute one element from memory."""
        if value in memo or value in self.stored or value.node is None or not inlines(value.node):
            return 0
        memo[value] = 1
        own = COSTS.get(value.node.op, 1)
        return own + sum(self.cost(x, memo) for x in value.node.inputs if isinstance(x, Value))
