"""The fused elementwise chain, float32 and float64, from one element to ten million."""

from __future__ import annotations

from typing import Any

from bench.peers import Peer
from bench.race import Case, Options, run_cases
from bench.suites import QUICK_SIZES, SIZES


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """`tanh(a*x+b)*exp(-x*x) + where(x>0, x, 0.01*x)` at every size and dtype."""
    sizes = QUICK_SIZES if options.quick else SIZES
    dtypes = ("float32", "float64")
    cases = [Case("chain", dtype, (size,)) for dtype in dtypes for size in sizes]
    return {"cases": run_cases(cases, peers, options)}
