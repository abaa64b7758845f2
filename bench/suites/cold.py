"""Cold costs, each in fresh processes: compiling, starting from the disk cache, new shapes.

- compile: CPU milliseconds to compile the ten-operation function with an empty cache, once the
  compiler is loaded; `first_cpu_ms` is what the very first compilation in a process costs. For the
  other peers, their first call after their import.
- start: import plus first call from a filled disk cache, beyond importing NumPy.
- shapes: how many compilations a hundred different shapes cause.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from bench.peers import Peer
from bench.processes import measure
from bench.race import Options


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """All three, Tailorbird's where it is there."""
    repeats = 3 if options.quick else 9
    probes: dict[str, Any] = {"compile": {}}
    for peer in peers:
        if peer.name == "tailorbird":
            probes |= _own(repeats, probes)
        elif peer.name != "numpy":
            runs = measure("compile", peer.name, repeats=max(repeats // 3, 1))
            probes["compile"][peer.name] = _medians(runs)
    for name, value in probes.items():
        print(f"{name}: {value}", flush=True)
    return {"probes": probes}


def _own(repeats: int, probes: dict[str, Any]) -> dict[str, Any]:
    """Tailorbird's three probes, each with a cache directory of its own."""
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            runs += measure("tailor", repeats=1, environment={"TAILOR_CACHE_DIR": folder})
    with tempfile.TemporaryDirectory() as folder:
        environment = {"TAILOR_CACHE_DIR": folder}
        started = measure("start", repeats=repeats + 1, environment=environment)
        shapes = measure("shapes", repeats=1, environment=environment)
    compile_times = {**probes["compile"], "tailorbird": _medians(runs)}
    return {"compile": compile_times, "start": _medians(started[1:]), "shapes": shapes[0]}


def _medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The median of every number over the repeats."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
