"""The invariants of the heap, asserted while a function is captured where `TAILOR_SOUND` is set.

In: a capture after a join, a loop or an abandoned attempt. Out: nothing, or an AssertionError,
which is a bug of ours. Tests and hunts set the knob.

- What a name or an operand under evaluation refers to is defined here or in a region around.
- A reference has the shape that its view has of its buffer; both sides of a choice have one.
- At a back edge every carried buffer is one at its end, no two the same, a pinned one itself.
- After a loop there are only the names that it needs.
- After an abandoned attempt everything is as it was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tailorbird import knobs
from tailorbird.capture.values import Arr, Buffer, Joint, Scal
from tailorbird.ir.node import Region, Value

if TYPE_CHECKING:
    from tailorbird.capture.attempt import Attempt
    from tailorbird.capture.tracer import Tracer


def heap(t: Tracer) -> None:
    """What can be reached now is defined, and has the shape that it says."""
    if not knobs.get("sound"):
        return
    known = Known(t)
    for x in (*(tuple(frame.names.values()) for frame in t.frames), t.stack):
        for part in _parts(x):
            if isinstance(part, Scal):
                assert known(part.value), f"a scalar of a region that is closed: {part.value.type}"
            else:
                _reference(t, part, known)


class Known:
    """Whether a value is defined in the current region or one around it."""

    def __init__(self, t: Tracer) -> None:
        self.values = set(t.parameters)
        region: Region | None = t.region
        while region is not None:
            self.values.update(region.parameters)
            self.values.update(x for node in region.nodes for x in node.outputs)
            region = region.parent

    def __call__(self, x: Value) -> bool:
        return x in self.values


def _parts(x: Any) -> Iterator[Arr | Scal]:
    """The scalars and references inside a value."""
    if isinstance(x, (Arr, Scal)):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from _parts(item)
    elif isinstance(x, dict):
        yield from _parts(tuple(x.values()))
    elif isinstance(x, Joint):
        yield from _parts(x.parts)


def _reference(t: Tracer, x: Arr, known: Known) -> None:
    buffer, choice = x.buffer, x.buffer.choice
    assert x.shape == (buffer.type.shape if x.view is None else x.view.shape)
    assert x.view is None or len(x.view.dims) == buffer.type.rank
    if choice is not None:
        assert known(choice.test), "a choice whose test is not known here"
        for side in (choice.first, choice.second):
            alike = side.dtype == x.dtype and side.ndim == buffer.type.rank
            assert alike, "the sides of a choice have two types"
            _reference(t, side, known)
    elif buffer.base is not None:
        _reference(t, buffer.base, known)
    else:
        assert known(buffer.content), f"an array of a region that is closed: {buffer.type}"
        assert buffer.content.type.dtype == buffer.type.dtype
        assert buffer.content.type.rank == buffer.type.rank


def correspondence(
    which: dict[Buffer, Buffer], heads: Iterable[Buffer], pinned: Iterable[Buffer]
) -> None:
    """The heap at a back edge is that of the head."""
    if knobs.get("sound"):
        carried = list(heads)
        assert set(which) == set(carried), "a carried buffer without one at the back edge"
        assert len(set(which.values())) == len(which), "two carried buffers become one"
        assert all(which.get(b, b) is b for b in pinned), "a pinned buffer changes places"
        for head, end in which.items():
            assert head.type.dtype == end.type.dtype and head.type.rank == end.type.rank


def names(found: Iterable[str], wanted: Iterable[str]) -> None:
    """After a loop there are no other names than it needs."""
    if knobs.get("sound"):
        more = set(found) - set(wanted)
        assert not more, f"names that nobody needs after a loop: {sorted(more)}"


def put_back(before: Attempt, after: Attempt) -> None:
    """The state after an abandoned attempt is that before it."""
    for buffer, content in before.heap.items():
        assert after.heap.get(buffer, content) is content, "the content of an array"
        assert after.layouts.get(buffer) in (None, before.layouts[buffer]), "a layout"
    assert [f for f, *_ in before.names] == [f for f, *_ in after.names], "activations"
    for (_, known, *more), (_, now, *rest) in zip(before.names, after.names):
        assert more == rest and list(known) == list(now), "names"
        assert all(now[name] is x for name, x in known.items()), "what names have"
    assert list(map(id, before.stack)) == list(map(id, after.stack)), "operands"
    for part in ("region", "nodes", "seen", "assumed", "place", "loose"):
        assert getattr(before, part) == getattr(after, part), part
    assert before.counters[:2] == after.counters[:2], "counters"
