"""What a call costs: three float64 operations, from one element to ten million."""

from __future__ import annotations

from typing import Any

from bench.peers import Peer
from bench.race import Case, Options, run_cases
from bench.suites import QUICK_SIZES, SIZES


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """`(x + y) * x - y` at every size."""
    sizes = QUICK_SIZES if options.quick else SIZES
    cases = [Case("three_ops", "float64", (size,)) for size in sizes]
    return {"cases": run_cases(cases, peers, options)}
