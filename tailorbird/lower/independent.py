"""Loops whose turns do not need one another, though they are no nests: with loops and branches of
their own inside, a search that ends when it has found something, a row of a sparse matrix.

In: the steps of a program, before they are scheduled. Out: `independent` set on such loops.

Invariants: what a turn stores in an array lies, along one axis of it, at a multiple of the variable
of the loop, and there alone that turn reads or stores. A scalar is set in every turn before it is
read, and nobody knows it outside of the loop. Whatever calls Python or a library stays in order,
and so does what hands anything from turn to turn: a sum that grows is the same sum everywhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.lower.apart import Access, loads_of, stores_of
from tailorbird.lower.kernel import Buffer, Nest
from tailorbird.lower.steps import (
    Bind,
    Branch,
    Check,
    Control,
    Loop,
    ProgramStep,
    While,
    bodies,
    inner_steps,
)
from tailorbird.lower.touch import reads, writes

PLAIN = (Nest, Bind, Branch, Check, Loop, While)


def find_independent(steps: Sequence[ProgramStep]) -> None:
    """Marks every such loop, those inside others too."""
    touched = _touched(steps)
    for control in steps:
        if isinstance(control, Control):
            cells = {cell.name for cell in control.cells}
            for step in inner_steps(control.steps):
                if isinstance(step, Loop):
                    step.independent = _is_independent(step, touched, cells)


def _touched(steps: Sequence[ProgramStep]) -> Counter[str]:
    return Counter(b.name for s in inner_steps(steps) for b in (*reads(s), *writes(s)))


def _is_independent(loop: Loop, everywhere: Counter[str], cells: set[str]) -> bool:
    inside = list(inner_steps(loop.body))
    if loop.until is not None or not all(isinstance(s, PLAIN) for s in inside):
        return False
    if any(isinstance(s, Nest) and s.packs for s in inside):
        return False
    accesses: defaultdict[str, list[Access]] = defaultdict(list)
    for nest in inside:
        if isinstance(nest, Nest):
            found: list[Access] = [*stores_of(nest), *loads_of(nest)]
            for x in found:
                accesses[x.buffer.name].append(x)
    written = {b.name: b for s in inside for b in writes(s)}
    arrays = [name for name, b in written.items() if b.shape]
    scalars = {name for name, b in written.items() if not b.shape}
    here = _touched(loop.body)
    if any(name not in cells or here[name] != everywhere[name] for name in scalars):
        return False
    known = _inner_symbols(inside)
    return all(_own_part(accesses[x], loop.var, known) for x in arrays) and (
        _set_first(loop.body, scalars, set()) is not None
    )


def _inner_symbols(inside: Sequence[ProgramStep]) -> set[Sym]:
    loops = {s.var for s in inside if isinstance(s, Loop)}
    return loops | {s.symbol for s in inside if isinstance(s, Bind)}


# Arrays


def _own_part(accesses: Sequence[Access], var: Sym, inner: set[Sym]) -> bool:
    """Whether every turn has a part of an array to itself: one index along one axis."""
    first = accesses[0]
    if any(not x.index or _form(x.buffer) != _form(first.buffer) for x in accesses):
        return False
    return any(
        _moves(p, var, inner) and all(x.index[k] == p for x in accesses)
        for k, p in enumerate(first.index)
    )


def _form(buffer: Buffer) -> tuple[object, ...]:
    return buffer.shape, buffer.strides


def _moves(p: Position, var: Sym, inner: set[Sym]) -> bool:
    """Whether an index is a multiple of the variable, and otherwise the same in all turns."""
    if p.terms or p.axes or not isinstance(p.offset, Expr):
        return False
    times: Dim = 0
    for monomial, c in p.offset.terms:
        if monomial == (var,):
            times = c
        elif any(s == var or s in inner or s.kind in ("op", "value") for s in monomial):
            return False
    return times != 0


# Scalars


def _set_first(
    steps: Sequence[ProgramStep], scalars: set[str], before: set[str]
) -> set[str] | None:
    """The scalars that are surely set behind some steps; None if one is read before it is."""
    ready = set(before)
    for step in steps:
        if any(b.name in scalars and b.name not in ready for b in _first_reads(step)):
            return None
        inside = [_set_first(x, scalars, ready) for x in _in_turn(step)]
        if isinstance(step, While):
            tested = _set_first(step.test, scalars, ready)
            if tested is None or step.flag.name in scalars - tested:
                return None
            inside = [_set_first(step.body, scalars, tested)]
            ready |= tested
        found = [x for x in inside if x is not None]
        if len(found) < len(inside):
            return None
        ends = step.until if isinstance(step, Loop) else None
        if ends is not None and ends.name in scalars - found[0]:
            return None
        if isinstance(step, Branch):
            ready |= found[0] & found[1]
        if isinstance(step, Nest):
            ready |= set(_surely_set(step))
    return ready


def _first_reads(step: ProgramStep) -> Iterator[Buffer]:
    """What a step reads before anything inside it runs."""
    if not isinstance(step, (While, Loop)):
        yield from reads(step)


def _in_turn(step: ProgramStep) -> tuple[list[ProgramStep], ...]:
    return () if isinstance(step, While) else bodies(step)


def _surely_set(nest: Nest) -> Iterator[str]:
    """Scalars that a nest stores whatever its sizes are."""
    if nest.rows or nest.only_if:
        return
    for stage in nest.stages:
        if stage.turns is None:
            yield from (s.buffer.name for s in stage.head if s.mask is None)
