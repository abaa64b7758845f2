"""A variant: compiled code with its guards, counters and memory.

In: what the pipeline built. Out: a native callable over the graph's leaves, and the words the dispatcher and the code share.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailorbird.dispatch import entry, object as callables
from tailorbird.dispatch.guards import ARRAY, INTEGER, SCALAR, WEAK, ZERO_D, Leaf
from tailorbird.dispatch.race import Heat
from tailorbird.dispatch.signature import layout
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Graph, Slot
from tailorbird.ir.ops import OPS
from tailorbird.lower.kernel import Nest
from tailorbird.lower.program import Program, PythonCall

MISS: Any = type("Miss", (), {"__repr__": lambda self: "MISS"})()
NEVER = 1 << 62
EVERYTHING = -1
RETIME = 1 << 22  # native calls between two looks at the race


def leaves_of(graph: Graph, values: Sequence[Any]) -> list[Leaf]:
    """How the live arguments of a graph look to the entry."""
    out = []
    for value, x in zip(graph.parameters, values):
        written = value in graph.finals
        if value.type.rank:
            out.append(Leaf(ARRAY, value.name, layout(x), written))
        elif isinstance(x, np.ndarray):
            out.append(Leaf(ZERO_D, value.name))
        else:
            out.append(Leaf(WEAK if value.type.weak else SCALAR, value.name))
    return out + [Leaf(INTEGER, name) for name in graph.ints]


def python_callable(step: PythonCall) -> Callable[..., tuple[np.ndarray, ...] | None]:
    """What an opaque call runs: operands in, contiguous arrays of the captured types out, or None when they differ."""
    node = step.node
    if node.op == "call":
        call = _from_template(node.attrs["function"], node.attrs["template"])
    else:
        call = _from_meaning(node.op, node.attrs)
    wanted = [(v.type.dtype, v.type.rank) for v in node.outputs]
    many = bool(node.attrs.get("many"))

    def run(*operands: Any) -> tuple[np.ndarray, ...] | None:
        result = call(*operands)
        results = tuple(result) if many else (result,)
        if len(results) != len(wanted):
            return None
        out = []
        for x, (dtype, rank) in zip(results, wanted):
            array = np.asarray(x)
            if type(x) is not np.ndarray and not isinstance(x, np.generic):
                return None
            if array.dtype != dtype or array.ndim != rank:
                return None
            out.append(np.ascontiguousarray(array).reshape(array.shape))
        return tuple(out)

    return run


def _from_meaning(op: str, attrs: dict[str, Any]) -> Callable[..., Any]:
    meaning = OPS[op].meaning
    assert meaning is not None, op
    fixed = {k: v for k, v in attrs.items() if not _symbolic(v)}
    return lambda *operands: meaning(*operands, **fixed)


def _symbolic(x: Any) -> bool:
    if isinstance(x, tuple):
        return any(_symbolic(item) for item in x)
    return isinstance(x, Expr)


def _from_template(path: str, template: Any) -> Callable[..., Any]:
    module, name = path.split(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    args, kwargs = template

    def call(*operands: Any) -> Any:
        def fill(x: Any) -> Any:
            if isinstance(x, Slot):
                return operands[x.index]
            if isinstance(x, (tuple, list)):
                return type(x)(fill(item) for item in x)
            return x

        return function(*map(fill, args), **{k: fill(v) for k, v in kwargs})

    return call


@dataclass(eq=False)
class Variant:
    """Compiled code for one graph and one set of layouts."""

    name: str
    graph: Graph
    program: Program
    leaves: list[Leaf]
    library: Any
    words: Any
    keep: list[Any]
    ir: str
    milliseconds: dict[str, float]
    arrays: list[int]  # which of the values native code takes are arrays
    call: Callable[..., Any] = field(repr=False)
    heats: dict[int, Heat] = field(default_factory=dict)
    forced: int = 0
    misses: int = 0
    reasons: list[Any] = field(default_factory=list)

    @property
    def hits(self) -> int:
        """Calls that native code answered."""
        return int(self.words[entry.HITS]) + self.forced

    @property
    def groups(self) -> list[list[str]]:
        """The ops of each kernel."""
        return [s.nodes for s in self.program.steps if isinstance(s, Nest)]

    @property
    def guards(self) -> list[str]:
        """What must hold of the arguments."""
        given = [str(g) for g in self.graph.guards]
        return [
            f"{p.name}: {p.type} {leaf.layout}".strip()
            for p, leaf in zip(self.graph.parameters, self.leaves)
        ] + given

    @property
    def time(self) -> dict[int, float]:
        """The best native time seen, by size class."""
        return {size: min(heat.native) for size, heat in self.heats.items() if heat.native}

    def open_all(self) -> None:
        """Lets native code answer every size, without a race."""
        self.words[entry.ASK] = 0
        self.words[entry.COUNTDOWN] = NEVER

    def settle(self, size: int, native: bool) -> None:
        """Sets whether native code answers a size class without asking."""
        bit = 1 << size
        mask = int(self.words[entry.ASK]) & (2**64 - 1)
        mask = mask & ~bit if native else mask | bit
        self.words[entry.ASK] = mask - 2**64 if mask >= 2**63 else mask
        self.words[entry.COUNTDOWN] = RETIME

    def force(self, values: Sequence[Any]) -> Any:
        """Runs native code whatever the race says; MISS when a guard does not hold."""
        words = self.words
        ask, countdown = words[entry.ASK], words[entry.COUNTDOWN]
        words[entry.ASK], words[entry.COUNTDOWN] = 0, NEVER
        try:
            result = self.call(*values)
        finally:
            words[entry.ASK], words[entry.COUNTDOWN] = ask, countdown
        if result is MISS:
            self.misses += 1
        return result

    @property
    def entry(self) -> tuple[int, int, object]:
        """For the table of a callable whose parameters are exactly the leaves."""
        return self.library.address("entry"), ctypes.addressof(self.words), self


def make_variant(
    name: str,
    program: Program,
    leaf_list: list[Leaf],
    places: list[int],
    width: int,
    library: Any,
    context: entry.Context,
    ir: str,
    milliseconds: dict[str, float],
) -> Variant:
    """Lays out the context and wraps the entry as a callable over `width` values, leaf k at `places[k]`."""
    keep = [python_callable(x) if isinstance(x, PythonCall) else x for x in context.objects]
    words = (ctypes.c_int64 * (entry.OBJECTS + len(keep) + 1))()
    for k, x in enumerate(keep):
        words[entry.OBJECTS + k] = id(x)
    words[entry.ASK], words[entry.COUNTDOWN] = EVERYTHING, RETIME
    native = callables.new(_native_type())
    arrays = [place for leaf, place in zip(leaf_list, places) if leaf.kind == ARRAY]
    graph = program.graph
    variant = Variant(
        name, graph, program, leaf_list, library, words, keep, ir, milliseconds, arrays, native
    )
    names = [f"value{k}" for k in range(width)]
    address = library.address("entry")
    table = callables.Table(
        names, (), _missed, [(address, ctypes.addressof(words), (library, words, keep))]
    )
    callables.install(native, table)
    return variant


def _missed(self: Any, *args: Any, **kwargs: Any) -> Any:
    return MISS


_types: list[type] = []


def _native_type() -> type:
    """The type of callables over leaves; made once."""
    if not _types:
        _types.append(
            callables.make_type(
                type("Native", (), {"__doc__": "Native code over the leaves of a graph."})
            )
        )
    return _types[0]
