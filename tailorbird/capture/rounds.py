"""What a `for` goes over, when it can be a loop: a range, the rows of an array, zip, enumerate.

In: the value after `in`. Out: `Rounds`, a range of exact integers and the item of each round, or
None for what only a written-out loop can go over (lists, dicts, strings).

Invariants: making rounds emits nothing that a refused loop would leave behind; the item of a round
is made in the region of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Joint, SymbolicRange
from tailorbird.capture.views import index
from tailorbird.dataclass import dataclass
from tailorbird.ir.expr import Dim, apply

Item = Callable[[Tracer, Dim], Any]


@dataclass(frozen=True, eq=False)
class Rounds:
    """The range of a loop, and what its target is bound to in a round."""

    start: Dim
    stop: Dim
    step: int
    item: Item

    def count(self, t: Tracer) -> Dim:
        """How many rounds there are, if not fewer than none."""
        distance = t.assume.canon(self.stop - self.start)
        if self.step < 0:
            distance = -distance
        return apply("floordiv", distance + (abs(self.step) - 1), abs(self.step))


def rounds_of(t: Tracer, x: Any, what: str) -> Rounds | None:
    """The rounds of what is iterated over, or None."""
    if isinstance(x, range):
        return Rounds(x.start, x.stop, x.step, _the_integer)
    if isinstance(x, SymbolicRange):
        step = t.concrete(x.step, "a step")
        if step == 0:
            t.raises("ValueError: range() arg 3 must not be zero")
        return Rounds(t.assume.canon(x.start), t.assume.canon(x.stop), step, _the_integer)
    if isinstance(x, Arr) and x.shape:
        return Rounds(0, t.assume.canon(x.shape[0]), 1, lambda t, k: index(t, x, k))
    if isinstance(x, Joint):
        return _joint(t, x, what)
    return None


def _the_integer(t: Tracer, k: Dim) -> Any:
    return k


def _joint(t: Tracer, x: Joint, what: str) -> Rounds | None:
    """Parts side by side, as long as the shortest."""
    rounds = [rounds_of(t, part, what) for part in x.parts]
    found = [r for r in rounds if r is not None]
    if len(found) < len(rounds):
        return None
    count = found[0].count(t)
    for r in found[1:]:
        count = t.assume.least(count, r.count(t))

    def item(t: Tracer, k: Dim) -> Any:
        items = tuple(r.item(t, t.assume.canon(r.start + k * r.step)) for r in found)
        return items if x.start is None else (t.assume.canon(x.start + k), items[0])

    return Rounds(0, count, 1, item)
