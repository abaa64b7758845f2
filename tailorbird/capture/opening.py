"""The first half of an attempt at a loop: its head, its test and one run of its body.

In: a loop, its rounds, how many rounds one iteration of the node takes (its period), and what
earlier attempts learnt. Out: regions with parameters for all that may be carried, the heap and
names as they are at the back edge, and the flag that says whether the loop is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailorbird.capture.arith import facts_of
from tailorbird.capture.branches import (
    BREAK,
    LEFT,
    STOP,
    blank,
    is_scalar,
    scalar_operand,
)
from tailorbird.capture.heap import (
    contents,
    derived,
    pins,
)
from tailorbird.capture.loose import fitted, joined_type, loosen, possible
from tailorbird.capture.returning import is_part
from tailorbird.capture.rounds import Rounds
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Buffer, Poison, Scal
from tailorbird.dataclass import dataclass
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.ir.node import Operand, Region, Value, type_of
from tailorbird.ir.types import WEAK_BOOL, WEAK_INT, Type

if TYPE_CHECKING:
    from tailorbird.capture.loops import Info, Late, Site
    from tailorbird.capture.tagging import Tagged


class Mismatch(Exception):
    """The heap at the back edge is not that of the head."""


@dataclass
class Slot:
    """One carried value: the content of a buffer, or a scalar that a name or a tuple has."""

    type: Type
    entering: Operand
    buffer: Buffer | None = None
    name: str = ""
    origin: Any = None  # the scalar that entered, as the interpreter has it
    loose: tuple[Type, ...] = ()
    parameter: Value | None = None
    symbol: Any = None
    leaving: Operand = 0
    types: tuple[Type, ...] = ()  # what a scalar may be at the end of a round


@dataclass(frozen=True)
class Hole:
    """In a general shape: a size that the loop binds anew in each round."""

    number: int


def has_scalars(x: Any) -> bool:
    """Whether a value is a scalar, or a tuple with one in it."""
    return is_scalar(x) or (isinstance(x, tuple) and any(map(has_scalars, x)))


def filled(x: Any, found: dict[int, Any]) -> Any:
    """A value with what was found for its slots in their places."""
    if isinstance(x, tuple):
        return tuple(filled(part, found) for part in x)
    return found[id(x)] if isinstance(x, Slot) else x


class Opening:
    """One attempt up to the back edge."""

    def __init__(
        self, t: Tracer, site: Site, rounds: Rounds | None, period: int, info: Info
    ) -> None:
        self.t, self.site, self.rounds, self.period, self.info = t, site, rounds, period, info
        self.frame = site.frame
        self.outer = t.region
        self.entry = dict(site.frame.names)
        self.before = contents(t)
        self.derived = derived(t)
        self.pins = pins(t)
        self.slots: list[Slot] = []
        self.head: dict[str, Any] = {}
        self.carried: dict[str, Any] = {}  # names with scalars: their values with slots in them
        self.general: dict[Buffer, Buffer] = {}
        self.holes: dict[int, Dim] = {}
        self.again = False
        self.tagged: dict[str, Tagged] = {}
        self.returned: dict[str, Any] = {}  # parts of what `return` gave, by hidden name
        self.regions: list[Region] = []
        self.stop: Operand | None = None
        self.variable: Sym | None = None

    # the head

    def plan(self) -> None:
        """Decides what is carried: every buffer, the scalars that are assigned, late names."""
        from tailorbird.capture.tagging import planned

        t, info, names = self.t, self.info, self.frame.names
        for buffer, content in self.before.items():
            buffer.contiguous = buffer.contiguous and buffer not in info.gaps
            shape = info.sizes.get(buffer)
            if shape is None:
                self.slots.append(Slot(buffer.type, content, buffer))
            else:
                self.generalised(buffer, content, shape)
        born: dict[Buffer, Buffer] = {}
        for name in sorted(self.site.live):
            late = info.late.get(name)
            if late is not None:
                names[name] = self.late(name, late, born)
            elif isinstance(names.get(name), Poison) and name in self.site.assigned:
                continue
            elif name not in names:
                if name in self.site.assigned and not is_part(name):
                    names[name] = Poison(f"{name}, which an earlier round of the loop binds,")
                continue
            elif name in info.poison:
                names[name] = Poison(f"{name}, which is bound on some paths of a loop only,")
            elif name in info.ways:
                self.tagged[name] = planned(self, name, names[name])
                continue
            elif name in self.site.assigned and has_scalars(names[name]):
                self.carried[name] = self.with_slots(name, names[name])
            else:
                names[name] = self.reference(names[name])
            self.head[name] = names[name]
        if self.rounds is not None:
            self.bound_variable(self.rounds)
        t.bodies += self.period

    def generalised(self, buffer: Buffer, content: Value, shape: tuple[Any, ...]) -> None:
        """A buffer whose sizes change from round to round: a new one with sizes of its own."""
        sizes = tuple(self.hole(d) if isinstance(d, Hole) else d for d in shape)
        kind = Type(buffer.type.dtype, sizes)
        made = self.t.buffer(Value(kind))
        made.contiguous = buffer.contiguous
        self.general[buffer] = made
        self.slots.append(Slot(kind, content, made))

    def hole(self, d: Hole) -> Dim:
        if d.number not in self.holes:
            self.holes[d.number] = self.t.new_fresh()
        return self.holes[d.number]

    def reference(self, x: Any) -> Any:
        if isinstance(x, Arr) and x.buffer in self.general and x.view is None:
            return Arr(self.general[x.buffer])
        return x

    def with_slots(self, name: str, x: Any) -> Any:
        """A value with a slot in the place of each scalar; the parts of a tuple are `name[0]`."""
        if isinstance(x, tuple):
            return tuple(self.with_slots(f"{name}[{k}]", part) for k, part in enumerate(x))
        return self.scalar(name, x) if is_scalar(x) else self.reference(x)

    def scalar(self, name: str, x: Any) -> Slot:
        operand = scalar_operand(self.t, x)
        types = possible(self.t, operand)
        kind = self.info.types.get(name, type_of(operand))
        joined = joined_type(kind, type_of(operand))
        if joined != kind:
            raise Mismatch(f"{name}, which is a {type_of(operand)} first and then a {kind},")
        entering = fitted(self.t, operand, kind)
        self.slots.append(Slot(kind, entering, name=name, loose=types, origin=x))
        return self.slots[-1]

    def late(self, name: str, late: Late, born: dict[Buffer, Buffer]) -> Any:
        """A name that the loop binds first: nothing looks at what it enters with."""
        if late.buffer is None:
            kind = self.info.types.get(name, late.type)
            self.slots.append(Slot(kind, blank(kind), name=name))
            self.carried[name] = self.slots[-1]
            return self.slots[-1]
        if late.buffer not in born:
            attrs = {"shape": late.type.shape, "dtype": late.type.dtype}
            empty = self.t.emit("empty", [], attrs, late.type)
            made = born[late.buffer] = self.t.buffer(empty)
            made.contiguous = late.buffer.contiguous
            self.slots.append(Slot(late.type, empty, made))
        return Arr(born[late.buffer], late.view)

    def bound_variable(self, rounds: Rounds) -> None:
        t = self.t
        sym = t.new_loop_variable(self.site.target)
        last = self.period * abs(rounds.step) - abs(rounds.step)
        if rounds.step > 0:
            t.assume.bound(sym, rounds.start, rounds.stop - 1 - last)
            t.assume.suppose(t.assume.canon(rounds.stop - 1 - last - rounds.start))
        else:
            t.assume.bound(sym, rounds.stop + 1 + last, rounds.start)
            t.assume.suppose(t.assume.canon(rounds.start - rounds.stop - 1 - last))
        self.variable = sym

    def enter(self) -> None:
        """A new region with a parameter for every slot, which is what names and buffers hold."""
        t = self.t
        region = Region(self.outer)
        t.region = region
        self.regions.append(region)
        for slot in self.slots:
            slot.parameter = Value(slot.type)
            region.parameters.append(slot.parameter)
            if slot.buffer is not None:
                slot.buffer.content = slot.parameter
        inside: dict[int, Any] = {}
        for slot in self.slots:
            if not slot.name:
                continue
            assert slot.parameter is not None
            if slot.type == WEAK_INT:
                inside[id(slot)] = slot.symbol = t.bound(slot.parameter)
            else:
                inside[id(slot)] = Scal(slot.parameter)
                loosen(t, slot.parameter, (*slot.loose, *self.later_types(slot.name)))
        for name, x in self.carried.items():
            self.frame.names[name] = self.head[name] = filled(x, inside)
        for name, tagged in self.tagged.items():
            tests = [slot.parameter for slot in tagged.flags if slot.parameter is not None]
            self.frame.names[name] = self.head[name] = tagged.reference(self, tests)
        self.follow_bases()

    def later_types(self, name: str) -> tuple[Type, ...]:
        return self.info.extra.get(name, ())

    def follow_bases(self) -> None:
        """Reshaped arrays show what their roots hold at the head."""
        for buffer, seen in self.derived.items():
            if seen is self.before.get(buffer.root):
                buffer.seen = buffer.root.content

    # test and body

    def test(self) -> None:
        """The test of a `while`, in a region of its own; then again for its facts in the body."""
        t, names = self.t, dict(self.frame.names)
        self.enter()
        state = contents(t), dict(self.frame.names)
        mark = t.assume.enter()
        yielded = self.tested()
        t.assume.leave(mark)
        if contents(t).items() < state[0].items() or self.frame.names != state[1]:
            t.refuse("loop_shape", name="the test of a while, which writes or binds,")
        self.regions[0].yields = (yielded,)
        self.frame.names = names

    def tested(self) -> Operand:
        from tailorbird.capture.control import while_test

        return while_test(self.t, self.site)

    def body(self) -> None:
        from tailorbird.capture.control import run_round

        t = self.t
        self.enter()
        if self.rounds is None:
            self.facts_of_test()
        outcome = None
        for k in range(self.period):
            at: Dim = 0
            if self.rounds is not None and self.variable is not None:
                at = Expr((((self.variable,), 1),)) + k * self.rounds.step
            outcome = run_round(t, self.site, self.rounds, at)
            if self.period > 1 and outcome is not None:
                raise Mismatch("a loop that is left early, and whose arrays change places,")
        self.stop_flag(outcome)

    def facts_of_test(self) -> None:
        """The test holds in the body; what it computes there for that is thrown away."""
        t, region = self.t, self.t.region
        ends = set(t.assume.ends)
        mark = t.assume.enter()
        kept = t.counters(), dict(region._seen)
        t.region = Region(region)
        test = self.tested()
        t.region = region
        facts = facts_of(test, True)
        inner = set(t.assume.ends) - ends
        t.assume.leave(mark)
        t.reset_counters(kept[0])
        for fact in facts:
            fact = t.assume.canon(fact)
            if isinstance(fact, Expr) and not fact.symbols() & inner:
                t.assume.suppose(fact)

    def stop_flag(self, outcome: Any) -> None:
        """How the body was left, as a flag for the node or for the next test."""
        flag: Operand | None = None
        if outcome is not None and outcome[0] == STOP:
            flag = outcome[1]
        elif outcome in (BREAK, LEFT):
            flag = True
        names = self.frame.names
        if self.site.broke:
            names[self.site.broke] = Scal(flag) if isinstance(flag, Value) else bool(flag)
        if self.rounds is not None:
            self.stop = flag
        elif isinstance(flag, Value):
            names[self.site.goes_on] = Scal(self.t.emit("logical_not", [flag], None, WEAK_BOOL))
        elif flag:
            names[self.site.goes_on] = False
