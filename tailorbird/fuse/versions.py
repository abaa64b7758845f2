"""Which values are versions of one memory, in graphs with loops and branches.

In: a graph. Out: `Versions`: for every value the memory that it is the content of, which nodes
have to copy before they write, and when each memory changes.

Capture writes functionally, but in the order in which NumPy would write in place. So a write goes
into its base's own memory unless somebody still needs the base: later, in another turn of a loop
around the write, or because the memory is not ours. What a loop carries stays in one memory: the
value that enters, the parameter, what is yielded and the result; where one of them cannot be that
memory it is copied there, and a copy in a loop is the exception. The same for the arms of a branch.

Invariants: at every point of the program a memory holds at most one value that somebody still
reads; an argument is written in place only if nothing after its first write can leave for plain
Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tailorbird.dataclass import dataclass, field
from tailorbird.fuse.flow import inlines
from tailorbird.ir.node import Graph, Node, Operand, Region, Value, leaves
from tailorbird.ir.ops import LINEAR, OPS

WRITES = frozenset(("write", "scatter"))
LOOPS = frozenset(("loop", "while"))
LEAVING = frozenset(("check", "call", "bind"))
STEPS = frozenset(
    (
        "write",
        "scatter",
        "compress",
        "extent",
        "concatenate",
        "cumsum",
        "cumprod",
        "matmul",
        "reshape",
        *LINEAR,
    )
)
END = 1 << 60  # a position after everything

Path = tuple[tuple[Node, int], ...]


@dataclass(eq=False)
class Memory:
    """One piece of memory: what is in it over time, the argument that it is, when it changes."""

    members: list[Value] = field(default_factory=list)
    parameter: Value | None = None
    events: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Use:
    """Where a value is read."""

    position: int
    path: Path


@dataclass(eq=False)
class Versions:
    """The memories of a graph; `copied` are writes that copy their base first, `entering` the
    (loop, k) and `yielded` the (region, k) that are copied into what is carried; `alone` are maps
    that overwrite what they read, in a nest of their own.
    """

    position: dict[Node, int]
    ends: dict[Node, int]
    memory: dict[Value, Memory]
    copied: set[Node]
    entering: set[tuple[Node, int]]
    yielded: set[tuple[Region, int]]
    alone: set[Value]


def has_regions(graph: Graph) -> bool:
    return any(node.regions for node in graph.body.nodes)


def carried_inputs(node: Node) -> tuple[Operand, ...]:
    """What a loop or while starts from."""
    return node.inputs[3:] if node.op == "loop" else node.inputs


def versions_of(graph: Graph) -> Versions:
    """The memories of a graph, with as many arguments written in place as may be."""
    writable = set(graph.finals)
    while True:
        finder = _Finder(graph, writable)
        found = finder.run()
        unsafe = {p for p in writable if finder.leaves_after(found.memory[p])}
        if not unsafe:
            return found
        writable -= unsafe


class _Finder:
    def __init__(self, graph: Graph, writable: set[Value]) -> None:
        self.graph = graph
        self.returned = set(leaves(graph.results)) | set(graph.finals.values())
        self.writable = writable
        self.count = 0
        self.position: dict[Node, int] = {}
        self.ends: dict[Node, int] = {}
        self.region_end: dict[Region, int] = {}
        self.home: dict[Value, Path] = {}
        self.uses: dict[Value, list[Use]] = {}
        self.leaving: list[int] = []
        self.memory: dict[Value, Memory] = {}
        self.copied: set[Node] = set()
        self.entering: set[tuple[Node, int]] = set()
        self.yielded: set[tuple[Region, int]] = set()
        self.alone: set[Value] = set()

    def run(self) -> Versions:
        self.number(self.graph.body, ())
        ends = [*leaves(self.graph.results), *self.graph.finals.values()]
        self.note_uses(ends, END, ())
        for p in self.graph.parameters:
            self.home[p] = ()
            self.start(p).parameter = p
        self.share(self.graph.body, ())
        return Versions(
            self.position,
            self.ends,
            self.memory,
            self.copied,
            self.entering,
            self.yielded,
            self.alone,
        )

    # -- positions and uses

    def number(self, region: Region, path: Path) -> None:
        """Positions in program order; a loop has one where it begins, one where each region ends,
        and one where its results are there.
        """
        for p in region.parameters:
            self.home[p] = path
        for node in region.nodes:
            self.position[node] = self.next()
            self.note_uses(node.inputs, self.position[node], path)
            if is_leaving(node):
                self.leaving.append(self.position[node])
            for k, inner in enumerate(node.regions):
                self.number(inner, (*path, (node, k)))
                self.region_end[inner] = self.next()
                self.note_uses(inner.yields, self.region_end[inner], (*path, (node, k)))
                if any(_may_overflow(x) for x in inner.yields):
                    self.leaving.append(self.region_end[inner])
            self.ends[node] = self.next() if node.regions else self.position[node]
            for v in node.outputs:
                self.home[v] = path

    def next(self) -> int:
        self.count += 1
        return self.count

    def note_uses(self, xs: Iterable[object], position: int, path: Path) -> None:
        for x in xs:
            if isinstance(x, Value):
                self.uses.setdefault(x, []).append(Use(position, path))

    def uses_of(self, x: Value) -> Iterator[Use]:
        """Uses of a value, and of what looks at the same memory in another shape."""
        yield from self.uses.get(x, ())
        for other in self.reshapes.get(x, ()):
            yield from self.uses_of(other)

    @property
    def reshapes(self) -> dict[Value, list[Value]]:
        if not hasattr(self, "_reshapes"):
            found: dict[Value, list[Value]] = {}
            for node in self.graph.body.walk():
                base = node.inputs[0] if node.op == "reshape" else None
                if isinstance(base, Value):
                    found.setdefault(base, []).append(node.result)
            self._reshapes = found
        return self._reshapes

    def needed_after(self, x: Value, position: int, path: Path) -> bool:
        """Whether anybody reads x after a node at this position, in this turn or in another one."""
        again = {node for node, _ in path if node.op in LOOPS}
        again -= {node for node, _ in self.home[x]}
        for use in self.uses_of(x):
            if any(node in again for node, _ in use.path):
                return True
            if use.position > position and not _in_other_arm(path, use.path):
                return True
        return False

    def leaves_after(self, memory: Memory) -> bool:
        """Whether plain Python may still be needed once a memory has been written."""
        if not memory.events:
            return False
        first = min(memory.events)
        for node in self.graph.body.nodes:  # the loop around the first write runs again
            if self.position[node] <= first <= self.ends[node]:
                first = self.position[node]
        return any(position >= first for position in self.leaving)

    # -- memories

    def start(self, x: Value) -> Memory:
        """A memory of its own for a value."""
        self.memory[x] = Memory([x])
        return self.memory[x]

    def join(self, x: Value, memory: Memory) -> None:
        memory.members.append(x)
        self.memory[x] = memory

    def owned(self, x: Value) -> bool:
        """Whether the memory of a value may be written."""
        if x.node is None:
            return x not in self.graph.parameters or x in self.writable
        return x.node.op != "call" and (x.node.op != "reshape" or inlines(x.node))

    def share(self, region: Region, path: Path) -> None:
        for node in region.nodes:
            if node.op in WRITES:
                self.share_write(node, path)
            elif node.op in LOOPS:
                self.share_loop(node, path)
            elif node.op == "branch":
                self.share_branch(node, path)
            else:
                for v in node.outputs:
                    self.start(v)

    def share_write(self, node: Node, path: Path) -> None:
        base, at = node.inputs[0], self.position[node]
        assert isinstance(base, Value)
        free = base.type.shape == node.result.type.shape and self.owned(base)
        if node.op == "scatter":  # element by element: nothing it reads may change meanwhile
            read = (x for x in node.inputs[1:] if isinstance(x, Value))
            free &= not any(self.reaches(x, self.memory[base], set()) for x in read)
        if free and not self.needed_after(base, at, path):
            self.join(node.result, self.memory[base])
        else:
            self.start(node.result)
            self.copied.add(node)
        self.memory[node.result].events.append(at)

    def share_loop(self, node: Node, path: Path) -> None:
        carried: list[Memory] = []
        for k, x in enumerate(carried_inputs(node)):
            parameters = [inner.parameters[k] for inner in node.regions]
            found = self.memory[x] if isinstance(x, Value) else None
            if found is not None and found not in carried and self.enters(node, k, x, path):
                memory = found
                self.join(parameters[0], memory)
            else:
                memory = self.start(parameters[0])
                memory.events.append(self.position[node])
                self.entering.add((node, k))
            for parameter in parameters[1:]:
                self.join(parameter, memory)
            carried.append(memory)
            result = node.outputs[k]
            late = result.type.shape != parameters[0].type.shape and result in self.returned
            if (result.type.rank or path) and not late:
                self.join(node.outputs[k], memory)
            else:
                self.start(node.outputs[k])
        for k, inner in enumerate(node.regions):
            self.share(inner, (*path, (node, k)))
        body = node.regions[-1]
        for k, memory in enumerate(carried):
            x = body.yields[k]
            if isinstance(x, Value) and self.memory[x] is memory:
                continue
            if isinstance(x, Value) and self.replaces(x, memory, body):
                self.take_over(self.memory[x], memory)
                continue
            self.yielded.add((body, k))
            memory.events.append(self.region_end[body])

    def replaces(self, x: Value, memory: Memory, body: Region) -> bool:
        """Whether what a turn makes anew can be made right where the old content is: when that is
        read for the last time by the map that begins the new one, and only point by point.
        """
        made = self.memory[x]
        first = made.members[0]
        node = first.node
        if node is None or not x.type.rank or self.home[first] != self.home[body.parameters[0]]:
            return False
        if not (_is_pointwise(node) or OPS[node.op].kind == "create") or not inlines(node):
            return False
        if any(m.type != memory.members[0].type for m in made.members):
            return False
        ends = [y for y in body.yields if isinstance(y, Value) and self.memory[y] is made]
        at = self.position[node]
        late = (u for m in memory.members for u in self.uses_of(m) if u.position > at)
        inside = (u for u in late if u.position <= self.region_end[body])
        return len(ends) == 1 and not any(inside) and self.point_by_point(first, memory, set())

    def point_by_point(self, x: Value, memory: Memory, seen: set[Value]) -> bool:
        """Whether computing x reads a memory at its own index alone, if at all."""
        if x in seen or x.node is None or self.memory[x] is memory:
            return True
        seen.add(x)
        node = x.node
        if _is_pointwise(node) and inlines(node):
            inputs = (y for y in node.inputs if isinstance(y, Value))
            return all(
                self.point_by_point(y, memory, seen)
                and (self.memory[y] is not memory or y.type.shape == x.type.shape)
                for y in inputs
            )
        # What is not inlined is a step of its own, done before this one begins.
        return not inlines(node) or not self.reaches(x, memory, set())

    def reaches(self, x: Value, memory: Memory, seen: set[Value]) -> bool:
        """Whether computing x may read a memory."""
        if self.memory[x] is memory:
            return True
        if x in seen or x.node is None:
            return False
        seen.add(x)
        return any(self.reaches(y, memory, seen) for y in x.node.inputs if isinstance(y, Value))

    def take_over(self, made: Memory, memory: Memory) -> None:
        first = made.members[0]
        self.alone.add(first)
        assert first.node is not None
        for x in made.members:
            self.join(x, memory)
        memory.events += [*made.events, self.position[first.node]]

    def enters(self, node: Node, k: int, x: Operand, path: Path) -> bool:
        """Whether the memory of what enters a loop can be what the loop carries."""
        if not isinstance(x, Value) or not x.type.rank:
            return False
        if x.type.shape != node.regions[0].parameters[k].type.shape:
            return False
        return self.owned(x) and not self.needed_after(x, self.position[node], path)

    def share_branch(self, node: Node, path: Path) -> None:
        for k, inner in enumerate(node.regions):
            self.share(inner, (*path, (node, k)))
        taken: set[Memory] = set()
        for j, result in enumerate(node.outputs):
            ends = [inner.yields[j] for inner in node.regions]
            memory = self.common(node, ends, path)
            if memory is not None and memory not in taken and result.type.rank:
                taken.add(memory)
                self.join(result, memory)
                continue
            memory = self.start(result)
            for inner in node.regions:
                self.yielded.add((inner, j))
                memory.events.append(self.region_end[inner])

    def common(self, node: Node, ends: list[Operand], path: Path) -> Memory | None:
        """The one memory that holds what every arm of a branch ends with, if nobody needs it
        otherwise.
        """
        found: set[Memory] = set()
        for x in ends:
            if not isinstance(x, Value) or not self.owned(x):
                return None
            if self.needed_after(x, self.ends[node], path):
                return None
            found.add(self.memory[x])
        return found.pop() if len(found) == 1 else None


def is_leaving(node: Node) -> bool:
    """Whether a step may leave for plain Python: it checks, or it calls Python."""
    if node.op in LEAVING:
        return True
    kind = OPS[node.op].kind
    if kind in ("region", "create", "reduce") or node.op in STEPS:
        return False
    return not inlines(node)


def _is_pointwise(node: Node) -> bool:
    """Whether an element of the result follows from the elements of full-size operands there."""
    return OPS[node.op].kind == "map" or node.op == "write_mask"


def _may_overflow(x: Operand) -> bool:
    """A Python integer that changes in a loop is checked to fit 64 bits."""
    if isinstance(x, Value):
        return x.type.weak and x.type.dtype.kind == "i"
    return not isinstance(x, (int, float, complex)) and hasattr(x, "terms")


def _in_other_arm(a: Path, b: Path) -> bool:
    """Whether two places are in different arms of one branch."""
    for (node, k), (other, j) in zip(a, b):
        if node is not other:
            return False
        if k != j:
            return node.op == "branch"
    return False
