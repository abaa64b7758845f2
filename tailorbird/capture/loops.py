"""Loops that become `loop` and `while` nodes: what they carry is the content of buffers.

In: a loop statement, its activation and its rounds. Out: a node in the current region; names and
heap as they are after the loop; or `Refused`, with the reason why the heap does not close.

Invariants: every buffer that is alive is assumed to be carried, and what the loop does not change
is taken out again when it closes. At the back edge the heap must correspond to the head: each
buffer of the head to exactly one of the end, a pinned one to itself. Names have the references of
the head before, in and after the loop. What an attempt learns (types, sizes, names without a value)
is only proposed to the next attempt, which proves it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tailorbird.capture import sound
from tailorbird.capture.attempt import Attempt
from tailorbird.capture.closing import Closing
from tailorbird.capture.heap import containers
from tailorbird.capture.live import bound_in, breaks, liveness, returns
from tailorbird.capture.opening import Mismatch
from tailorbird.capture.returning import HIDDEN
from tailorbird.capture.rounds import Rounds
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Buffer, Frame
from tailorbird.dataclass import dataclass, field
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Operand, Region, Value, View
from tailorbird.ir.types import Type

MOST_TRIES = 10


@dataclass
class Info:
    """What earlier attempts at a loop have learnt."""

    types: dict[str, Type] = field(default_factory=dict)  # joined types of carried scalars
    extra: dict[str, tuple[Type, ...]] = field(default_factory=dict)  # what else they may be
    poison: set[str] = field(default_factory=set)  # names without one value at the head
    late: dict[str, Late] = field(default_factory=dict)  # names bound first inside, used after
    sizes: dict[Buffer, tuple[Dim | int, ...]] = field(default_factory=dict)  # general shapes
    pairs: dict[tuple[Dim, Dim], int] = field(default_factory=dict)  # sizes that become one
    ways: dict[str, list[Arr]] = field(default_factory=dict)  # names that are one of several arrays
    makes: set[str] = field(default_factory=set)  # those of them that a round makes anew
    tagging: bool = False  # whether names may be one of several
    gaps: set[Buffer] = field(default_factory=set)  # buffers that do not stay contiguous


@dataclass(frozen=True)
class Late:
    """A scalar type, or an array: its buffer in the attempt before, the type, and the view."""

    type: Type
    buffer: Buffer | None = None
    view: View | None = None


@dataclass
class Site:
    """A loop statement that is being captured."""

    statement: Any
    frame: Frame
    rounds: Rounds | None
    broke: str = ""  # the hidden name that tells whether `break` left it, if `else` asks
    live: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()

    @property
    def goes_on(self) -> str:
        """The hidden name of a `while` that is False once it was left by `break`."""
        return f"$on_{self.statement.lineno}_{self.statement.col_offset}"

    @property
    def leaves(self) -> bool:
        """Whether the body may leave the loop."""
        return breaks(self.statement.body) or returns(self.statement)

    @property
    def target(self) -> str:
        target = getattr(self.statement, "target", None)
        return target.id if isinstance(target, ast.Name) else "i"


def captured_loop(t: Tracer, site: Site) -> None:
    """Captures a loop; its names and the heap are then as they are after it."""
    from tailorbird.capture.peeling import attempts

    frame = site.frame
    _prepare(site)
    frame.names = {n: x for n, x in frame.names.items() if n in site.live}
    if site.rounds is not None and never_runs(t, site.rounds):
        return
    outer, frozen = frame.after, len(t.frozen)
    t.frozen += containers([list(f.names.values()) for f in t.frames] + list(t.stack))
    frame.after = site.live
    frame.loops += 1
    try:
        reason = attempts(t, site, site.rounds)
    finally:
        frame.after = outer
        frame.loops -= 1
        del t.frozen[frozen:]
    frame.names.pop(site.goes_on, None)
    if reason is not None:
        t.refuse("loop_shape", name=reason)
    sound.names(frame.names, site.live)
    sound.heap(t)


def _prepare(site: Site) -> None:
    """Works out which names the loop needs and which it binds."""
    s, names = site.statement, site.frame.names
    live = liveness(site.frame.text.tree)
    hidden = {n for n in names if n[0] == "$"}
    assigned = set(bound_in(s))
    if returns(s):
        hidden |= HIDDEN
        assigned |= HIDDEN
    if site.broke:
        assigned.add(site.broke)
    if site.rounds is None and site.leaves:
        names[site.goes_on] = True
        hidden.add(site.goes_on)
        assigned.add(site.goes_on)
    site.live = live.head[s] | hidden
    site.after = live.after[s] | hidden
    site.assigned = frozenset(assigned)


def never_runs(t: Tracer, rounds: Rounds) -> bool:
    """Whether the range is empty in this call, and so for all calls of this graph."""
    return t.assume.holds(distance(rounds) - 1) is False


def always_runs(t: Tracer, rounds: Rounds | None) -> bool:
    """Whether there is at least one round."""
    return rounds is not None and t.assume.holds(distance(rounds) - 1) is True


def distance(rounds: Rounds) -> Dim:
    return rounds.stop - rounds.start if rounds.step > 0 else rounds.start - rounds.stop


def settled(
    t: Tracer, site: Site, rounds: Rounds | None, period: int = 1, tagging: bool = False
) -> str | None:
    """None once an attempt closes, else why none does; then everything is as before."""
    from tailorbird.capture.tagging import recalled

    info = Info(tagging=tagging)
    if tagging:
        recalled(t, site, info)
    learned = t.learned.get(site.statement)
    if learned is not None:
        info.types.update(learned.types)
        info.extra.update(learned.extra)
        info.poison.update(learned.poison)
    for _ in range(MOST_TRIES):
        before = Attempt(t)
        reason = None
        try:
            if Closing(t, site, rounds, period, info).closes():
                t.learned[site.statement] = info
                if tagging:
                    t.tagged[site.statement] = list(info.ways), info.makes
                return None
        except Mismatch as mismatch:
            reason = str(mismatch)
        before.abandon()
        if reason is not None:
            t.learned.pop(site.statement, None)
            return reason
    return "what the loop carries changes its type again and again,"


def replace_values(region: Region, values: Mapping[Value, Operand]) -> None:
    """Puts what entered in the place of what a loop does not change."""

    def moved(xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(values.get(x, x) if isinstance(x, Value) else x for x in xs)

    for node in region.nodes:
        node.inputs = moved(node.inputs)
        for inner in node.regions:
            replace_values(inner, values)
    region.yields = moved(region.yields)
