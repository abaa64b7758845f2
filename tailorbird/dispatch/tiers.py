"""What happens when no variant answers: bind, look up, build, race, or run the plain function.

    call -> entries (native) -> quick (native, leaves fetched by Python) -> answer (here)

Invariants:
- Every call is answered by exactly one run, native or plain, so that side effects happen once.
- The plain function answers while nothing is built, when a guard misses, when NumPy's errstate asks for exceptions, and whenever anything here
  goes wrong.
- Building happens once for a key and miss; a refusal is kept with its reason and not tried again.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailorbird import events, knobs
from tailorbird.dispatch import object as callables
from tailorbird.dispatch.plain import PlainEntry
from tailorbird.dispatch.race import Heat
from tailorbird.dispatch.signature import bucket, elements, key_of
from tailorbird.dispatch.trampoline import is_direct, make_finder, rebuild
from tailorbird.dispatch.variant import MISS, Variant
from tailorbird.dispatch.worker import WORKER
from tailorbird.errors import Refused, TailorbirdError
from tailorbird.reasons import Why, why

MOST_VARIANTS = 8  # of one key
SETTLED = 16  # plain answers in a row before the dispatcher steps aside
ASIDE = 0.05  # seconds of plain calls it steps aside for
REPORTING = frozenset(("raise", "call", "print", "log"))
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(eq=False)
class Built:
    """A variant with the way from the function's arguments to its leaves."""

    variant: Variant
    captured: Any
    finder: Callable[..., tuple[Any, ...] | None]
    direct: bool


@dataclass(eq=False)
class Record:
    """What is known about one key: variants, a refusal, or a build under way."""

    built: list[Built] = field(default_factory=list)
    why: Why | None = None
    pending: bool = False
    misses: int = 0
    plain: dict[int, float] = field(default_factory=dict)


Build = Callable[[Any, dict[str, Any], Sequence[str] | None], tuple[Variant, Any]]


class Tiers:
    """The state behind one tailored function."""

    def __init__(self, function: Any, build: Build, background: bool, race: bool) -> None:
        self.function = function
        self.build = build
        self.background = background
        self.race = race
        self.records: dict[Hashable, Record] = {}
        self.built: list[Built] = []
        self.quick: list[Built] = []
        self.lock = threading.RLock()
        self.in_a_row = 0
        self.plain_calls = 0
        self.signature = inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        self.names = tuple(p.name for p in parameters)
        self.simple = all(p.kind in POSITIONAL for p in parameters) and len(parameters) <= 64
        self.resting = PlainEntry(function, len(self.names)) if self.simple else None

    # -- the table of the callable

    def table(self, aside: bool = False) -> callables.Table:
        """Native entries first, then (when stepping aside) the plain function, then the dispatcher."""
        entries = [b.variant.entry for b in self.built if b.direct]
        if aside and self.resting is not None:
            entries.append(self.resting.entry)
        parameters = list(self.signature.parameters.values())
        if not self.simple:
            return callables.Table((), (), answer, [], positional=0)
        given = [p for p in parameters if p.default is not inspect.Parameter.empty]
        only = sum(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in parameters)
        defaults = tuple(p.default for p in given)
        return callables.Table(self.names, defaults, answer, entries, positional_only=only)

    # -- answering

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Parameter names to arguments; None when the call is wrong (the plain function says so)."""
        if self.simple and not kwargs and len(args) == len(self.names):
            return dict(zip(self.names, args))
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        return bound.arguments

    def answer(self, obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that no entry answered."""
        function = self.function
        if knobs.get("plain") or not REPORTING.isdisjoint(np.geterr().values()):
            return function(*args, **kwargs)
        bound = self.bind(args, kwargs)
        if bound is None:
            return function(*args, **kwargs)
        record = self.record_of(bound, obj)
        result = self.try_built(record, bound, args, kwargs)
        if result is MISS and self.may_build_more(record):
            self.request(record, bound, obj)
            result = self.try_built(record, bound, args, kwargs, record.built[:1])
        if result is not MISS:
            return result
        return self.run_plain(record, bound, obj, args, kwargs)

    def record_of(self, bound: dict[str, Any], obj: Any) -> Record:
        key = tuple(key_of(x) for x in bound.values())
        record = self.records.get(key)
        if record is None:
            with self.lock:
                record = self.records.setdefault(key, Record())
                if not record.built and record.why is None and not record.pending:
                    self.request(record, bound, obj)
        return record

    def may_build_more(self, record: Record) -> bool:
        """A guard missed: another variant may fit, up to a limit."""
        if not record.built or record.pending or record.why is not None:
            return False
        record.misses += 1
        if record.misses < MOST_VARIANTS:
            return True
        record.why = why("budget", name=self.function.__qualname__, budget="variants")
        return False

    def try_built(
        self,
        record: Record,
        bound: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        among: list[Built] | None = None,
    ) -> Any:
        for built in record.built if among is None else among:
            leaves = built.finder(*bound.values())
            if leaves is None:
                continue
            result = self.compete(record, built, leaves, bound, args, kwargs)
            if result is not MISS:
                return result
        return MISS

    def compete(
        self,
        record: Record,
        built: Built,
        leaves: tuple[Any, ...],
        bound: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Answers by native code or by the plain function, and times it while the race is open."""
        variant = built.variant
        size = bucket(sum(leaves[k].size for k in variant.arrays))
        heat = variant.heats.setdefault(size, Heat())
        if not self.race:
            heat.winner = "native"
        seen = record.plain.get(bucket(sum(elements(x) for x in bound.values())))
        if seen is not None and not heat.plain and not heat.winner:
            heat.note("plain", seen)
        runner = heat.next_runner()
        start = time.perf_counter()
        if runner == "native":
            result = variant.force(leaves)
            if result is MISS:
                return MISS
            variant.forced += 1
        else:
            result = self.function(*args, **kwargs)
        if not heat.winner:
            heat.note(runner, time.perf_counter() - start)
        if heat.winner:
            self.settle(variant, size, heat)
        if runner == "plain":
            self.step_aside(heat.plain)
            return result
        self.in_a_row = 0
        return rebuild(variant.graph, result)

    def settle(self, variant: Variant, size: int, heat: Heat) -> None:
        variant.settle(size, heat.winner == "native")
        if (
            heat.winner == "plain"
            and heat.native
            and not any(w.code == "not_faster" for w in variant.reasons)
        ):
            reason = why("not_faster", name=variant.name, size=2**size)
            variant.reasons.append(reason)
            events.record(
                "not_faster",
                variant.name,
                size=2**size,
                native=min(heat.native),
                plain=min(heat.plain),
            )

    def run_plain(
        self,
        record: Record,
        bound: dict[str, Any],
        obj: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        size = bucket(sum(elements(x) for x in bound.values()))
        start = time.perf_counter()
        result = self.function(*args, **kwargs)
        seconds = time.perf_counter() - start
        record.plain[size] = min(seconds, record.plain.get(size, seconds))
        self.plain_calls += 1
        if record.why is not None:
            self.step_aside([seconds], obj)
        return result

    def step_aside(self, seconds: list[float], obj: Any = None) -> None:
        """After many plain answers in a row, short calls go straight to the plain function for a while."""
        self.in_a_row += 1
        if self.in_a_row < SETTLED or self.resting is None or not seconds:
            return
        calls = min(4096, int(ASIDE / max(min(seconds), 1e-7)))
        if calls < SETTLED:
            return
        self.resting.rest(calls)
        if obj is not None and not any(
            e == self.resting.entry for e in callables.installed(obj).entries
        ):
            callables.install(obj, self.table(aside=True))

    # -- building

    def request(self, record: Record, bound: dict[str, Any], obj: Any) -> None:
        """Builds a variant for these arguments, now or behind the caller."""
        record.pending = True
        if self.background and knobs.get("background"):
            WORKER.submit(lambda: self.make(record, bound, obj))
        else:
            self.make(record, bound, obj)

    def make(self, record: Record, bound: dict[str, Any], obj: Any) -> None:
        """Builds and installs; every failure becomes a reason."""
        try:
            with self.lock:
                variant, captured = self.build(
                    self.function, bound, self.names if self.simple else None
                )
                if any(
                    b.variant.ir == variant.ir and b.variant.keep == variant.keep
                    for b in record.built
                ):
                    record.misses = MOST_VARIANTS
                    return
                direct = self.simple and is_direct(captured, self.names)
                finder = make_finder(captured, self.function, self.names, direct)
                built = Built(variant, captured, finder, direct)
                if not self.race:
                    variant.open_all()
                self.install(record, built, obj)
        except Refused as refused:
            record.why = refused.why
            events.record("refused", self.function.__qualname__, why=refused.why)
        except (TailorbirdError, RuntimeError, AssertionError, KeyError, MemoryError) as error:
            record.why = why("compile_failed", name=self.function.__qualname__, error=repr(error))
            events.record("compile_failed", self.function.__qualname__, error=repr(error))
            if knobs.get("strict"):
                raise
        finally:
            record.pending = False

    def install(self, record: Record, built: Built, obj: Any) -> None:
        record.built.insert(0, built)
        self.built.insert(0, built)
        if built.direct:
            callables.install(obj, self.table())
        else:
            self.quick = [b for b in self.built if not b.direct]


def answer(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The fallback of every tailored callable."""
    tiers: Tiers = obj._tiers
    if tiers.quick and not kwargs and len(args) == len(tiers.names):
        for built in tiers.quick:
            leaves = built.finder(*args)
            if leaves is None:
                continue
            result = built.variant.call(*leaves)
            if result is not MISS:
                return rebuild(built.variant.graph, result)
    return tiers.answer(obj, args, kwargs)
