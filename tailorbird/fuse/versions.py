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
from tailorbird.ir.node import Graph, Node, Operand, Region, Value, leaves, type_of
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
            home, end = self.home[body.parameters[0]], self.region_end[body]
            if isinstance(x, Value) and self.replaces(x, memory, home, end):
                self.take_over(self.memory[x], memory)
                continue
            self.yielded.add((body, k))
            memory.events.append(self.region_end[body])

    def replaces(self, x: Value, memory: Memory, home: Path, end: int) -> bool:
        """Whether what is made anew can be made right where the old content is, which nobody else
        reads up to `end`: when it is read for the last time by the map that begins the new one, and
        only point by point. What a mask picks moves forward, behind what has been read.
        """
        made = self.memory[x]
        first = made.members[0]
        node = first.node
        if node is None or not x.type.rank or self.home[first] != home:
            return False
        if not self.fits_there(node, made, memory):
            return False
        at = self.position[node]
        late = (u for m in memory.members for u in self.uses_of(m) if at < u.position <= end)
        if any(not _in_other_arm(home, u.path) for u in late):
            return False
        return self.lasts(made, home) and self.reads_its_place(node, memory)

    def fits_there(self, node: Node, made: Memory, memory: Memory) -> bool:
        """Whether a node begins something that a memory has room for, and no operand but what it
        overwrites point by point.
        """
        old = memory.members[0].type
        if node.op == "compress":
            new, mask = node.result.type, node.inputs[1]
            same = new.rank == old.rank == 1 and new.dtype == old.dtype
            return same and len(made.members) == 1 and self.memory.get(mask) is not memory  # type: ignore[arg-type]
        begins = _is_pointwise(node) or OPS[node.op].kind == "create"
        return begins and inlines(node) and all(m.type == old for m in made.members)

    def lasts(self, made: Memory, home: Path) -> bool:
        """Whether something new is all that its region ends with in its memory."""
        node, k = home[-1]
        yields = node.regions[k].yields
        return sum(isinstance(y, Value) and self.memory[y] is made for y in yields) == 1

    def reads_its_place(self, node: Node, memory: Memory) -> bool:
        """Whether an element is made of nothing else in a memory than what is there."""
        if node.op != "compress":
            return self.point_by_point(node.result, memory, set())
        base, mask = node.inputs
        if not isinstance(base, Value) or type_of(base).shape != type_of(mask).shape:
            return True
        return self.point_by_point(base, memory, set())

    def point_by_point(self, x: Value, memory: Memory, seen: set[Value]) -> bool:
        """Whether computing x reads a memory at its own index alone, if at all."""
        if x in seen or x.node is None or self.memory[x] is memory:
            return True
        seen.add(x)
        node = x.node
        if any(self.memory[y] is memory for y in looked_at(x)):
            return False
        if (_is_pointwise(node) or node.op == "full") and inlines(node):
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
            memory = self.common(node, ends, path) or self.carried_on(node, ends, path)
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

    def carried_on(self, node: Node, ends: list[Operand], path: Path) -> Memory | None:
        """The memory that the loop around a branch carries, if every arm ends with what is in it,
        or with something new that can be made there.
        """
        if not path or path[-1][0].op not in LOOPS:
            return None
        loop, k = path[-1]
        carried = {self.memory[p] for p in loop.regions[k].parameters}
        end = self.region_end[loop.regions[k]]
        found = {self.memory[x] for x in ends if isinstance(x, Value)} & carried
        if len(found) != 1:
            return None
        (memory,) = found
        fresh = []
        for j, x in enumerate(ends):
            if not isinstance(x, Value) or not self.owned(x):
                return None
            if self.memory[x] is memory:
                continue
            if not self.replaces(x, memory, (*path, (node, j)), end):
                return None
            fresh.append(self.memory[x])
        for made in fresh:
            self.take_over(made, memory)
        return memory


def looked_at(x: Value) -> Iterator[Value]:
    """A value and, of one that is another in a new shape, that one too: they may be one memory."""
    yield x
    while x.node is not None and x.node.op == "reshape" and isinstance(x.node.inputs[0], Value):
        x = x.node.inputs[0]
        yield x


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
