"""Writes the table of results into README.md from the JSON in bench/results.

In: bench/results/*.json of `python -m bench all`. Out: the block between `results:begin` and
`results:end` in README.md. Invariant: every figure comes from a file, and the table says which
command repeats it; without files the block is left empty.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
BLOCK = re.compile(r"(<!-- results:begin[^\n]*-->\n).*?(<!-- results:end -->)", re.DOTALL)
PEERS = ("numpy", "numba", "numba fastmath", "jax", "torch.compile", "numexpr")
SHOWN: dict[str, set[tuple[int, ...]]] = {
    "overhead": {(10,), (1_000,)},
    "chain": {(10,), (10_000,), (1_000_000,), (10_000_000,)},
    "reductions": {(1000, 1000), (64, 50_000), (1_000_000,), (10_000_000,)},
}


def race_table(suites: list[dict[str, Any]]) -> list[str]:
    """Time of Tailorbird, and of each peer as a multiple of it."""
    lines = [f"| case | tailorbird | {' | '.join(PEERS)} |", "|---|--:|" + "--:|" * len(PEERS)]
    for suite in suites:
        for case in suite["cases"]:
            own = case["times"].get("tailorbird")
            if own and tuple(case["shape"]) in SHOWN[suite["suite"]]:
                ratios = (_times(case["ratios"].get(peer)) for peer in PEERS)
                lines.append(f"| {case['case']} | {_time(own['median'])} | {' | '.join(ratios)} |")
    return lines if len(lines) > 2 else []


def suite_table(suites: list[dict[str, Any]]) -> list[str]:
    """The programs of NPBench together: times as fast as NumPy, by preset and peer, whichever run
    they were measured in.
    """
    means: dict[str, dict[str, Any]] = {}
    for suite in suites:
        for preset, peers in suite["means"].items():
            means.setdefault(preset, {}).update(peers)
    means = {preset: means[preset] for preset in sorted(means, key="SML".find)}
    names = sorted({name for peers in means.values() for name in peers}, key=_own_first)
    lines = [f"| NPBench, geomean over NumPy (right answers) | {' | '.join(names)} |"]
    lines.append("|---|" + "--:|" * len(names))
    for preset, peers in means.items():
        count = max(mean["programs"] for mean in peers.values())
        cells = [_mean(peers[name]) if name in peers else "" for name in names]
        lines.append(f"| {count} programs at {preset} | {' | '.join(cells)} |")
    return [*lines, ""]


def _own_first(name: str) -> tuple[bool, str]:
    return name != "tailorbird", name


def _mean(mean: dict[str, Any]) -> str:
    return f"{mean['geomean']:.3g}x ({mean['right']})"


def figures(suites: list[dict[str, Any]]) -> list[str]:
    """How many of the figures asked for hold, and those that do not."""
    lines = []
    for suite in suites:
        rows = suite["targets"]
        short = [row for row in rows if not row["holds"]]
        if not rows:
            continue
        lines.append(f"- {suite['suite']}: {len(rows) - len(short)} of {len(rows)} figures hold")
        lines += [
            f"  - short: {r['what']}: {r['measured']:.3g} (limit {r['limit']:.3g})" for r in short
        ]
    return lines


def _time(seconds: float) -> str:
    for unit, name in ((1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2g}x" if ratio < 100 else f"{ratio:.0f}x"


def main() -> None:
    """Fill the block."""
    suites = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    alone = [suite for suite in suites if suite["threads"] == 1]
    races = [suite for suite in alone if suite["suite"] in SHOWN]
    programs = [suite for suite in alone if "means" in suite]
    whole = suite_table(programs) if programs else []
    lines = [*race_table(races), "", *whole, *figures(alone)] if alone else []
    text = "\n".join(lines) + "\n" if lines else ""
    readme = ROOT / "README.md"
    readme.write_text(BLOCK.sub(lambda match: match[1] + text + match[2], readme.read_text()))


if __name__ == "__main__":
    main()
