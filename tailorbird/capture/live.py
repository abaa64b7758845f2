"""Which names are still needed: liveness over the statements of one function.

In: the syntax tree of a function. Out: for each statement the names that are live after it, for
each loop those live at its head (after the loop, or read by another iteration before they are
bound).

Invariants: a backward walk over structured statements, a fixed point for loops. Names that a nested
function reads are live everywhere, since nobody knows when it is called.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tailorbird.capture.source import walk
from tailorbird.dataclass import dataclass, field

Names = frozenset[str]
NESTED = (ast.FunctionDef, ast.Lambda)
Answer = TypeVar("Answer")


@dataclass
class Liveness:
    """`after` a statement, at the `head` of a loop."""

    always: Names
    after: dict[ast.stmt, Names] = field(default_factory=dict)
    head: dict[ast.stmt, Names] = field(default_factory=dict)


_known: WeakKeyDictionary[ast.AST, Liveness] = WeakKeyDictionary()


def liveness(tree: ast.FunctionDef | ast.Lambda) -> Liveness:
    """The liveness of a function, worked out once."""
    found = _known.get(tree)
    if found is None:
        found = _known[tree] = _analysed(tree)
    return found


def remembered(question: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """A question about a syntax node, worked out once for each."""
    answers: WeakKeyDictionary[ast.AST, Answer] = WeakKeyDictionary()

    def asked(node: Any) -> Answer:
        if node not in answers:
            answers[node] = question(node)
        return answers[node]

    return asked


@remembered
def reads(node: ast.AST) -> Names:
    """The names that a node may read."""
    found = set()
    for x in walk(node):
        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load):
            found.add(x.id)
        elif isinstance(x, ast.AugAssign) and isinstance(x.target, ast.Name):
            found.add(x.target.id)
    return frozenset(found)


@remembered
def bound_in(loop: Any) -> Names:
    """The names that the target and the body of a loop bind, in nested statements too."""
    nodes = [*loop.body, *([loop.target] if isinstance(loop, ast.For) else [])]
    found = {
        x.id
        for node in nodes
        for x in walk(node)
        if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load)
    }
    for node in nodes:
        for x in walk(node):
            if isinstance(x, ast.FunctionDef):
                found.add(x.name)
            elif isinstance(x, ast.alias):
                found.add(x.asname or x.name.split(".")[0])
    return frozenset(found)


def _analysed(tree: ast.FunctionDef | ast.Lambda) -> Liveness:
    inner = [n for n in walk(tree) if isinstance(n, NESTED) and n is not tree]
    always = frozenset().union(*(reads(n) for n in inner))
    found = Liveness(always)
    if isinstance(tree, ast.FunctionDef):
        _Walk(found).block(tree.body, always, always, always)
    return found


class _Walk:
    """One backward walk; `left` and `next` are what is live after a break and a continue."""

    def __init__(self, found: Liveness) -> None:
        self.found = found
        self.always = found.always

    def block(self, body: list[ast.stmt], out: Names, left: Names, again: Names) -> Names:
        for statement in reversed(body):
            out = self.statement(statement, out, left, again)
        return out

    def statement(self, s: ast.stmt, out: Names, left: Names, again: Names) -> Names:
        """What is live before a statement."""
        out = out | self.always
        self.found.after[s] = out
        if isinstance(s, ast.Return):
            return self.always | (reads(s.value) if s.value else frozenset())
        if isinstance(s, ast.Break):
            return left
        if isinstance(s, ast.Continue):
            return again
        if isinstance(s, ast.If):
            arms = (self.block(arm, out, left, again) for arm in (s.body, s.orelse))
            return reads(s.test) | frozenset().union(*arms)
        if isinstance(s, ast.For | ast.While):
            return self.loop(s, out, left, again)
        if isinstance(s, ast.Try):
            bodies = [s.body, *(handler.body for handler in s.handlers)]
            before = (self.block(body, out, left, again) for body in bodies)
            return reads(s) | frozenset().union(*before)
        if isinstance(s, ast.Assign):
            plain = [t for t in s.targets if isinstance(t, ast.Name | ast.Tuple | ast.List)]
            bound = frozenset().union(*(_bare(t) for t in plain))
            return (out - bound) | reads(s)
        if isinstance(s, ast.FunctionDef):
            return (out - {s.name}) | reads(s)
        return out | reads(s)

    def loop(self, s: ast.For | ast.While, out: Names, left: Names, again: Names) -> Names:
        after = self.block(s.orelse, out, left, again) | out
        bound = _bare(s.target) if isinstance(s, ast.For) else frozenset()
        head = after | (reads(s.test) if isinstance(s, ast.While) else frozenset())
        while True:
            wider = head | (self.block(s.body, head, out, head) - bound)
            if wider == head:
                break
            head = wider
        self.found.head[s] = head
        return head | (reads(s.iter) if isinstance(s, ast.For) else frozenset())


def _bare(target: ast.expr) -> Names:
    """The plain names of a target: `a, (b, *c)` but not `x[i]`."""
    if isinstance(target, ast.Name):
        return frozenset((target.id,))
    if isinstance(target, ast.Starred):
        return _bare(target.value)
    if isinstance(target, ast.Tuple | ast.List):
        return frozenset().union(*map(_bare, target.elts))
    return frozenset()


def leaves_early(body: list[ast.stmt]) -> bool:
    """Whether statements may leave by return, or by break or continue of a loop around them."""
    for s in body:
        if isinstance(s, ast.Return | ast.Break | ast.Continue):
            return True
        if isinstance(s, ast.If) and (leaves_early(s.body) or leaves_early(s.orelse)):
            return True
        if isinstance(s, ast.For | ast.While) and (returns(s) or leaves_early(s.orelse)):
            return True
    return False


@remembered
def body_size(loop: Any) -> int:
    """How many syntax nodes the body of a loop has."""
    return sum(1 for statement in loop.body for _ in walk(statement))


@remembered
def returns(s: ast.stmt) -> bool:
    """Whether a statement holds a `return` of its own function."""
    pending: list[ast.AST] = [s]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            return True
        pending += [n for n in ast.iter_child_nodes(node) if not isinstance(n, NESTED)]
    return False


def breaks(body: list[ast.stmt]) -> bool:
    """Whether statements hold a `break` of the loop around them."""
    for s in body:
        if isinstance(s, ast.Break):
            return True
        if isinstance(s, ast.If) and (breaks(s.body) or breaks(s.orelse)):
            return True
        if isinstance(s, ast.For | ast.While) and breaks(s.orelse):
            return True
    return False
