"""What the dispatcher keeps: variants with the way to their inputs, and what is known about a key.

In: a variant and its capture. Out: `Built`, whose entries go into the table of a callable, and
`Record`, the state of one key: variants, a refusal, or a build under way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tailorbird.dataclass import dataclass, field
from tailorbird.dispatch.entries_ir import MOST_LEAVES
from tailorbird.dispatch.fetch import fetched_entry, place_of
from tailorbird.dispatch.found import found_entry
from tailorbird.dispatch.object import Entry
from tailorbird.dispatch.race import PLAIN, Heat
from tailorbird.dispatch.trampoline import (
    BY_VALUE,
    Finder,
    is_direct,
    is_flat,
    make_finder,
    rebuild,
)
from tailorbird.dispatch.variant import Variant, native_callable
from tailorbird.ir.draws import take_back
from tailorbird.reasons import Why

PASSING = frozenset(("numpy_raises", "overlap", "budget"))  # depend on sizes or values of one call


@dataclass(eq=False)
class Built:
    """A variant with the way from the function's parameters to what its code takes.

    `entries` are for the table; `forced` runs native code whatever the race says, and gives MISS
    when a guard does not hold.
    """

    variant: Variant
    captured: Any
    finder: Finder
    entries: list[Entry]
    forced: Callable[..., Any]

    def is_like(self, variant: Variant, captured: Any) -> bool:
        """Whether this is the same code, with the same way to its inputs."""
        mine = self.captured
        return (
            self.variant.recipe.code == variant.recipe.code
            and mine.sources == captured.sources
            and _identical(self.variant.recipe.objects, variant.recipe.objects)
            and _identical([s for s, _ in mine.statics], [s for s, _ in captured.statics])
            and _identical([x for _, x in mine.statics], [x for _, x in captured.statics])
        )


def _identical(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y or (type(x) is type(y) and x == y) for x, y in zip(a, b))


def make_built(variant: Variant, captured: Any, function: Any, names: Sequence[str]) -> Built:
    """The entries of a variant over the parameters of its function."""
    direct = is_direct(captured)
    finder = make_finder(captured, function, names, direct)
    results = variant.recipe.results
    shape = None if is_flat(results) else functools.partial(rebuild, results)

    def place(source: Any) -> Any:
        return place_of(source, function, names, captured.constants)

    checks = [(place(source), wanted) for source, wanted in captured.statics]
    leaves = None if direct else [place(source) for source in captured.sources]
    native_way = None not in [*(p for p, _ in checks), *(leaves or ())]
    native_way = native_way and len(captured.sources) <= MOST_LEAVES
    # Native code compares by identity; texts may be equal without being the same.
    draws = any(("draws",) in source.steps for source in captured.sources)
    undo = take_back if draws else None
    by_value = any(isinstance(x, BY_VALUE) for _, x in captured.statics)

    def entries(words: Any) -> list[Entry]:
        native = variant.entry(words)
        if native_way and direct and shape is None and not checks:
            return [native]
        found = [fetched_entry(checks, leaves, native, shape)] if native_way else []
        if by_value or not native_way:
            found.append(found_entry(finder, len(names), native, shape, undo))
        return found

    forced = native_callable(len(names), entries(variant.open))
    return Built(variant, captured, finder, entries(variant.words), forced)


@dataclass
class Seen:
    """Plain runs of one size class before there was a race."""

    runs: int = 0
    best: float = float("inf")

    def note(self, seconds: float) -> None:
        self.runs += 1
        self.best = min(self.best, seconds)

    def heat(self) -> Heat:
        """A race that knows of these runs; a first one alone only warmed up."""
        heat = Heat()
        if self.runs:
            heat.note(PLAIN, self.best)
        if self.runs > 1 and not heat.plain:
            heat.note(PLAIN, self.best)
        return heat


@dataclass(eq=False)
class Record:
    """What is known about one key.

    `why` stands when such calls stay plain, `missed` when the last attempt at one more variant was
    refused. `outgrown` is a variant that was made for smaller calls than now come; `profiles` are
    the input profiles that variants were built for, `unlike` says that data of another one came.
    `ticket` is the worker's generation while a build is under way, `visits` counts the calls that
    asked while there was no variant.
    """

    built: list[Built] = field(default_factory=list)
    why: Why | None = None
    missed: Why | None = None
    ticket: int = 0
    attempts: int = 0
    outgrown: Built | None = None
    profiles: set[str] = field(default_factory=set)
    unlike: bool = False
    visits: int = 0
    plain: dict[int, Seen] = field(default_factory=dict)

    def wants_a_build(self) -> bool:
        """Whether nothing is built yet and it is time to try: at once, and after a refusal that
        may pass with this call at the 1st, 2nd, 4th, 8th ... visit.
        """
        if self.built:
            return False
        self.visits += 1
        if self.why is None:
            return True
        return self.why.code in PASSING and self.visits & (self.visits - 1) == 0

    def refuse(self, reason: Why) -> None:
        """Keeps a reason."""
        if self.built:
            self.missed = reason
        else:
            self.why = reason
