"""Buffers that show another one: reshaped, or one part of its complex numbers.

In: a reference that a buffer is based on. Out: what the buffer shows now; or what the base holds
once the buffer was written.

Invariants: such a buffer has no content. What it shows is made from its base wherever it is read,
so that it is right in every region and after every write; equal nodes are one node. Where nobody
knows whether the memory is shared, `seen` is what the root held at first, and whoever writes either
and then looks is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailorbird.capture.values import Arr, Buffer
from tailorbird.ir.node import Operand, Value
from tailorbird.ir.types import Type

if TYPE_CHECKING:
    from tailorbird.capture.tracer import Tracer


def based(t: Tracer, x: Arr, kind: Type, part: str = "") -> Buffer:
    """A buffer that shows x in another shape, or the real or imaginary part of x."""
    buffer = t.buffer(Value(kind))
    buffer.base, buffer.part = x, part
    buffer.seen = x.buffer.root.content
    return buffer


def content(t: Tracer, buffer: Buffer, base: Arr) -> Value:
    """What a buffer with a base shows now."""
    if not buffer.shares and buffer.root.content is not buffer.seen:
        t.refuse("reshape_alias", name="a reshaped array")
    found = t.read(base)
    if buffer.part:
        return t.emit(buffer.part, [found], {}, buffer.type)
    return t.reshaped(found, buffer.type.shape)


def write(t: Tracer, buffer: Buffer, base: Arr, value: Value) -> None:
    """Makes a buffer, which is its base reshaped, show a value."""
    if not buffer.shares:
        t.refuse("reshape_alias", name="a reshaped array")
    t.write(base, t.reshaped(value, base.shape))


def write_part(t: Tracer, x: Arr, whole: Arr, value: Operand) -> None:
    """Makes x, which is one part of the numbers that `whole` shows, show a value."""
    part, kind = x.buffer.part, Type(x.dtype, x.shape)
    other = "imag" if part == "real" else "real"
    parts = {part: value, other: t.emit(other, [t.read(whole)], {}, kind)}
    halves = [parts["real"], parts["imag"]]
    t.write(whole, t.emit("complex", halves, {}, Type(whole.dtype, whole.shape)))
