"""From arguments to leaves, in Python, where a graph's inputs are not simply the function's parameters.

Arrays inside tuples, dicts and objects, globals, closure cells and constants are found again at every call by a small function written for the
capture: it checks the static values the graph relies on, fetches the leaves and calls native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tailorbird.ir.node import Graph, map_leaves


class _Writer:
    """Writes the expression of a path; objects it needs become names."""

    def __init__(self, function: Any, constants: Sequence[Any]) -> None:
        self.function = function
        self.constants = constants
        self.names: dict[str, Any] = {}

    def name(self, x: Any) -> str:
        name = f"_k{len(self.names)}"
        self.names[name] = x
        return name

    def path(self, source: Any) -> str:
        text = self.root(source.root)
        for kind, *rest in source.steps:
            if kind == "attr":
                text = f"{text}.{rest[0]}"
            elif kind == "item":
                text = f"{text}[{self.literal(rest[0])}]"
            else:
                text = f"{ {'type': 'type', 'len': 'len', 'keys': 'tuple'}[kind] }({text})"
        return text

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
            import sys

            return f"{self.name(sys.modules[root[1]].__dict__)}[{name!r}]"
        return self.name(self.constants[name])

    def test(self, source: Any, wanted: Any) -> str:
        """A static value is compared by identity, plain data by type and equality."""
        found = self.path(source)
        if type(wanted) in (str, int, float, bytes, tuple):
            name = self.name(wanted)
            return f"(type({found}) is {type(wanted).__name__} and {found} == {name})"
        return f"{found} is {self.name(wanted)}"


def is_direct(captured: Any, names: Sequence[str]) -> bool:
    """Whether leaves and statics are parameters as they come, and results need no rebuilding."""
    sources = [*captured.sources, *(s for s, _ in captured.statics)]
    if any(s.root[0] != "arg" or s.steps or s.root[1] not in names for s in sources):
        return False
    results = captured.graph.results
    return not isinstance(results, (list, dict)) and not (
        isinstance(results, tuple)
        and (type(results) is not tuple or any(isinstance(x, (tuple, list, dict)) for x in results))
    )


def make_finder(
    captured: Any, function: Any, names: Sequence[str], direct: bool
) -> Callable[..., tuple[Any, ...] | None]:
    """A function from the call's bound arguments to what native code takes, or None when a static value differs.

    That is the leaves, or for a direct variant the parameters themselves, static ones as they were captured.
    """
    writer = _Writer(function, captured.constants)
    tests = [writer.test(source, wanted) for source, wanted in captured.statics]
    if direct:
        fixed = {source.root[1]: writer.name(wanted) for source, wanted in captured.statics}
        found = [fixed.get(n, f"a_{n}") for n in names]
    else:
        found = [writer.path(s) for s in captured.sources]
    parameters = ", ".join(f"a_{n}" for n in names)
    lines = [f"def find({parameters}):", "  try:"]
    if tests:
        lines.append(f"    if not ({' and '.join(tests)}): return None")
    lines.append(f"    return ({''.join(x + ', ' for x in found)})")
    lines.append(
        "  except (AttributeError, KeyError, IndexError, TypeError, ValueError): return None"
    )
    scope: dict[str, Any] = dict(writer.names)
    exec("\n".join(lines), scope)  # our own text over names of our own
    finder: Callable[..., tuple[Any, ...] | None] = scope["find"]
    return finder


def rebuild(graph: Graph, flat: Any) -> Any:
    """A result structure from the tuple of its leaves."""
    if not isinstance(graph.results, (tuple, list, dict)):
        return flat
    items = iter(flat)
    return map_leaves(graph.results, lambda _: next(items))
