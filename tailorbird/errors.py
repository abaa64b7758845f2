"""Every exception that Tailorbird raises by itself.

    Exception
    └── TailorbirdError             anything below; catch this to catch all of them
        ├── UsageError              the caller asked for something that cannot be; also a ValueError
        │   └── UnknownKnob         a knob of that name does not exist, or its value cannot be read
        ├── Refused                 internal: this function, node or call stays plain; carries a Why
        ├── GuardMissed             internal: these arguments do not fit the graph or variant
        ├── CompileError            the native compiler rejected code that we wrote
        ├── CorruptObject           a cached object is damaged, truncated or not ours
        ├── ParseError              graph text does not follow the grammar; carries line and column
        └── VerifyError             a graph or kernel breaks an invariant of its stage

Invariants: a call of a tailored function lets none but UsageError out. `Refused` and those below
it are caught by the dispatcher, turned into a reason and answered by the plain function. An
exception that plain NumPy would raise is raised by plain NumPy. `assert` means a bug of ours;
`raise` of one of these means that something was handed to us which we cannot use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailorbird.reasons import Why


class TailorbirdError(Exception):
    """The root: every exception of Tailorbird's own is one of these."""


class UsageError(TailorbirdError, ValueError):
    """The caller asked for something that cannot be; the message says what to write instead."""


class UnknownKnob(UsageError):
    """A knob of that name does not exist, or the value given for it cannot be read."""


class Refused(TailorbirdError):
    """Internal: what was asked for stays plain, and `why` says the reason; `captured` has what that
    relies on, as far as it is known.
    """

    def __init__(self, why: Why, captured: Any = None) -> None:
        super().__init__(str(why))
        self.why = why
        self.captured = captured


class GuardMissed(TailorbirdError):
    """Internal: a graph or variant does not hold for these arguments or this data."""


class CompileError(TailorbirdError):
    """The native compiler rejected the code that an emitter wrote."""


class CorruptObject(TailorbirdError):
    """A cached object is damaged, truncated, of another version or signed by somebody else."""


class ParseError(TailorbirdError):
    """Graph text that does not follow the grammar; the message shows the line with a caret."""

    def __init__(self, message: str, text: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(_with_caret(message, text, line, column))
        self.line = line
        self.column = column


class VerifyError(TailorbirdError):
    """A graph or a kernel breaks an invariant of the stage that made it."""


def _with_caret(message: str, text: str, line: int, column: int) -> str:
    """The message, then line `line` of `text` with a caret under `column`, both from 1."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return message
    return f"line {line}: {message}\n    {lines[line - 1]}\n    {' ' * max(column - 1, 0)}^"
