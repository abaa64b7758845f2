"""Elements that lie apart, side by side: what a nest reads along its last axis in steps, and again
at every point of the others, is copied first.

In: steps before they are scheduled, and a way to make memory. Out: the same steps, with copies in
front of such nests (all pairs of points that lie as rows of three coordinates, a column of a matrix
against all rows of another one). Lanes then load what they need at once, and not one by one.

Invariants: nothing is read that the nest would not read; turns that may run at the same time share
no copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailorbird.ir.expr import Expr, Sym
from tailorbird.lower.apart import loads_of, stores_of
from tailorbird.lower.aside import NewBuffer, read_aside
from tailorbird.lower.kernel import Load, Nest
from tailorbird.lower.schedule import extent_of
from tailorbird.lower.steps import Loop, ProgramStep, bodies

AGAIN = 8  # times that an element is read, at least


def lay_beside(
    steps: Sequence[ProgramStep], make: NewBuffer, sizes: Mapping[Sym, int]
) -> list[ProgramStep]:
    """Some steps, and those inside of them, with such copies."""
    out: list[ProgramStep] = []
    for step in steps:
        alone = isinstance(step, Loop) and (step.independent or step.comes_back)
        for inside in () if alone else bodies(step):
            inside[:] = lay_beside(inside, make, sizes)
        out += _laid(step, make, sizes) if isinstance(step, Nest) else [step]
    return out


def _laid(nest: Nest, make: NewBuffer, sizes: Mapping[Sym, int]) -> list[Nest]:
    loads = [] if nest.scan or nest.packs or nest.turns else _in_steps(nest, sizes)
    found = read_aside(nest, loads, make) if loads else None
    if found is None:
        return [nest]
    *copies, last = found
    for copy in copies:
        copy.only_if = [*nest.only_if, *(a.extent for a in (*nest.rows, *nest.inner))]
    return [*copies, last]


def _in_steps(nest: Nest, sizes: Mapping[Sym, int]) -> list[Load]:
    """The loads that step through memory along the last axis, and move along no other."""
    if len(nest.rows) + len(nest.inner) < 2:
        return []
    *others, last = (*nest.rows, *nest.inner)
    stored = {s.buffer.name for s in stores_of(nest)}
    loads = [
        x
        for x in loads_of(nest)
        if not x.computed and not x.at.terms and x.buffer.name not in stored
        if x.at.stride(last.name) not in (-1, 0, 1)
        if all(x.at.stride(a.name) == 0 for a in others)
    ]
    again = 1.0
    for a in others:
        again *= extent_of(a, sizes)
    known = isinstance(last.extent, int) or not _late(last.extent)
    return loads if known and again >= AGAIN else []


def _late(extent: Expr) -> bool:
    """Whether a size is known only inside of loops."""
    return any(s.kind in ("loop", "value", "fresh") for s in extent.symbols())
