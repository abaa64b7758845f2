"""An entry that fetches what native code takes: parameters, globals, closure cells, constants.

Most functions use a global: `np`, a helper function, a number. This entry checks, in native code,
that the ones a graph relies on are still the same objects, and fetches those that are inputs. What
lies deeper, in objects and containers, is found by Python (`found.py`).

    parameters -> checks -> leaves -> native entry -> rebuild (Python, only if needed)

Invariants: what comes from a global or a cell is held while native code runs, for another thread
may replace it. Where the inputs are the parameters as they come, they are passed on untouched.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tailorbird.dataclass import dataclass
from tailorbird.dispatch import object as callables
from tailorbird.dispatch.entries_ir import ARGUMENT, CELL, CONSTANT, GLOBAL
from tailorbird.dispatch.object import Entry


class _Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int64), ("a", ctypes.c_void_p), ("b", ctypes.c_void_p)]


class _Check(ctypes.Structure):
    _fields_ = [("place", _Place), ("wanted", ctypes.c_void_p)]


class _Context(ctypes.Structure):
    _fields_ = [
        ("checks", ctypes.c_int64),
        ("first_check", ctypes.c_void_p),
        ("leaves", ctypes.c_int64),
        ("first_leaf", ctypes.c_void_p),
        ("native", ctypes.c_void_p),
        ("inner", ctypes.c_void_p),
        ("rebuild", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Place:
    """Where a value is: an argument's index, a dict and a name, a cell, or the value itself."""

    kind: int
    a: Any
    b: Any = None

    def raw(self) -> _Place:
        if self.kind == ARGUMENT:
            return _Place(self.kind, self.a, None)
        return _Place(self.kind, id(self.a), id(self.b))


def place_of(source: Any, function: Any, names: Sequence[str], constants: Sequence[Any]) -> Any:
    """The place of a path that native code can follow, or None."""
    kind, name = source.root[0], source.root[-1]
    if source.steps:
        return None
    if kind == "arg":
        return Place(ARGUMENT, names.index(name))
    if kind == "global":
        return Place(GLOBAL, function.__globals__, sys.intern(name))
    if kind == "module":
        return Place(GLOBAL, sys.modules[source.root[1]].__dict__, sys.intern(name))
    if kind == "cell":
        return Place(CELL, function.__closure__[function.__code__.co_freevars.index(name)])
    return Place(CONSTANT, constants[name])


def fetched_entry(
    checks: Sequence[tuple[Place, Any]],
    leaves: Sequence[Place] | None,
    native: Entry,
    rebuild: Callable[[Any], Any] | None,
) -> Entry:
    """An entry over a function's parameters, from one over leaves; None: they are the leaves."""
    address, inner, _ = native
    tests = (_Check * max(len(checks), 1))(*(_Check(p.raw(), id(x)) for p, x in checks))
    places = (_Place * max(len(leaves or ()), 1))(*(p.raw() for p in leaves or ()))
    back = None if rebuild is None else id(rebuild)
    context = _Context(
        len(checks),
        ctypes.addressof(tests),
        -1 if leaves is None else len(leaves),
        ctypes.addressof(places),
        address,
        inner,
        back,
    )
    keep = (context, tests, places, checks, leaves, native, rebuild)
    return callables.entry_address("fetched"), ctypes.addressof(context), keep
