"""Heap shapes: which names show which arrays, and how two heaps correspond.

In: the names of activations, the operands under evaluation, buffers. Out: snapshots of contents,
and a `Relation` between the buffers of two states: the head of a loop and its end, or two branches.

Invariants: what is carried through a loop or joined after a branch is the content of a buffer,
never the value of a name. Two references correspond if they show their buffers through the same
path; every other pair makes both buffers unrelated. A pinned buffer, which something outside the
names of this activation can see, corresponds to itself alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import (
    Arr,
    Bound,
    Buffer,
    Frame,
    Joint,
    LocalFunction,
    Method,
    Partial,
    Random,
    sides,
)
from tailorbird.ir.expr import Expr, Sym
from tailorbird.ir.node import Value

Contents = dict[Buffer, Value]


# What a value reaches


def arrays(x: Any, seen: set[int] | None = None) -> Iterator[Arr]:
    """The array references inside a value, with both sides of a choice."""
    if isinstance(x, Arr):
        yield from sides(x)
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from arrays(item, seen)
    elif isinstance(x, dict):
        yield from arrays(tuple(x.values()), seen)
    elif isinstance(x, LocalFunction):
        yield from _closed_over(x, set() if seen is None else seen)
    elif isinstance(x, Bound):
        yield from arrays((x.function, x.first), seen)
    elif isinstance(x, Partial):
        yield from arrays((x.function, x.args, x.kwargs), seen)
    elif isinstance(x, Joint):
        yield from arrays(x.parts, seen)
    elif isinstance(x, Method):
        yield from arrays(x.owner, seen)
    elif isinstance(x, Random):
        yield x.token


def _closed_over(function: LocalFunction, seen: set[int]) -> Iterator[Arr]:
    yield from arrays((function.defaults, function.keyword_defaults), seen)
    for frame in _frames(function, seen):
        yield from arrays(tuple(frame.names.values()), seen)


def _frames(function: LocalFunction, seen: set[int]) -> Iterator[Frame]:
    """The activations that a function closes over, each once."""
    frame: Frame | None = function.frame
    while frame is not None and id(frame) not in seen:
        seen.add(id(frame))
        yield frame
        frame = frame.outer


def containers(x: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The lists and dicts inside a value, which can change."""
    seen = set() if seen is None else seen
    if isinstance(x, (tuple, list)):
        if isinstance(x, list):
            yield x
        for item in x:
            yield from containers(item, seen)
    elif isinstance(x, dict):
        yield x
        for item in x.values():
            yield from containers(item, seen)
    elif isinstance(x, LocalFunction):
        yield from containers((x.defaults, *x.keyword_defaults.values()), seen)
        for frame in _frames(x, seen):
            yield from containers(tuple(frame.names.values()), seen)


def place(x: Arr) -> tuple[Buffer, Hashable]:
    """The buffer whose memory a reference shows, and the way from there to what it shows."""
    path: list[Hashable] = [x.view]
    buffer = x.buffer
    while buffer.base is not None:
        path += [buffer.type.shape, buffer.part, buffer.shares, buffer.base.view]
        buffer = buffer.base.buffer
    path.append(buffer.argument is not None and x is buffer.handle)
    return buffer, tuple(path)


def is_whole(x: Arr) -> bool:
    """Whether a reference shows all of a buffer that has memory of its own."""
    return x.view is None and x.buffer.base is None


def same_choice(x: Any, y: Any) -> bool:
    """Whether two references are one choice, seen through one view."""
    return is_choice(x) and isinstance(y, Arr) and x.buffer is y.buffer and x.view == y.view


def is_choice(x: Any) -> bool:
    """Whether a value is one of two arrays."""
    return isinstance(x, Arr) and x.buffer.choice is not None


def symbols_in(x: Any) -> set[Sym]:
    """The symbols in an expression, a shape or a view, functions not counted."""
    if isinstance(x, Expr):
        return {sym for sym in x.symbols() if sym.kind != "op"}
    if isinstance(x, tuple):
        return {sym for item in x for sym in symbols_in(item)}
    if hasattr(x, "dims"):
        return symbols_in((x.dims, x.shape))
    return set()


# Snapshots


def contents(t: Tracer) -> Contents:
    """What every buffer with memory of its own holds now."""
    return {b: b.content for b in t.buffers() if b.is_own}


def restore(t: Tracer, kept: Contents) -> None:
    for buffer, content in kept.items():
        buffer.content = content


def held(kept: Contents, buffer: Buffer) -> Value:
    """What a buffer held in a snapshot; an argument that was found later held what it came with."""
    known = kept.get(buffer)
    if known is not None:
        return known
    assert buffer.argument is not None
    return buffer.argument


def is_older(kept: Contents, buffer: Buffer) -> bool:
    """Whether a buffer was there when the snapshot was taken."""
    return buffer in kept or buffer.argument is not None


def derived(t: Tracer) -> dict[Buffer, Value | None]:
    """The buffers that show another, with what their roots held first."""
    return {b: b.seen for b in t.buffers() if b.base is not None}


# Roots


def pins(t: Tracer) -> set[Buffer]:
    """Buffers that something outside the names of the innermost activation can see."""
    found = {b for b in t.buffers() if b.argument is not None}
    frames = set(map(id, t.frames))
    for frame in t.frames[:-1]:
        for name, x in frame.names.items():
            if frame.live is None or name in frame.live:
                found.update(a.buffer.root for a in arrays(x, set(frames)))
    found.update(a.buffer.root for a in arrays(t.stack, set(frames)))
    for x in t.frames[-1].names.values():
        if isinstance(x, LocalFunction):
            found.update(a.buffer.root for a in arrays(x, set(frames)))
    return found


class Relation:
    """Which buffer of one state is which of another, over all roots."""

    def __init__(self, pinned: Iterable[Buffer]) -> None:
        self.forth: dict[Buffer, set[object]] = {}
        self.back: dict[Buffer, set[object]] = {}
        self.partly: set[tuple[Buffer, Buffer]] = set()
        for buffer in pinned:
            self.add(buffer, buffer)

    def add(self, a: Buffer, b: Buffer, whole: bool = True) -> None:
        self.forth.setdefault(a, set()).add(b)
        self.back.setdefault(b, set()).add(a)
        if not whole:
            self.partly.add((a, b))

    def apart(self, x: Any, y: Any) -> None:
        """The buffers of two values correspond to nothing."""
        for a in arrays(x):
            self.forth.setdefault(a.buffer.root, set()).add(object())
        for b in arrays(y):
            self.back.setdefault(b.buffer.root, set()).add(object())

    def relate(self, x: Any, y: Any) -> None:
        """Records the references of one root in both states."""
        if x is y or same_choice(x, y):
            for a in arrays(x):
                self.add(a.buffer.root, a.buffer.root, is_whole(a))
        elif isinstance(x, Arr) and isinstance(y, Arr):
            (here, path), (there, other) = place(x), place(y)
            if path == other and x.dtype == y.dtype and here.is_own and there.is_own:
                self.add(here, there, is_whole(x))
            else:
                self.apart(x, y)
        elif isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
            for item, now in zip(x, y):
                self.relate(item, now)
        else:
            self.apart(x, y)

    def only(self, a: Buffer, b: Buffer) -> bool:
        """Whether two buffers correspond to each other and to nothing else."""
        return self.forth.get(a) == {b} and self.back.get(b) == {a}
