"""Loops whose turns are independent become rows of a nest.

In: the steps of a control function, and bounds for the sizes in them. Out: the same steps, with
fewer loops. A fold and the statement that uses it become stages of one nest; a loop around one nest
becomes an axis of it where no turn sees what another one writes. Lanes can then run across turns,
turns share what they load, and loops that are left hold whole nests.

Invariants: what a nest stores at one row is at no other row read or stored, by what is known of
indices; within a row all happens in the order of the program. An index that the program would
compute only inside the loop is computed only if there are turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tailorbird.dataclass import replace
from tailorbird.ir.expr import Sym
from tailorbird.lower.apart import Access, Apart, loads_of, sizes_of, stores_of
from tailorbird.lower.blocks import comes_back
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.interchange import interchanged
from tailorbird.lower.kernel import Axis, Cell, Ex, Load, Nest, Stage, Store
from tailorbird.lower.moved import NotAffine, Renamed, Unrolled, mentions
from tailorbird.lower.panels import MakeBuffer, Panels, as_sums
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions, expressions_of
from tailorbird.lower.several import several_turns
from tailorbird.lower.statements import joined
from tailorbird.lower.steps import Branch, Control, Loop, ProgramStep, While, inner_steps
from tailorbird.lower.touch import reads

Join = Callable[[Nest, Nest], Nest | None]
MOST = 80  # expressions of a nest that has grown so


def straighten(
    steps: list[ProgramStep],
    bounds: Bounds,
    kept: set[str],
    make: MakeBuffer,
    sizes: Mapping[Sym, int],
) -> list[ProgramStep]:
    """The steps of a program with fewer loops; `kept` names memory that is read behind its end, and
    `make` makes more of it; `sizes` are those of the call at hand.
    """
    turns = _Turns(bounds, kept, steps, Panels(bounds, Apart(bounds), make, sizes))
    out: list[ProgramStep] = []
    for step in steps:
        if isinstance(step, Control):
            step.steps = turns.steps(step.steps)
        out += step.steps if _needs_no_control(step) else [step]  # type: ignore[union-attr]
    return turns.neighbours(out, turns.around_turns)


def _needs_no_control(step: ProgramStep) -> bool:
    """Whether a control function holds nests alone, because its loops run inside of them."""
    if not isinstance(step, Control) or not all(isinstance(s, Nest) for s in step.steps):
        return False
    nests = [s for s in step.steps if isinstance(s, Nest)]
    return any(n.turns for n in nests) and not any(n.only_if for n in nests)


class _Turns:
    def __init__(
        self, bounds: Bounds, kept: set[str], steps: Sequence[ProgramStep], panels: Panels
    ) -> None:
        self.bounds = bounds
        self.apart = panels.apart
        self.panels = panels
        self.sums: dict[int, tuple[ProgramStep, Nest]] = {}  # steps that are sums too, by identity
        self.readers = Counter(kept)  # how many read each memory
        for step in inner_steps(steps):
            self.readers.update(_read(step))

    def steps(self, steps: list[ProgramStep]) -> list[ProgramStep]:
        """Some steps inside a control function."""
        return self.together([self.inside(step) for step in steps])

    def together(self, steps: Sequence[ProgramStep]) -> list[ProgramStep]:
        split = [x for step in steps for x in self.several(step)]
        return self.neighbours(split, lambda a, b: self.as_one(a, b) or self.chained(a, b))

    def several(self, step: ProgramStep) -> list[ProgramStep]:
        """A loop with several turns at once, where one sweep can do them."""
        found = None
        if isinstance(step, Loop):
            found = several_turns(step, self.readers, self.panels.make)
        return [step] if found is None else found

    def inside(self, step: ProgramStep) -> ProgramStep:
        """A step with fewer loops in it."""
        if isinstance(step, Loop):
            return self.loop(step)
        if isinstance(step, While):
            step.test, step.body = self.steps(step.test), self.steps(step.body)
        elif isinstance(step, Branch):
            step.arms = self.steps(step.arms[0]), self.steps(step.arms[1])
        return step

    def neighbours(self, steps: Sequence[ProgramStep], join: Join) -> list[ProgramStep]:
        """The steps, with nests that follow each other joined where that is possible."""
        out: list[ProgramStep] = []
        for step in steps:
            last = out[-1] if out else None
            both = join(last, step) if isinstance(last, Nest) and isinstance(step, Nest) else None
            if both is not None:
                self.forget(out.pop(), step)
                self.readers.update(_read(both))
                step = both
            if not isinstance(step, Nest) or self.is_needed(step):
                out.append(step)
        return out

    def forget(self, *steps: ProgramStep) -> None:
        for step in steps:
            self.readers.subtract(_read(step))

    def is_needed(self, nest: Nest) -> bool:
        """Whether a nest stores what somebody reads; other stores it has no longer."""
        self.forget(nest)
        own = {x.buffer.name for x in loads_of(nest)}
        for stage in nest.stages:
            for stores in (stage.head, stage.stores):
                stores[:] = [s for s in stores if s.buffer.role != "temp" or self.is_read(s, own)]
        nest.stages[:] = [s for s in nest.stages if s.head or s.loops or s.first]
        self.readers.update(_read(nest))
        return bool(nest.stages)

    def is_read(self, store: Store, own: set[str]) -> bool:
        return store.buffer.name in own or self.readers[store.buffer.name] > 0

    def as_one(self, first: Nest, second: Nest) -> Nest | None:
        """Two maps over the same points as one."""
        return joined(first, second, self.apart.disjoint)

    def around_turns(self, first: Nest, second: Nest) -> Nest | None:
        """The same, and what stands before and behind loops that run inside of a nest."""
        both = self.as_one(first, second)
        if both is None and (first.turns or second.turns):
            return self.chained(first, second)
        return both

    def loop(self, step: Loop) -> ProgramStep:
        self.bounds.enter(step.var, step.start, step.stop, step.step)
        inner = [self.inside(s) for s in step.body]
        summed = [self.sums.get(id(s), (s, s))[1] for s in inner]
        step.body = self.together(inner)
        added = any(a is not b for a, b in zip(inner, summed))
        blocks, sums = self.by_blocks(step, summed if added else step.body), self.sums_of(step)
        self.bounds.leave(step.var)
        if blocks is not None:
            return blocks
        nest = step.body[0] if len(step.body) == 1 and step.until is None else None
        made: ProgramStep = step
        if isinstance(nest, Nest):
            found = self.as_rows(step, nest) or interchanged(step, nest, self.apart)
            step.comes_back = found is None and comes_back(step, nest, self.apart)
            made = found or step
        if sums is not None:
            self.sums[id(made)] = made, sums
        return made

    def by_blocks(self, step: Loop, body: Sequence[ProgramStep]) -> Loop | None:
        """A loop of products, as a loop over blocks of its turns."""
        nest = self.nest_of(body)
        moved = None if nest is None else self.with_turns(step, nest)
        return None if nest is None or moved is None else self.panels.blocked(step, nest, moved)

    def sums_of(self, step: Loop) -> Nest | None:
        """A loop that adds products up, as the nest that it could be as a part of another one."""
        nest = self.nest_of(step.body)
        moved = None if nest is None else self.with_turns(step, nest)
        if nest is None or moved is None:
            return None
        some = self.bounds.not_negative(step.stop - step.start - 1)
        return as_sums(step, nest, moved) if some else None

    def nest_of(self, steps: Sequence[ProgramStep]) -> Nest | None:
        """Steps that are nests, as one."""
        whole: Nest | None = None
        for k, step in enumerate(steps):
            if not isinstance(step, Nest) or (k and whole is None):
                return None
            both = None if whole is None else self.as_one(whole, step) or self.chained(whole, step)
            whole = both if k else step
        return whole

    def with_turns(self, step: Loop, nest: Nest) -> Nest | None:
        """A nest with the turns of the loop around it as its first axis."""
        try:
            return _with_rows(nest, Unrolled(step, _axis_of(step)))
        except NotAffine:
            return None

    # -- a nest and the one after it as stages of one

    def chained(self, first: Nest, second: Nest) -> Nest | None:
        """Both nests, row by row."""
        turns = first.turns or second.turns
        if not turns and len(expressions(first)) + len(expressions(second)) > MOST:
            return None
        pair = _aligned(first, second)
        if pair is None or not self.may_alternate(*pair):
            return None
        before, after = pair[0], _with_own_cells(pair[1], f".{len(pair[0].stages)}")
        stored = {s.buffer.name for nest in pair for s in stores_of(nest)}
        heads = [] if turns else [s for stage in before.stages for s in stage.head]
        stages = [*before.stages, *map(_forward(heads, stored).stage, after.stages)]
        nodes = [*first.nodes, *(n for n in second.nodes if n != "copy")]
        inner = before.inner or after.inner
        return Nest("", before.rows, inner, stages, nodes=nodes, scan=turns)

    def may_alternate(self, first: Nest, second: Nest) -> bool:
        """Whether a row of the second may run before later rows of the first."""
        sizes = sizes_of(first) | sizes_of(second)
        stores = [[*stores_of(n)] for n in (first, second)]
        loads = [[*loads_of(n)] for n in (first, second)]
        clashes: list[tuple[Store, Access]] = [(a, b) for a in stores[0] for b in stores[1]]
        clashes += [(a, b) for a in stores[0] for b in loads[1]]
        clashes += [(a, b) for a in stores[1] for b in loads[0]]
        return all(self.apart.rows_apart(a, b, first.rows, sizes) for a, b in clashes)

    # -- a loop as an axis

    def as_rows(self, loop: Loop, nest: Nest) -> Nest | None:
        """The nest with the turns of the loop around it as rows."""
        if nest.scan or nest.only_if or loop.step not in (1, -1):
            return None
        if any(mentions(a.extent, loop.var) for a in (*nest.rows, *nest.inner)):
            return None
        axis = _axis_of(loop)
        try:
            moved = _with_rows(nest, Unrolled(loop, axis))
        except NotAffine:
            return None
        sizes = sizes_of(moved)
        stores = list(stores_of(moved))
        others: list[Access] = [*stores, *loads_of(moved)]
        if not all(self.apart.rows_apart(s, x, [axis], sizes) for s in stores for x in others):
            return None
        if not self.bounds.not_negative(axis.extent - 1):
            moved.only_if = [axis.extent]
        return moved


def _read(step: ProgramStep) -> set[str]:
    return {buffer.name for buffer in reads(step)}


def _axis_of(loop: Loop) -> Axis:
    return Axis(f"@{loop.var.name}", (loop.stop - loop.start) * loop.step)


# Two nests over the same rows


def _is_map(nest: Nest) -> bool:
    """Whether a nest does the same at every point, in any order."""
    stage, *more = nest.stages
    if more or stage.folds or stage.first or stage.turns is not None:
        return False
    return not (stage.head and stage.stores)


def _aligned(first: Nest, second: Nest) -> tuple[Nest, Nest] | None:
    """The two over the same row axes; a map over the rows of the other is done once a row."""
    if any(n.only_if or (n.scan and not n.turns) for n in (first, second)):
        return None
    if any(s.mask is not None for n in (first, second) for s in stores_of(n)):
        return None
    if _is_map(second):
        if _is_map(first):
            return None
        after = _once_a_row(second, first.rows) or _at_every_point(second, first)
        return None if after is None else (first, after)
    if _is_map(first):
        before = _once_a_row(first, second.rows)
        return None if before is None else (before, second)
    if first.turns or second.turns:
        return _turn_after_turn(first, second)
    same = [len(n.rows) for n in (first, second)]
    stages = _renamed(second, [*first.rows, *first.inner]) if same[0] == same[1] else None
    if stages is None:
        return None
    return first, Nest("", first.rows, first.inner, stages)


def _turn_after_turn(first: Nest, second: Nest) -> tuple[Nest, Nest] | None:
    """Two nests with turns over the same rows; the axes of their turns have names of their own."""
    extents = [[a.extent for a in n.rows] for n in (first, second)]
    if not first.turns or not second.turns or extents[0] != extents[1]:
        return None
    names = {a.name: b.name for a, b in zip(second.rows, first.rows, strict=True)}
    own = [stage.turns.name for stage in second.stages if stage.turns is not None]
    names |= {name: f"{name}.{len(first.stages)}" for name in own}
    stages = Renamed(names).stages(second)
    inner = [stage.turns for stage in stages if stage.turns is not None][:1]
    return first, Nest("", first.rows, inner, stages, scan=True)


def _once_a_row(nest: Nest, rows: list[Axis]) -> Nest | None:
    """A map as what is stored before a row of another nest, or behind it."""
    stages = _renamed(nest, rows)
    if stages is None:
        return None
    (stage,) = stages
    return Nest("", rows, [], [Stage(head=[*stage.head, *stage.stores])])


def _at_every_point(nest: Nest, folds: Nest) -> Nest | None:
    """A map over the points of another nest, done row by row."""
    stages = _renamed(nest, [*folds.rows, *folds.inner]) if folds.inner else None
    return None if stages is None else Nest("", folds.rows, folds.inner, stages)


def _renamed(nest: Nest, axes: list[Axis]) -> list[Stage] | None:
    """The stages of a nest over other axes of the same extents."""
    own = [*nest.rows, *nest.inner]
    if [a.extent for a in own] != [a.extent for a in axes]:
        return None
    names = {a.name: b.name for a, b in zip(own, axes, strict=True)}
    return Renamed(names).stages(nest)


def _with_own_cells(nest: Nest, suffix: str) -> Nest:
    """A nest whose cells have names that the nest in front of it has not."""

    def one(x: Ex) -> Ex:
        return Cell(x.name + suffix, x.ty) if isinstance(x, Cell) else x

    rebuilt = Rebuilt(one)
    stages = [rebuilt.stage(stage) for stage in nest.stages]
    for stage in stages:
        stage.folds = [replace(f, cell=rebuilt(f.cell)) for f in stage.folds]
    return Nest("", nest.rows, nest.inner, stages, scan=nest.scan)


def _forward(stores: list[Store], stored: set[str]) -> Rebuilt:
    """What was stored in place of the loads of it, where it still can be computed."""
    values = {
        (s.buffer.name, s.at, s.index): s.value
        for s in stores
        if not any(isinstance(x, Load) and x.buffer.name in stored for x in expressions_of(s.value))
    }

    def one(x: Ex) -> Ex:
        if not isinstance(x, Load) or x.computed:
            return x
        value = values.get((x.buffer.name, x.at, x.index))
        return x if value is None else value[max(x.part, 0)]

    return Rebuilt(one)


def _with_rows(nest: Nest, turned: Unrolled) -> Nest:
    """A nest with the turns of the loop around it as its first rows."""
    stages = turned.stages(nest)
    if not nest.rows and not nest.inner and _is_map(nest):
        (stage,) = stages
        return Nest("", [], [turned.turns], [Stage(stores=stage.head)], nodes=nest.nodes)
    return Nest("", [turned.turns, *nest.rows], nest.inner, stages, nodes=nest.nodes)
