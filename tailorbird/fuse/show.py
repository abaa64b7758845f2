"""A plan as text: the steps, and what each group holds."""

from __future__ import annotations

from tailorbird.fuse.groups import Group, Plan


def show_plan(plan: Plan) -> str:
    """One step a line."""
    lines = []
    for k, step in enumerate(plan.steps):
        if not isinstance(step, Group):
            lines.append(f"{k}: single {step.node.op}")
            continue
        rows = "" if step.rows is None else f" rows {step.rows}"
        members = ", ".join(
            f"{m.node.op}@{step.levels[m]}" for m in step.members if m.node is not None
        )
        lines.append(f"{k}: group [{','.join(map(str, step.domain))}]{rows}: {members}")
    return "\n".join(lines) + "\n"
