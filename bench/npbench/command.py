"""`python -m bench npbench --checkout PATH [--presets S,M] [--programs a,b] [--peers a,b] ...`.

In: the command line. Out: npbench.json, npbench.md and npbench.png in bench/results (with
-2threads for two threads), a line per cell on the console, and the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from bench.npbench import figures, runner, summary
from bench.npbench.checkout import choose, commit_of
from bench.npbench.versions import DEFAULT, VERSIONS

RESULTS = Path(__file__).resolve().parent.parent / "results"


def parse(words: list[str]) -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(prog="python -m bench npbench", description="NPBench.")
    add = parser.add_argument
    add("--checkout", type=Path, required=True, help="a checkout of spcl/npbench")
    add("--presets", default="S,M")
    add("--programs", default="", help="comma-separated; all of them if not given")
    add("--peers", default=",".join(DEFAULT), help=f"of {', '.join(VERSIONS)}")
    add("--threads", type=int, default=1)
    add("--seconds", type=float, default=2.0, help="of rounds per cell, once it is warm")
    add("--timeout", type=float, default=300.0, help="seconds until a cell is given up")
    add("--all-variants", action="store_true", help="Numba's parallel ones with one thread too")
    add("--scratch", type=Path, default=_scratch(), help="where cells and compiled files are kept")
    add("--fresh", action="store_true", help="forget the cells of earlier runs")
    add("--out", type=Path, default=RESULTS)
    asked = parser.parse_args(words)
    for name in ("presets", "programs", "peers"):
        setattr(asked, name, [w.strip() for w in getattr(asked, name).split(",") if w.strip()])
    unknown = set(asked.peers) - set(VERSIONS) - {"torch"}
    if unknown:
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(VERSIONS)}")
    asked.peers = ["torch.compile" if name == "torch" else name for name in asked.peers]
    asked.peers = ["numpy", *dict.fromkeys(name for name in asked.peers if name != "numpy")]
    return asked


def _scratch() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tailorbird-npbench"


def main(words: list[str]) -> int:
    """Measure what was asked for and write what came of it."""
    asked = parse(words)
    checkout = asked.checkout.resolve()
    missing = runner.missing(asked.peers)
    for name, reason in missing.items():
        print(f"missing: {name} ({reason})")
    plan = runner.Plan(
        checkout,
        choose(checkout, asked.programs),
        asked.presets,
        [name for name in asked.peers if name not in missing],
        asked.scratch.resolve(),
        asked.threads,
        asked.seconds,
        asked.timeout,
        asked.all_variants,
        asked.fresh,
    )
    rows = runner.run(plan)
    write(rows, _header(asked, plan, missing), asked.out)
    return 0


def write(rows: list[dict[str, Any]], header: dict[str, Any], folder: Path) -> Path:
    """The JSON file, the table and the plot."""
    entries = summary.collect(rows)
    means = summary.means(entries)
    targets = figures.check(entries, means)
    results = {**header, "targets": targets, "means": means, "programs": entries}
    suffix = "" if header["threads"] == 1 else f"-{header['threads']}threads"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"npbench{suffix}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    text = summary.table(entries, means)
    path.with_suffix(".md").write_text(text)
    print(text)
    for row in targets:
        mark = "holds" if row["holds"] else "short"
        print(f"{mark}: {row['what']}: {row['measured']:.3g} (limit {row['limit']:.3g})")
    _draw(results, path.with_suffix(".png"))
    print(f"written to {path.name}, .md and .png")
    return path


def _draw(results: dict[str, Any], path: Path) -> None:
    try:
        from bench.npbench.plot import draw

        draw(results, path)
    except ImportError as error:
        print(f"no plot: {error}")


def _header(
    asked: argparse.Namespace, plan: runner.Plan, missing: dict[str, str]
) -> dict[str, Any]:
    """What one must know to repeat and to believe the figures."""
    from tailorbird.hardware import profile

    words = [f"--presets {','.join(asked.presets)}", f"--peers {','.join(asked.peers)}"]
    words += [f"--threads {asked.threads}", f"--seconds {asked.seconds:g}"]
    words += [f"--programs {','.join(asked.programs)}"] if asked.programs else []
    words += ["--all-variants"] if asked.all_variants else []
    versions = {name: runner.version_of(name) for name in plan.peers if name != runner.OWN}
    return {
        "suite": "npbench",
        "command": f"python -m bench npbench --checkout PATH {' '.join(words)}",
        "suite_commit": commit_of(plan.checkout),
        "clock": "process CPU time" if asked.threads == 1 else "wall time",
        "threads": asked.threads,
        "date": time.strftime("%Y-%m-%d"),
        "machine": profile().to_dict(),
        "versions": {"python": platform.python_version(), **versions},
        "missing": missing,
    }
