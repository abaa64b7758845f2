"""Hunts for wrong answers with random programs: `python -m tests.hunt --programs 1000 --seed 1`.

Every program is run plain, tailored and, from its captured graph, by the reference interpreter, on
equal arguments, several times with other values, sizes and layouts; `hunt_compare.py` says what
counts as the same. A failure is shrunk and printed as a
script that reproduces it. The programs run in a child process, so that a crash or a hang is a
failure like any other.

`--rows` tries each row of `hunt_rows.py` alone and lists what was not compiled, with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

import tailorbird as tb
from tailorbird import knobs
from tailorbird.capture import Captured, capture
from tailorbird.dispatch.signature import key_of
from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir import interp
from tailorbird.lower.program import PythonCall
from tests.hunt_compare import Noise, Outcome, difference, run
from tests.hunt_programs import Program, draw_program, load
from tests.hunt_rows import GROUPS
from tests.hunt_values import LAYOUTS, Spec, draw_sizes, make_arguments

BUGS = frozenset(("compile_failed", "capture_bug"))
WORK = 60  # seconds of work after which a program does not end
SLOW = (
    1.0  # seconds of NumPy's work from which a call is passed over, since it is run a dozen times
)
HANG = 600  # seconds of waiting
MEMORY = 6 << 30  # bytes; a program that needs more is passed over
NOISY_RUNS = 8
SHRINK = 30  # seconds


@dataclass(frozen=True)
class Call:
    """One call of a program: its parameters' layouts, its sizes and its values' seed."""

    specs: tuple[Spec, ...]
    sizes: dict[str, int]
    seed: int


@dataclass
class Report:
    """What happened to one program: a failure or nothing, and how it was run."""

    failure: str = ""
    call: int = 0
    tier: str = ""
    reasons: list[str] = field(default_factory=list)


def draw_calls(rng: Random, program: Program) -> list[Call]:
    """The first call, the same with other values, other sizes, other layouts."""
    big = rng.random() < 0.03
    first = draw_sizes(rng, big)
    specs = program.specs
    calls = [Call(specs, first, rng.randrange(1 << 30)), Call(specs, first, rng.randrange(1 << 30))]
    calls.append(Call(specs, draw_sizes(rng), rng.randrange(1 << 30)))
    if rng.random() < 0.3:
        other = tuple(replace(s, layout=rng.choice(LAYOUTS)) if s.dims else s for s in specs)
        calls.append(Call(other, draw_sizes(rng), rng.randrange(1 << 30)))
    return calls


class Interpreter:
    """A function captured for the arguments of one call."""

    def __init__(self, function: Any, arguments: dict[str, Any]) -> None:
        self.function = function
        self.keys = self.keys_of(arguments)
        self.captured: Captured | None = None
        with contextlib.suppress(Refused):  # then the plain function answers
            self.captured = capture(function, arguments)

    def keys_of(self, arguments: dict[str, Any]) -> list[Any]:
        """What the capture depends on: the kinds of the arguments, and which of them are one."""
        given = list(arguments.values())
        return [(key_of(x), [x is y for y in given]) for x in given]

    def run(self, arguments: dict[str, Any]) -> Outcome | None:
        """What the graph gives; None where a guard does not hold."""
        c = self.captured
        if c is None or c.graph is None or self.keys_of(arguments) != self.keys:
            return None
        if c.graph.finals and _overlapping(list(arguments.values())):
            return None
        values = [source.find(self.function, arguments, c.constants) for source in c.sources]
        try:
            result = interp.run(c.graph, values)
        except GuardMissed:
            return None
        return Outcome(_own(result, arguments), None, arguments)


def _overlapping(arguments: list[Any]) -> bool:
    """Whether two arrays may be one memory, which a guard keeps from a graph that writes."""
    arrays = [x for x in arguments if isinstance(x, np.ndarray)]
    pairs = [(x, y) for k, x in enumerate(arrays) for y in arrays[:k] if x is not y]
    return any(np.may_share_memory(x, y) for x, y in pairs)


def _own(result: Any, arguments: dict[str, Any]) -> Any:
    """Arrays as results of their own; the interpreter never writes, so its values share memory."""
    if isinstance(result, (tuple, list)):
        return type(result)(_own(x, arguments) for x in result)
    lent = any(result is x for x in arguments.values())
    return np.array(result) if isinstance(result, np.ndarray) and not lent else result


def check(program: Program, calls: list[Call]) -> Report:
    """Runs a program plain, tailored and interpreted, and compares."""
    plain = load(program.source)
    with knobs.scope(race=False, cache=False, background=False):
        tailored = tb.tailor(load(program.source), background=False)
        report = Report()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            first = calls[0]
            arguments = make_arguments(first.specs, first.sizes, first.seed)
            interpreter = Interpreter(plain, arguments)
            for number, call in enumerate(calls):
                report.failure = _check_call(program, plain, tailored, interpreter, call)
                report.call = number
                if report.failure:
                    break
    return _tiers(tailored, report)


def _check_call(
    program: Program, plain: Any, tailored: Any, interpreter: Interpreter, call: Call
) -> str:
    def arguments() -> dict[str, Any]:
        return make_arguments(call.specs, call.sizes, call.seed)

    @functools.cache
    def noisy() -> list[Outcome]:
        runs = NOISY_RUNS if program.noisy != program.source else 0
        return [run(load(program.noisy, **Noise(k).names), arguments()) for k in range(runs)]

    start = time.process_time()
    expected = run(plain, arguments())
    if isinstance(expected.error, (NameError, MemoryError)) or time.process_time() - start > SLOW:
        return ""
    found = run(lambda **kw: tailored(*kw.values()), arguments())
    if isinstance(found.error, MemoryError):
        return ""
    try:
        text = difference(expected, found, noisy)
        if text or expected.error is not None:
            return text
        meant = interpreter.run(arguments())
        text = difference(expected, meant, noisy) if meant is not None else ""
    except MemoryError:
        return ""
    return f"interpreter {text}" if text else ""


def _tiers(tailored: Any, report: Report) -> Report:
    """Fills in how the calls were answered; a bug that was caught is a failure too."""
    tiers = tailored._tiers
    whys = [record.why for record in tiers.records.values() if record.why is not None]
    report.reasons = [f"{w.code}: {w.text.split(';')[0]}" for w in whys]
    bugs = [w for w in whys if w.code in BUGS]
    if bugs and not report.failure:
        report.failure = f"bug: {bugs[0].text}"
    variants = tailored.variants
    if not variants:
        report.tier = "plain"
    else:
        steps = [step for v in variants for step in v.program.steps]
        report.tier = "opaque" if any(isinstance(s, PythonCall) for s in steps) else "native"
    return report


# Shrinking


def shrink(program: Program, calls: list[Call], fails: Callable[..., bool]) -> Any:
    """The smallest program and calls, found greedily, that still fail."""
    found = (program, calls)
    end = time.monotonic() + SHRINK
    going = True
    while going:
        going = False
        for candidate in _smaller(*found):
            if time.monotonic() < end and fails(*candidate):
                found = candidate
                going = True
                break
    return found


def _smaller(program: Program, calls: list[Call]) -> Iterator[tuple[Program, list[Call]]]:
    for k in range(len(calls)):
        if len(calls) > 1:
            yield program, calls[:k] + calls[k + 1 :]
    for most in (3, 9):
        if any(size > most for call in calls for size in call.sizes.values()):
            yield program, [_limited(call, most) for call in calls]
    for k in range(len(program.statements)):
        kept = program.statements[:k] + program.statements[k + 1 :]
        yield replace(program, statements=kept), calls
    for k, spec in enumerate(program.specs):
        if len(program.specs) > 1 and not any(other.alias == spec.name for other in program.specs):
            yield _without(program, calls, k)
    names = program.returns.strip("()[],").split(", ")
    made = [s.text.split(" = ")[0] for s in program.statements]
    for name in {*names, *(m for m in made if m.isidentifier())} - {program.returns}:
        if len(names) > 1 or name not in names:
            yield replace(program, returns=name), calls
    for k, call in enumerate(calls):
        for smaller in _simpler(call):
            yield program, [*calls[:k], smaller, *calls[k + 1 :]]


def _limited(call: Call, most: int) -> Call:
    return replace(call, sizes={name: min(size, most) for name, size in call.sizes.items()})


def _without(program: Program, calls: list[Call], k: int) -> tuple[Program, list[Call]]:
    fewer = replace(program, specs=program.specs[:k] + program.specs[k + 1 :])
    return fewer, [replace(c, specs=c.specs[:k] + c.specs[k + 1 :]) for c in calls]


def _simpler(call: Call) -> Iterator[Call]:
    for j, spec in enumerate(call.specs):
        for plainer in spec.simpler:
            yield replace(call, specs=(*call.specs[:j], plainer, *call.specs[j + 1 :]))
    for name, size in call.sizes.items():
        for less in sorted({2, 3, size // 2, size - 1}):
            if 0 < less < size:
                yield replace(call, sizes={**call.sizes, name: less})


def in_child(action: Callable[[], str]) -> str:
    """The text an action gives, run in a fork; a signal or a hang is text too."""
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        limit_time()
        os.close(end)
        try:
            os.write(start, action().encode()[:60_000])
        finally:
            os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as stream:
        text = stream.read().decode()
    status = os.waitpid(child, 0)[1]
    return f"crash: signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def limit_time() -> None:
    """From here on, so much work ends this process, and so much waiting, with a traceback."""
    faulthandler.register(signal.SIGXCPU, chain=True)
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + WORK
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
    faulthandler.dump_traceback_later(HANG, exit=True)


def kind_of(failure: str) -> str:
    """What shrinking must keep: the first word of a failure."""
    return failure.split(":")[0].split("[")[0].split(" ")[0]


def reproduction(program: Program, calls: list[Call], failure: str) -> str:
    """A failing program as a script."""
    imports = ["", "import tailorbird as tb", "from tailorbird import knobs", ""]
    lines = [f"# {failure}", program.source, *imports]
    lines.append("with knobs.scope(race=False, cache=False):")
    lines.append("    tailored = tb.tailor(program, background=False)")
    for call in calls:
        for way in ("program", "tailored"):
            made = make_arguments(call.specs, call.sizes, call.seed)
            texts = [_text_of(x) for x in made.values()]
            lines.append(f"    print({way}({', '.join(texts)}))")
        lines.append(f"    # {call}")
    return "\n".join(lines)


def _text_of(x: Any) -> str:
    if not isinstance(x, np.ndarray):
        return f"np.{x!r}" if isinstance(x, np.generic) and "np." not in repr(x) else repr(x)
    with np.printoptions(threshold=200, precision=20):
        return (
            f"np.{x!r}".replace("dtype=", "dtype=np.").replace("\n", "")
            if x.size < 200
            else repr(x)
        )


# Running


def draw(seed: int, index: int, rows: Any = None) -> tuple[Program, list[Call]]:
    """Program number `index` of a seed, and its calls."""
    rng = Random(f"{seed}/{index}")
    program = draw_program(rng, rows)
    return program, draw_calls(rng, program)


def minimal(program: Program, calls: list[Call], failure: str) -> str:
    """A reproduction of a failure, shrunk."""

    def fails(p: Program, c: list[Call]) -> bool:
        return kind_of(in_child(lambda: check(p, c).failure)) == kind_of(failure)

    program, calls = shrink(program, calls, fails)
    return reproduction(program, calls, in_child(lambda: check(program, calls).failure) or failure)


def work(seed: int, start: int, count: int) -> None:
    """The child: checks programs one by one and prints a line of JSON for each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for index in range(start, start + count):
        print(json.dumps({"at": index}), flush=True)
        limit_time()
        program, calls = draw(seed, index)
        report = check(program, calls)
        print(json.dumps({"index": index, **vars(report)}), flush=True)


def hunt(seed: int, first: int, programs: int, minutes: float) -> tuple[int, Counter, list[Any]]:
    """Runs children over the programs until done or out of time; tallies and failures."""
    end = time.monotonic() + 60 * minutes
    tally: Counter = Counter()
    failures: list[Any] = []
    index, seen = first, 0
    while index < first + programs and time.monotonic() < end:
        count = min(250, first + programs - index)
        command = [sys.executable, "-m", "tests.hunt", "--work", f"{seed},{index},{count}"]
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "TAILOR_CACHE": "0", "TAILOR_SOUND": "1"},
        )
        lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
        for line in lines:
            if "index" in line:
                _note(line, tally, failures)
        index += count
        if child.returncode:
            index = lines[-1]["at"] + 1 if lines and "at" in lines[-1] else index
            text = f"crash: {child.returncode} {child.stderr[-1500:]}"
            if child.returncode == -signal.SIGXCPU and not _ends_plain(seed, index - 1):
                tally["  plain NumPy does not end either"] += 1
            else:
                failures.append((index - 1, text))
        for number, failure in failures[seen:]:
            print(f"== {seed}/{number} {failure}", flush=True)
        seen = len(failures)
    return index - first, tally, failures


def _ends_plain(seed: int, index: int) -> bool:
    """Whether NumPy alone answers a program in time; LAPACK may not, given infinities."""
    command = [sys.executable, "-m", "tests.hunt", "--plain", f"{seed},{index}"]
    return subprocess.run(command, capture_output=True).returncode != -signal.SIGXCPU


def run_plain(seed: int, index: int) -> None:
    """The calls of a program, by NumPy alone."""
    limit_time()
    program, calls = draw(seed, index)
    for call in calls:
        run(load(program.source), make_arguments(call.specs, call.sizes, call.seed))


def _note(line: dict[str, Any], tally: Counter, failures: list[Any]) -> None:
    tally[line["tier"]] += 1
    if line["tier"] == "plain":
        tally.update(f"  {reason}" for reason in line["reasons"][:1])
    if line["failure"]:
        failures.append((line["index"], line["failure"]))


def try_rows(seed: int, each: int) -> None:
    """Each row alone: what was not compiled, and why."""
    rows = [row for _, group in GROUPS.values() for row in group]
    for number, row in enumerate(rows):
        tiers: Counter = Counter()
        for k in range(each):
            program, calls = draw(seed, number * each + k, [row])
            program = replace(program, statements=program.statements[:1])
            names = program.statements[0].text.split(" = ")[0] if program.statements else "x"
            program = replace(program, returns=names if names.isidentifier() else "x")
            report = check(program, calls[:1])
            why = f" {report.reasons[0]}" if report.reasons else ""
            tiers[report.tier + why] += 1
        print(f"{row.text!r:70} {dict(tiers)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first program's number")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--show", type=int, help="print this program instead of hunting")
    parser.add_argument("--shrink", type=int, help="shrink and print this program's failure")
    parser.add_argument("--most", type=int, default=5, help="how many failures to shrink")
    parser.add_argument("--rows", type=int, help="try each row alone, this many times")
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*map(int, options.work.split(",")))
    elif options.plain:
        run_plain(*map(int, options.plain.split(",")))
    elif options.rows:
        try_rows(options.seed, options.rows)
    elif options.show is not None:
        program, calls = draw(options.seed, options.show)
        print(reproduction(program, calls, in_child(lambda: check(program, calls).failure)))
    elif options.shrink is not None:
        show_failures(options.seed, [(options.shrink, "")], 1)
    else:
        done, tally, failures = hunt(options.seed, options.first, options.programs, options.minutes)
        show_failures(options.seed, failures, options.most)
        print(
            f"seed {options.seed}: {done} programs from {options.first}, {len(failures)} failures"
        )
        for what, count in sorted(tally.items(), key=lambda item: (item[0][0] == " ", -item[1])):
            print(f"{count:6} {what}")
        sys.exit(1 if failures else 0)


def show_failures(seed: int, failures: list[Any], most: int) -> None:
    """The first failures, shrunk."""
    for index, failure in failures[:most]:
        program, calls = draw(seed, index)
        failure = failure or in_child(lambda p=program, c=calls: check(p, c).failure)
        if failure:
            print(f"-- {seed}/{index}")
            print(minimal(program, calls, failure))


if __name__ == "__main__":
    main()
