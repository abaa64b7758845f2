"""What would run, and why: one line for each decision.

In: a tailored function and arguments. Out: an `Explanation`, text on a terminal and HTML in a notebook. Explaining compiles if nothing is compiled yet
for such arguments, and never calls the function.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from tailorbird.dispatch.race import Heat
from tailorbird.dispatch.signature import bucket
from tailorbird.dispatch.tiers import Built
from tailorbird.ir.show import show
from tailorbird.lower.kernel import Nest
from tailorbird.lower.program import Gemm, PythonCall


@dataclass
class Explanation:
    """The tier that answers such a call, the decisions behind it, and the graph."""

    function: str
    tier: str
    reasons: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    graph: str = ""

    def __str__(self) -> str:
        out = [f"{self.function}: {self.tier}"]
        out += [f"  {what:<9} {text}" for what, text in self.lines]
        out += [f"  because   {reason}" for reason in self.reasons]
        if self.graph:
            out += ["", *("  " + line for line in self.graph.rstrip().splitlines())]
        return "\n".join(out)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [*self.lines, *(("because", reason) for reason in self.reasons)]
        cells = "".join(
            f"<tr><td>{html.escape(what)}</td><td style='text-align:left'>{html.escape(text)}</td></tr>"
            for what, text in rows
        )
        graph = f"<pre>{html.escape(self.graph)}</pre>" if self.graph else ""
        title = f"<b>{html.escape(self.function)}</b>: {html.escape(self.tier)}"
        return f"<div>{title}<table>{cells}</table>{graph}</div>"


def explain(tailored: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Looks up, or compiles, what answers such a call."""
    tiers = tailored._tiers
    name = tailored.__wrapped__.__qualname__
    if not args and not kwargs and tiers.built:
        return _of_variant(name, tiers.built[0], None)
    tailored.warm(*args, **kwargs)
    bound = tiers.bind(args, kwargs)
    record = tiers.record_of(bound, tailored)
    for built in record.built:
        leaves = built.finder(*bound.values())
        if leaves is not None:
            return _of_variant(name, built, leaves)
    reasons = (
        [str(record.why)] if record.why is not None else ["no variant fits these arguments yet"]
    )
    return Explanation(name, "plain", reasons)


def _of_variant(name: str, built: Built, leaves: tuple[Any, ...] | None) -> Explanation:
    variant = built.variant
    lines: list[tuple[str, str]] = []
    for step in variant.program.steps:
        if isinstance(step, Nest):
            lines.append(
                (
                    "kernel",
                    f"{' + '.join(step.nodes) or 'copy'}   ({_loops(step)}; {step.schedule})",
                )
            )
        elif isinstance(step, Gemm):
            lines.append(("blas", f"{step.m} x {step.k} @ {step.k} x {step.n}"))
        elif isinstance(step, PythonCall):
            lines.append(
                (
                    "call",
                    f"{step.node.attrs.get('function', 'numpy:' + step.node.op)}, left to Python",
                )
            )
    lines += [("guard", g) for g in variant.guards]
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in variant.milliseconds.items())
    lines.append(("built", f"{sum(variant.milliseconds.values()):.1f} ms ({stages})"))
    lines.append(("calls", f"{variant.hits} native, {variant.misses} missed a guard"))
    sizes = (
        sorted(variant.heats)
        if leaves is None
        else [bucket(sum(leaves[k].size for k in variant.arrays))]
    )
    for size in sizes:
        if size in variant.heats:
            lines.append(("race", _race(size, variant.heats[size])))
    graph = show(variant.graph)
    settled = [variant.heats[s].winner for s in sizes if s in variant.heats]
    tier = (
        "plain, which is faster here"
        if settled and settled[-1] == "plain"
        else "native, generic code"
    )
    return Explanation(name, tier, [str(r) for r in variant.reasons], lines, graph)


def _loops(nest: Nest) -> str:
    rows = " x ".join(str(a.extent) for a in nest.rows)
    inner = " x ".join(str(a.extent) for a in nest.inner)
    if rows and inner:
        return f"{rows} rows of {inner}"
    return rows or inner or "one point"


def _race(size: int, heat: Heat) -> str:
    times = []
    for who, seen in (("native", heat.native), ("plain", heat.plain)):
        times.append(f"{who} {min(seen) * 1e6:.1f} us" if seen else f"{who} not timed")
    verdict = f"{heat.winner} answers" if heat.winner else "undecided"
    return f"up to {2 ** (size + 1)} elements: {', '.join(times)}; {verdict}"
