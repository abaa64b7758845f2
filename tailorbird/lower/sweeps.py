"""Two nests that read one large array run over it together, block by block of its rows.

In: the steps of a program, scheduled. Out: the same steps, where two neighbours became a `Sweep`:
one runs along each row of an array (`A @ x`), the other folds down its rows (`y @ A`, lanes are
columns). Apart they fetch the array from memory twice; a block of rows that fits the cache is
fetched once.

What stands between the two and has nothing to do with the first, a copy that the second reads, runs
before them. Legal when they are independent, or when the fold down reads at row i only what the
other nest has made for row i. What the fold down makes is written with the last block, after all
rows.
"""

from __future__ import annotations

from tailorbird import knobs
from tailorbird.fuse.flow import Position
from tailorbird.lower.kernel import Load, Nest, Store
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import ProgramStep, Sweep


def join_sweeps(steps: list[ProgramStep]) -> list[ProgramStep]:
    """The steps, with neighbours that share an array as sweeps."""
    if not knobs.is_on("sweeps"):
        return steps
    out: list[ProgramStep] = []
    for step in steps:
        joined = None
        if isinstance(step, Nest):
            joined = _joined(out[-1:], step) or _joined(out[-2:], step) if out else None
        out = out[: len(out) - len(joined)] + joined if joined else [*out, step]
    return out


def _joined(before: list[ProgramStep], second: Nest) -> list[ProgramStep] | None:
    """A nest and the first of those before it as a sweep, behind what stands between the two."""
    first, *between = before
    if not isinstance(first, Nest):
        return None
    for nest in between:
        if not isinstance(nest, Nest):
            return None
        if _stored(nest) & _touched(first) or _stored(first) & _touched(nest):
            return None
    down = _down(first, second)
    if down is None:
        return None
    down.swept = True
    return [*between, Sweep((first, second), down)]


def _down(first: Nest, second: Nest) -> Nest | None:
    """The one of two nests in a row that folds down what the other runs along, if they may run
    together.
    """
    if _folds_down(second) and _runs_along(first) and _shares(first, second):
        by_rows = _made_by_rows(first, second)
        return second if by_rows and not _stored(first) & _stored(second) else None
    if _folds_down(first) and _runs_along(second) and _shares(second, first):
        free = not _stored(first) & _touched(second) and not _stored(second) & _touched(first)
        return first if free else None
    return None


def _runs_along(nest: Nest) -> bool:
    return bool(nest.rows) and not nest.scan and nest.schedule.vector in _names(nest)


def _names(nest: Nest) -> list[str]:
    return [a.name for a in nest.inner]


def _folds_down(nest: Nest) -> bool:
    """Sums of floats down one axis, with lanes along the other, and nothing stored on the way."""
    if len(nest.rows) != 1 or len(nest.inner) != 1 or nest.scan:
        return False
    stage, *rest = nest.stages
    sums = all(f.op == "sum" and f.value.ty in ("f32", "f64") for f in stage.folds)
    alone = not stage.head and not stage.stores and not stage.first
    return (
        nest.schedule.vector == nest.rows[0].name
        and bool(stage.folds)
        and sums
        and alone
        and not any(later.loops for later in rest)
    )


def _made_by_rows(along: Nest, down: Nest) -> bool:
    """Whether all that one makes for the other is one number a row, read at that row."""
    row, fold = along.rows[0].name, down.inner[0].name
    for x in _loads(down):
        for at in (s.at for s in _stores(along) if s.buffer.name == x.buffer.name):
            step = at.stride(row)
            wanted = Position(at.offset, ((row, step),)), Position(at.offset, ((fold, step),))
            if (at, x.at) != wanted or step == 0 or x.computed:
                return False
    return True


def _shares(along: Nest, down: Nest) -> bool:
    """Whether both read one array, row by row."""
    row, fold = along.rows[0], down.inner[0]
    steps = {
        (x.buffer.name, x.at.stride(row.name))
        for x in _loads(along)
        if any(x.at.stride(a) for a in _names(along))
    }
    lanes = down.rows[0].name
    return row.extent == fold.extent and any(
        x.at.stride(lanes) == 1 and x.at.stride(fold.name) != 0
        for x in _loads(down)
        if (x.buffer.name, x.at.stride(fold.name)) in steps
    )


def _loads(nest: Nest) -> list[Load]:
    return [x for x in expressions(nest) if isinstance(x, Load)]


def _stores(nest: Nest) -> list[Store]:
    return [s for stage in nest.stages for s in [*stage.head, *stage.stores]]


def _stored(nest: Nest) -> set[str]:
    return {s.buffer.name for s in _stores(nest)}


def _touched(nest: Nest) -> set[str]:
    return _stored(nest) | {x.buffer.name for x in _loads(nest)}
