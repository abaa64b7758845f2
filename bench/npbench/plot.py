"""Draws the suite: a row per program, a mark per peer, at its speed-up over NumPy.

In: the results of a run. Out: a PNG. Nothing is measured here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.npbench.summary import OWN, is_right, speedup
from bench.plot import COLOURS, finish

MARKS = {OWN: "o", "numba": "s", "jax": "^", "pythran": "D", "torch.compile": "v"}
EXTRA = {"pythran": "#8f5da2"}


def draw(results: dict[str, Any], path: Path) -> None:
    """One panel per preset, programs in the order of the best speed-up of Tailorbird."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    presets = list(results["means"])
    rows = max(sum(e["preset"] == p for e in results["programs"]) for p in presets)
    figure, axes = plt.subplots(
        1,
        len(presets),
        figsize=(7.4 * len(presets), 2.2 + 0.21 * rows),
        squeeze=False,
        layout="constrained",
    )
    for axis, preset in zip(axes[0], presets, strict=True):
        _panel(axis, preset, results)
    finish(figure, results, path)


def _panel(axis: Any, preset: str, results: dict[str, Any]) -> None:
    from matplotlib.ticker import FuncFormatter

    entries = [entry for entry in results["programs"] if entry["preset"] == preset]
    entries.sort(key=lambda entry: speedup(entry["peers"].get(OWN, {})))
    names = [entry["program"] for entry in entries]
    for name, mean in results["means"][preset].items():
        points = [
            (speedup(entry["peers"][name]), row)
            for row, entry in enumerate(entries)
            if is_right(entry["peers"].get(name, {}))
        ]
        own = name == OWN
        label = f"{name}: {mean['geomean']:.2f}x, {mean['right']} of {mean['programs']} right"
        axis.plot(
            *zip(*points),
            MARKS.get(name, "x"),
            label=label,
            color=COLOURS.get(name) or EXTRA.get(name),
            ms=7 if own else 4.5,
            alpha=1.0 if own else 0.8,
            zorder=3 if own else 2,
        ) if points else None
    axis.axvline(1.0, color=COLOURS["numpy"], lw=1)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(-0.7, len(names) - 0.3)
    axis.grid(alpha=0.3)
    axis.set_xlabel("times as fast as NumPy")
    axis.set_title(f"preset {preset}")
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=2)
