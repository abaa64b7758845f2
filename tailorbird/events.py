"""One record per decision.

In: `record(kind, function, **data)` from any stage and any thread. Out: `recent()` for `explain`,
the command line and tests, and a call of every listener as it happens.

Invariants:
- The ring holds the last `CAPACITY` events and no more, so that recording never grows memory.
- Recording is cheap and never raises: a listener that fails is dropped.
- Events are recorded when something is decided or built, never on the path of an ordinary call.
- `data` holds plain values (numbers, texts, reasons), never arrays of the user's.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tailorbird.dataclass import dataclass, field

CAPACITY = 4096


@dataclass(frozen=True)
class Event:
    """Something that was decided or built: what, for which function, when, with which details."""

    kind: str
    function: str
    time: float
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        plain = {name: value for name, value in self.data.items() if name != "why"}
        details = " ".join(f"{name}={_rounded(value)}" for name, value in plain.items())
        said = " ".join(part for part in (self.kind, self.function, details) if part)
        return f"{said}: {self.data['why']}" if "why" in self.data else said


def _rounded(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


Listener = Callable[[Event], None]

_ring: deque[Event] = deque(maxlen=CAPACITY)
_listeners: list[Listener] = []


def record(kind: str, function: str = "", **data: Any) -> Event:
    """Append an event to the ring and tell the listeners.

    >>> str(record("compiled", "step", milliseconds=7))
    'compiled step milliseconds=7'
    """
    event = Event(kind, function, time.time(), data)
    _ring.append(event)
    for listener in tuple(_listeners):
        _tell(listener, event)
    return event


def recent(kind: str | None = None, function: str | None = None) -> list[Event]:
    """The events still in the ring, oldest first, of one kind or function if given."""
    return [
        event
        for event in tuple(_ring)
        if kind in (None, event.kind) and function in (None, event.function)
    ]


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with every event recorded, by any thread, inside the `with` block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        if listener in _listeners:
            _listeners.remove(listener)


def clear() -> None:
    """Forget the events recorded so far."""
    _ring.clear()


def _tell(listener: Listener, event: Event) -> None:
    try:
        listener(event)
    except Exception as error:  # noqa: BLE001 - whatever a listener raises
        if listener in _listeners:
            _listeners.remove(listener)
        _ring.append(Event("listener_failed", "", event.time, {"error": repr(error)}))
