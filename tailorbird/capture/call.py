"""Calls: inlined where there is source, recorded by a handler, or opaque, or refused.

In: an abstract callable and its arguments. Out: the abstract result.

Invariants: user code is read, never run. Only functions in `PURE`, and handlers, compute with
values that are wholly known. A library function without a handler is called opaquely if it is
pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tailorbird.capture.containers import container_method
from tailorbird.capture.lift import is_tailored
from tailorbird.capture.registry import METHODS, accepts, handler_of
from tailorbird.capture.source import FunctionText, is_library, read_function
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import (
    Arr,
    Bound,
    Code,
    Frame,
    Handler,
    LocalFunction,
    Method,
    Partial,
    Random,
    Scal,
    UfuncMethod,
    Unhandled,
)

DEEPEST = 16
Args = tuple[Any, ...]
Keywords = dict[str, Any]


def call(t: Tracer, function: Any, args: Args, keywords: Keywords) -> Any:
    """`function(*args, **keywords)`."""
    caller = _CALLERS.get(type(function))
    if caller is not None:
        return caller(t, function, args, keywords)
    handler = handler_of(function)
    if handler is not None:
        return handled(t, handler, function, args, keywords)
    if isinstance(function, np.ufunc):
        from tailorbird.capture.ufuncs import call_ufunc

        return call_ufunc(t, function, args, keywords)
    if isinstance(function, type) and issubclass(function, np.generic):
        from tailorbird.capture.create import scalar_type

        return scalar_type(t, function, args, keywords)
    from tailorbird.capture.opaque import call_library

    return call_library(t, function, args, keywords)


def handled(t: Tracer, handler: Handler, function: Any, args: Args, keywords: Keywords) -> Any:
    """Through a handler; a form that it does not know is called opaquely."""
    if accepts(handler, len(args), keywords):
        try:
            return handler(t, *args, **keywords)
        except Unhandled:
            pass
    from tailorbird.capture.opaque import call_library

    return call_library(t, function, args, keywords)


def _method(t: Tracer, method: Method, args: Args, keywords: Keywords) -> Any:
    owner = method.owner
    if isinstance(owner, Random):
        from tailorbird.capture.draws import draw

        return draw(t, owner, method.name, args, keywords)
    if not isinstance(owner, (Arr, Scal)):
        return container_method(t, owner, method.name, args, keywords)
    handler = METHODS.get(method.name)
    if handler is not None and accepts(handler, 1 + len(args), keywords):
        try:
            return handler(t, owner, *args, **keywords)
        except Unhandled:
            pass
    function = getattr(np, method.name, None)
    if function is None:
        t.refuse("unsupported_call", name=f"ndarray.{method.name}")
    from tailorbird.capture.opaque import call_library

    return call_library(t, function, (owner, *args), keywords)


def _ufunc_method(t: Tracer, method: UfuncMethod, args: Args, keywords: Keywords) -> Any:
    from tailorbird.capture.ufuncs import call_ufunc_method

    return call_ufunc_method(t, method.ufunc, method.name, args, keywords)


def _bound(t: Tracer, bound: Bound, args: Args, keywords: Keywords) -> Any:
    return call(t, bound.function, (bound.first, *args), keywords)


def _partial(t: Tracer, partial: Partial, args: Args, keywords: Keywords) -> Any:
    return call(t, partial.function, (*partial.args, *args), {**partial.kwargs, **keywords})


# Inlining


def _code(t: Tracer, code: Code, args: Args, keywords: Keywords) -> Any:
    live = code.live
    if is_tailored(live):
        live = live.__wrapped__
    if is_library(live.__module__):
        return call(t, live, args, keywords)
    text = read_function(live)
    frame = Frame(text, live.__globals__, live, code.source)
    frame.names = bind_arguments(t, text, args, keywords)
    _add_defaults(t, code, frame)
    return run(t, frame)


def _add_defaults(t: Tracer, code: Code, frame: Frame) -> None:
    """Defaults of a caller's function are live values found by path."""
    from tailorbird.capture.lift import lift

    signature = frame.text.tree.args
    plain = [a.arg for a in (*signature.posonlyargs, *signature.args)]
    defaults = code.live.__defaults__ or ()
    for k, name in enumerate(plain[len(plain) - len(defaults) :]):
        if name not in frame.names:
            source = code.source.attr("__defaults__").item(k)
            frame.names[name] = lift(t, source, defaults[k])
    for name, live in (code.live.__kwdefaults__ or {}).items():
        if name not in frame.names:
            source = code.source.attr("__kwdefaults__").item(name)
            frame.names[name] = lift(t, source, live)
    all_bound(t, frame.text, frame.names)


def _local(t: Tracer, function: LocalFunction, args: Args, keywords: Keywords) -> Any:
    outer = function.frame
    frame = Frame(function.text, outer.globals, outer.function, outer.source, outer)
    frame.names = bind_arguments(t, function.text, args, keywords)
    signature = function.text.tree.args
    plain = [a.arg for a in (*signature.posonlyargs, *signature.args)]
    start = len(plain) - len(function.defaults)
    for name, x in zip(plain[start:], function.defaults):
        frame.names.setdefault(name, x)
    for name, x in function.keyword_defaults.items():
        frame.names.setdefault(name, x)
    all_bound(t, frame.text, frame.names)
    return run(t, frame)


def bind_arguments(
    t: Tracer, text: FunctionText, args: Args, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Names to arguments, as Python binds them, defaults left out."""
    signature = text.tree.args
    positional = [a.arg for a in signature.posonlyargs]
    plain = positional + [a.arg for a in signature.args]
    names = dict(zip(plain, args))
    if signature.vararg is not None:
        names[signature.vararg.arg] = tuple(args[len(plain) :])
    elif len(args) > len(plain):
        t.raises(f"TypeError: {text.name}() takes {len(plain)} positional arguments")
    known = set(plain[len(positional) :]) | {a.arg for a in signature.kwonlyargs}
    extra: dict[str, Any] = {}
    for name, x in keywords.items():
        if name not in known:
            extra[name] = x
        elif name in names:
            t.raises(f"TypeError: {text.name}() got multiple values for argument {name!r}")
        else:
            names[name] = x
    if signature.kwarg is not None:
        names[signature.kwarg.arg] = extra
    elif extra:
        t.raises(f"TypeError: {text.name}() got an unexpected keyword argument")
    return names


def all_bound(t: Tracer, text: FunctionText, names: Mapping[str, Any]) -> None:
    """Every parameter has its argument."""
    signature = text.tree.args
    for a in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs):
        if a.arg not in names:
            t.raises(f"TypeError: {text.name}() missing argument {a.arg!r}")


def run(t: Tracer, frame: Frame) -> Any:
    """Executes a function's body and gives what it returns."""
    if len(t.frames) > DEEPEST:
        t.refuse("budget", name=f"the recursion of {frame.text.name}")
    place = (t.file, t.line)
    t.frames.append(frame)
    t.file = frame.text.file
    from tailorbird.capture.control import block

    outcome = block(t, frame.text.body, frame)
    t.frames.pop()
    if t.frames:
        t.file, t.line = place
    return outcome[1] if outcome is not None else None


_CALLERS: dict[type, Any] = {
    Method: _method,
    UfuncMethod: _ufunc_method,
    Bound: _bound,
    Partial: _partial,
    Code: _code,
    LocalFunction: _local,
}
