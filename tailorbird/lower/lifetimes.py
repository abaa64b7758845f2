"""From when to when each memory of a graph with regions is needed.

In: a graph, its plan and its versions. Out: for every memory the first and the last position at
which a step writes or reads it, in program order. What a loop carries, and what is made before a
loop and read inside, is needed until the loop has ended.

Invariant: a map that is inlined reads where the step stands that computes it, and all of a group
runs where its first member stands.
"""

from __future__ import annotations

from tailorbird.fuse.flow import inlines
from tailorbird.fuse.groups import Group, Plan
from tailorbird.fuse.versions import END, Memory, Versions
from tailorbird.ir.node import Graph, Node, Operand, Region, Value, leaves

Span = tuple[int, int]


def lifetimes(graph: Graph, plan: Plan, versions: Versions) -> dict[Memory, Span]:
    """The span of every memory."""
    return _Lives(graph, plan, versions).run()


class _Lives:
    def __init__(self, graph: Graph, plan: Plan, versions: Versions) -> None:
        self.graph = graph
        self.plan = plan
        self.versions = versions
        self.spans: dict[Memory, Span] = {}
        self.begins: dict[Node, int] = {}
        for step in plan.walk():
            if isinstance(step, Group):
                nodes = [m.node for m in step.members if m.node is not None]
                first = min(versions.position[node] for node in nodes)
                self.begins |= dict.fromkeys(nodes, first)

    def run(self) -> dict[Memory, Span]:
        for p in self.graph.parameters:
            self.touch(p, 0)
        self.region(self.graph.body, [])
        for x in [*leaves(self.graph.results), *self.graph.finals.values()]:
            if isinstance(x, Value):
                self.read(x, END, set())
        return self.spans

    def touch(self, x: Value, position: int) -> None:
        memory = self.versions.memory[x]
        first, last = self.spans.get(memory, (position, position))
        self.spans[memory] = min(first, position), max(last, position)

    def region(self, region: Region, around: list[tuple[Node, set[Value]]]) -> None:
        """Notes every step of a region. `around` are the loops it is in, with what is made inside
        of each so far.
        """
        for node in region.nodes:
            at = self.begins.get(node, self.versions.position[node])
            step = bool(node.regions) or not self.is_inlined(node)
            for v in node.outputs:
                for _, made in around:
                    made.add(v)
                if step:
                    self.touch(v, at)
            if step:
                self.reads_of(node.inputs, self.versions.position[node], around)
                self.reads_of(node.inputs, at, around)
            for inner in node.regions:
                end = self.versions.ends[node]
                made = set(inner.parameters)
                for p in inner.parameters:
                    self.touch(p, self.versions.position[node])
                    self.touch(p, end)
                inside = [*((n, m | made) for n, m in around), (node, made)]
                self.region(inner, inside)
                self.reads_of(inner.yields, end, inside)
                for v in node.outputs:
                    self.touch(v, end)

    def is_inlined(self, node: Node) -> bool:
        stored = any(v in self.plan.stored for v in node.outputs)
        return not stored and len(node.outputs) == 1 and inlines(node)

    def reads_of(
        self, xs: tuple[Operand, ...], at: int, around: list[tuple[Node, set[Value]]]
    ) -> None:
        """A step at a position reads operands."""
        for x in xs:
            if isinstance(x, Value):
                self.read(x, at, set(), around)

    def read(
        self,
        x: Value,
        at: int,
        seen: set[Value],
        around: list[tuple[Node, set[Value]]] | None = None,
    ) -> None:
        """A step at a position reads x, or what x is computed from."""
        if x in seen:
            return
        seen.add(x)
        node = x.node
        if node is not None and not node.regions and self.is_inlined(node):
            for y in node.inputs:
                if isinstance(y, Value):
                    self.read(y, at, seen, around)
            return
        self.touch(x, at)
        for loop, made in around or ():
            if x not in made:
                self.touch(x, self.versions.ends[loop])
        if node is not None and node.op == "reshape" and isinstance(node.inputs[0], Value):
            self.read(node.inputs[0], at, seen, around)
