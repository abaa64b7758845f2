"""Hunts for programs with loops and branches that come out wrong: python -m tests.hunt_loops.

In: how many programs, and the first seed. Out: a count of what became of them, and the seeds that
went wrong. A program is captured at one call; its graph is verified, comes back from its text, and
is then run against the plain function on other data and sizes, bit for bit. With `--native` it is
compiled instead, and every call is compared, up to the rounding of sums.
"""

from __future__ import annotations

import argparse
import collections
import copy
import linecache
import random
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from capture_kit import captured, run_captured
from loop_programs import narrow, wide

import tailorbird as tb
from tailorbird import knobs
from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir.parse import parse
from tailorbird.ir.show import show
from tailorbird.ir.verify import verify

KINDS = {"narrow": narrow, "wide": wide}


def inputs(which):
    """The arguments of one call; the first is the one that is captured."""
    base = np.arange(8.0)
    calls = (
        lambda: [base / 4 - 0.5, np.cos(base), 8],
        lambda: [np.sin(base) * 2, base[::-1].copy() / 3, 8],
        lambda: [-np.ones(8), np.ones(8) * 3, 8],
        lambda: [np.cos(np.arange(11.0)) * 3, np.sin(np.arange(11.0)), 9],
    )
    return calls[which]()


def function_of(text, name):
    """The function `f` of a program, whose source can be found again."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"__name__": name}
    exec(compile(text, file, "exec"), space)
    return space["f"]


def equal(a, b):
    """Bit for bit, with NaN equal to NaN."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        same = isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        return same and np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and (a == b or (a != a and b != b))


def outcome(kind, seed):
    """What becomes of one program: a word, and more about it."""
    text = KINDS[kind](random.Random(seed))
    function = function_of(text, f"{kind}{seed}")
    try:
        function(*inputs(0))
    except Exception as error:  # noqa: BLE001 - a program that fails has nothing to compare
        return "raises", type(error).__name__
    try:
        found = captured(function, inputs(0))
    except Refused as refused:
        return "refused", refused.why.text
    verify(found.graph)
    shown = show(found.graph)
    if show(parse(shown)) != shown:
        return "WRONG", "the text does not come back"
    return compared(function, found)


def compared(function, found):
    ran = 0
    for which in range(4):
        mine, theirs = inputs(which), inputs(which)
        try:
            expected = function(*theirs)
        except Exception:  # noqa: BLE001 - other data may leave an array
            continue
        try:
            result = run_captured(found, function, mine)
        except GuardMissed as missed:
            if which == 0:
                return "left", str(missed)
            continue
        ran += 1
        if not equal(copy.deepcopy(expected), result) or not equal(theirs, mine):
            return "WRONG", f"call {which}: {expected!r} {theirs!r}\n{result!r} {mine!r}"
    return "right", str(ran)


def near(a, b):
    """Equal up to the rounding of sums, with NaN equal to NaN."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, (np.ndarray, float, np.floating)):
        same = type(a) is type(b) and np.shape(a) == np.shape(b)
        return same and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
    return type(a) is type(b) and a == b


def compiled(kind, seed):
    """What becomes of one program in native code: a word, and more about it."""
    function = function_of(KINDS[kind](random.Random(seed)), f"{kind}{seed}")
    tailored = tb.tailor(function, background=False)
    words = set()
    for which in range(4):
        mine, theirs = inputs(which), inputs(which)
        try:
            expected = function(*theirs)
        except Exception as error:  # noqa: BLE001 - native code must raise the same
            expected = type(error)
        try:
            result = tailored(*mine)
        except Exception as error:  # noqa: BLE001 - compared
            result = type(error)
        if not near(copy.deepcopy(expected), result) or not near(theirs, mine):
            return "WRONG", f"call {which}: {expected!r} {theirs!r}\n{result!r} {mine!r}"
        words.add("right" if tailored.variants else "refused")
    code = tailored.explain(*inputs(0)).reasons
    broken = any("bug of Tailorbird" in reason for reason in code)
    return ("CRASH" if broken else min(words)), "; ".join(code)


def hunt(kind, seeds, outcome=outcome):
    """Counts of what became of programs, and of the reasons for refusing."""
    counts, reasons = collections.Counter(), collections.Counter()
    for seed in seeds:
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                word, more = outcome(kind, seed)
        except Exception:  # noqa: BLE001 - reported with its seed
            word, more = "CRASH", traceback.format_exc(limit=-3)
        counts[word] += 1
        if word in ("WRONG", "CRASH"):
            print(word, kind, seed, more[:1200])
        if word == "refused":
            reasons[more.partition(";")[0]] += 1
        if time.perf_counter() - start > 5:
            print("slow", kind, seed, f"{time.perf_counter() - start:.1f} s")
    return counts, reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--native", action="store_true", help="compile and call, too")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.programs)
    for kind in KINDS if options.kind == "both" else (options.kind,):
        with knobs.scope(race=False, cache=False):
            counts, reasons = hunt(kind, seeds, compiled if options.native else outcome)
        print(kind, dict(counts))
        for reason, count in reasons.most_common(12):
            print(f"{count:6d} {reason}")


if __name__ == "__main__":
    main()
