"""Hunts for programs with loops and branches that come out wrong: python -m tests.hunt_loops.

In: how many programs, and the first seed. Out: a count of what became of them, and the seeds that
went wrong. A program is captured at one call; its graph is then run against the plain function on
other data and sizes, bit for bit. With `--native` it is compiled instead, and every call is
compared, up to the rounding of sums; some calls pass one array twice, arrays that overlap, steps,
and arrays that end before the program does. Most of a compilation is LLVM's optimisation of what it
was given, so that only some programs have that, and others the level of LLVM that has none. A
program that is refused is counted by the code of its reason. Programs run in child processes, so
that a crash or a hang is a find like any other.
"""

from __future__ import annotations

import argparse
import collections
import copy
import faulthandler
import functools
import json
import linecache
import os
import random
import resource
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from capture_kit import captured, run_captured
from loop_programs import HELPERS, narrow, wide
from rich_programs import rich

import tailorbird as tb
from tailorbird import knobs
from tailorbird.assemble import jit
from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir.parse import parse
from tailorbird.ir.show import show

KINDS = {"narrow": narrow, "wide": wide, "rich": rich}
HANG = 300  # seconds for one program
MEMORY = 6 << 30
SOMETIMES = 8  # of so many programs one is captured twice, and its graph read from its text; one
# that is compiled is compiled as it would be for users
AT_ONCE = 500  # programs for one child
APART, CALLS = 4, 8  # calls without and with arguments that overlap, steps, and short arrays


def inputs(which, kind="narrow"):
    """The arguments of one call; the first is the one that is captured."""
    a, b, n = vectors(which)
    if kind != "rich":
        return [a, b, n]
    size = len(a)
    count = np.arange(size)
    k = (count * 5 + which) % 7 - which
    m = (count * 3 + which) % 4 < 2
    z = np.exp(1j * count) * (1 + 0.1 * count) * (which + 1)  # no two of one size
    g = np.cos(np.arange(size * size) * 0.7 + which).reshape(size, size) * 2
    if which == 6:
        k, m, z, g = np.repeat(k, 2)[::2], m[::-1], np.repeat(z, 3)[::3], g.T
    return [a, b, k, m, z, g, n]


def vectors(which):
    base = np.arange(8.0)
    once, both = np.sin(base) * 3, np.cos(np.arange(12.0)) * 2
    calls = (
        lambda: [base / 4 - 0.5, np.cos(base), 8],
        lambda: [np.sin(base) * 2, base[::-1].copy() / 3, 8],
        lambda: [-np.ones(8), np.ones(8) * 3, 8],
        lambda: [np.cos(np.arange(11.0)) * 3, np.sin(np.arange(11.0)), 9],
        lambda: [once, once, 8],
        lambda: [both[:8], both[3:11], 8],
        lambda: [np.repeat(once, 2)[::2], once[::-1], 8],
        lambda: [once[:3].copy(), once[3:6].copy(), 3],
    )
    return calls[which]()


def names_of(text, name, known=()):
    """What a text defines; its source can be found again."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {**dict(known), "__name__": name}
    exec(compile(text, file, "exec"), space)
    return space


@functools.cache
def helpers():
    return names_of(HELPERS, "helpers")


def function_of(text, name):
    """The function `f` of a program."""
    return names_of(text, name, helpers())["f"]


def equal(a, b):
    """Bit for bit, with NaN equal to NaN."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        same = isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        return same and np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and (a == b or (a != a and b != b))


def program(kind, seed):
    return function_of(KINDS[kind](random.Random(seed)), f"{kind}{seed}")


def plainly(function, arguments):
    """What the plain function gives, or the type of what it raises."""
    try:
        return copy.deepcopy(function(*arguments))
    except Exception as error:  # noqa: BLE001 - compared
        return type(error)


def outcome(kind, seed):
    """What becomes of one program: a word, and more about it."""
    function = program(kind, seed)
    found = plainly(function, inputs(0, kind))
    if isinstance(found, type):
        return "raises", found.__name__
    try:
        found = captured(function, inputs(0, kind))
    except Refused as refused:
        return "refused", named(refused.why)
    if seed % SOMETIMES == 0:
        shown = show(found.graph)
        if show(parse(shown)) != shown:
            return "WRONG", "the text does not come back"
        if show(captured(function, inputs(0, kind)).graph) != shown:
            return "WRONG", "the text of a second capture is another"
    return compared(function, found, kind)


def named(why):
    return f"{why.code}: {why.text}"


def compared(function, found, kind):
    ran = 0
    for which in range(APART):
        mine, theirs = inputs(which, kind), inputs(which, kind)
        expected = plainly(function, theirs)
        try:
            result = run_captured(found, function, mine)
        except GuardMissed as missed:
            if which == 0:
                return "left", f"guard: {missed}"
            continue
        ran += 1
        if not equal(expected, result) or not equal(theirs, mine):
            return "WRONG", f"call {which}: {expected!r} {theirs!r}\n{result!r} {mine!r}"
    return "right", str(ran)


def near(a, b):
    """Equal, floats up to the rounding of sums, with NaN equal to NaN."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(near, a, b))
    if type(a) is not type(b) or np.asarray(a).dtype.kind not in "fc":
        return equal(a, b)
    same = np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
    return same and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


def compiled(kind, seed):
    """What becomes of one program in native code: a word, and more about it."""
    function = program(kind, seed)
    tailored = tb.tailor(function, background=False)
    words = set()
    for which in range(CALLS):
        mine, theirs = inputs(which, kind), inputs(which, kind)
        expected, result = plainly(function, theirs), plainly(tailored, mine)
        if not near(expected, result) or not near(theirs, mine):
            return "WRONG", f"call {which}: {expected!r} {theirs!r}\n{result!r} {mine!r}"
        words.add("right" if tailored.variants else "refused")
    records = tailored._tiers.records.values()
    whys = [record.why for record in records if record.why is not None]
    broken = [why for why in whys if why.code in ("capture_bug", "compile_failed")]
    return ("CRASH" if broken else min(words)), "; ".join(map(named, broken or whys))


def at_level(level):
    """`compiled`, with code generated at a level of LLVM."""
    compile_object = jit.compile_object

    def run(kind, seed):
        jit.compile_object = lambda ir, target=None, _=level: compile_object(ir, target, level)
        try:
            return compiled(kind, seed)
        finally:
            jit.compile_object = compile_object

    return run


def judged(kind, seed, outcome):
    """The outcome of one program, an exception of ours included."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return outcome(kind, seed)
    except Exception:  # noqa: BLE001 - reported with its seed
        return "CRASH", traceback.format_exc(limit=-3)


class Tally:
    """What became of programs, and why some were refused."""

    def __init__(self):
        self.counts, self.reasons = collections.Counter(), collections.Counter()
        self.slowest = (0.0, -1)

    def add(self, kind, seed, word, more, seconds=0.0):
        self.counts[word] += 1
        self.slowest = max(self.slowest, (seconds, seed))
        if word in ("WRONG", "CRASH", "DIED"):
            print(word, kind, seed, more[:1200], flush=True)
        if word in ("refused", "left", "raises"):
            self.reasons[f"{word} {more.partition(':')[0]}"] += 1
        if seconds > 5:
            print("slow", kind, seed, f"{seconds:.1f} s", flush=True)

    def show(self, kind):
        print(kind, dict(self.counts), "slowest: {:.1f} s, seed {}".format(*self.slowest))
        for reason, count in self.reasons.most_common():
            print(f"{count:6d} {reason}")


def hunt(kind, seeds, outcome=outcome):
    """Counts of what became of programs, in this process."""
    tally = Tally()
    for seed in seeds:
        tally.add(kind, seed, *judged(kind, seed, outcome))
    return tally.counts, tally.reasons


def work(kind, first, count, native):
    """The child: a line of JSON before and after each program. What dies when LLVM does nothing to
    the code, which it cannot for all vectors, is run alone as users have it.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with knobs.scope(race=False, cache=False):
        for seed in range(first, first + count):
            print(json.dumps([seed]), flush=True)
            faulthandler.dump_traceback_later(HANG, exit=True)
            start = time.process_time()
            full = count == 1 or seed % SOMETIMES == 0
            way = at_level(jit.LEVEL if full else jit.QUICK) if native else outcome
            word, more = judged(kind, seed, way)
            faulthandler.cancel_dump_traceback_later()
            seconds = time.process_time() - start
            print(json.dumps([seed, word, more[:1500], seconds]), flush=True)


def apart(kind, seeds, native):
    """The tally of programs that children run."""
    tally, at, alone = Tally(), seeds.start, False
    while at < seeds.stop:
        count = 1 if alone else min(AT_ONCE, seeds.stop - at)
        command = [sys.executable, "-m", "tests.hunt_loops", "--work", f"{at},{count}"]
        command += ["--kind", kind, *(["--native"] if native else [])]
        child = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "TAILOR_CACHE": "0"}
        )
        lines = [json.loads(line) for line in child.stdout.splitlines() if line[:1] == "["]
        for line in lines:
            if len(line) > 1:
                tally.add(kind, *line)
        at += count
        if child.returncode:
            at, more = lines[-1][0], f"{child.returncode} {child.stderr[-1000:]}"
            if alone or not native:
                tally.add(kind, at, "DIED", more)
                at += 1
            else:
                print("alone now", kind, at, more, flush=True)
        alone = native and bool(child.returncode) and not alone
    return tally


def main():
    os.environ.setdefault("TAILOR_SOUND", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--native", action="store_true", help="compile and call, too")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.kind, *map(int, options.work.split(",")), options.native)
        return
    seeds = range(options.seed, options.seed + options.programs)
    for kind in KINDS if options.kind == "all" else (options.kind,):
        apart(kind, seeds, options.native).show(kind)


if __name__ == "__main__":
    main()
