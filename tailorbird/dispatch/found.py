"""An entry for variants whose inputs have to be looked for.

Arrays inside tuples, dicts and objects, globals, closure cells and constants are found at each call
by a Python function written for the capture (`trampoline.py`). This entry calls it with the
function's parameters and hands the tuple it gives to native code.

    parameters -> finder (Python) -> leaves -> native entry -> rebuild (Python, only if needed)
                                                    `-> undo (Python), where it did not answer

Invariants: the leaves are held while native code runs. After some calls in a row that were
lost to the plain function the finder is asked only once in many calls, so that looking for
inputs costs a plain call next to nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tailorbird.dispatch import object as callables
from tailorbird.dispatch.object import Entry


class _Context(ctypes.Structure):
    _fields_ = [
        ("finder", ctypes.c_void_p),
        ("parameters", ctypes.c_int64),
        ("native", ctypes.c_void_p),
        ("inner", ctypes.c_void_p),
        ("rebuild", ctypes.c_void_p),
        ("row", ctypes.c_int64),
        ("undo", ctypes.c_void_p),
    ]


def found_entry(
    finder: Callable[..., Any],
    parameters: int,
    native: Entry,
    rebuild: Callable[[Any], Any] | None,
    undo: Callable[[Any], Any] | None = None,
) -> Entry:
    """An entry over a function's parameters, from one over the leaves that `finder` finds. What
    native code did to them that has no copy, `undo` takes back when it leaves.
    """
    address, inner, _ = native
    back = None if rebuild is None else id(rebuild)
    after = None if undo is None else id(undo)
    context = _Context(id(finder), parameters, address, inner, back, 0, after)
    keep = (context, finder, native, rebuild, undo)
    return callables.entry_address("found"), ctypes.addressof(context), keep
