"""Fused reductions in float32: over rows, and over everything.

`ROW_SHAPES` and `LENGTHS` marked as figures are those the targets speak of; the others are there to
show that nothing is slower than NumPy at any size.
"""

from __future__ import annotations

from typing import Any

from bench.peers import Peer
from bench.race import Case, Options, run_cases
from bench.suites import QUICK_SIZES, SIZES

ROW_FUNCTIONS = ("softmax", "logsumexp", "layernorm")
ROW_FIGURES = ((1000, 1000), (64, 50_000))
ROW_SHAPES = ((1, 1), (1, 10), (10, 10), (32, 100), (100, 100), *ROW_FIGURES, (1000, 10_000))
FLAT_FUNCTIONS = ("sum_of_squares", "variance")
FLAT_FIGURES = (10_000, 1_000_000, 10_000_000)


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """Softmax, logsumexp and layernorm over rows; sum of squares and variance over everything."""
    shapes = ((10, 10), (100, 100)) if options.quick else ROW_SHAPES
    sizes = QUICK_SIZES if options.quick else SIZES
    cases = [Case(name, "float32", shape) for name in ROW_FUNCTIONS for shape in shapes]
    cases += [Case(name, "float32", (size,)) for name in FLAT_FUNCTIONS for size in sizes]
    return {"cases": run_cases(cases, peers, options)}
