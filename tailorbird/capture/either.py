"""References to one of two arrays: names that a branch binds to one array or to another.

In: a test, and two references of one dtype and shape. Out: a reference like any other, through
which views are taken as usual. What it shows is read from the side that the test picks, in a branch
of its own; what is written goes to that side alone.

Invariants: a choice has no memory and is never a base; what reaches memory goes by `sides`. Its
test is known wherever the reference is. There are at most `MOST_SIDES` arrays that one may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailorbird.capture.heap import place
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Choice, sides
from tailorbird.ir.node import Node, Operand, Region, Value
from tailorbird.ir.types import WEAK_BOOL, Type

MOST_SIDES = 6


def either(t: Tracer, test: Operand, first: Arr, second: Arr) -> Arr:
    """The first where the test holds, else the second."""
    if not isinstance(test, Value):
        return first if test else second
    if place(first) == place(second):
        return first
    if not test.type.weak:
        test = t.emit("cast", [test], {"dtype": WEAK_BOOL.dtype}, WEAK_BOOL)
    made = t.buffer(Value(Type(first.dtype, t.shape_of(first))))
    made.choice = Choice(test, first, second)
    return Arr(made)


def read(t: Tracer, x: Arr) -> Value:
    """What a choice shows now."""
    choice = x.buffer.choice
    assert choice is not None
    first, second = choice.first.through(x.view), choice.second.through(x.view)
    found = picked(t, choice.test, lambda: t.read(first), lambda: t.read(second), versions(x))
    assert isinstance(found, Value)
    return found


def write(t: Tracer, x: Arr, value: Operand) -> None:
    """Writes to what the test picks."""
    from tailorbird.capture.branches import branch

    choice = x.buffer.choice
    assert choice is not None
    first, second = choice.first.through(x.view), choice.second.through(x.view)
    runs = lambda: t.write(first, value), lambda: t.write(second, value)
    branch(t, t.frames[-1], choice.test, *runs, None)


def each(t: Tracer, x: Arr, make: Callable[[Arr], Arr]) -> Arr:
    """What `make` makes of an array, for each that x may be."""
    choice = x.buffer.choice
    if choice is None:
        return make(x)
    first, second = (each(t, side.through(x.view), make) for side in (choice.first, choice.second))
    return either(t, choice.test, first, second)


def versions(x: Arr) -> tuple[Any, ...]:
    """What reading x depends on."""
    found = tuple(side.buffer.root.content for side in sides(x))
    return (x.buffer, x.view, *found)


def picked(
    t: Tracer,
    test: Operand,
    then: Callable[[], Operand],
    other: Callable[[], Operand],
    key: tuple[Any, ...] = (),
) -> Operand:
    """One of two operands of one type, each made in its arm; found again by a key."""
    if not isinstance(test, Value):
        return then() if test else other()
    outer = t.region
    region: Region | None = outer
    while region is not None and key:
        known = region._seen.get(("either", *key))
        if known is not None:
            return known.result
        region = region.parent
    arms, found = (Region(outer), Region(outer)), []
    for arm, run in zip(arms, (then, other)):
        t.region = arm
        found.append(run())
        arm.yields = (found[-1],)
    t.region = outer
    p, q = found
    if p is q or (isinstance(p, bool) and isinstance(q, bool) and p == q):
        return p
    kind = WEAK_BOOL if isinstance(p, bool) and isinstance(q, bool) else _type(p, q)
    node = outer.append(Node("branch", [test], {}, [kind], arms, t.place()))
    if key:
        outer._seen["either", *key] = node
    return node.result


def _type(p: Operand, q: Operand) -> Type:
    known = p if isinstance(p, Value) else q
    assert isinstance(known, Value)
    return known.type


# Which array it is


def is_side(t: Tracer, x: Arr, wanted: Arr) -> Operand:
    """Whether x is a certain one of its sides."""
    choice = x.buffer.choice
    if choice is None:
        return place(x) == place(wanted)
    tags = [is_side(t, side.through(x.view), wanted) for side in (choice.first, choice.second)]
    if tags[0] is True and tags[1] is False:
        return choice.test
    return picked(t, choice.test, lambda: tags[0], lambda: tags[1])


def tree(t: Tracer, tagged: list[tuple[Operand, Arr]], last: Arr) -> Arr:
    """The array whose tag holds, or the last."""
    found = last
    for tag, x in reversed(tagged):
        found = either(t, tag, x, found)
    return found


def distinct(x: Arr) -> list[Arr]:
    """The arrays that x may be, each once."""
    return list({place(side): side for side in sides(x)}.values())


def depth(x: Arr) -> int:
    choice = x.buffer.choice
    return 0 if choice is None else 1 + max(depth(choice.first), depth(choice.second))


def tidy(t: Tracer, x: Arr) -> Arr:
    """The same choice with one test for each array, where that is fewer."""
    ways = distinct(x)
    if depth(x) < 2 or len(ways) > depth(x):
        return x
    return tree(t, [(is_side(t, x, way), way) for way in ways[:-1]], ways[-1])
