"""Every switch, in one table.

In: the environment (`TAILOR_THREADS=1`) and `with knobs.scope(threads=1):`. Out: typed values from
`knobs.get("threads")`.

Invariants:
- A knob exists only as a row of `KNOBS`; reading or setting another name is an `UnknownKnob`.
- The innermost scope wins over the environment, the environment over the default. Scopes are per
  context (threads and tasks do not see each other's), and end with their `with` block.
- The environment is read at each `get`, so that a test may set it; the text is parsed once.
- `off` names passes of `OPTIONAL`: what is compiled without them is slower and as right.
- `key()` holds exactly the knobs that change what is compiled (`in_key`), in table order. It is a
  part of the cache key, so a knob that changes code must have `in_key=True`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

from tailorbird.dataclass import dataclass
from tailorbird.errors import UnknownKnob

PREFIX = "TAILOR_"
OPTIONAL = ("algebra", "divide", "jam", "select", "sparse", "sweeps", "tables")

_WORDS = {"1": True, "on": True, "true": True, "yes": True}
_WORDS |= {"": False, "0": False, "off": False, "false": False, "no": False}


def _read_bool(text: str) -> bool:
    return _WORDS[text.strip().lower()]


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _read_path(text: str) -> Path | None:
    return Path(text).expanduser() if text.strip() else None


def _read_count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise ValueError("it must be 0 or more")
    return count


def _read_passes(text: str) -> tuple[str, ...]:
    names = _read_names(text)
    if unknown := set(names) - set(OPTIONAL):
        raise ValueError(f"there is no {', '.join(sorted(unknown))}")
    return names


def _check_names(value: Any) -> tuple[str, ...]:
    return _read_names(value) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True)
class Kind:
    """How values of one type are read from text and what is accepted from Python."""

    name: str
    read: Callable[[str], Any]
    accept: Callable[[Any], Any]


BOOL = Kind("bool", _read_bool, bool)
INT = Kind("int of 0 or more", _read_count, lambda value: _read_count(str(int(value))))
STR = Kind("str", str.strip, str)
NAMES = Kind("list of names", _read_names, _check_names)
PASSES = Kind(f"list of {', '.join(OPTIONAL)}", _read_passes, lambda x: _read_passes(",".join(x)))
DIR = Kind("directory", _read_path, lambda value: _read_path(str(value or "")))


@dataclass(frozen=True)
class Knob:
    """One switch: its name, its type, its default, what it does, and whether it changes code."""

    name: str
    kind: Kind
    default: Any
    doc: str
    in_key: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets this knob."""
        return PREFIX + self.name.upper()


_ROWS = (
    Knob("cache_dir", DIR, None, "Where compiled objects live; unset means the user's cache."),
    Knob("cache", BOOL, True, "Keep compiled objects on disk for the next process."),
    Knob("plans", BOOL, True, "Keep on disk what captures came to, so that processes start warm."),
    Knob("threads", INT, 0, "Threads a kernel may use; 0 means every core this process may use."),
    Knob("background", BOOL, True, "Compile behind the first calls rather than in front of them."),
    Knob("show", NAMES, (), "Print the output of these stages, for example rewrite,emit."),
    Knob("dump", DIR, None, "Write the output of every stage into this directory."),
    Knob("override", DIR, None, "Take a stage's output from an edited file in this directory."),
    Knob("off", PASSES, (), f"Leave out these passes: {', '.join(OPTIONAL)}.", in_key=True),
    Knob(
        "target",
        STR,
        "",
        "Compile for this CPU, for example haswell; empty means this machine.",
        in_key=True,
    ),
    Knob(
        "parallel",
        INT,
        1 << 20,
        "Work, in points times cost, from which threads share it.",
        in_key=True,
    ),
    Knob("race", BOOL, True, "Let the plain function compete, and use the faster of the two."),
    Knob("huge_pages", BOOL, True, "Ask for huge pages under large results."),
    Knob("recycle", BOOL, True, "Reuse the memory of freed large results."),
    Knob("strict", BOOL, False, "Let bugs inside Tailorbird raise; for its own tests."),
    Knob("sound", BOOL, False, "Assert the invariants of capturing; for Tailorbird's own tests."),
    Knob("plain", BOOL, False, "Compile nothing: every call runs the plain function."),
)
KNOBS: Mapping[str, Knob] = {row.name: row for row in _ROWS}

_scopes: ContextVar[dict[str, Any] | None] = ContextVar("tailorbird_knobs", default=None)


def get(name: str) -> Any:
    """The value of a knob now: innermost scope, else environment, else default.

    >>> with scope(threads=1):
    ...     get("threads")
    1
    """
    scoped = _scopes.get()
    if scoped is not None and name in scoped:
        return scoped[name]
    knob = _find(name)
    text = os.environ.get(knob.variable)
    return knob.default if text is None else _parse(knob, text)


@contextmanager
def scope(**values: Any) -> Iterator[None]:
    """Set knobs inside a `with` block, for this thread or task only.

    >>> with scope(off="jam,select"):
    ...     get("off")
    ('jam', 'select')
    """
    accepted = {name: _accept(_find(name), value) for name, value in values.items()}
    token = _scopes.set({**(_scopes.get() or {}), **accepted})
    try:
        yield
    finally:
        _scopes.reset(token)


def is_on(name: str) -> bool:
    """Whether a pass runs that can be left out."""
    assert name in OPTIONAL, name
    return name not in get("off")


def unknown() -> list[str]:
    """Variables in the environment that look like a knob's and are none."""
    known = {knob.variable for knob in _ROWS}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


def key() -> str:
    """The knobs that change compiled code, as one line for the cache key."""
    return " ".join(f"{knob.name}={get(knob.name)!r}" for knob in _ROWS if knob.in_key)


def describe() -> list[tuple[str, str, str, str]]:
    """One row per knob for people: variable, type, value now, doc line."""
    return [(knob.variable, knob.kind.name, str(get(knob.name)), knob.doc) for knob in _ROWS]


def _find(name: str) -> Knob:
    knob = KNOBS.get(name)
    if knob is None:
        raise UnknownKnob(f"there is no knob {name!r}; the knobs are {', '.join(KNOBS)}")
    return knob


@lru_cache(maxsize=256)
def _parse(knob: Knob, text: str) -> Any:
    try:
        return knob.kind.read(text)
    except (KeyError, ValueError) as error:
        message = f"{knob.variable}={text!r} is no {knob.kind.name} ({knob.name}). {knob.doc}"
        raise UnknownKnob(message) from error


def _accept(knob: Knob, value: Any) -> Any:
    if isinstance(value, str):
        return _parse(knob, value)
    try:
        return knob.kind.accept(value)
    except (TypeError, ValueError) as error:
        message = f"{knob.name}={value!r} is no {knob.kind.name}. {knob.doc}"
        raise UnknownKnob(message) from error
