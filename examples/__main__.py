"""`python -m examples [NAME...] [--scale N] [--why]`: which programs are compiled, and how fast.

In: names of programs; all of them if none is given. Out: a line each: who answers, how many
operations are left to Python, the time of the first call, milliseconds plain and tailored, the
ratio, and the first reason where not all is native.

Invariants: compiling happens in the first call; NumPy and the tailored function run in turns, with
arguments made anew outside the clock, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples import Example, load, names

SECONDS = 0.3  # of turns, for each program
LEAST_TURNS = 8  # until a race can be settled
LONGEST = 90
FOLDER = f"{Path(__file__).resolve().parent}{os.sep}"


@dataclass(frozen=True)
class Found:
    """What there is to say about one program."""

    name: str
    tier: str
    left: int
    first: float
    plain: float
    tailored: float
    reasons: list[str]

    @property
    def whole(self) -> bool:
        """Whether native code answers without Python."""
        return self.tier != "plain" and not self.left


def measure(example: Example, scale: int, seconds: float = SECONDS) -> Found:
    """One program at one scale."""
    import tailorbird as tb

    made = example.make_arguments(scale)
    tailored = tb.tailor(example.main, background=False)
    first = _time(tailored, made)
    plain, ours = [_time(example.main, made)], [_time(tailored, made)]
    deadline = time.perf_counter() + seconds
    while len(ours) < LEAST_TURNS or time.perf_counter() < deadline:
        plain.append(_time(example.main, made))
        ours.append(_time(tailored, made))
    said = tailored.explain(*made)
    left = sum(label == "call" for label, _ in said.lines)
    tier = said.tier.split(",")[0] if said.lines else "plain"
    tier += ", slower" if said.lines and said.tier.startswith("plain") else ""
    return Found(example.name, tier, left, first, min(plain), min(ours), list(said.reasons))


def _time(call: Callable[..., Any], made: tuple[Any, ...]) -> float:
    arguments = copy.deepcopy(made)
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def line(found: Found, why: bool) -> str:
    """A program for people."""
    left = str(found.left) if found.left else ""
    text = f"{found.name:20} {found.tier:15} {left:>4} {found.first * 1e3:8.1f}"
    text += f" {found.plain * 1e3:9.3f} {found.tailored * 1e3:9.3f}"
    text += f" {found.plain / found.tailored:7.2f}x"
    reasons = [] if found.whole else found.reasons if why else found.reasons[:1]
    short = [reason.replace(FOLDER, "") for reason in reasons]
    short = [reason if why else reason[:LONGEST] for reason in short]
    return text + "".join(f"\n      {reason}" for reason in short)


def main() -> None:
    """Print the listing."""
    parser = argparse.ArgumentParser(prog="python -m examples")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names())}")
    parser.add_argument("--scale", type=int, default=3)
    parser.add_argument("--why", action="store_true", help="all reasons, in full")
    asked = parser.parse_args()
    os.environ.setdefault("TAILOR_THREADS", "1")
    heads = ("program", "who answers", "left", "first ms", "plain ms", "ms", "ratio")
    print("{:20} {:15} {:>4} {:>8} {:>9} {:>9} {:>8}".format(*heads))
    found = []
    for name in asked.names or names():
        found.append(measure(load(name), asked.scale))
        print(line(found[-1], asked.why), flush=True)
    whole = sum(row.whole for row in found)
    print(f"{whole} of {len(found)} compiled whole")


if __name__ == "__main__":
    main()
