"""What Tailorbird says about a program: who answers, how much is native, what compiling cost.

In: a tailored function and the arguments of a call. Out: a dict of plain values for the cell.

Invariants: only what `explain` and `variants` tell is used, and nothing is called; a program is
compiled whole when there is native code for these arguments without a single operation left to
Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LEAST_CALLS = 8  # before a race can be called settled: a refusal may pass at a later call
MOST_CALLS = 60  # that a race may take to settle
CALL = "call"  # the label of an operation that is left to Python, in `explain`


def facts(tailored: Any, arguments: Sequence[Any]) -> dict[str, Any]:
    """Tier, wholeness, reasons, milliseconds per stage, and counts."""
    said = tailored.explain(*arguments)
    left = [text for label, text in said.lines if label == CALL]
    stages = said_stages(tailored) if said.lines else {}
    return {
        "tier": said.tier,
        "whole": bool(said.lines) and not left,
        "opaque_calls": len(left),
        "reasons": [*map(str, said.reasons), *sorted(set(left))],
        "capture_ms": stages.get("capture", 0.0),
        "compile_ms": sum(ms for stage, ms in stages.items() if stage != "capture"),
        "variants": len(tailored.variants),
        "native_calls": sum(variant.hits for variant in tailored.variants),
        "missed_guards": sum(variant.misses for variant in tailored.variants),
    }


def said_stages(tailored: Any) -> dict[str, float]:
    """Milliseconds per stage of all builds together."""
    total: dict[str, float] = {}
    for variant in tailored.variants:
        for stage, ms in variant.milliseconds.items():
            total[stage] = total.get(stage, 0.0) + ms
    return total


def is_settled(tailored: Any) -> bool:
    """Whether the race is decided in every size class seen so far."""
    return all(heat.winner for variant in tailored.variants for heat in variant.heats.values())
