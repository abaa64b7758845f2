"""Which maps must be stored because the memory that they read does not wait for them.

In: a graph with loops or branches, its versions, and what is stored so far. Out: more of the same
set: bases that are written where they lie, what crosses into a region, and maps that would be
computed after something they read has changed.
"""

from __future__ import annotations

from tailorbird.fuse.flow import inlines
from tailorbird.fuse.versions import WRITES, Memory, Versions, looked_at
from tailorbird.ir.node import Graph, Node, Region, Value
from tailorbird.ir.ops import OPS


def keep_versions(graph: Graph, versions: Versions, stored: set[Value]) -> None:
    """Adds to `stored` until every map is computed before what it reads changes."""
    _Keeper(graph, versions, stored).run()


class _Keeper:
    def __init__(self, graph: Graph, versions: Versions, stored: set[Value]) -> None:
        self.graph = graph
        self.versions = versions
        self.stored = stored
        self.reads: dict[Value, set[Memory]] = {}

    def run(self) -> None:
        self.keep_crossing(self.graph.body, set())
        for node in self.graph.body.walk():
            base = node.inputs[0] if node.op in WRITES else None
            in_place = node not in self.versions.copied
            if isinstance(base, Value) and base.node is not None and in_place:
                self.stored.add(base)
        while True:
            before = len(self.stored)
            self.reads.clear()
            for node in self.graph.body.walk():
                if any(v in self.stored for v in node.outputs) or not self.is_inlined(node):
                    at = self.versions.position[node]
                    for x in node.inputs:
                        if isinstance(x, Value):
                            self.keep(x, at)
            if len(self.stored) == before:
                return

    def keep_crossing(self, region: Region, around: set[Value]) -> None:
        """What a region reads of the values made around it is in memory before it begins."""
        known = around | set(region.parameters)
        for node in region.nodes:
            for inner in node.regions:
                self.keep_crossing(inner, known)
            for x in node.inputs:
                if isinstance(x, Value) and x in around:
                    self.store(x)
            known |= set(node.outputs)
        # What was made here is no longer around what comes after.

    def store(self, x: Value) -> None:
        if x.node is None:
            return
        if OPS[x.node.op].kind == "create" and not any(isinstance(y, Value) for y in x.node.inputs):
            return
        self.stored.add(x)

    def is_inlined(self, node: Node) -> bool:
        return not node.regions and len(node.outputs) == 1 and inlines(node)

    def keep(self, x: Value, at: int) -> None:
        """x is computed for a step at a position: is what it reads still there then?"""
        node = x.node
        if node is None or x in self.stored or not self.is_inlined(node):
            return
        changed = [
            event
            for memory in self.read_by(x)
            for event in memory.events
            if self.versions.position[node] < event < at
        ]
        if changed:
            self.stored.add(x)
            return
        for y in node.inputs:
            if isinstance(y, Value):
                self.keep(y, at)

    def read_by(self, x: Value) -> set[Memory]:
        """The memories that computing x reads."""
        if x not in self.reads:
            self.reads[x] = set()
            if x.node is None or x in self.stored or not self.is_inlined(x.node):
                self.reads[x] = {self.versions.memory[y] for y in looked_at(x)}
            else:
                inside = (self.read_by(y) for y in x.node.inputs if isinstance(y, Value))
                self.reads[x] = set().union(*inside)
        return self.reads[x]
