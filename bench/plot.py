"""Draws the results: `python -m bench.plot [FOLDER]`.

In: the JSON files in bench/results/ (or the folder given). Out: a PNG beside each. Race
suites become curves of time per element against size; probes become bars. Nothing is measured here.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
COLOURS = {
    "tailorbird": "#d1495b",
    "numpy": "#30638e",
    "numba": "#8d96a3",
    "numba fastmath": "#5c6b73",
    "jax": "#edae49",
    "torch.compile": "#00798c",
    "numexpr": "#66a182",
}


def main(folder: Path = RESULTS) -> None:
    """Draw every result in a folder."""
    import matplotlib

    matplotlib.use("Agg")
    for path in sorted(folder.glob("*.json")):
        results = json.loads(path.read_text())
        DRAWERS[results["suite"]](results, path.with_suffix(".png"))
        print(path.with_suffix(".png"))


def draw_race(results: dict[str, Any], path: Path) -> None:
    """One panel per function and dtype."""
    import matplotlib.pyplot as plt

    panels: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in results["cases"]:
        panels[f"{case['function']} {case['dtype']}"].append(case)
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 4.4), squeeze=False, layout="constrained"
    )
    for axis, (title, cases) in zip(axes[0], panels.items(), strict=True):
        _curves(axis, cases)
        axis.set_title(title)
    axes[0][0].legend(fontsize=8)
    finish(figure, results, path)


def _curves(axis: Any, cases: list[dict[str, Any]]) -> None:
    """Nanoseconds per element against elements, one line per peer."""
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for case in sorted(cases, key=lambda case: case["size"]):
        for label, row in case["times"].items():
            lines[label].append((case["size"], row["median"] / case["size"] * 1e9))
    for label, points in lines.items():
        width = 2.4 if label == "tailorbird" else 1.3
        axis.loglog(*zip(*points), "o-", label=label, color=COLOURS[label], lw=width, ms=3)
    axis.set_xlabel("elements")
    axis.set_ylabel("ns per element")
    axis.grid(alpha=0.3)


def draw_products(results: dict[str, Any], path: Path) -> None:
    """One panel per function and dtype: how many times faster than NumPy at every shape."""
    import matplotlib.pyplot as plt

    panels: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in results["cases"]:
        if case["times"].get("numpy"):
            panels[f"{case['function']} {case['dtype']}"].append(case)
    columns = (len(panels) + 1) // 2
    figure, axes = plt.subplots(
        2, columns, figsize=(5.2 * columns, 9), squeeze=False, layout="constrained"
    )
    for axis, title in zip(axes.T.flat, panels):
        _speedups(axis, panels[title])
        axis.set_title(title)
    axes[0][0].legend(fontsize=8)
    finish(figure, results, path)


def _speedups(axis: Any, cases: list[dict[str, Any]]) -> None:
    """Times faster than NumPy, one line per peer, one place per shape."""
    names = ["x".join(map(str, case["shape"])) for case in cases]
    for label in dict.fromkeys(label for case in cases for label in case["times"]):
        if label == "numpy":
            continue
        width = 2.4 if label == "tailorbird" else 1.3
        ratios = [
            case["times"]["numpy"]["median"] / case["times"][label]["median"]
            if label in case["times"]
            else float("nan")
            for case in cases
        ]
        axis.plot(names, ratios, "o-", label=label, color=COLOURS[label], lw=width, ms=3)
    axis.axhline(1, color=COLOURS["numpy"], lw=1)
    axis.set_yscale("log")
    axis.tick_params(axis="x", rotation=90, labelsize=7)
    axis.set_ylabel("times faster than NumPy")
    axis.grid(alpha=0.3)


def draw_data(results: dict[str, Any], path: Path) -> None:
    """Times faster than NumPy, of us and of the best peer, with the property and without it."""
    import matplotlib.pyplot as plt

    cases = [case for case in results["cases"] if {"numpy", "tailorbird"} <= set(case["times"])]
    panels = [[case for case in cases if case["has"] is has] for has in (True, False)]
    height = 1.5 + 0.3 * max(map(len, panels))
    figure, axes = plt.subplots(1, 2, figsize=(13, height), sharex=True, layout="constrained")
    for axis, shown, title in zip(axes, panels, ("data that has the property", "data without it")):
        ours, best = zip(*(_over_numpy(case) for case in shown))
        places = range(len(shown))
        axis.barh(places, ours, 0.55, color=COLOURS["tailorbird"], label="tailorbird", log=True)
        axis.plot(best, places, "|", color="black", ms=11, mew=2, label="best peer")
        for place, times in zip(places, ours):
            axis.annotate(f" {times:.3g}", (times, place), va="center", fontsize=8)
        axis.set_yticks(places, [case["function"] for case in shown], fontsize=8)
        axis.invert_yaxis()
        axis.axvline(1, color=COLOURS["numpy"], lw=1)
        axis.set_xlabel("times faster than NumPy")
        axis.set_title(title)
    axes[0].legend(fontsize=8)
    finish(figure, results, path)


def _over_numpy(case: dict[str, Any]) -> tuple[float, float]:
    times = {label: row["median"] for label, row in case["times"].items() if row["agrees"]}
    peers = [time for label, time in times.items() if label not in ("numpy", "tailorbird")]
    plain = case["times"]["numpy"]["median"]
    return plain / case["times"]["tailorbird"]["median"], plain / min(peers, default=float("inf"))


def draw_cold(results: dict[str, Any], path: Path) -> None:
    """CPU milliseconds until a ten-operation function is compiled, per peer."""
    times = {name: row["cpu_ms"] for name, row in results["probes"]["compile"].items()}
    colours = [COLOURS[name] for name in times]
    _bars(results, path, times, "CPU ms to compile ten operations (log)", colours, log=True)


def draw_memory(results: dict[str, Any], path: Path) -> None:
    """Peak growth in MiB of every case, plain and tailored."""
    colour = {"plain": COLOURS["numpy"], "tailored": COLOURS["tailorbird"]}
    rows = {
        f"{case}, {kind}": (row["growth_mib"], colour[kind])
        for case, kinds in results["probes"].items()
        for kind, row in kinds.items()
    }
    growth = {name: value for name, (value, _) in rows.items()}
    _bars(results, path, growth, "peak growth, MiB", [row[1] for row in rows.values()])


def _bars(
    results: dict[str, Any],
    path: Path,
    values: dict[str, float],
    label: str,
    colours: list[str],
    log: bool = False,
) -> None:
    """Horizontal bars, the first on top, each with its number."""
    import matplotlib.pyplot as plt

    height = 1.2 + 0.32 * len(values)
    figure, axis = plt.subplots(figsize=(8, height), layout="constrained")
    bars = axis.barh(list(values), list(values.values()), color=colours, log=log)
    axis.bar_label(bars, fmt="%.4g", padding=3, fontsize=8)
    axis.margins(x=0.15)
    axis.invert_yaxis()
    axis.set_xlabel(label)
    finish(figure, results, path)


def finish(figure: Any, results: dict[str, Any], path: Path) -> None:
    """Title with machine and conditions, then the file."""
    import matplotlib.pyplot as plt

    machine = results["machine"]
    threads = f"{results['threads']} thread{'s' if results['threads'] > 1 else ''}"
    facts = (results["suite"], machine["cpu"], machine["simd"], threads, results["clock"])
    figure.suptitle(", ".join(facts), fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_programs(results: dict[str, Any], path: Path) -> None:
    """The programs of a whole suite."""
    from bench.npbench.plot import draw

    draw(results, path)


DRAWERS: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "overhead": draw_race,
    "chain": draw_race,
    "reductions": draw_race,
    "products": draw_products,
    "data": draw_data,
    "cold": draw_cold,
    "memory": draw_memory,
    "npbench": draw_programs,
}

if __name__ == "__main__":
    main(*(Path(word) for word in sys.argv[1:2]))
