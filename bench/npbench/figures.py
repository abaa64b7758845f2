"""The figures that are asked for of the whole suite.

In: the entries and means of `summary`. Out: rows as `bench/targets.py` writes them. A preset that
was not measured gives no rows; a program that was not measured does not hold.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.npbench.summary import NEAR, OWN, is_right, measured_speedup
from bench.targets import at_least, at_most

Row = dict[str, Any]
RIGHT = 54
WHOLE = 50
AHEAD = 45
RIVALS = {"over_best": "", "over_best_partly": ", partial answers of peers counted"}
GEOMEANS = {"S": 12.0, "M": 10.0}
FIRST_MEDIAN_MS, FIRST_MAX_MS = 100.0, 1000.0
SECOND_MS = 20.0


def check(entries: list[Row], means: dict[str, dict[str, Row]]) -> list[Row]:
    """Every figure of the presets that were measured."""
    rows: list[Row] = []
    for preset, peers in means.items():
        here = [entry for entry in entries if entry["preset"] == preset and "own" in entry]
        if OWN in peers and here:
            rows += _of_preset(preset, here, peers)
    return rows


def _of_preset(preset: str, entries: list[Row], peers: dict[str, Row]) -> Iterator[Row]:
    ours = [entry["peers"][OWN] for entry in entries]
    yield at_least(f"{preset}: right answers", sum(map(is_right, ours)), RIGHT)
    whole = sum(bool(entry["own"].get("whole")) for entry in entries)
    yield at_least(f"{preset}: compiled whole", whole, WHOLE)
    if preset in GEOMEANS:
        mean = peers[OWN]["geomean"]
        yield at_least(f"{preset}: geomean over NumPy", mean, GEOMEANS[preset])
    if len(peers) > 1:
        for name, words in RIVALS.items():
            ahead = [e for e in entries if is_right(e["peers"][OWN]) and e[name] <= NEAR]
            yield at_least(f"{preset}: fastest or within 5 %{words}", len(ahead), AHEAD)
    slower = [e["program"] for e in entries if measured_speedup(e["peers"][OWN]) < 1 / NEAR]
    names = f" ({', '.join(slower)})" if slower else ""
    yield at_most(f"{preset}: slower than NumPy by more than 5 %{names}", len(slower), 0)
    yield from _calls(preset, entries)


def _calls(preset: str, entries: list[Row]) -> Iterator[Row]:
    """First calls; at larger presets the program itself takes most of them."""
    if preset != "S":
        return
    firsts = [entry["peers"][OWN]["first_ms"] for entry in entries if is_right(entry["peers"][OWN])]
    own = [entry["own"] for entry in entries]
    later = [o["second_first_ms"] - o["second_steady_ms"] for o in own if "second_first_ms" in o]
    if firsts:
        yield at_most("S: first call, ms, median", statistics.median(firsts), FIRST_MEDIAN_MS)
        yield at_most("S: first call, ms, largest", max(firsts), FIRST_MAX_MS)
    if later:
        what = "S: first call of a second process over a steady one, ms"
        yield at_most(f"{what}, median", statistics.median(later), SECOND_MS)
        yield at_most(f"{what}, largest", max(later), SECOND_MS)
