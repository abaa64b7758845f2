"""Branches that data decides: both arms are captured, and what they leave behind is joined.

In: a condition that is computed, and two arms to run. Out: a `branch` node, the joined heap and
names, and how the arms were left.

Invariants: both arms start from the same heap and names. A buffer that was there before holds the
result of the branch; two arrays born in the arms are one buffer only if they correspond to each
other alone, through the same view. A name that has no one value afterwards is poisoned, and refused
only when it is read. An arm in which plain Python raises is a check that it is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.capture import sound
from tailorbird.capture.arith import facts_of
from tailorbird.capture.attempt import Attempt, put_back
from tailorbird.capture.either import MOST_SIDES, distinct, either, tidy
from tailorbird.capture.heap import (
    Relation,
    containers,
    contents,
    held,
    is_choice,
    is_whole,
    pins,
    place,
    restore,
    symbols_in,
)
from tailorbird.capture.loose import fitted, joined_type, loosen, possible
from tailorbird.capture.returning import is_part
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Buffer, Frame, Poison, Scal, is_number, is_static
from tailorbird.errors import Refused
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Node, Operand, Region, Value, type_of
from tailorbird.ir.types import WEAK_BOOL, WEAK_INT, Type

RETURN, STOP = "return", "stop"
BREAK, CONTINUE = ("break",), ("continue",)
LEFT = ("break", "return")  # of the loop around that is captured, whatever is written out in it
MISSING = object()
VALUE = "$value"  # the value of an expression that is being chosen
SHOWN = {VALUE: "a conditional value"}
Run = Callable[[], Any]


class Arm:
    """One arm after it was run: its nodes, names, heap, and how it was left."""

    def __init__(self, t: Tracer, frame: Frame, facts: list[Dim], run: Run) -> None:
        outer, file, line = t.region, t.file, t.line
        mark = t.assume.enter()
        for fact in facts:
            t.assume.suppose(t.assume.canon(fact))
        self.region = t.region = Region(outer)
        self.outcome = run()
        self.names = frame.names
        self.contents = contents(t)
        t.assume.leave(mark)
        t.region, t.file, t.line = outer, file, line

    @property
    def kind(self) -> str:
        """How it was left; going on with the loop and its end are the same."""
        left = "end" if self.outcome is None else str(self.outcome[0])
        return "end" if left == "continue" else left


def branch(
    t: Tracer, frame: Frame, test: Value, then: Run, other: Run, live: frozenset[str] | None
) -> Any:
    """Runs both arms and joins them; `live` are the names wanted afterwards (None: all)."""
    start = Attempt(t)
    arms: list[Arm] = []
    frozen = len(t.frozen)
    t.frozen += containers([list(f.names.values()) for f in t.frames] + list(t.stack))
    for taken, run in ((True, then), (False, other)):
        before = t.assume.enter()
        try:
            arms.append(Arm(t, frame, facts_of(test, taken), run))
        except Refused as refused:
            if refused.why.code != "numpy_raises":
                raise
            t.assume.leave(before)
            start.abandon()
            return _only(t, test, not taken, other if taken else then)
        t.assume.leave(before)
        restore(t, {b: held(start.heap, b) for b in arms[-1].contents if is_known(start, b)})
        put_back(start.derived)
        frame.names = dict(start.names[-1][1])
        del t.stack[len(start.stack) :]
    del t.frozen[frozen:]
    outcome = _Join(t, frame, test, start, arms).outcome(live)
    sound.heap(t)
    return outcome


def select(t: Tracer, frame: Frame, test: Value, then: Run, other: Run) -> Any:
    """The value of one of two expressions; each is evaluated only where it is wanted."""

    def into(run: Run) -> Run:
        def arm() -> None:
            frame.names[VALUE] = run()

        return arm

    branch(t, frame, test, into(then), into(other), None)
    value = frame.names.pop(VALUE)
    if isinstance(value, Poison):
        t.refuse("joined_value", name=value.reason)
    return value


def is_known(start: Attempt, buffer: Buffer) -> bool:
    return buffer in start.heap or buffer.argument is not None


def _only(t: Tracer, test: Value, taken: bool, run: Run) -> Any:
    """The other arm raises in plain Python: this one goes on, under a check."""
    t.check(test, "!=" if taken else "==")
    for fact in facts_of(test, taken):
        t.assume.suppose(t.assume.canon(fact))
    return run()


class _Join:
    """Two arms become one state."""

    def __init__(
        self, t: Tracer, frame: Frame, test: Value, start: Attempt, arms: list[Arm]
    ) -> None:
        self.t = t
        self.frame = frame
        self.start = start
        self.arms = arms
        self.pins = pins(t)
        self.relation = Relation(self.pins)
        self.pairs: list[tuple[Operand, Operand, Type]] = []
        self.results: list[Value] = []
        self.node = Node("branch", [test], {}, [], [a.region for a in arms], t.place())
        self.sizes: dict[tuple[Dim, Dim], Dim] = {}
        self.buffers: dict[tuple[Buffer, Buffer], Buffer | None] = {}
        self.tests: dict[tuple[Value, int], Value] = {}
        self.exports: dict[tuple[Buffer, int], Buffer] = {}
        self.objects: dict[tuple[int, int], Any] = {}
        self.waiting: list[tuple[Value, tuple[Type, ...]]] = []

    def outcome(self, live: frozenset[str] | None) -> Any:
        """Joins heap and names, adds the node, and gives how the block was left."""
        kinds = [arm.kind for arm in self.arms]
        returned = RETURN in kinds
        roots = self.returned() if returned else self.names(live)
        parts = {n: roots.pop(n) for n in list(roots) if is_part(n) and lacks_one(*roots[n])}
        for x, y in roots.values():
            self.relation.relate(x, y)
        self.old_buffers()
        joined = {name: self.join(x, y, shown(name)) for name, (x, y) in roots.items()}
        joined.update((name, self.only_one(x, y)) for name, (x, y) in parts.items())
        flag = None if returned else self.stop(kinds)
        if returned and has_poison(joined[RETURN]):
            self.t.refuse("joined_value", name="what is returned, which is one of two things,")
        self.finish()
        if returned:
            return (RETURN, self.wrapped(joined[RETURN]))
        self.frame.names = {name: self.wrapped(x) for name, x in joined.items()}
        self.tidied(joined)
        return (STOP, flag) if isinstance(flag, Value) else flag

    # roots

    def returned(self) -> dict[str, tuple[Any, Any]]:
        values = [a.outcome[1] if a.kind == RETURN else None for a in self.arms]
        return {RETURN: (values[0], values[1])}

    def names(self, live: frozenset[str] | None) -> dict[str, tuple[Any, Any]]:
        first, second = (arm.names for arm in self.arms)
        wanted = [n for n in {**first, **second} if live is None or n in live or n[0] == "$"]
        return {n: (first.get(n, MISSING), second.get(n, MISSING)) for n in wanted}

    def stop(self, kinds: list[str]) -> Any:
        """Whether the loop around is left: never, always, or a flag."""
        if kinds[0] == kinds[1] and STOP not in kinds:
            return BREAK if kinds[0] == "break" else None
        flags: list[Operand] = []
        for arm in self.arms:
            flags.append(arm.outcome[1] if arm.kind == STOP else arm.kind == "break")
        return self.result(flags[0], flags[1], WEAK_BOOL)

    # contents

    def old_buffers(self) -> None:
        """What was there before the branch holds what the arm left in it."""
        start = self.start
        for b in self.t.buffers():
            if b.base is not None or not is_known(start, b):
                continue
            before = held(start.heap, b)
            x, y = (arm.contents.get(b, before) for arm in self.arms)
            b.content = before if x is before and y is before else self.either(x, y, b.type)

    def either(self, x: Value, y: Value, kind: Type) -> Value:
        return x if x is y else self.result(x, y, kind)

    def result(self, x: Operand, y: Operand, kind: Type) -> Value:
        """A result of the node: x from the first arm, y from the second."""
        value = Value(kind, self.node, len(self.results))
        self.pairs.append((x, y, kind))
        self.results.append(value)
        return value

    def tidied(self, joined: dict[str, Any]) -> None:
        """Names that are one of two arrays, as few tests deep as may be."""
        for name, x in joined.items():
            if is_choice(x) and x.view is None:
                known = self.objects.setdefault((id(x), id(x)), tidy(self.t, x))
                self.frame.names[name] = known

    def finish(self) -> None:
        first, second = (arm.region for arm in self.arms)
        first.yields = tuple(x for x, _, _ in self.pairs)
        second.yields = tuple(y for _, y, _ in self.pairs)
        self.node.outputs = tuple(self.results)
        self.t.region.append(self.node)
        for value, types in self.waiting:
            loosen(self.t, value, types)

    def wrapped(self, x: Any) -> Any:
        """A joined scalar as the interpreter computes with it: a Python int is a symbol."""
        if isinstance(x, Value):
            return self.t.bound(x) if x.type == WEAK_INT else Scal(x)
        if type(x) in (tuple, list):
            return type(x)(map(self.wrapped, x))
        return x

    # values

    def join(self, x: Any, y: Any, name: str) -> Any:
        """One value for both arms, or a poisoned one."""
        if x is y:
            return x
        if isinstance(x, Poison) or isinstance(y, Poison):
            return x if isinstance(x, Poison) else y
        if x is MISSING or y is MISSING:
            return Poison(f"{name}, which is bound on one path only,")
        if is_static(x) and is_static(y) and equal_constants(x, y):
            return x
        if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
            return tuple(self.join(a, b, name) for a, b in zip(x, y))
        if isinstance(x, Arr) and isinstance(y, Arr):
            return self.arrays(x, y, name)
        if is_scalar(x) and is_scalar(y):
            return self.scalars(x, y, name)
        return Poison(f"{name}, which is one of two things of different kinds,")

    def arrays(self, x: Arr, y: Arr, name: str) -> Any:
        known = self.objects.get((id(x), id(y)))
        if known is None:
            known = self.objects[id(x), id(y)] = self.one_array(x, y, name)
        return known

    def one_array(self, x: Arr, y: Arr, name: str) -> Any:
        (a, path), (b, other) = place(x), place(y)
        if a is b and path == other:
            return x
        plain = a.is_own and b.is_own and x.buffer.base is None
        if path == other and plain and x.dtype == y.dtype:
            joined = self.one_buffer(a, b, is_whole(x))
            if joined is not None:
                return Arr(joined, x.view)
        return self.one_of_two(x, y, name)

    def one_of_two(self, x: Arr, y: Arr, name: str) -> Any:
        """Two arrays that stay two: the name is one of them."""
        alike = x.dtype == y.dtype and x.ndim == y.ndim
        sizes = zip(self.t.shape_of(x), self.t.shape_of(y)) if alike else ()
        if not alike or not all(d == e or equal_in_this_call(self.t, d, e) for d, e in sizes):
            return Poison(f"{name}, which is one of two arrays of different types or shapes,")
        first, second = self.outside(x, 0), self.outside(y, 1)
        for side in (first, second):
            if isinstance(side, Poison):
                return Poison(f"{name}, which is one of two arrays,")
        made = either(self.t, self.node.inputs[0], first, second)
        if len(distinct(made)) > MOST_SIDES:
            return Poison(f"{name}, which is one of many arrays,")
        return made

    def one_buffer(self, a: Buffer, b: Buffer, whole: bool) -> Buffer | None:
        """The buffer that two buffers become, if nothing else tells them apart."""
        if (a, b) in self.buffers:
            return self.buffers[a, b]
        made = None
        if self.relation.only(a, b) and a not in self.pins and b not in self.pins:
            kind = self.type_of_both(a.type, b.type, whole and (a, b) not in self.relation.partly)
            if kind is not None:
                first, second = self.arms
                x, y = first.contents.get(a, a.content), second.contents.get(b, b.content)
                made = self.t.buffer(self.result(x, y, kind))
                made.contiguous = a.contiguous and b.contiguous
                made.lent = a.lent or b.lent
        self.buffers[a, b] = made
        return made

    def type_of_both(self, a: Type, b: Type, whole: bool) -> Type | None:
        """The type of an array that is one of two: sizes that differ become new symbols."""
        if a.rank != b.rank or a.dtype != b.dtype:
            return None
        shape = []
        for x, y in zip(map(self.t.assume.canon, a.shape), map(self.t.assume.canon, b.shape)):
            if x == y or equal_in_this_call(self.t, x, y):
                shape.append(x)
            elif not whole:
                return None
            else:
                key = (x, y)
                if key not in self.sizes:
                    self.sizes[key] = self.t.new_fresh()
                shape.append(self.sizes[key])
        return Type(a.dtype, tuple(shape))

    def scalars(self, x: Any, y: Any, name: str) -> Any:
        t = self.t
        p, q = scalar_operand(t, x), scalar_operand(t, y)
        kind = joined_type(type_of(p), type_of(q))
        if kind is None:
            return Poison(f"{name}, which is a {type_of(p)} or a {type_of(q)},")
        types = (*possible(t, p), *possible(t, q))
        first, second = self.arms
        value = self.result(self.within(first, p, kind), self.within(second, q, kind), kind)
        self.waiting.append((value, types))
        return value

    def within(self, arm: Arm, x: Operand, kind: Type) -> Operand:
        """x in a joined type, converted inside its arm."""
        outer, self.t.region = self.t.region, arm.region
        mark = self.t.assume.enter()
        try:
            return fitted(self.t, x, kind)
        finally:
            self.t.region = outer
            self.t.assume.leave(mark)

    def only_one(self, x: Any, y: Any) -> Any:
        """What `return` in a loop gave on one path; the other path never looks at it."""
        value, at = (y, 1) if x is MISSING else (x, 0)
        if is_scalar(value):
            p = scalar_operand(self.t, value)
            kind = type_of(p)
            pair: list[Operand] = [blank(kind), blank(kind)]
            pair[at] = p
            made = self.result(pair[0], pair[1], kind)
            self.waiting.append((made, possible(self.t, p)))
            return made
        return self.outside(value, at) if isinstance(value, Arr) else value

    def outside(self, x: Arr, at: int) -> Any:
        """A reference of one arm as it is after the branch; the other path never looks at it."""
        buffer, choice = x.buffer, x.buffer.choice
        if self.is_local((x.view, x.shape)):
            return Poison("an array whose shape or place only one path knows")
        joined = next((j for pair, j in self.buffers.items() if pair[at] is buffer and j), None)
        if joined is not None:
            return Arr(joined, x.view)
        if buffer in self.start.buffers or buffer.argument is not None:
            return x
        if choice is not None:
            first, second = self.outside(choice.first, at), self.outside(choice.second, at)
            if isinstance(first, Poison) or isinstance(second, Poison):
                return first if isinstance(first, Poison) else second
            return either(self.t, self.only_there(choice.test, at), first, second).through(x.view)
        if buffer.base is not None:
            same = self.outside(buffer.base, at) is buffer.base
            local = self.is_local(buffer.type.shape) or not same
            return Poison("a reshaped array that only one path makes") if local else x
        return Arr(self.exported(buffer, at), x.view)

    def only_there(self, test: Value, at: int) -> Value:
        """A test of one arm, which is False on the other path."""
        if (test, at) not in self.tests:
            ends: list[Operand] = [False, False]
            ends[at] = test
            self.tests[test, at] = self.result(ends[0], ends[1], WEAK_BOOL)
        return self.tests[test, at]

    def exported(self, buffer: Buffer, at: int) -> Buffer:
        """The buffer after the branch that holds what one of an arm held."""
        if (buffer, at) not in self.exports:
            arm, other = self.arms[at], self.arms[1 - at]
            kind = buffer.type
            attrs = {"shape": kind.shape, "dtype": kind.dtype}
            ends: list[Operand] = [other.region.add("empty", [], attrs, kind, self.t.place())] * 2
            ends[at] = arm.contents.get(buffer, buffer.content)
            found = self.t.buffer(self.result(ends[0], ends[1], kind))
            found.contiguous, found.lent = buffer.contiguous, buffer.lent
            self.exports[buffer, at] = found
        return self.exports[buffer, at]

    def is_local(self, x: Any) -> bool:
        """Whether a view or a shape has symbols that only an arm knows."""
        assume = self.t.assume
        return any(s not in assume.hints and s not in assume.ends for s in symbols_in(x))


def shown(name: str) -> str:
    """A name in the words of a reason."""
    return "what is returned in a loop" if is_part(name) else SHOWN.get(name, name)


def lacks_one(x: Any, y: Any) -> bool:
    return x is MISSING or y is MISSING


def has_poison(x: Any) -> bool:
    return isinstance(x, Poison) or (type(x) is tuple and any(map(has_poison, x)))


def equal_in_this_call(t: Tracer, x: Dim, y: Dim) -> bool:
    """Whether two sizes are equal now and shall be so, under a guard."""
    return t.assume.hint(x - y) == 0 and t.assume.equal(x, y) is True


def blank(kind: Type) -> Operand:
    """A number of a type that nothing looks at."""
    number = kind.dtype.type(0)
    return number.item() if kind.weak else number


def is_scalar(x: Any) -> bool:
    return isinstance(x, (Scal, Expr)) or is_number(x)


def scalar_operand(t: Tracer, x: Any) -> Operand:
    """A scalar as an operand of its own type; a Python bool stays weak."""
    return x if isinstance(x, bool) else t.operand(x)


def equal_constants(x: Any, y: Any) -> bool:
    """Whether two known values are the same, signs of zeros and kinds of numbers included."""
    if type(x) is not type(y):
        return False
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(equal_constants, x, y))
    if isinstance(x, (int, str, bytes, type(None), slice, np.dtype)):
        return bool(x == y)
    return is_number(x) and repr(x) == repr(y)
