"""Attempts that can be abandoned: the state of a capture, kept and put back.

In: the tracer before an attempt. Out: the same state, as if the attempt had not been made.

Invariants: what was lifted from the caller stays lifted, since its paths and names are what the
graph is called with; everything else is as it was: nodes, contents of buffers, names, assumptions,
operands under evaluation, counters. Equal attempts therefore give equal nodes.
"""

from __future__ import annotations

from tailorbird import knobs
from tailorbird.capture import sound
from tailorbird.capture.heap import contents, derived, restore
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Buffer
from tailorbird.ir.node import Value


class Attempt:
    """The state of a tracer when this was made."""

    def __init__(self, t: Tracer) -> None:
        self.t = t
        self.heap = contents(t)
        self.derived = derived(t)
        self.buffers = set(t.buffers())
        self.layouts = {b: b.contiguous for b in self.heap}
        self.frames = list(t.frames)
        self.names = [(f, dict(f.names), f.loops, f.live, f.after) for f in t.frames]
        self.stack = list(t.stack)
        self.region = t.region
        self.nodes = len(t.region.nodes)
        self.seen = dict(t.region._seen)
        self.assumed = t.assume.saved()
        self.place = (t.file, t.line)
        self.counters = t.counters()
        self.loose = dict(t.loose)
        self.frozen = list(t.frozen)
        self.lenders = list(t.lenders)
        self.reasons = len(t.reasons)

    def abandon(self) -> None:
        """Puts everything back."""
        t = self.t
        self._heap()
        t.frames[:] = self.frames
        for frame, names, loops, live, after in self.names:
            frame.names = dict(names)
            frame.loops, frame.live, frame.after = loops, live, after
        t.stack[:] = self.stack
        t.region = self.region
        del t.region.nodes[self.nodes :]
        t.region._seen = dict(self.seen)
        t.assume.restore(self.assumed)
        t.file, t.line = self.place
        t.reset_counters(self.counters)
        t.loose = dict(self.loose)
        t.frozen[:] = self.frozen
        t.lenders[:] = self.lenders
        del t.reasons[self.reasons :]
        if knobs.get("sound"):
            sound.put_back(self, Attempt(t))

    def _heap(self) -> None:
        restore(self.t, self.heap)
        for buffer in self.t.buffers():
            if buffer.argument is not None and buffer not in self.heap:
                buffer.content = buffer.argument
        for buffer, layout in self.layouts.items():
            buffer.contiguous = layout
        put_back(self.derived)


def put_back(kept: dict[Buffer, Value | None]) -> None:
    """Buffers that show another as they were in a snapshot."""
    for buffer, seen in kept.items():
        buffer.seen = seen
