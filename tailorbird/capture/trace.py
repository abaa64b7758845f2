"""The driver: one capture from the arguments to the verified graph.

In: a function and its live arguments by parameter name. Out: `Captured`, or `Refused`. An
exception that nobody expected is a bug of ours: it becomes the reason `capture_bug`, unless the
knob `strict` is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, MethodType
from typing import Any

from tailorbird import knobs
from tailorbird.capture import (  # noqa: F401 - these fill the tables
    builtin,
    choosing,
    control,
    create,
    evaluate,
    execute,
    grids,
    joining,
    library,
    linear,
    products,
    reduce,
    selecting,
    shaping,
)
from tailorbird.capture.call import run
from tailorbird.capture.captured import Captured
from tailorbird.capture.finish import finished
from tailorbird.capture.lift import is_tailored, lift
from tailorbird.capture.source import FunctionText, Source, parameter_names, read_function
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Frame
from tailorbird.dataclass import replace
from tailorbird.errors import Refused
from tailorbird.ir.node import Graph
from tailorbird.ir.verify import verify
from tailorbird.reasons import why


def capture(function: Any, args: Mapping[str, Any]) -> Captured:
    """The graph of a function for these arguments (defaults applied, *args a tuple, **kw a dict).

    >>> import numpy as np
    >>> def scale(x, k): return x * k
    >>> capture(scale, {"x": np.ones(3), "k": 2.0}).graph.name
    'scale'
    """
    if is_tailored(function):
        function = function.__wrapped__
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        raise Refused(why("no_source", name=getattr(function, "__name__", str(function))))
    text = read_function(function)
    try:
        return _attempt(function, text, args, lends=True)
    except Refused as refused:
        if refused.why.code != "lent_array":
            raise
    return _attempt(function, text, args, lends=False)


def _attempt(
    function: FunctionType, text: FunctionText, args: Mapping[str, Any], lends: bool
) -> Captured:
    """One reading of the function: again without `lends`, where something tells arrays of the
    caller's from the copies that loops may have of them.
    """
    t = Tracer(function.__name__, lends)
    t.file = text.file
    t.line = text.tree.lineno
    try:
        return _captured(t, function, text, args)
    except Refused as refused:
        reason = refused.why
        if not reason.file:
            reason = replace(reason, file=t.file, line=t.line)
        raise Refused(reason, _relied_on(t, None)) from refused
    except Exception as error:
        if knobs.get("strict"):
            raise
        reason = why("capture_bug", file=t.file, line=t.line, name=t.name, error=repr(error))
        raise Refused(reason) from error


def _captured(
    t: Tracer, function: FunctionType, text: FunctionText, args: Mapping[str, Any]
) -> Captured:
    frame = Frame(text, function.__globals__, function)
    t.frames.append(frame)
    for name in parameter_names(text.tree.args):
        if name in text.loads:
            frame.names[name] = lift(t, Source(("arg", name)), args[name])
    star = text.tree.args.kwarg
    if star is not None and star.arg in frame.names:
        frame.names[star.arg] = dict(frame.names[star.arg])
    t.frames.clear()
    returned = run(t, frame)
    return _relied_on(t, verify(finished(t, returned)))


def _relied_on(t: Tracer, graph: Graph | None) -> Captured:
    """A capture, or, without a graph, as far as it came."""
    sources = [*t.sources, *t.int_sources]
    looked = [(module, name, live) for (module, name), live in t.looked.items()]
    statics = list(t.statics.items())
    return Captured(
        graph, sources, statics, t.reasons, t.constants, looked, list(t.absent), t.unkept
    )
