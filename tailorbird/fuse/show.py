"""A plan as text: the steps, and what each group holds; steps of a loop or branch further in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tailorbird.fuse.groups import Group, Nested, Plan, Step
from tailorbird.ir.show import REGIONS


def show_plan(plan: Plan) -> str:
    """One step a line."""
    return "\n".join(_lines(plan.steps, "")) + "\n"


def _lines(steps: Sequence[Step], indent: str) -> Iterator[str]:
    for k, step in enumerate(steps):
        if isinstance(step, Nested):
            yield f"{indent}{k}: {step.node.op}"
            for label, body in zip(REGIONS[step.node.op], step.bodies):
                yield f"{indent}  {label}"
                yield from _lines(body, indent + "    ")
        elif isinstance(step, Group):
            yield f"{indent}{k}: {_group(step)}"
        else:
            yield f"{indent}{k}: single {step.node.op}"


def _group(step: Group) -> str:
    rows = "" if step.rows is None else f" rows {step.rows}"
    members = ", ".join(f"{m.node.op}@{step.levels[m]}" for m in step.members if m.node is not None)
    return f"group [{','.join(map(str, step.domain))}]{rows}: {members}"
