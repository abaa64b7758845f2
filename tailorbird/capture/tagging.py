"""Names that are one of several arrays at the head of a loop: carried flags tell which.

In: an attempt at a loop, a name, and the arrays that it may be (its ways): those it enters with,
those of before the loop that it was found to have at the back edge, and one that stands for what
rounds make. Out: a reference that is a choice by flags; at the back edge, what the flags become.

Invariants: a way of before the loop corresponds to itself. The array that a round makes is its
name's alone, so that one buffer stands for all that the rounds make; where the name is another
array, nothing looks at that buffer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tailorbird.capture.branches import equal_in_this_call
from tailorbird.capture.either import MOST_SIDES, distinct, is_side, picked, tree
from tailorbird.capture.heap import Relation, arrays, is_older, place
from tailorbird.capture.opening import Mismatch, Opening, Slot
from tailorbird.capture.values import Arr, Buffer
from tailorbird.dataclass import dataclass, field
from tailorbird.ir.node import Operand, Value
from tailorbird.ir.types import WEAK_BOOL, Type

if TYPE_CHECKING:
    from tailorbird.capture.closing import Closing
    from tailorbird.capture.loops import Info, Site
    from tailorbird.capture.tracer import Tracer


@dataclass
class Tagged:
    """One such name: a flag for each of its ways but the last."""

    ways: list[Arr]
    flags: list[Slot]
    made: Slot | None = None  # for what a round makes, which is then the last way
    makes: set[Buffer] = field(default_factory=set)  # what this round made

    def reference(self, opening: Opening, tests: Iterable[Operand]) -> Arr:
        return tree(opening.t, list(zip(tests, self.ways)), self.ways[-1])

    @property
    def kept(self) -> Buffer | None:
        """The buffer that stands for what rounds make."""
        return None if self.made is None else self.made.buffer


def planned(opening: Opening, name: str, entry: Any) -> Tagged:
    """The slots of a name that was found to be one of several arrays."""
    t, info = opening.t, opening.info
    ways, made = list(info.ways[name]), None
    if name in info.makes:
        kind = Type(entry.dtype, t.shape_of(entry))
        empty = t.emit("empty", [], {"shape": kind.shape, "dtype": kind.dtype}, kind)
        made = Slot(kind, empty, t.buffer(empty))
        assert made.buffer is not None
        ways.append(Arr(made.buffer))
        opening.slots.append(made)
    for way in ways[1:]:
        _alike(opening, name, ways[0], way)
    flags = []
    for k, way in enumerate(ways[:-1]):
        entering = is_side(t, entry, way)
        flags.append(Slot(WEAK_BOOL, entering, name=f"{name}?{k}", origin=entering))
    opening.slots += flags
    return Tagged(ways, flags, made)


def leaves(closing: Closing, relation: Relation, name: str, now: Any) -> None:
    """Relates a tagged name at the back edge, or learns another way."""
    tagged = closing.tagged[name]
    if not isinstance(now, Arr):
        raise Mismatch(f"{name}, which changes its kind in the loop,")
    for way in tagged.ways:
        if way.buffer is not tagged.kept:
            relation.add(way.buffer.root, way.buffer.root, False)
    tagged.makes = learnt(closing, name, now, tagged)


def learnt(closing: Closing, name: str, now: Arr, tagged: Tagged | None) -> set[Buffer]:
    """What the round made for a name; notes what else it may be beside its known ways."""
    info = closing.info
    known = [place(way) for way in (tagged.ways if tagged else info.ways[name])]
    made: set[Buffer] = set()
    for side in distinct(now):
        root = side.buffer.root
        if place(side) in known:
            continue
        if is_older(closing.before, root):
            if closing.shows_inside((side.view, side.shape)) or len(known) == MOST_SIDES:
                raise Mismatch(f"{name}, which may be another array or part in each round,")
            info.ways[name].append(side)
            closing.again = True
            continue
        if side.buffer is not root or side.view is not None or root in closing.heads():
            raise Mismatch(f"{name}, which may be a part of an array that a round makes,")
        _alike(closing, name, side, closing.entry[name])
        if name not in info.makes:
            info.makes.add(name)
            closing.again = True
        made.add(root)
    return made


def propose(closing: Closing, relation: Relation, bad: set[Buffer]) -> None:
    """Names that show what does not correspond are tagged in the next attempt."""
    spoilt: set[object] = {*bad, *(image for b in bad for image in relation.forth[b])}
    for name, then in closing.head.items():
        now, entry = closing.frame.names.get(name), closing.entry.get(name)
        if name in closing.tagged or name in closing.info.late or then is now:
            continue
        if not isinstance(then, Arr) or not isinstance(now, Arr) or not isinstance(entry, Arr):
            continue
        ways, ends = distinct(then), distinct(now)
        if [place(x) for x in ways] == [place(x) for x in ends] and len(ways) == 1:
            continue
        if not spoilt & {x.buffer.root for x in (*ways, *ends)}:
            continue
        _alike(closing, name, entry, now)
        closing.info.ways[name] = distinct(entry)
        learnt(closing, name, now, None)
        closing.again = True


def recalled(t: Tracer, site: Site, info: Info) -> None:
    """Proposes the names that were tagged when the loop was last captured."""
    names, makes = t.tagged.get(site.statement, ((), ()))
    for name in names:
        entry = site.frame.names.get(name)
        if isinstance(entry, Arr):
            info.ways[name] = distinct(entry)
            info.makes |= {name} & set(makes)


def _alike(opening: Opening, name: str, x: Arr, y: Arr) -> None:
    """All that a name may be has one dtype and one shape."""
    t = opening.t
    alike = x.dtype == y.dtype and x.ndim == y.ndim
    sizes = zip(t.shape_of(x), t.shape_of(y)) if alike else ()
    if not alike or not all(d == e or equal_in_this_call(t, d, e) for d, e in sizes):
        raise Mismatch(f"{name}, which is one of two arrays of different types or shapes,")


def alone(closing: Closing) -> None:
    """What a round makes for a tagged name is seen by no other."""
    names, live = closing.frame.names, closing.site.live
    for name, tagged in closing.tagged.items():
        own = {*tagged.makes, tagged.kept}
        others = tuple(x for m, x in names.items() if m != name and m in live)
        if any(a.buffer.root in own for a in arrays((others, closing.t.stack))):
            raise Mismatch(f"{name}, which may be an array that a round makes and others share,")


def leave(closing: Closing) -> None:
    """What the flags, and the buffers for what rounds make, hold at the end of a round."""
    t = closing.t
    outer, t.region = t.region, closing.regions[-1]
    for name, tagged in closing.tagged.items():
        now = closing.frame.names[name]
        for slot, way in zip(tagged.flags, tagged.ways):
            slot.leaving = is_side(t, now, way)
        if tagged.made is not None:
            assert tagged.made.buffer is not None
            tagged.made.leaving = _held(closing, now, tagged.makes, tagged.made.buffer.content)
    t.region = outer


def _held(closing: Closing, x: Arr, made: set[Buffer], default: Value) -> Operand:
    """The content of what a round made, if x is that."""
    choice = x.buffer.choice
    if choice is None:
        return x.buffer.content if x.buffer in made else default
    first, second = (_held(closing, side, made, default) for side in (choice.first, choice.second))
    return picked(closing.t, choice.test, lambda: first, lambda: second)
