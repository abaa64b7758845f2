"""The clock: interleaved rounds of calls, the garbage collector off.

In: entries, each a label, a callable and its arguments. Out: per label the median and the tenth
percentile of the time of one call, and how many rounds were measured.

Invariants:
- Every round times every entry once, in an order that rotates, so that a disturbance of the machine
  meets all entries alike and none profits from its place.
- A sample is a loop of enough calls to last `SAMPLE` seconds; the arguments are written out in the
  loop, so that nothing but the call (and about 10 ns of loop) is timed.
- A call in front of each sample is not timed: it finds the caches as others left them, which would
  weigh more on an entry of which a sample is fewer calls.
- With one thread the clock is the process's CPU time, which other processes on the machine disturb
  least; with more it is the wall clock, and the machine must be quiet.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

SAMPLE = 2e-3
MIN_ROUNDS = 7
MAX_ROUNDS = 2000
Clock = Callable[[], int]
CLOCKS: dict[str, Clock] = {"cpu": time.process_time_ns, "wall": time.perf_counter_ns}


@dataclass(frozen=True)
class Entry:
    """One candidate of a race."""

    label: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Timing:
    """Seconds per call over the rounds."""

    median: float
    p10: float
    rounds: int
    calls: int


def pin(threads: int) -> list[int]:
    """Keep this process on its first `threads` cores; which ones."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cores)
    return cores


def race(entries: Sequence[Entry], seconds: float, clock: str) -> dict[str, Timing]:
    """Time all entries against each other for about `seconds` in all."""
    tick = CLOCKS[clock]
    counts = [_calls_per_sample(entry, tick) for entry in entries]
    samples: list[list[float]] = [[] for _ in entries]
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        deadline = time.perf_counter() + seconds
        rounds = 0
        while rounds < MIN_ROUNDS or (time.perf_counter() < deadline and rounds < MAX_ROUNDS):
            for place in range(len(entries)):
                which = (place + rounds) % len(entries)
                samples[which].append(_sample(entries[which], counts[which], tick))
            rounds += 1
    finally:
        if collecting:
            gc.enable()
    return {
        entry.label: _summary(kept, count)
        for entry, kept, count in zip(entries, samples, counts, strict=True)
    }


def _summary(samples: list[float], calls: int) -> Timing:
    median, p10 = np.percentile(samples, [50, 10])
    return Timing(float(median), float(p10), len(samples), calls)


def _sample(entry: Entry, calls: int, tick: Clock) -> float:
    """Seconds per call over one loop of `calls` calls, after one that is not timed."""
    entry.function(*entry.arguments)
    loop = _loop(len(entry.arguments))
    return loop(entry.function, entry.arguments, calls, tick) / calls * 1e-9


def _calls_per_sample(entry: Entry, tick: Clock) -> int:
    """How many calls make a sample that is long against the clock's own cost."""
    calls = 1
    while True:
        spent = _sample(entry, calls, tick) * calls
        if spent >= SAMPLE or calls >= 1 << 20:
            return calls
        calls *= 2 if spent > SAMPLE / 8 else 4


@cache
def _loop(arity: int) -> Callable[[Callable[..., Any], tuple[Any, ...], int, Clock], int]:
    """A timing loop for functions of `arity` arguments, with the arguments as local names."""
    names = "".join(f"a{i}, " for i in range(arity))
    unpack = f"    {names}= arguments\n" if arity else ""
    source = (
        "def loop(function, arguments, calls, tick):\n"
        f"{unpack}"
        "    numbers = range(calls)\n"
        "    started = tick()\n"
        "    for _ in numbers:\n"
        f"        function({names})\n"
        "    return tick() - started\n"
    )
    made: dict[str, Any] = {}
    exec(source, made)
    return made["loop"]
