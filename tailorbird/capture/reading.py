"""Library functions that are read like the user's own: NumPy writes them in Python.

In: a function of `READ` and its abstract arguments. Out: what its text comes to, or None where the
text is not understood; then it is called opaquely. So dtypes, shapes and the order of operations
are NumPy's own, whatever its version.

Invariants: the names in such a text are NumPy's, looked up in its modules; nodes and reasons have
the user's line.
"""

from __future__ import annotations

import ast
import importlib
from types import FunctionType
from typing import Any

from tailorbird.capture.arith import concretely
from tailorbird.capture.attempt import Attempt
from tailorbird.capture.live import leaves_early
from tailorbird.capture.registry import executes, handles
from tailorbird.capture.source import FunctionText, is_library, is_text, read_function
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Frame
from tailorbird.errors import Refused
from tailorbird.ir.promote import LEGACY

READ_NAMES = """
    average corrcoef cov fftfreq fftshift fliplr flipud gradient ifftshift interp
    matmul matrix_norm matrix_power norm outer polyval rfftfreq rot90 trapezoid trapz vander
    vector_norm
"""
READ = frozenset(READ_NAMES.split())
AXES: Any = importlib.import_module("numpy.core.numeric" if LEGACY else "numpy.lib.array_utils")


def read_through(
    t: Tracer, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any] | None:
    """The result of a call, alone in a tuple; None where the text is not understood."""
    written = getattr(function, "__wrapped__", function)
    name = getattr(function, "__name__", "")
    if not isinstance(written, FunctionType) or not is_text(written.__module__):
        return None
    ours = not is_library(written.__module__)
    inner = t.caller is not None and (ours or name.startswith("_"))  # a helper of what is read
    if name not in READ and not inner:
        return None
    before = Attempt(t)
    try:
        text = read_function(written)
        frame = Frame(text, written.__globals__, written)
        frame.names = _bound(t, text, written, args, keywords)
        result = _run(t, frame)
        if len(t.reasons) > before.reasons:  # it would be one call, not several
            before.abandon()
            return None
        return (result,)
    except Refused:
        before.abandon()
        return None


def read_text(t: Tracer, written: Any, args: tuple[Any, ...]) -> Any:
    """What one of our own texts comes to."""
    assert isinstance(written, FunctionType)
    text = read_function(written)
    frame = Frame(text, written.__globals__, written)
    frame.names = _bound(t, text, written, args, {})
    return _run(t, frame)


def _bound(
    t: Tracer,
    text: FunctionText,
    written: FunctionType,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
) -> dict[str, Any]:
    from tailorbird.capture.call import all_bound, bind_arguments

    names = bind_arguments(t, text, args, keywords)
    signature = text.tree.args
    plain = [a.arg for a in (*signature.posonlyargs, *signature.args)]
    given = written.__defaults__ or ()
    defaults = dict(zip(plain[len(plain) - len(given) :], given)) | (written.__kwdefaults__ or {})
    names = defaults | names
    all_bound(t, text, names)
    return names


def _run(t: Tracer, frame: Frame) -> Any:
    from tailorbird.capture.call import run

    outermost = t.caller is None
    if outermost:
        t.caller = (t.file, t.line)
    try:
        return run(t, frame)
    finally:
        if outermost:
            t.caller = None


# What such texts hold and a program of the user's may not


@executes(ast.Try)
def _try(t: Tracer, node: Any, frame: Frame) -> Any:
    """The body, or the handler of the exception that it surely raises."""
    from tailorbird.capture.control import block

    if t.caller is None or node.finalbody or node.orelse or leaves_early(node.body):
        t.refuse("unsupported_syntax", name="try")
    before = Attempt(t)
    try:
        return block(t, node.body, frame)
    except Refused as refused:
        found = [h for h in node.handlers if h.type and _raises(refused, ast.unparse(h.type))]
        if not found:
            raise
        before.abandon()
        return block(t, found[0].body, frame)


def _raises(refused: Refused, kind: str) -> bool:
    text = refused.why.text
    return any(f"an exception ({word}{kind}" in text for word in ("", "raise "))


@handles(AXES.normalize_axis_index)
def _axis_index(t: Tracer, axis: Any, ndim: Any, msg_prefix: Any = None) -> Any:
    return concretely(t, AXES.normalize_axis_index, t.concrete(axis), ndim)


@handles(AXES.normalize_axis_tuple)
def _axis_tuple(
    t: Tracer, axis: Any, ndim: Any, argname: Any = None, allow_duplicate: Any = False
) -> Any:
    wanted = t.concrete(axis)
    return concretely(t, lambda: AXES.normalize_axis_tuple(wanted, ndim, None, allow_duplicate))
