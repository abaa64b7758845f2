"""Peak memory of a function, plain and tailored, each in a process of its own.

Growth is the peak above what was held before the calls (the arguments, the interpreter, and for the
tailored run the compiler), which is what the function itself needs; the whole peak is kept as well.
"""

from __future__ import annotations

from typing import Any

from bench.peers import Peer
from bench.processes import measure
from bench.race import Case, Options

CASES = (
    Case("chain", "float32", (10_000_000,)),
    Case("chain", "float64", (10_000_000,)),
    Case("three_ops", "float64", (10_000_000,)),
    Case("softmax", "float32", (1000, 10_000)),
    Case("logsumexp", "float32", (1000, 10_000)),
    Case("layernorm", "float32", (1000, 10_000)),
    Case("variance", "float32", (10_000_000,)),
    Case("sum_of_squares", "float32", (10_000_000,)),
)


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """Every case, plain and, where Tailorbird is there, tailored."""
    tailored = any(peer.name == "tailorbird" for peer in peers)
    kinds = ("plain", "tailored") if tailored else ("plain",)
    probes: dict[str, Any] = {}
    for case in CASES[:2] if options.quick else CASES:
        probes[str(case)] = {kind: _peak(kind, case) for kind in kinds}
        print(f"{case}: {probes[str(case)]}", flush=True)
    return {"probes": probes}


def _peak(kind: str, case: Case) -> dict[str, float]:
    """The largest of three processes, since a peak that happened once is a peak."""
    shape = "x".join(map(str, case.shape))
    runs = measure("memory", kind, case.function, case.dtype, shape, repeats=3)
    return {name: max(run[name] for run in runs) for name in runs[0]}
