"""Matrix products of both types: squares, thin ones, and every way a matrix may lie.

A case's shape is (m, k, n): m by k times k by n.
"""

from __future__ import annotations

from typing import Any

from bench.peers import Peer
from bench.race import Case, Options, run_cases

FUNCTIONS = ("product", "turned", "turned_left", "every_other_row", "gram")
SQUARES = (1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 500, 512, 1000, 2000)
THIN = (
    *((1, 1000, 1000), (2, 1000, 1000), (8, 1000, 1000), (32, 1000, 1000)),
    *((1000, 1000, 1), (1000, 1000, 2), (1000, 1000, 8), (1000, 1000, 32)),
    *((1000, 1, 1000), (1000, 2, 1000), (1000, 8, 1000), (4, 10_000, 4), (32, 10_000, 32)),
    *((8, 64, 64), (3600, 128, 128), (1000, 784, 10), (2000, 16, 16)),
)
LAID = (8, 32, 100, 256, 512, 1000)
LAID_THIN = ((2, 1000, 1000), (16, 1000, 1000), (1000, 1000, 2), (1000, 1000, 16), (4, 10_000, 4))
GRAMS = ((50, 10_000, 50), (2000, 100, 2000))
QUICK = ((8, 8, 8), (100, 100, 100), (2, 300, 300))


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """Every function at every shape, in both types."""
    plain = QUICK if options.quick else (*((n, n, n) for n in SQUARES), *THIN)
    laid = QUICK if options.quick else (*((n, n, n) for n in LAID), *LAID_THIN)
    gram = QUICK if options.quick else (*((n, n, n) for n in LAID), *GRAMS)
    shapes = dict(zip(FUNCTIONS, (plain, laid, laid, laid, gram), strict=True))
    cases = [
        Case(name, dtype, shape)
        for name, some in shapes.items()
        for dtype in ("float64", "float32")
        for shape in some
    ]
    return {"cases": run_cases(cases, peers, options)}
