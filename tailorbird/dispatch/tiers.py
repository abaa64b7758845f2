"""What happens when no entry answers a call: bind, look up, build, race, or run the plain function.

    call -> entries (native) -> plain function, where that is settled -> answer (here)

Invariants:
- Every call is answered by exactly one run, native or plain, so that side effects happen once.
- The plain function answers while nothing is built, when a guard misses, when NumPy's errstate asks
  for exceptions, and whenever anything here goes wrong.
- A call waits for a compiler only where that was asked for (`background=False`, `warm`).
- Building happens once for a key, and again when guards miss, up to a limit that native answers
  raise; a refusal is kept with its reason, and only one that may pass is tried again.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tailorbird import events, knobs
from tailorbird.assemble import memory, pool
from tailorbird.dispatch import object as callables
from tailorbird.dispatch.built import PASSING, Built, Record, Seen, make_built
from tailorbird.dispatch.race import NATIVE, PLAIN, Heat, Watch
from tailorbird.dispatch.signature import bucket, elements, key_of
from tailorbird.dispatch.trampoline import make_binder
from tailorbird.dispatch.variant import LOST, MISS, NEVER, Variant, native_callable
from tailorbird.dispatch.worker import WORKER
from tailorbird.errors import Refused, UsageError
from tailorbird.profile.look import profile_of
from tailorbird.reasons import Why, why

MOST_VARIANTS = 8  # of one key
MOST_PROFILES = 4  # that variants of one key are built for
MOST_KEYS = 64  # of one function
EARN = 1000  # native answers that allow one more attempt at a variant
SETTLED = 16  # plain answers in a row before the dispatcher steps aside
ASIDE = 0.05  # seconds of plain calls it steps aside for
MOST_ASIDE = 4096  # calls
PATIENCE = 60.0  # seconds that `warm` waits for builds that others asked for
REPORTING = frozenset(("raise", "call", "print", "log"))
STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Values = tuple[Any, ...]
Build = Callable[[Any, dict[str, Any], Sequence[str], bool], tuple[Variant, Any]]

_lock = threading.Lock()  # held for a moment
_building = threading.RLock()  # held while a variant is built
for _each in (_lock, _building):  # a fork waits, so that no child inherits one that is held
    os.register_at_fork(
        before=_each.acquire, after_in_parent=_each.release, after_in_child=_each.release
    )


class Call(NamedTuple):
    """One call: the arguments as they came, the values of all parameters, and the seconds that
    finding those takes each time.
    """

    args: Values
    kwargs: dict[str, Any]
    values: Values
    binding: float


class Tiers:
    """The state behind one tailored function."""

    def __init__(self, function: Any, build: Build, background: bool, race: bool) -> None:
        self.function = function
        self.build = build
        self.background = background
        self.race = race
        self.why: Why | None = None
        self.records: dict[Hashable, Record] = {}
        reason = why("many_kinds_of_call", name=function.__qualname__, count=MOST_KEYS)
        self.overflow = Record(why=reason)
        self.built: list[Built] = []
        self.in_a_row = 0
        self.rest = ctypes.c_int64(0)
        self.signature = inspect.signature(function, follow_wrapped=False)
        parameters = list(self.signature.parameters.values())
        self.names = tuple(p.name for p in parameters)
        self.binder = make_binder(function, self.signature)
        self.starred = any(p.kind in STARS for p in parameters)
        self.inner = native_callable(len(self.names), ()) if self.starred else None

    # -- the table of the callable

    def table(self) -> callables.Table:
        """Native entries, the plain function for when that is settled, and the dispatcher."""
        plain = {"plain": self.function, "rest": self.rest}
        if self.starred:  # such arguments are bound in Python
            return callables.Table((), (), answer_starred, (), **plain)
        parameters = self.signature.parameters.values()
        given = [callables.NO_DEFAULT if p.default is p.empty else p.default for p in parameters]
        return callables.Table(
            self.names,
            given,
            answer,
            [e for b in self.built for e in b.entries],
            positional=sum(p.kind is not p.KEYWORD_ONLY for p in parameters),
            positional_only=sum(p.kind is p.POSITIONAL_ONLY for p in parameters),
            **plain,
        )

    # -- answering

    def bind(self, args: Values, kwargs: dict[str, Any]) -> Values | None:
        """The values of all parameters; None when the call is wrong."""
        try:
            return self.binder(*args, **kwargs)
        except TypeError:
            return None

    def stays_plain(self) -> Why | None:
        """Why no call may be native just now."""
        if knobs.get("plain"):
            return why("switched_off", name="native code")
        if not REPORTING.isdisjoint(np.geterr().values()):
            return why("errstate")
        return self.why

    def answer(self, obj: Any, args: Values, kwargs: dict[str, Any]) -> Any:
        """A call that no entry answered."""
        start = time.perf_counter()
        values = self.bind(args, kwargs)
        binding = time.perf_counter() - start if self.starred else 0.0
        if values is None or self.stays_plain() is not None:
            return self.function(*args, **kwargs)
        call = Call(args, kwargs, values, binding)
        record = self.record_of(values)
        if record.wants_a_build():
            self.request(record, values, obj)
        result = self.try_built(record, call)
        if result is MISS and self.may_build_more(record) and self.request(record, values, obj):
            result = self.try_built(record, call)
        if record.outgrown is not None:
            self.grow(record, record.outgrown, values, obj)
        if record.unlike and not self.is_pending(record):
            record.unlike = False
            if len(record.profiles) < MOST_PROFILES:
                self.request(record, values, obj)
        return self.run_plain(record, call) if result is MISS else result

    def record_of(self, values: Values) -> Record:
        """What is known about calls like this one."""
        key = tuple(map(key_of, values))
        record = self.records.get(key)
        if record is None and len(self.records) >= MOST_KEYS:
            return self.overflow
        return record or self.records.setdefault(key, Record())

    def try_built(self, record: Record, call: Call) -> Any:
        for built in tuple(record.built):
            result = self.compete(record, built, call)
            if result is not MISS:
                return result
        return MISS

    def compete(self, record: Record, built: Built, call: Call) -> Any:
        """Answers by native code or by the plain function, and times it while the race is open."""
        variant = built.variant
        found = built.finder(*call.values)
        if found is None:
            return MISS
        if not self.race:
            return built.forced(*call.values)
        size = bucket(variant.elements(found))
        heat = variant.heats.get(size)
        if heat is None:
            if built is record.built[0] and built.variant.is_small_for(found):
                record.outgrown = built
            seen = record.plain.get(bucket(elements(call.values)), Seen())
            heat = variant.heats.setdefault(size, seen.heat())
        elif heat.winner and variant.is_due:
            heat.reopen()
            variant.settle(size, "", NEVER)
            record.unlike = profile_of(call.values) not in record.profiles
        return self.run_timed(built, size, heat, call)

    def run_timed(self, built: Built, size: int, heat: Heat, call: Call) -> Any:
        runner = heat.next_runner()
        if runner == PLAIN:
            memory.release()  # what native code recycles must not add to what plain code needs
        watch = Watch()
        if runner == NATIVE:
            result = built.forced(*call.values)
            if result is MISS:
                built.variant.misses += 1
                found = built.finder(*call.values)
                if found is None or built.variant.misfit(found):
                    return MISS
                return self.left_half_way(built.variant, size, heat, call, watch)
            self.in_a_row = 0
        else:
            result = self.function(*call.args, **call.kwargs)
        seconds = watch.seconds()
        if heat.note(runner, seconds + (call.binding if runner == NATIVE else 0.0)):
            self.settle(built.variant, size, heat)
        return result

    def left_half_way(
        self, variant: Variant, size: int, heat: Heat, call: Call, watch: Watch
    ) -> Any:
        """Native code found out while it ran that plain Python has to: that time counts as its own,
        so that where it happens often the plain function wins.
        """
        if heat.winner:
            heat.reopen()
            variant.settle(size, "", NEVER)
        try:
            return self.function(*call.args, **call.kwargs)
        finally:
            if heat.note(NATIVE, watch.seconds() + call.binding):
                self.settle(variant, size, heat)

    def settle(self, variant: Variant, size: int, heat: Heat) -> None:
        """Tells native code who answers, and others when it is not native code."""
        variant.settle(size, heat.winner, heat.pause())
        if heat.winner == PLAIN:
            native_us, plain_us = min(heat.native) * 1e6, min(heat.plain) * 1e6
            times = {"native_us": native_us, "plain_us": plain_us}
            events.record("not_faster", variant.name, size=2**size, **times)

    def run_plain(self, record: Record, call: Call) -> Any:
        size = bucket(elements(call.values))
        start = time.perf_counter()
        result = self.function(*call.args, **call.kwargs)
        seconds = time.perf_counter() - start
        record.plain.setdefault(size, Seen()).note(seconds)
        if record.why is not None or record.attempts >= MOST_VARIANTS:
            self.step_aside(seconds)
        return result

    def step_aside(self, seconds: float) -> None:
        """After many plain answers in a row the plain function is called directly for a while."""
        self.in_a_row += 1
        if self.in_a_row >= SETTLED:
            self.rest.value = min(MOST_ASIDE, int(ASIDE / max(seconds, 1e-7)))

    # -- building

    def may_build_more(self, record: Record) -> bool:
        """A guard missed: another variant may fit, up to a limit that native answers raise."""
        if not record.built or record.why is not None or self.is_pending(record):
            return False
        earned = sum(b.variant.hits for b in record.built) // EARN
        if record.attempts < MOST_VARIANTS + earned:
            return True
        name = self.function.__qualname__
        record.missed = why("many_variants", name=name, count=record.attempts)
        return False

    def is_pending(self, record: Record) -> bool:
        return record.ticket == WORKER.generation

    def request(self, record: Record, values: Values, obj: Any) -> bool:
        """Builds a variant for these arguments, now or behind the caller; whether it is done."""
        behind = self.background and knobs.get("background")
        with _lock:
            mine = not self.is_pending(record)
            if mine:
                record.ticket = WORKER.generation
        if not mine:
            if not behind:
                with _building:  # another thread is at it
                    pass
            return not behind
        if not behind:
            with _building, resting_collector():
                self.make(record, values, obj)
        elif not WORKER.submit(lambda: self.make(record, values, obj)):
            record.ticket = 0
        return not behind

    def grow(self, record: Record, built: Built, values: Values, obj: Any) -> None:
        """Builds another variant for larger calls, where threads could share more of them."""
        record.outgrown = None
        if pool.threads() == 1 or record.attempts >= MOST_VARIANTS // 2:
            return

        def look() -> None:
            found = built.finder(*values)
            if found is not None and built.variant.outgrown(found):
                self.request(record, values, obj)

        if self.background and knobs.get("background"):
            WORKER.submit(look)
        else:
            look()

    def make(self, record: Record, values: Values, obj: Any) -> None:
        """Builds and installs; every failure becomes a reason."""
        name = self.function.__qualname__
        try:
            with _building:
                profile = profile_of(values)
                known = not record.profiles or profile in record.profiles
                record.profiles.add(profile)
                record.attempts += known
                bound = dict(zip(self.names, values))
                variant, captured = self.build(self.function, bound, self.names, True)
                like = [b for b in record.built if b.is_like(variant, captured)]
                if like and captured.restored:
                    variant, captured = self.build(self.function, bound, self.names, False)
                    like = [b for b in record.built if b.is_like(variant, captured)]
                if like:
                    if known:
                        record.attempts = max(record.attempts, MOST_VARIANTS)
                    return
                if not self.race:
                    variant.open_all()
                self.install(record, make_built(variant, captured, self.function, self.names), obj)
        except Refused as refused:
            record.refuse(refused.why)
            events.record("refused", name, why=refused.why)
        except UsageError as error:
            record.refuse(why("wrong_setting", error=str(error).rstrip(".")))
        except Exception as error:
            record.refuse(why("compile_failed", name=name, error=repr(error)))
            events.record("compile_failed", name, error=repr(error))
            if knobs.get("strict"):
                raise
        finally:
            record.ticket = 0

    def install(self, record: Record, built: Built, obj: Any) -> None:
        """The newest is tried first; where one variant is pinned, the oldest. Of too many the
        oldest goes.
        """
        if len(record.built) >= MOST_VARIANTS:
            self.built.remove(record.built.pop(-1 if self.race else 0))
        for found in (record.built, self.built):
            found.insert(0 if self.race else len(found), built)
        record.why = None
        if self.inner is not None:
            entries = [e for b in self.built for e in b.entries]
            self.inner = native_callable(len(self.names), entries)
        else:
            callables.install(obj, self.table())

    def prepare(self, values: Values, obj: Any) -> tuple[Record, Built | None, str]:
        """Builds for such arguments in the foreground: the record, the variant that fits, or which
        guard does not hold.
        """
        record = self.record_of(values)
        if self.is_pending(record):
            WORKER.wait(PATIENCE)
        built, problem = self.fitting(record, values)
        passing = record.why is None or record.why.code in PASSING
        if built is None and passing and record.attempts < MOST_VARIANTS:
            with knobs.scope(background=False):
                self.request(record, values, obj)
            built, problem = self.fitting(record, values)
        return record, built, problem

    def fitting(self, record: Record, values: Values) -> tuple[Built | None, str]:
        """The variant that such arguments fit, or why they fit none."""
        problem = ""
        for built in tuple(record.built):
            found = built.finder(*values)
            problem = "a value that the code relies on has changed"
            if found is not None:
                problem = built.variant.misfit(found)
                if not problem:
                    return built, ""
        return None, problem


@contextmanager
def resting_collector() -> Iterator[None]:
    """Without the garbage collector, which goes through all that the compiler is made of again and
    again while that loads: a tenth of a first call.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def answer(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The fallback of tailored callables."""
    return obj._tiers.answer(obj, args, kwargs)


def answer_starred(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The fallback where the function takes *args or **kwargs: bind them, then try the entries."""
    tiers: Tiers = obj._tiers
    try:
        values = tiers.binder(*args, **kwargs)
    except TypeError:
        return tiers.function(*args, **kwargs)
    assert tiers.inner is not None
    result = tiers.inner(*values)
    if result is MISS:
        return tiers.answer(obj, args, kwargs)
    if result is LOST:
        tiers.step_aside(0.0)
        return tiers.function(*args, **kwargs)
    tiers.in_a_row = 0
    return result
