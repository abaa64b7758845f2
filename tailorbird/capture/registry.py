"""The tables that the abstract interpreter is made of, filled by the modules of this folder.

`EXPRESSIONS` and `STATEMENTS` go from a syntax node to the function that evaluates it; `FUNCTIONS`
from a Python callable, and `METHODS` and `ATTRIBUTES` from a name of an array, to the handler that
records what it does. A handler takes the tracer, then the arguments as the function itself would.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tailorbird.capture.values import Evaluator, Handler

EXPRESSIONS: dict[type[ast.AST], Evaluator] = {}
STATEMENTS: dict[type[ast.AST], Evaluator] = {}
FUNCTIONS: dict[Any, Handler] = {}
METHODS: dict[str, Handler] = {}
ATTRIBUTES: dict[str, Handler] = {}


def evaluates(*kinds: type[ast.AST]) -> Callable[[Evaluator], Evaluator]:
    """Registers how expressions of these kinds are evaluated."""

    def register(function: Evaluator) -> Evaluator:
        EXPRESSIONS.update(dict.fromkeys(kinds, function))
        return function

    return register


def executes(*kinds: type[ast.AST]) -> Callable[[Evaluator], Evaluator]:
    """Registers how statements of these kinds are executed."""

    def register(function: Evaluator) -> Evaluator:
        STATEMENTS.update(dict.fromkeys(kinds, function))
        return function

    return register


def handles(*functions: Any, method: str = "") -> Callable[[Handler], Handler]:
    """Registers the handler of functions, and of the array method of that name."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            FUNCTIONS[function] = handler
        if method:
            METHODS[method] = handler
        return handler

    return register


def attribute(*names: str) -> Callable[[Handler], Handler]:
    """Registers what an attribute of an array is."""

    def register(handler: Handler) -> Handler:
        ATTRIBUTES.update(dict.fromkeys(names, handler))
        return handler

    return register


def handler_of(function: Any) -> Handler | None:
    """The handler of a callable, if it has one."""
    try:
        return FUNCTIONS.get(function)
    except TypeError:
        return None


_shapes: dict[Handler, tuple[int, int, frozenset[str] | None]] = {}


def accepts(handler: Handler, positional: int, keywords: dict[str, Any]) -> bool:
    """Whether a handler takes so many arguments and these keywords; the tracer is not counted."""
    shape = _shapes.get(handler)
    if shape is None:
        shape = _signature(handler)
        _shapes[handler] = shape
    least, most, names = shape
    if positional > most:
        return False
    if positional + len(keywords) < least:
        return False
    return names is None or names.issuperset(keywords)


def _signature(handler: Handler) -> tuple[int, int, frozenset[str] | None]:
    import inspect

    parameters = list(inspect.signature(handler).parameters.values())[1:]
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    double = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    least = sum(p.default is p.empty for p in plain)
    return least, 1000 if star else len(plain), None if double else frozenset(named)
