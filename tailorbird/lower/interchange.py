"""A loop around a map, turned inside out: points outside, turns inside.

In: a loop and the nest of maps that is all its body. Out: one nest whose rows are the points of the
map and whose stage goes through the turns, in order; or None.

Where the turns walk along memory and the points from line to line (`y[:, j] = a * y[:, j - 1]`),
each line is then fetched once and not once a turn. Lanes are points. What lies along the turns is
loaded in squares, so many points by so many turns, and turned over in registers; what one turn
leaves for the next stays there.

Invariants: what is stored at one point is read and stored at no other. What one turn stores another
reads a fixed number of turns later, or before.
"""

from __future__ import annotations

from tailorbird.dataclass import dataclass, field
from tailorbird.fuse.flow import Position
from tailorbird.fuse.groups import COSTS
from tailorbird.lower.apart import Access, Apart, loads_of, sizes_of, stores_of
from tailorbird.lower.kernel import PART, Axis, Load, Nest, Op, Stage, Store
from tailorbird.lower.moved import NotAffine, Unrolled, mentions
from tailorbird.lower.schedule import expressions, expressions_of
from tailorbird.lower.steps import Loop

FARTHEST = 4  # turns from a store to a load of it
DEAR = 200  # cost of a map that does not wait for memory; its code would be repeated for every turn


def interchanged(loop: Loop, nest: Nest, apart: Apart) -> Nest | None:
    """The nest with the turns of the loop around it inside, where that is legal and pays."""
    if loop.until is not None or loop.step not in (1, -1) or not _is_plain_map(nest):
        return None
    points = [*nest.rows, *nest.inner]
    extent = (loop.stop - loop.start) * loop.step
    if any(mentions(a.extent, loop.var) for a in points) or extent in range(FARTHEST):
        return None
    turns = Axis(f"@{loop.var.name}", extent)
    try:
        stages = Unrolled(loop, turns).stages(nest)
    except NotAffine:
        return None
    (stages[0].turns,) = inner = [turns]
    turned = Nest("", points, inner, stages, nodes=nest.nodes, scan=True)
    return turned if _walks_along(turned) and _is_legal(turned, apart) else None


def _is_plain_map(nest: Nest) -> bool:
    """Whether a nest does nothing but store real numbers at points of its axes."""
    if nest.scan or nest.packs or nest.only_if or len(nest.stages) != 1:
        return False
    (stage,) = nest.stages
    if (
        stage.head
        or stage.folds
        or stage.first
        or all(a.extent == 1 for a in nest.rows + nest.inner)
    ):
        return False
    order = expressions(nest)
    accesses: list[Access] = [*stage.stores, *(x for x in order if isinstance(x, Load))]
    if any(x.computed or x.at.terms or x.buffer.ty in PART for x in accesses):
        return False
    if any(s.mask is not None for s in stage.stores):
        return False
    return sum(COSTS.get(x.op, 1) for x in order if isinstance(x, Op)) < DEAR


def _walks_along(nest: Nest) -> bool:
    """Whether the turns walk along memory at least as often as any axis of the map does."""
    (turns,) = nest.inner
    accesses: list[Access] = [*stores_of(nest), *loads_of(nest)]
    places = {(isinstance(x, Store), x.buffer.name, x.at) for x in accesses}

    def along(axis: Axis) -> int:
        return sum(at.stride(axis.name) in (1, -1) for *_, at in places)

    return along(turns) >= max(1, *(along(a) for a in nest.rows))


def _is_legal(nest: Nest, apart: Apart) -> bool:
    (turns,) = nest.inner
    sizes = sizes_of(nest)
    stores = list(stores_of(nest))
    accesses: list[Access] = [*stores, *loads_of(nest)]
    for store in stores:
        for x in accesses:
            if x.buffer.name != store.buffer.name:
                continue
            if not apart.rows_apart(store, x, nest.rows, sizes):
                return False
            if x is store or apart.disjoint(store.index, x.index, sizes):
                continue
            later = turns_later(store.at, x.at, turns.name)
            if isinstance(x, Store) or later is None or later > FARTHEST:
                return False
    return True


def turns_later(first: Position, second: Position, turns: str) -> int | None:
    """How many turns later the second is where the first was; 1 where both always are. None where
    that is never, or not known.
    """
    if dict(first.axes) != dict(second.axes) or first.terms or second.terms:
        return None
    step, gap = first.stride(turns), first.offset - second.offset
    if step == 0:
        return 1 if gap == 0 else None
    if isinstance(step, int) and isinstance(gap, int):
        return gap // step if gap % step == 0 else None
    return next((d for d in range(-FARTHEST, FARTHEST + 1) if step * d == gap), None)


@dataclass
class Stream:
    """What passes by at one point, one element a turn: stored, or loaded by the load that is
    furthest ahead. `behind` are the loads that see it later, by identity, and how many turns.
    """

    source: Access
    behind: dict[int, int] = field(default_factory=dict)
    square: bool = False  # it lies along the turns, and points are apart

    @property
    def depth(self) -> int:
        """How many of the elements that passed are still needed."""
        return max(self.behind.values(), default=0)


def streams(stage: Stage, turns: Axis, vector: str) -> list[Stream]:
    """What a stage stores, and what it loads along the turns; lanes follow an axis."""
    found = [Stream(s, {}, _is_square(s.at, turns.name, vector)) for s in stage.stores]
    written = list(found)
    for x in expressions_of(x for store in stage.stores for x in store.roots):
        if not isinstance(x, Load):
            continue
        own = [s for s in written if s.source.buffer.name == x.buffer.name]
        ages = ((s, turns_later(s.source.at, x.at, turns.name)) for s in own)
        near = [(s, age) for s, age in ages if age is not None and 0 < age <= FARTHEST]
        if near:
            stream, age = near[0]
            stream.behind[id(x)] = age
        elif _is_square(x.at, turns.name, vector):
            _join(found, x, turns.name)
    return found


def _is_square(at: Position, turns: str, vector: str) -> bool:
    return at.stride(turns) in (1, -1) and at.stride(vector) not in (-1, 0, 1)


def _join(found: list[Stream], x: Load, turns: str) -> None:
    """Adds a load to the stream that it belongs to."""
    for stream in found:
        head = stream.source
        if isinstance(head, Store) or head.buffer.name != x.buffer.name:
            continue
        later = turns_later(head.at, x.at, turns)
        if later is None:
            continue
        ages = {k: age - min(later, 0) for k, age in stream.behind.items()}
        if max(later, *ages.values()) > FARTHEST:
            continue
        ages[id(x)] = max(later, 0)
        stream.behind = ages
        stream.source = x if later < 0 else head
        return
    found.append(Stream(x, {id(x): 0}, True))
