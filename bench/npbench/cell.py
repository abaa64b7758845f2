"""One cell: a program at a preset with one peer, measured in this process.

In: `python -m bench.npbench.cell JOB`, where JOB is a `Job` as JSON. Out: JSON lines in the job's
file, for every version a line when it starts and one with what was found.

Invariants:
- Thread counts are in the environment from the start: NumPy's BLAS reads them when it is imported,
  and more threads than cores spin against each other.
- The peer's first call comes before anything else; NumPy's answers, in the same process, after it.
- A sample is as many calls as last `SAMPLE` seconds, each timed alone, with the arguments that are
  written set back in between; what reading the clock costs is taken off.
- Samples of NumPy and of the peer alternate, and the speed-up is the median of those of each round;
  with threads there is a pause in between, so that threads of one that still spin do not weigh on
  the other.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SAMPLE = 2e-3
MOST_CALLS = 200  # of one sample
MIN_ROUNDS, MAX_ROUNDS = 5, 400
PATIENCE = 6  # times the seconds asked for, that the least number of rounds may take
PAUSE = 0.01
WARM_CALLS = 2
SECOND_CALLS = 8


@dataclass(frozen=True)
class Job:
    """What a cell measures."""

    checkout: str
    program: str
    preset: str
    peer: str
    out: str
    threads: int = 1
    seconds: float = 2.0
    all_variants: bool = False
    library: str = ""
    second: bool = False  # only the first call and a few more, for a process that finds a cache


class Caller:
    """Calls one version with the arguments set back every time."""

    def __init__(self, version: Any, before: Sequence[Any]) -> None:
        import numpy as np

        self.version = version
        self.before = before
        self.arrays = [k for k, value in enumerate(before) if isinstance(value, np.ndarray)]
        self.written = list(self.arrays)  # until it is known which
        self.values = list(before)
        for k in self.arrays:
            convert = version.convert
            self.values[k] = convert(before[k]) if convert else before[k].copy(order="K")
        if version.convert:
            version.wait([self.values[k] for k in self.arrays])

    def reset(self) -> list[Any]:
        """The arguments as they were."""
        if not self.version.functional:
            for k in self.written:
                self.values[k][...] = self.before[k]
        return self.values

    def call(self) -> Any:
        """One call, waited for."""
        return self.version.wait(self.version.call(*self.values))

    def seconds(self, tick: Callable[[], int]) -> float:
        """How long one call takes."""
        values, call, wait = self.reset(), self.version.call, self.version.wait
        start = tick()
        result = wait(call(*values))
        spent = tick() - start
        del result
        return spent * 1e-9

    def sample(self, calls: int, tick: Callable[[], int], clock: float) -> float:
        """Seconds per call over so many calls."""
        return max(sum(self.seconds(tick) for _ in range(calls)) / calls - clock, 1e-9)


class Cell:
    """The state of one measurement."""

    def __init__(self, job: Job) -> None:
        from bench.npbench.checkout import find_program

        self.job = job
        self.program = find_program(Path(job.checkout), job.program)
        self.before = self.program.arguments(job.preset)
        self.plain: Caller | None = None
        self.wanted: Any = None
        self.moves: dict[str, float] | None = None

    def emit(self, **row: Any) -> None:
        """One line for the runner."""
        with open(self.job.out, "a") as file:
            file.write(json.dumps(row) + "\n")

    def run(self) -> None:
        """All versions of the peer, or the second process alone."""
        from bench.npbench.versions import VERSIONS, Asked

        job = self.job
        start = time.perf_counter()
        asked = Asked(job.threads, job.all_variants, job.library)
        versions = VERSIONS[job.peer](self.program, asked)
        loading = (time.perf_counter() - start) * 1e3
        for version in versions:
            self.emit(version=version.name, status="start")
            if version.call is None:
                self.emit(version=version.name, status="failed", reason=version.error)
                continue
            measure = self.second if job.second else self.measure
            try:
                row = measure(version)
            except Exception as error:  # noqa: BLE001 - what a version raises is its result
                reason = f"{type(error).__name__}: {error}"
                self.emit(version=version.name, status="failed", reason=reason)
                continue
            self.emit(version=version.name, load_ms=loading, **row)

    def second(self, version: Any) -> dict[str, Any]:
        """The first call where compiled objects are on disk, and the best of a few after it."""
        caller = Caller(version, self.before)
        first = caller.seconds(time.perf_counter_ns)
        deadline = time.perf_counter() + self.job.seconds
        after = [caller.seconds(time.perf_counter_ns)]
        while len(after) < SECOND_CALLS and time.perf_counter() < deadline:
            after.append(caller.seconds(time.perf_counter_ns))
        return {"status": "right", "first_ms": first * 1e3, "steady_ms": min(after) * 1e3}

    def measure(self, version: Any) -> dict[str, Any]:
        """One version: first call, answers, warm-up, rounds, and answers once more."""
        caller = Caller(version, self.before)
        start = time.perf_counter()
        result = caller.call()
        first = time.perf_counter() - start
        verdict, found = self._judge(caller, result)
        del result
        assert self.plain is not None
        caller.written = self.plain.written = sorted({*self.wanted.written, *found.written})
        row: dict[str, Any] = {"first_ms": first * 1e3, "warm_calls": self._warm(caller)}
        row |= self._rounds(caller)
        caller.reset()
        again, _ = self._judge(caller, caller.call())
        notes = list(dict.fromkeys(verdict.notes + again.notes))
        row |= {"status": (verdict if again.right else again).status, "notes": notes}
        row["max_error"] = max(verdict.error, again.error)
        if self.job.peer == "tailorbird":
            from bench.npbench import own

            row |= own.facts(version.call, caller.reset())
        return row

    def _judge(self, caller: Caller, result: Any) -> tuple[Any, Any]:
        """Compares with NumPy, which runs here if it has not yet; the verdict and the answers."""
        from bench.npbench import answers
        from bench.npbench.versions import VERSIONS, Asked

        functional = caller.version.functional
        after = self.before if functional else caller.values
        found = answers.answers_of(self.before, after, result)
        if self.plain is None:
            self.plain = Caller(VERSIONS["numpy"](self.program, Asked())[0], self.before)
            given = self.plain.call()
            outputs = self.program.output_places
            self.wanted = answers.answers_of(self.before, self.plain.values, given, outputs)
        names, allowed = self.program.argument_names, self.program.tolerance
        strict = self.job.peer == "tailorbird"

        def judged(moves: dict[str, float]) -> Any:
            if functional:
                return answers.compare_functional(self.wanted, found, names, allowed, moves)
            return answers.compare(self.wanted, found, self.before, names, allowed, strict, moves)

        verdict = judged({})
        return (verdict if verdict.right else judged(self._moves())), found

    def _moves(self) -> dict[str, float]:
        """How far NumPy's answers move where its float arguments move by an ulp."""
        import numpy as np

        from bench.npbench import answers

        if self.moves is None:
            assert self.plain is not None
            before = [
                np.nextafter(x, np.inf) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
                for x in self.before
            ]
            near = Caller(self.plain.version, before)
            given = near.call()
            found = answers.answers_of(before, near.values, given)
            self.moves = self.wanted.apart(found, self.program.argument_names)
        return self.moves

    def _warm(self, caller: Caller) -> int:
        """Two calls; Tailorbird's until its race is settled and nothing more is built."""
        from bench.npbench import own

        seconds = caller.seconds(time.perf_counter_ns)
        calls = 1
        if self.job.peer != "tailorbird":
            for _ in range(WARM_CALLS - 1):
                caller.seconds(time.perf_counter_ns)
            return WARM_CALLS
        limit = time.perf_counter() + PATIENCE * max(self.job.seconds, seconds)
        while calls < own.MOST_CALLS and time.perf_counter() < limit:
            built = len(caller.version.call.variants)
            caller.seconds(time.perf_counter_ns)
            calls += 1
            steady = built == len(caller.version.call.variants)
            if calls >= own.LEAST_CALLS and steady and own.is_settled(caller.version.call):
                break
        return calls

    def _rounds(self, caller: Caller) -> dict[str, Any]:
        """Medians of the peer and of NumPy, turn by turn."""
        import numpy as np

        from bench.npbench.busy import Others
        from bench.timing import CLOCKS

        assert self.plain is not None
        job = self.job
        tick = CLOCKS["cpu" if job.threads == 1 else "wall"]
        clock = _clock_cost(tick)
        sides = [caller] if job.peer == "numpy" else [self.plain, caller]
        counts = [_calls(side, tick) for side in sides]
        samples: list[list[float]] = [[] for _ in sides]
        others = Others()
        gc.collect()
        gc.disable()
        begin = time.perf_counter()
        rounds = 0
        while _goes_on(rounds, time.perf_counter() - begin, job.seconds):
            for place in range(len(sides)):
                which = (place + rounds) % len(sides)
                if job.threads > 1:
                    time.sleep(PAUSE)
                samples[which].append(sides[which].sample(counts[which], tick, clock))
            rounds += 1
        gc.enable()
        plain, mine = np.array(samples[0]), np.array(samples[-1])
        low, middle = np.percentile(mine, [10, 50])
        row = {"median_ms": middle * 1e3, "p10_ms": low * 1e3, "numpy_ms": np.median(plain) * 1e3}
        # Of each round by itself, for what disturbs the machine lasts longer than a round.
        row |= {"speedup": np.median(plain / mine), "rounds": rounds}
        return {**row, "calls": counts[-1], "other_cores_busy": others.cores()}


def _goes_on(rounds: int, spent: float, seconds: float) -> bool:
    if rounds < 2:
        return True
    if rounds < MIN_ROUNDS:
        return spent < PATIENCE * seconds
    return spent < seconds and rounds < MAX_ROUNDS


def _calls(caller: Caller, tick: Callable[[], int]) -> int:
    """How many calls make a sample."""
    once = min(caller.seconds(tick) for _ in range(2)) if caller.seconds(tick) < SAMPLE else SAMPLE
    return max(1, min(MOST_CALLS, round(SAMPLE / max(once, 1e-7))))


def _clock_cost(tick: Callable[[], int]) -> float:
    """Seconds between two readings of the clock with nothing in between."""
    gaps = []
    for _ in range(200):
        start = tick()
        gaps.append(tick() - start)
    return sorted(gaps)[len(gaps) // 2] * 1e-9


def main(text: str) -> None:
    """Measure a job."""
    job = Job(**json.loads(text))
    assert os.environ["OMP_NUM_THREADS"] == str(job.threads), "read when NumPy is imported"
    from bench import timing

    timing.pin(job.threads)
    Cell(job).run()


def command(job: Job) -> list[str]:
    """The command line that measures a job."""
    return [sys.executable, "-m", "bench.npbench.cell", json.dumps(asdict(job))]


if __name__ == "__main__":
    main(sys.argv[1])
