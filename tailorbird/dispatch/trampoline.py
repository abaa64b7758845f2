"""Small Python functions written for one tailored function: how arguments are bound, and how the
inputs of a graph are found again at each call.

In: a function's signature; what a capture relies on. Out: `bind(*args, **kwargs)`, which gives one
value for each parameter as Python itself would bind them, and `find(*values)`, which gives what
native code takes, or None when a static value differs from the captured one.

Invariants: the text is our own, over names of our own; objects come in by name. A finder evaluates
its tests from left to right and stops at the first that fails, so that an attribute is only read
from an object whose type was checked; a path that is needed twice is walked once.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tailorbird.ir.draws import token
from tailorbird.ir.leaves import map_leaves

Finder = Callable[..., tuple[Any, ...] | None]
BY_VALUE = (str, int, float, bytes, tuple)
MISSING = "AttributeError, KeyError, IndexError, TypeError, ValueError"
QUESTIONS = {"type": "type", "len": "len", "keys": "tuple"}
MARKS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def make_binder(function: Any, signature: inspect.Signature) -> Callable[..., tuple[Any, ...]]:
    """A function of the same signature that gives the values of its parameters.

    >>> def step(x, rate=0.1, *rest, **options): ...
    >>> make_binder(step, inspect.signature(step))(1, 2, 3, k=4)
    (1, 2, (3,), {'k': 4})
    """
    kinds = [p.kind for p in signature.parameters.values()]
    parts: list[str] = []
    for k, p in enumerate(signature.parameters.values()):
        if p.kind is p.KEYWORD_ONLY and not {p.KEYWORD_ONLY, p.VAR_POSITIONAL} & set(kinds[:k]):
            parts.append("*")
        default = "" if p.default is p.empty else "=None"
        parts.append(MARKS.get(p.kind, "") + p.name + default)
        if p.kind is p.POSITIONAL_ONLY and p.POSITIONAL_ONLY not in kinds[k + 1 :]:
            parts.append("/")
    values = "".join(f"{name}, " for name in signature.parameters)
    scope: dict[str, Any] = {}
    exec(f"def bind({', '.join(parts)}): return ({values})", scope)
    bind = scope["bind"]
    bind.__qualname__ = function.__qualname__  # for the errors of calls that do not fit
    bind.__defaults__ = function.__defaults__
    bind.__kwdefaults__ = function.__kwdefaults__
    return bind


class _Writer:
    """Writes the expressions of paths; objects they need become names, repeated steps variables."""

    def __init__(self, function: Any, constants: Sequence[Any]) -> None:
        self.function = function
        self.constants = constants
        self.names: dict[str, Any] = {}
        self.uses: Counter[Any] = Counter()
        self.variables: dict[Any, str] = {}

    def expect(self, source: Any, times: int = 1) -> None:
        """Announces that a path will be written."""
        for k in range(len(source.steps) + 1):
            self.uses[source.root, source.steps[:k]] += times

    def name(self, x: Any) -> str:
        name = f"_k{len(self.names)}"
        self.names[name] = x
        return name

    def path(self, source: Any) -> str:
        text = self.root(source.root)
        for k, (kind, *rest) in enumerate(source.steps, 1):
            key = source.root, source.steps[:k]
            known = self.variables.get(key)
            if known is not None:
                text = known
                continue
            text = self.step(text, kind, *rest)
            if self.uses[key] > 1:
                self.variables[key] = f"_p{len(self.variables)}"
                text = f"({self.variables[key]} := {text})"
        return text

    def step(self, text: str, kind: str, *rest: Any) -> str:
        if kind == "attr":
            return f"{text}.{rest[0]}"
        if kind == "item":
            return f"{text}[{self.literal(rest[0])}]"
        if kind == "draws":
            return f"{self.name(token)}({text})"
        return f"{QUESTIONS[kind]}({text})"

    def literal(self, x: Any) -> str:
        return repr(x) if type(x) in (str, int) else self.name(x)

    def root(self, root: tuple[Any, ...]) -> str:
        kind, name = root[0], root[-1]
        if kind == "arg":
            return f"a_{name}"
        if kind == "global":
            return f"{self.name(self.function.__globals__)}[{name!r}]"
        if kind == "cell":
            index = self.function.__code__.co_freevars.index(name)
            return f"{self.name(self.function.__closure__[index])}.cell_contents"
        if kind == "module":
            return f"{self.name(sys.modules[root[1]].__dict__)}[{name!r}]"
        return self.name(self.constants[name])

    def test(self, source: Any, wanted: Any) -> str:
        """A static value is compared by identity, plain data by type and equality."""
        if type(wanted) not in BY_VALUE:
            return f"{self.path(source)} is {self.name(wanted)}"
        kind = f"type({self.path(source)}) is {type(wanted).__name__}"
        return f"{kind} and {self.path(source)} == {self.name(wanted)}"


def is_direct(captured: Any) -> bool:
    """Whether all inputs of a graph are parameters as they come."""
    return all(s.root[0] == "arg" and not s.steps for s in captured.sources)


def is_flat(results: Any) -> bool:
    """Whether results are one leaf, or a tuple of leaves."""
    if type(results) is tuple:
        return not any(isinstance(x, (tuple, list, dict)) for x in results)
    return not isinstance(results, (tuple, list, dict))


def make_finder(captured: Any, function: Any, names: Sequence[str], direct: bool) -> Finder:
    """A function from the values of the parameters to what native code takes, or None.

    That is the leaves, or for a direct variant the parameters themselves.
    """
    writer = _Writer(function, captured.constants)
    for source, wanted in captured.statics:
        writer.expect(source, 2 if type(wanted) in BY_VALUE else 1)
    if not direct:
        for source in captured.sources:
            writer.expect(source)
    tests = [writer.test(source, wanted) for source, wanted in captured.statics]
    found = [f"a_{n}" for n in names] if direct else [writer.path(s) for s in captured.sources]
    lines = [f"def find({', '.join(f'a_{n}' for n in names)}):", "  try:"]
    if tests:
        lines.append(f"    if not ({' and '.join(tests)}): return None")
    lines.append(f"    return ({''.join(x + ', ' for x in found)})")
    lines.append(f"  except ({MISSING}): return None")
    scope: dict[str, Any] = dict(writer.names)
    exec("\n".join(lines), scope)
    finder: Finder = scope["find"]
    return finder


def rebuild(results: Any, flat: tuple[Any, ...]) -> Any:
    """A result structure from the tuple of its leaves."""
    items = iter(flat)
    return map_leaves(results, lambda _: next(items))
