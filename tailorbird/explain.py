"""What would run, and why: one line for each decision.

In: a tailored function and arguments. Out: an `Explanation`, text on a terminal and HTML in a
notebook. Explaining compiles if nothing is compiled yet for such arguments, and never calls the
function.
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from tailorbird.assemble.target import host
from tailorbird.dataclass import dataclass, field
from tailorbird.dispatch.counting import FITTED
from tailorbird.dispatch.factors import told
from tailorbird.dispatch.products import choose
from tailorbird.dispatch.race import PLAIN, Heat
from tailorbird.dispatch.signature import bucket
from tailorbird.dispatch.tiers import Tiers
from tailorbird.dispatch.variant import Variant
from tailorbird.ir.draws import DRAW
from tailorbird.ir.show import show
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import (
    Bind,
    Branch,
    Check,
    Control,
    Factor,
    Gemm,
    Loop,
    PythonCall,
    Sweep,
    While,
    bodies,
)
from tailorbird.reasons import why

NATIVE_TIER = "native, generic code"
PLAIN_TIER = "plain"
SLOWER_TIER = "plain, which is faster here"
MARGIN = 12  # columns before the text of a decision
MOST_LISTED = 16  # operations of a kernel that are named one by one


@dataclass
class Explanation:
    """The tier that answers such a call, the decisions behind it, and the graph."""

    function: str
    tier: str
    reasons: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    graph: str = ""

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 0) -> str:
        """The lines for a terminal; a decision that is wider than `width` goes on below itself."""
        out = [f"{self.function}: {self.tier}"]
        for what, text in self._rows():
            parts = textwrap.wrap(text, max(width - MARGIN, 20)) if width else [text]
            out += [
                f"  {label:<9} {part}" for label, part in zip_longest([what], parts, fillvalue="")
            ]
        if self.graph:
            out += ["", *("  " + line for line in self.graph.rstrip().splitlines())]
        return "\n".join(out)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(what)}</td>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for what, text in self._rows()
        )
        graph = f"<pre>{html.escape(self.graph)}</pre>" if self.graph else ""
        title = f"<b>{html.escape(self.function)}</b>: {html.escape(self.tier)}"
        return f"<div>{title}<table>{cells}</table>{graph}</div>"

    def _rows(self) -> list[tuple[str, str]]:
        return [*self.lines, *(("because", reason) for reason in self.reasons)]


def explain(tailored: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Looks up, or compiles, what answers such a call; without arguments, the newest variant."""
    name = getattr(tailored.__wrapped__, "__qualname__", repr(tailored.__wrapped__))
    tiers: Tiers = tailored._tiers
    if tiers.why is not None:
        return Explanation(name, PLAIN_TIER, [str(tiers.why)])
    if not args and not kwargs and tiers.built:
        return _of_variant(name, tiers.built[0].variant, None)
    values = tiers.binder(*args, **kwargs)
    reason = tiers.stays_plain()
    if reason is not None:
        return Explanation(name, PLAIN_TIER, [str(reason)])
    record, built, problem = tiers.prepare(values, tailored)
    if built is not None:
        found = built.finder(*values)
        assert found is not None, "it fitted a moment ago"
        return _of_variant(name, built.variant, bucket(built.variant.elements(found)))
    reasons = [r for r in (record.why, record.missed) if r is not None]
    if problem or not reasons:
        reasons.append(why("guard_missed", detail=problem or "a guard does not hold"))
    return Explanation(name, PLAIN_TIER, [str(r) for r in reasons])


def _of_variant(name: str, variant: Variant, size: int | None) -> Explanation:
    """One variant, and the race in the size class of a call, or in all of them."""
    lines = list(_steps(variant.program.steps))
    lines += [("guard", g) for g in variant.guards]
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in variant.milliseconds.items())
    lines.append(("built", f"{sum(variant.milliseconds.values()):.1f} ms ({stages})"))
    lines.append(("calls", f"{variant.hits} native, {variant.misses} missed a guard"))
    heats = {s: h for s, h in sorted(variant.heats.items()) if size in (None, s)}
    lines += [("race", _race(s, heat)) for s, heat in heats.items()]
    reasons = [*variant.reasons, *(_not_faster(h) for h in heats.values() if h.winner == PLAIN)]
    lost = size in heats and heats[size].winner == PLAIN
    tier = SLOWER_TIER if lost else NATIVE_TIER
    return Explanation(name, tier, [str(r) for r in reasons], lines, show(variant.graph))


def _steps(steps: Sequence[Any], indent: str = "") -> Iterator[tuple[str, str]]:
    """Every step that does something worth a line; what is inside a loop stands further in."""
    for step in steps:
        if isinstance(step, Control):
            yield from _steps(step.steps, indent)
        elif isinstance(step, Sweep):
            yield "sweep", f"{indent}two kernels over {step.down.inner[0].extent} rows in blocks"
            yield from _steps(step.nests, indent + "  ")
        elif isinstance(step, Loop | While | Branch):
            yield "loop", indent + _head(step)
            for k, inside in enumerate(bodies(step)):
                if k and isinstance(step, Branch) and inside:
                    yield "loop", f"{indent}else"
                yield from _steps(inside, indent + "  ")
        elif not _is_test(step) and not isinstance(step, Bind):
            kind, text = _step(step)
            yield kind, indent + text


def _head(step: Loop | While | Branch) -> str:
    if isinstance(step, Loop):
        stops = " with a way out" if step.until is not None else ""
        threads = ", threads over turns" if step.divided else ""
        return f"for {step.var} in {step.start}:{step.stop}:{step.step}{stops}{threads}"
    return "while" if isinstance(step, While) else "if"


def _step(step: Any) -> tuple[str, str]:
    if isinstance(step, Nest):
        over = "" if step.divided is None else f"; threads over {step.divided.extent}"
        return "kernel", f"{_operations(step.nodes)}   ({_loops(step)}; {step.schedule}{over})"
    if isinstance(step, Gemm):
        who = choose(host()).told(step.out.buffer.ty)
        zeros = "; zeros on the left are passed over where they are many" if step.sparse else ""
        return "product", f"{step.m} x {step.k} @ {step.k} x {step.n}   ({who}{zeros})"
    if isinstance(step, Factor):
        return "library", told(step)
    if isinstance(step, Check):
        what = "an index is out of range, a number does not fit or an operation would raise"
        return "check", f"plain Python takes over where {what}"
    assert isinstance(step, PythonCall)
    called = step.node.attrs.get("function", f"numpy:{step.node.op}")
    if called == DRAW:
        called = f"{step.node.attrs['template'][0][1]} of a random generator"
    if called in FITTED:
        return "call", f"{called}, left to Python; integers that lie close together are counted"
    return "call", f"{called}, left to Python"


def _is_test(step: Any) -> bool:
    """Whether a kernel only computes what the check after it looks at."""
    if not isinstance(step, Nest):
        return False
    scalar = not step.rows and not step.inner
    return set(step.nodes) == {"check"} or (scalar and set(step.nodes) <= {"copy"})


def _operations(nodes: Sequence[str]) -> str:
    """The operations of a kernel; those of a long one are counted."""
    if len(nodes) <= MOST_LISTED:
        return " + ".join(nodes) or "copy"
    return f"{len(nodes)} operations: " + ", ".join(
        f"{count} {name}" if count > 1 else name for name, count in Counter(nodes).items()
    )


def _loops(nest: Nest) -> str:
    rows = " x ".join(str(a.extent) for a in nest.rows)
    inner = " x ".join(str(a.extent) for a in nest.inner)
    if rows and inner:
        return f"{rows} rows of {inner}"
    return rows or inner or "one point"


def _microseconds(times: list[float]) -> str:
    return f"{min(times) * 1e6:.1f} us" if times else "not timed"


def _race(size: int, heat: Heat) -> str:
    times = f"native {_microseconds(heat.native)}, plain {_microseconds(heat.plain)}"
    verdict = f"{heat.winner} answers" if heat.winner else "undecided"
    return f"up to {2 ** (size + 1)} elements: {times}; {verdict}"


def _not_faster(heat: Heat) -> Any:
    return why("not_faster", tailored=_microseconds(heat.native), plain=_microseconds(heat.plain))
