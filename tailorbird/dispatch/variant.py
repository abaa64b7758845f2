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
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tailorbird.dataclass import dataclass, field
from tailorbird.dispatch import object as callables
from tailorbird.dispatch.leaf import (
    ARRAY,
    ASK,
    COUNTDOWN,
    HITS,
    INTEGER,
    OBJECTS,
    SCALAR,
    WEAK,
    ZERO_D,
    Leaf,
)
from tailorbird.dispatch.leaf import LOST as LOST_SIZES
from tailorbird.dispatch.outside import Outside
from tailorbird.dispatch.race import NATIVE, PLAIN, Heat
from tailorbird.dispatch.signature import layout
from tailorbird.reasons import Why

if TYPE_CHECKING:  # a variant from the disk needs none of these until somebody asks
    from tailorbird.ir.node import Graph
    from tailorbird.lower.program import Program

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


class Whole(NamedTuple):
    """What a graph was lowered to, and the text that was compiled."""

    program: Program
    ir: str


@dataclass(frozen=True)
class Recipe:
    """What a variant needs besides its code; plain enough to be kept on disk.

    `places` says where each leaf is among the values that native code takes; `objects` are what its
    context holds; `code` is the key of its code. `graph` and `whole` give what it was made from,
    which for a variant from the disk is made again when first asked for.
    """

    name: str
    results: Any
    leaves: list[Leaf]
    places: list[int]
    objects: list[Any]
    code: str
    graph: Callable[[], Graph]
    whole: Callable[[Graph], Whole]
    sizes: dict[str, int]  # of the call it was made for: schedules are chosen by them


@dataclass(eq=False, repr=False)
class Variant:
    """Compiled code for one graph and one set of layouts."""

    recipe: Recipe
    library: Any
    words: Any
    open: Any
    keep: list[Any]
    milliseconds: dict[str, float]
    heats: dict[int, Heat] = field(default_factory=dict)
    misses: int = 0
    reasons: list[Why] = field(default_factory=list)

    def __repr__(self) -> str:
        """One line, for lists of variants: the graph and the code would be pages."""
        guards = "; ".join(self.guards)
        return f"<variant {self.name}({guards}), {self.hits} hits, {self.misses} misses>"

    @property
    def name(self) -> str:
        """The function's."""
        return self.recipe.name

    @property
    def leaves(self) -> list[Leaf]:
        """How the values that native code takes look."""
        return self.recipe.leaves

    @property
    def places(self) -> list[int]:
        """Where each leaf is among those values."""
        return self.recipe.places

    @functools.cached_property
    def whole(self) -> Whole:
        """What it was made from."""
        return self.recipe.whole(self.graph)

    @functools.cached_property
    def graph(self) -> Graph:
        """The graph that was compiled."""
        return self.recipe.graph()

    @property
    def program(self) -> Program:
        """What the graph was lowered to."""
        return self.whole.program

    @property
    def ir(self) -> str:
        """The text that its code was compiled from."""
        return self.whole.ir

    @property
    def hits(self) -> int:
        """Calls that native code answered."""
        return int(self.words[HITS] + self.open[HITS])

    @property
    def groups(self) -> list[list[str]]:
        """The ops of each kernel."""
        from tailorbird.lower.kernel import Nest
        from tailorbird.lower.steps import inner_steps

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
            problem = problem_of(leaf, x)
            if problem:
                return problem
        from tailorbird.ir.interp import misfit

        return misfit(self.graph, found) or _overlap(self.leaves, found)

    def is_small_for(self, values: Sequence[Any]) -> bool:
        """Whether any size or integer is larger than all of those it was made for."""
        found = [values[at] for at in self.places]
        given = (n for x in found for n in (x.shape if type(x) is np.ndarray else (x,)))
        largest = max((n for n in given if type(n) is int), default=0)
        return largest > max(self.recipe.sizes.values(), default=0)

    def outgrown(self, values: Sequence[Any]) -> bool:
        """Whether code made for values of this size would let threads share more of it."""
        from tailorbird.ir.scope import sizes_of
        from tailorbird.lower.divide import outgrown

        found = [values[at] for at in self.places]
        return outgrown(self.program, sizes_of(self.graph, found))

    # -- the race

    def open_all(self) -> None:
        """Lets native code answer every size, without a race."""
        self.words[ASK] = 0
        self.words[COUNTDOWN] = NEVER

    def settle(self, size: int, winner: str, calls: int) -> None:
        """Who answers a size class from now on: native code, the plain function, or, when there
        is no winner, whomever the dispatcher names. It is asked anyway after so many calls.
        """
        _set_bit(self.words, ASK, size, winner not in (NATIVE, PLAIN))
        _set_bit(self.words, LOST_SIZES, size, winner == PLAIN)
        self.words[COUNTDOWN] = calls

    @property
    def is_due(self) -> bool:
        """Whether so many calls have passed."""
        return bool(self.words[COUNTDOWN] <= 0)

    def entry(self, words: Any) -> callables.Entry:
        """For a table: native code over the values it takes, in one of the two contexts."""
        return self.library.address("entry"), ctypes.addressof(words), (self.library, words, self)


def _set_bit(words: Any, word: int, bit: int, on: bool) -> None:
    mask = words[word] & (2**64 - 1)
    mask = mask | 1 << bit if on else mask & ~(1 << bit)
    words[word] = mask - 2**64 if mask >= 2**63 else mask


def problem_of(leaf: Leaf, x: Any) -> str:
    """Why a value is not such a leaf, in words; empty when it is."""
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
    from tailorbird.capture.finish import overlaps_itself

    arrays = [(leaf, x) for leaf, x in zip(leaves, found) if leaf.kind == ARRAY]
    for leaf, x in arrays:
        if leaf.written and overlaps_itself(x):
            return f"{leaf.name}, which is written, overlaps itself"
        for other, y in arrays:
            if leaf.written and other is not leaf and np.may_share_memory(x, y):
                return f"{leaf.name}, which is written, overlaps {other.name}"
    return ""


def make_variant(recipe: Recipe, library: Any, milliseconds: dict[str, float]) -> Variant:
    """Lays out both contexts; leaf k is the value at `places[k]`."""
    keep = [x.callable() if isinstance(x, Outside) else x for x in recipe.objects]
    words, opened = _context(keep), _context(keep)
    words[ASK], words[COUNTDOWN] = EVERYTHING, NEVER
    opened[COUNTDOWN] = NEVER
    return Variant(recipe, library, words, opened, keep, milliseconds)


def _context(keep: list[Any]) -> Any:
    words = (ctypes.c_int64 * (OBJECTS + len(keep) + 1))()
    for k, x in enumerate(keep):
        words[OBJECTS + k] = id(x)
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
