"""The figures that are asked for, checked against a suite's results.

In: the dict of a suite. Out: one row per figure: what, the limit, what was measured, whether it
holds. A figure about a peer that was not measured gives no row, so that nothing holds by absence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.suites.reductions import FLAT_FIGURES, FLAT_FUNCTIONS, ROW_FIGURES, ROW_FUNCTIONS

Row = dict[str, Any]
OWN = "tailorbird"
SLACK = 1.05

# dtype -> {size: how many times faster than NumPy}
CHAIN_SPEEDUPS = {
    "float32": {10_000: 4.0, 1_000_000: 8.0, 10_000_000: 8.0},
    "float64": {10_000: 3.0, 1_000_000: 5.0, 10_000_000: 5.0},
}
OVERHEAD_SHARES = {"numpy": 0.15, "numba": 0.25}
# function -> {against whom: how many times faster on data that has the property}
DATA_SPEEDUPS = {
    "x @ w, 0.1 not 0": {"dense peer": 2.0},
    "x @ w, 0.01 not 0": {"dense peer": 15.0},
    "x @ w, 0.001 not 0": {"dense peer": 40.0},
    "tone of an image": {"numpy": 10.0, "peer": 3.0},
    "exp, sin, tanh of an image": {"numpy": 10.0, "peer": 3.0},
    "sort": {"numpy": 15.0},
    "unique": {"numpy": 15.0},
}
COMPILE_CPU_MS = 40.0
START_WALL_MS = 150.0


def check(suite: str, results: dict[str, Any]) -> list[Row]:
    """Every figure of a suite."""
    return list(CHECKS[suite](results))


def at_most(what: str, measured: float, limit: float) -> Row:
    """A row that holds when the measurement is not above the limit."""
    return {"what": what, "limit": limit, "measured": measured, "holds": measured <= limit}


def at_least(what: str, measured: float, limit: float) -> Row:
    """A row that holds when the measurement is not below the limit."""
    return {"what": what, "limit": limit, "measured": measured, "holds": measured >= limit}


def _medians(case: Row) -> dict[str, float]:
    """Median times of the peers of one case whose answers agree."""
    return {label: row["median"] for label, row in case["times"].items() if row["agrees"]}


def _never_slower(cases: list[Row]) -> Iterator[Row]:
    for case in cases:
        times = _medians(case)
        if OWN in times and "numpy" in times:
            ratio = times[OWN] / times["numpy"]
            yield at_most(f"{case['case']}: time over NumPy's", ratio, SLACK)


def _ahead(case: Row, slack: float) -> Iterator[Row]:
    times = _medians(case)
    others = {label: time for label, time in times.items() if label not in (OWN, "numpy")}
    if OWN in times and others:
        best = min(others, key=lambda label: others[label])
        ratio = times[OWN] / others[best]
        yield at_most(f"{case['case']}: time over the best peer's ({best})", ratio, slack)


def _overhead(results: dict[str, Any]) -> Iterator[Row]:
    for case in results["cases"]:
        times = _medians(case)
        if case["size"] == 10 and OWN in times:
            for peer, share in OVERHEAD_SHARES.items():
                if peer in times:
                    ratio = times[OWN] / times[peer]
                    yield at_most(f"{case['case']}: time over {peer}'s", ratio, share)
    yield from _never_slower(results["cases"])


def _chain(results: dict[str, Any]) -> Iterator[Row]:
    for case in results["cases"]:
        times = _medians(case)
        wanted = CHAIN_SPEEDUPS[case["dtype"]].get(case["size"])
        if wanted and OWN in times and "numpy" in times:
            ratio = times[OWN] / times["numpy"]
            yield at_most(f"{case['case']}: {wanted:g}x NumPy", ratio, 1 / wanted)
        if case["size"] >= 10:
            yield from _ahead(case, 1.0)
    yield from _never_slower(results["cases"])


def _reductions(results: dict[str, Any]) -> Iterator[Row]:
    figures: set[tuple[str, tuple[int, ...]]] = set()
    figures |= {(name, shape) for name in ROW_FUNCTIONS for shape in ROW_FIGURES}
    figures |= {(name, (size,)) for name in FLAT_FUNCTIONS for size in FLAT_FIGURES}
    for case in results["cases"]:
        if (case["function"], tuple(case["shape"])) in figures:
            yield from _ahead(case, SLACK)
    yield from _never_slower(results["cases"])


def _products(results: dict[str, Any]) -> Iterator[Row]:
    yield from _never_slower(results["cases"])


def _cold(results: dict[str, Any]) -> Iterator[Row]:
    probes = results["probes"]
    if OWN in probes["compile"]:
        spent = probes["compile"][OWN]["cpu_ms"]
        yield at_most("cold compile of ten operations, CPU ms", spent, COMPILE_CPU_MS)
    if "start" in probes:
        spent = probes["start"]["wall_ms"]
        yield at_most("import and first call from the disk cache, ms", spent, START_WALL_MS)
    if "shapes" in probes:
        count = probes["shapes"]["compilations"] or probes["shapes"]["variants"]
        yield at_most("compilations for a hundred shapes", count, 1)


def _memory(results: dict[str, Any]) -> Iterator[Row]:
    for case, kinds in results["probes"].items():
        if "tailored" in kinds:
            plain = kinds["plain"]["growth_mib"]
            grown = kinds["tailored"]["growth_mib"]
            # Half a MiB of either side is the interpreter's own.
            yield at_most(f"{case}: peak growth, MiB", grown, plain + 0.5)


def _data(results: dict[str, Any]) -> Iterator[Row]:
    for case in results["cases"]:
        times, wanted = _medians(case), DATA_SPEEDUPS.get(case["function"], {})
        if OWN not in times or "numpy" not in times:
            continue
        others = {label: time for label, time in times.items() if label not in (OWN, "numpy")}
        compared = {"numpy": times["numpy"]} | ({"peer": min(others.values())} if others else {})
        if "dense peer" in wanted:
            dense = [time for label, time in times.items() if label not in (OWN, "scipy.sparse")]
            compared["dense peer"] = min(dense)
        for against, factor in wanted.items():
            if case["has"] and against in compared:
                what = (
                    f"{case['case']}: {factor:g}x the best {against}" if against != "numpy" else ""
                )
                what = what or f"{case['case']}: {factor:g}x NumPy"
                yield at_least(what, compared[against] / times[OWN], factor)
    yield from _never_slower(results["cases"])


CHECKS: dict[str, Callable[[dict[str, Any]], Iterator[Row]]] = {
    "overhead": _overhead,
    "chain": _chain,
    "reductions": _reductions,
    "products": _products,
    "cold": _cold,
    "memory": _memory,
    "data": _data,
}
