"""Control flow: statement lists, `if`, `for`, `while`, and the ways to leave them.

In: statements and the activation they stand in. Out: None when they end normally, else how they
were left: ("return", value), ("break",), ("continue",), or ("stop", flag) where a value decides
whether the loop around is left.

Invariants: a list of statements is what is still to be done. An `if` that the call decides puts
its arm in front of the rest. One that data decides becomes a branch; if an arm may leave, both arms
take the rest with them, so that no flag is needed. A loop is written out only if it is short and
its length is known; `return` in a loop that is captured becomes two hidden names that are looked
at after it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tailorbird.capture.arith import condition
from tailorbird.capture.attempt import Attempt
from tailorbird.capture.branches import (
    BREAK,
    CONTINUE,
    LEFT,
    RETURN,
    branch,
    select,
)
from tailorbird.capture.containers import LONGEST_STATIC, iterate
from tailorbird.capture.evaluate import shown
from tailorbird.capture.live import body_size, breaks, leaves_early, liveness, reads, returns
from tailorbird.capture.loops import Site, captured_loop
from tailorbird.capture.registry import STATEMENTS
from tailorbird.capture.returning import RETURNED, forget, keep, kept
from tailorbird.capture.rounds import Rounds, rounds_of
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Frame, Poison, Scal, is_static
from tailorbird.dataclass import dataclass
from tailorbird.errors import Refused
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Operand, Value

LONGEST_LITERAL = 8
LARGEST_BODY = 60
MOST_REFUSALS = 16
NEVER_RETRIED = frozenset(("budget", "numpy_raises"))


@dataclass(frozen=True, eq=False)
class Bind:
    """In a list of statements: the next item of a loop that is written out."""

    target: ast.expr
    item: Any
    rounds: Rounds | None = None  # then the item is read when its round begins
    at: int = 0


@dataclass(frozen=True, eq=False)
class RoundEnd:
    """Where `continue` goes in a loop that is written out."""


@dataclass(frozen=True, eq=False)
class LoopEnd:
    """Where `break` goes in a loop that is written out, past its `else`."""


@dataclass(frozen=True, eq=False)
class Leave:
    """Leaves the loop around, or the function, with the value of a `return` in an inner loop."""


@dataclass(frozen=True, eq=False)
class GoOn:
    """After an inner loop with a `return` that was not met."""


def block(t: Tracer, statements: Sequence[ast.stmt], frame: Frame) -> Any:
    """Executes statements; None, or how they were left."""
    return _Block(t, frame).run(list(statements))


class _Block:
    """What is still to be done in one list of statements."""

    def __init__(self, t: Tracer, frame: Frame) -> None:
        self.t = t
        self.frame = frame
        self.live = liveness(frame.text.tree)

    def run(self, todo: list[Any]) -> Any:
        t = self.t
        depth = len(t.stack)
        while todo:
            statement = todo.pop(0)
            kind = type(statement)
            if kind in _MARKS:
                outcome = _MARKS[kind](self, statement)
            else:
                t.line = statement.lineno
                self.frame.live = self.needed(statement)
                outcome = self.statement(statement, todo)
            if kind is not ast.For:
                del t.stack[depth:]
            else:
                depth = len(t.stack)
            if outcome is not None:
                outcome = self.left(outcome, todo)
            if outcome is not None:
                return outcome
        return None

    def needed(self, statement: ast.stmt) -> frozenset[str] | None:
        after = self.live.after.get(statement)
        return None if after is None else after | reads(statement)

    def left(self, outcome: Any, todo: list[Any]) -> Any:
        """None if a loop that is written out in this list takes the outcome."""
        if outcome not in (BREAK, CONTINUE):
            return outcome
        mark = LoopEnd if outcome == BREAK else RoundEnd
        places = [k for k, s in enumerate(todo) if isinstance(s, mark)]
        if not places:
            return outcome
        del todo[: places[0] + 1]
        return None

    def statement(self, statement: ast.stmt, todo: list[Any]) -> Any:
        if isinstance(statement, ast.If):
            return self.choice(statement, todo)
        if isinstance(statement, ast.For):
            return self.for_loop(statement, todo)
        if isinstance(statement, ast.While):
            return self.while_loop(statement, todo)
        if isinstance(statement, ast.Return):
            return self.result(statement)
        if isinstance(statement, ast.Assert):
            return self.assertion(statement)
        execute = STATEMENTS.get(type(statement))
        if execute is None:
            self.t.refuse("unsupported_syntax", name=type(statement).__name__.lower())
        return execute(self.t, statement, self.frame)

    # if, assert, return

    def condition(self, test: ast.expr) -> bool | Value:
        t = self.t
        found = condition(t, t.evaluate(test, self.frame), shown(test))
        t.line = test.lineno
        return found

    def choice(self, s: ast.If, todo: list[Any]) -> Any:
        test = self.condition(s.test)
        if not isinstance(test, Value):
            todo[:0] = s.body if test else s.orelse
            return None
        if not leaves_early(s.body) and not leaves_early(s.orelse):
            live = self.live.after[s]
            return self.split(test, list(s.body), list(s.orelse), live)
        rest = list(todo)
        todo.clear()
        return self.split(test, [*s.body, *rest], [*s.orelse, *rest], self.frame.after)

    def split(self, test: Value, then: list[Any], other: list[Any], live: frozenset[str]) -> Any:
        t, frame = self.t, self.frame
        return branch(
            t,
            frame,
            test,
            lambda: _Block(t, frame).run(list(then)),
            lambda: _Block(t, frame).run(list(other)),
            live,
        )

    def assertion(self, s: ast.Assert) -> Any:
        test = self.condition(s.test)
        if isinstance(test, Value):
            self.t.check(test, "!=")
        elif not test:
            self.t.raises("AssertionError")
        return None

    def result(self, s: ast.Return) -> Any:
        value = None if s.value is None else self.t.evaluate(s.value, self.frame)
        if not self.frame.loops:
            return (RETURN, value)
        keep(self.t, self.frame.names, value)
        return LEFT

    # for

    def for_loop(self, s: ast.For, todo: list[Any]) -> Any:
        t = self.t
        rounds = rounds_of(t, t.evaluate(s.iter, self.frame), shown(s.iter))
        t.line = s.lineno
        if rounds is None or self.is_short(rounds, s):
            return self.written_out(s, todo, rounds)
        before = Attempt(t)
        rest = list(todo)
        try:
            return self.captured(Site(s, self.frame, rounds), todo)
        except Refused as refused:
            if not self.worth_writing_out(refused, s):
                raise
            before.abandon()
            todo[:] = rest
            try:
                return self.written_out(s, todo, rounds)
            except Refused:
                raise refused from None

    def worth_writing_out(self, refused: Refused, s: ast.For) -> bool:
        """Every loop around a refusal doubles how often it is met; it may be met so often only. And
        every round that may leave doubles what is still to be done.
        """
        if leaves_early(s.body):
            return False
        known = self.t.refused
        known[refused.why] = known.get(refused.why, 0) + 1
        return refused.why.code not in NEVER_RETRIED and known[refused.why] <= MOST_REFUSALS

    def is_short(self, rounds: Rounds, s: ast.For) -> bool:
        count = rounds.count(self.t)
        if not isinstance(count, int) or count > LONGEST_LITERAL:
            return False
        return count <= 1 or (body_size(s) <= LARGEST_BODY and not leaves_early(s.body))

    def written_out(self, s: ast.For, todo: list[Any], rounds: Rounds | None) -> Any:
        """The rounds one after another, in front of the rest."""
        t = self.t
        items = iterate(t, t.stack[-1], shown(s.iter))
        if len(items) > LONGEST_STATIC:
            t.refuse("long_loop", name=shown(s.iter), count=len(items), most=LONGEST_STATIC)
        t.stack.append(items)
        steps: list[Any] = []
        for k, item in enumerate(items):
            steps += [Bind(s.target, item, rounds, k), *s.body, RoundEnd()]
        todo[:0] = [*steps, *s.orelse, LoopEnd()]
        return None

    # loops that are captured

    def is_counted(self, s: ast.While) -> bool:
        """Whether the test of a `while` is of numbers that are known while capturing."""
        if isinstance(s.test, ast.Constant):
            return not (breaks(s.body) or returns(s))
        found = [self.frame.names.get(name, 0) for name in reads(s.test)]
        return all(map(is_static, found))

    def while_loop(self, s: ast.While, todo: list[Any]) -> Any:
        """Written out where the test is of known numbers alone; captured where it is not."""
        if not self.is_counted(s):
            before, rest = Attempt(self.t), list(todo)
            try:
                return self.captured(Site(s, self.frame, None), todo)
            except Refused as refused:
                if refused.why.code in NEVER_RETRIED:
                    raise
                first = refused
            before.abandon()
            todo[:] = rest
            test = self.condition(s.test)
            if isinstance(test, Value):
                raise first
            before.abandon()
        start, steps = Attempt(self.t), list(todo)
        for _ in range(LONGEST_STATIC):
            test = self.condition(s.test)
            if isinstance(test, Value):
                start.abandon()
                todo[:] = steps
                return self.captured(Site(s, self.frame, None), todo)
            if not test:
                todo[:0] = s.orelse
                return None
            if leaves_early(s.body):
                todo[:0] = [*s.body, RoundEnd(), s, LoopEnd()]
                return None
            outcome = _Block(self.t, self.frame).run(list(s.body))
            if outcome is not None:
                return outcome
        self.t.refuse("budget", name=f"while {shown(s.test)}")

    def captured(self, site: Site, todo: list[Any]) -> Any:
        """A `loop` or `while`, then its `else`, then what a `return` inside it asks for."""
        s, names = site.statement, self.frame.names
        if returns(s):
            names[RETURNED] = False
            forget(names)
        if s.orelse and breaks(s.body):
            site.broke = f"$broke_{s.lineno}_{s.col_offset}"
            names[site.broke] = False
        captured_loop(self.t, site)
        return self.after_loop(s, site.broke, todo)

    def after_loop(self, s: Any, broke_name: str, todo: list[Any]) -> Any:
        names = self.frame.names
        rest: list[Any] = list(todo)
        if broke_name:
            broke = self.flag(names.pop(broke_name, False))
            if broke is False:
                rest = [*s.orelse, *rest]
            elif isinstance(broke, Value) and not leaves_early(s.orelse):
                self.split(broke, [], list(s.orelse), self.live.after[s])
            elif isinstance(broke, Value):
                todo.clear()
                return self.split(broke, rest, [*s.orelse, *rest], self.frame.after)
        else:
            rest = [*s.orelse, *rest]
        if not returns(s):
            todo[:] = rest
            return None
        returned = endless(s) or self.flag(self.frame.names.get(RETURNED, False))
        if isinstance(returned, Value):
            todo.clear()
            return self.split(returned, [Leave()], [GoOn(), *rest], self.frame.after)
        todo[:] = [Leave()] if returned else [GoOn(), *rest]
        return None

    def flag(self, x: Any) -> bool | Value:
        if isinstance(x, Poison):
            self.t.refuse("loop_shape", name=x.reason)
        return x.value if isinstance(x, Scal) else bool(x)

    # marks

    def bind(self, mark: Bind) -> Any:
        from tailorbird.capture.execute import bind

        item, rounds = mark.item, mark.rounds
        if rounds is not None:
            at = self.t.assume.canon(rounds.start + mark.at * rounds.step)
            item = rounds.item(self.t, at)
        bind(self.t, mark.target, item, self.frame)
        return None

    def leave(self, mark: Leave) -> Any:
        """The value that `return` gave in a loop that was captured."""
        if self.frame.loops:
            return BREAK
        return (RETURN, kept(self.t, self.frame.names))

    def go_on(self, mark: GoOn) -> Any:
        """No `return` in a loop that was captured was met."""
        forget(self.frame.names)
        return None

    def nothing(self, mark: Any) -> Any:
        return None


_MARKS: dict[type, Any] = {
    Bind: _Block.bind,
    RoundEnd: _Block.nothing,
    LoopEnd: _Block.nothing,
    Leave: _Block.leave,
    GoOn: _Block.go_on,
}


def endless(s: ast.For | ast.While) -> bool:
    """Whether a loop is left by `return` alone."""
    known = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
    return known and not breaks(s.body)


def run_round(t: Tracer, site: Site, rounds: Rounds | None, at: Dim) -> Any:
    """One round of a loop that is captured: None, or how it was left."""
    from tailorbird.capture.execute import bind

    frame = site.frame
    if rounds is not None:
        bind(t, site.statement.target, rounds.item(t, t.assume.canon(at)), frame)
    depth = len(t.stack)
    outcome = block(t, site.statement.body, frame)
    del t.stack[depth:]
    frame.names = {n: x for n, x in frame.names.items() if n in site.live}
    return None if outcome == CONTINUE else outcome


def while_test(t: Tracer, site: Site) -> Operand:
    """Whether a `while` goes on: it was not left, and its test holds."""
    s, frame = site.statement, site.frame

    def test() -> Operand:
        t.line = s.lineno
        depth = len(t.stack)
        found = condition(t, t.evaluate(s.test, frame), shown(s.test))
        del t.stack[depth:]
        return found

    goes_on = frame.names.get(site.goes_on, True)
    if goes_on is True:
        return test()
    if goes_on is False:
        return False
    found = select(t, frame, goes_on.value, lambda: truth_value(test()), lambda: False)
    return found.value if isinstance(found, Scal) else found


def truth_value(x: Operand) -> Any:
    return Scal(x) if isinstance(x, Value) else bool(x)
