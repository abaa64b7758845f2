"""From a Python function and its live arguments to a graph.

In: a function, and the arguments of one call by parameter name. Out: `Captured`: the graph, where
its parameters are found at each call, what it relies on, and why some calls stay opaque. What
cannot be captured raises `Refused` with the reason and the user's line.

Promised: the function is read, never run; live arguments are looked at, never changed; capturing
twice gives the same graph. One mechanism: an abstract interpreter over the syntax tree. Values
that do not depend on array data are computed, values that do are recorded. Start with `trace.py`,
then `tracer.py` (the state), `evaluate.py`, `execute.py` and `control.py` (the syntax), `values.py`
and `views.py` (arrays are references). What data decides becomes `branch`, `loop` and `while`
nodes: `heap.py` (which arrays correspond), `branches.py`, `loops.py`, `opening.py`, `closing.py`
and `peeling.py`, with `returning.py`, `live.py`, `bounds.py`, `attempt.py` and `loose.py` to help.
The NumPy functions are in `ufuncs.py`, `reduce.py`, `products.py`, `linear.py`, `shaping.py`,
`joining.py`, `create.py` and `choosing.py`; those that NumPy writes in Python are read
(`reading.py`), and of those in C some are programs of ours (`library.py`, `texts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailorbird.capture.captured import Captured
from tailorbird.capture.source import Source

__all__ = ["Captured", "Source", "capture"]


def capture(function: Any, args: Mapping[str, Any]) -> Captured:
    """`trace.capture`; the interpreter is loaded when it is first needed."""
    from tailorbird.capture import trace

    return trace.capture(function, args)
