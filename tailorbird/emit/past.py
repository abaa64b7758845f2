"""Stores past the caches: of a map over more memory than the last cache keeps.

A store to a line that is in no cache fetches the line first, so that half of what a result moves is
what was there before it. Stores that go past the caches do not. They must lie at a multiple of
their size: the loop is there twice, and where the first store lies decides which of them runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailorbird.lower.kernel import SIZES

if TYPE_CHECKING:
    from tailorbird.emit.nest import NestEmitter


def emit_past(nest: NestEmitter) -> None:
    """The loop over a nest's range, with stores that go past the caches if they can."""
    b, memory = nest.b, nest.memory
    aligned = _is_aligned(nest)
    with b.when(aligned):
        memory.past = True
        nest.rows(0)
        memory.past = False
        b.do(b.intrinsic("llvm.x86.sse.sfence", "void"))  # other threads see what follows after it
    with b.when(b.pure(f"xor i1 {aligned}, true")):
        nest.memo = {}
        nest.rows(0)


def _is_aligned(nest: NestEmitter) -> str:
    """Whether everything that is stored begins at a multiple of a vector."""
    b = nest.b
    (axis,), (stage,) = nest.nest.inner, nest.nest.stages
    rest = "0"
    with nest.axis(axis, nest.bounds(axis)[0]):
        for store in stage.stores:
            place = nest.memory.place(store.buffer, store.at, 0, [], None)
            most = nest.s.width * SIZES[store.buffer.ty] - 1
            bits = b.pure(f"and i64 {b.pure(f'ptrtoint ptr {place.pointer} to i64')}, {most}")
            rest = b.pure(f"or i64 {rest}, {bits}")
    return b.pure(f"icmp eq i64 {rest}, 0")
