"""A variant: compiled code with its guards, counters and memory.

In: what the pipeline built. Out: entries over the values that native code takes, and the words that
the dispatcher and the code share.

Invariants: a variant has two contexts. `words` is the one that callables use: it asks the
dispatcher for sizes that are not settled in the race. `open` answers every size; the dispatcher
uses it to run native code whatever the race says, so that timing a call changes nothing that other
threads see.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailorbird.dispatch import entry
from tailorbird.dispatch import object as callables
from tailorbird.dispatch.guards import ARRAY, INTEGER, SCALAR, WEAK, ZERO_D, Leaf
from tailorbird.dispatch.race import NATIVE, PLAIN, Heat
from tailorbird.dispatch.signature import layout
from tailorbird.ir.expr import Expr
from tailorbird.ir.interp import misfit
from tailorbird.ir.node import Graph, Slot
from tailorbird.ir.ops import OPS
from tailorbird.lower.kernel import Nest
from tailorbird.lower.program import Program, PythonCall
from tailorbird.lower.steps import inner_steps
from tailorbird.reasons import Why

MISS: Any = type("Miss", (), {"__repr__": lambda self: "MISS"})()
LOST: Any = type("Lost", (), {"__repr__": lambda self: "LOST"})()
NEVER = 1 << 62
EVERYTHING = -1


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
    """What an opaque call runs: operands in, contiguous arrays of the captured types out, or None
    when they differ or it raises.
    """
    node = step.node
    if node.op == "call":
        call = _from_template(node.attrs["function"], node.attrs["template"])
    else:
        call = _from_meaning(node.op, node.attrs)
    wanted = [(v.type.dtype, v.type.rank) for v in node.outputs]
    many = bool(node.attrs.get("many"))

    def run(*operands: Any) -> tuple[np.ndarray, ...] | None:
        try:
            result = call(*operands)
        except Exception:  # noqa: BLE001 - the plain function runs and raises it in its place
            return None
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


@dataclass(eq=False, repr=False)
class Variant:
    """Compiled code for one graph and one set of layouts."""

    name: str
    graph: Graph
    program: Program
    leaves: list[Leaf]
    places: list[int]  # where each leaf is among the values that native code takes
    library: Any
    words: Any
    open: Any
    keep: list[Any]
    ir: str
    milliseconds: dict[str, float]
    heats: dict[int, Heat] = field(default_factory=dict)
    misses: int = 0
    reasons: list[Why] = field(default_factory=list)

    def __repr__(self) -> str:
        """One line, for lists of variants: the graph and the code would be pages."""
        guards = "; ".join(self.guards)
        return f"<variant {self.name}({guards}), {self.hits} hits, {self.misses} misses>"

    @property
    def hits(self) -> int:
        """Calls that native code answered."""
        return int(self.words[entry.HITS] + self.open[entry.HITS])

    @property
    def groups(self) -> list[list[str]]:
        """The ops of each kernel."""
        return [s.nodes for s in inner_steps(self.program.steps) if isinstance(s, Nest)]

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

    def elements(self, values: Sequence[Any]) -> int:
        """The number of array elements among the values that native code takes."""
        arrays = [values[at] for leaf, at in zip(self.leaves, self.places) if leaf.kind == ARRAY]
        return sum(x.size for x in arrays if type(x) is np.ndarray)

    def misfit(self, values: Sequence[Any]) -> str:
        """Which guard does not hold for such values, in words; empty when they fit."""
        found = [values[at] for at in self.places]
        for leaf, x in zip(self.leaves, found):
            problem = _misfit(leaf, x)
            if problem:
                return problem
        return misfit(self.graph, found) or _overlap(self.leaves, found)

    # -- the race

    def open_all(self) -> None:
        """Lets native code answer every size, without a race."""
        self.words[entry.ASK] = 0
        self.words[entry.COUNTDOWN] = NEVER

    def settle(self, size: int, winner: str, calls: int) -> None:
        """Who answers a size class from now on: native code, the plain function, or, when there
        is no winner, whomever the dispatcher names. It is asked anyway after so many calls.
        """
        _set_bit(self.words, entry.ASK, size, winner not in (NATIVE, PLAIN))
        _set_bit(self.words, entry.LOST, size, winner == PLAIN)
        self.words[entry.COUNTDOWN] = calls

    @property
    def is_due(self) -> bool:
        """Whether so many calls have passed."""
        return bool(self.words[entry.COUNTDOWN] <= 0)

    def entry(self, words: Any) -> callables.Entry:
        """For a table: native code over the values it takes, in one of the two contexts."""
        return self.library.address("entry"), ctypes.addressof(words), (self.library, words, self)


def _set_bit(words: Any, word: int, bit: int, on: bool) -> None:
    mask = words[word] & (2**64 - 1)
    mask = mask | 1 << bit if on else mask & ~(1 << bit)
    words[word] = mask - 2**64 if mask >= 2**63 else mask


def _misfit(leaf: Leaf, x: Any) -> str:
    if leaf.kind == INTEGER:
        return "" if type(x) is int else f"{leaf.name} is {type(x).__name__}, not int"
    if leaf.kind != ARRAY:
        return ""
    if type(x) is not np.ndarray:
        return f"{leaf.name} is {type(x).__name__}, not ndarray"
    lies = {"C": x.flags.c_contiguous, "F": x.flags.f_contiguous}
    if not lies.get(leaf.layout, layout(x) == leaf.layout):
        return f"{leaf.name} lies {layout(x)} in memory, not {leaf.layout}"
    if leaf.written and not x.flags.writeable:
        return f"{leaf.name} is read-only"
    return ""


def _overlap(leaves: list[Leaf], found: list[Any]) -> str:
    arrays = [(leaf, x) for leaf, x in zip(leaves, found) if leaf.kind == ARRAY]
    for leaf, x in arrays:
        for other, y in arrays:
            if leaf.written and other is not leaf and np.may_share_memory(x, y):
                return f"{leaf.name}, which is written, overlaps {other.name}"
    return ""


def make_variant(
    name: str,
    program: Program,
    leaves: list[Leaf],
    places: list[int],
    library: Any,
    context: entry.Context,
    ir: str,
    milliseconds: dict[str, float],
) -> Variant:
    """Lays out both contexts; leaf k is the value at `places[k]`."""
    keep = [python_callable(x) if isinstance(x, PythonCall) else x for x in context.objects]
    words, opened = _context(keep), _context(keep)
    words[entry.ASK], words[entry.COUNTDOWN] = EVERYTHING, NEVER
    opened[entry.COUNTDOWN] = NEVER
    return Variant(
        name,
        program.graph,
        program,
        leaves,
        places,
        library,
        words,
        opened,
        keep,
        ir,
        milliseconds,
    )


def _context(keep: list[Any]) -> Any:
    words = (ctypes.c_int64 * (entry.OBJECTS + len(keep) + 1))()
    for k, x in enumerate(keep):
        words[entry.OBJECTS + k] = id(x)
    return words


# -- callables over parameters, for the dispatcher itself


def native_callable(count: int, entries: Sequence[callables.Entry]) -> Callable[..., Any]:
    """Calls the entries with `count` values; MISS and LOST say that none answered."""
    made = callables.new(_native_type())
    names = [f"value{k}" for k in range(count)]
    callables.install(made, callables.Table(names, (), _missed, entries, plain=_lost))
    call: Callable[..., Any] = made
    return call


def _missed(self: Any, *args: Any, **kwargs: Any) -> Any:
    return MISS


def _lost(*args: Any, **kwargs: Any) -> Any:
    return LOST


_types: list[type] = []


def _native_type() -> type:
    """The type of such callables; made once."""
    if not _types:
        doc = "Native code over the parameters of a function."
        _types.append(callables.make_type(type("Native", (), {"__doc__": doc})))
    return _types[0]
