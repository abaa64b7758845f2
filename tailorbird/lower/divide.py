"""Which nests inside loops and branches are divided among threads, and over which axis; and which
loops are, by their turns.

In: a scheduled program, and the sizes of the call at hand. Out: the same program, `divided` set
where it may pay. Whether it does is decided at run time, by how many points there are and how many
threads are allowed; what is small in the call at hand is emitted in place, where it costs no call.

Invariants: a nest is divided over its outermost axis, and only where every store moves along it:
rows are independent, and so are the points of a nest of maps. What folds without rows, packs, or
scatters runs on one thread, as do loops whose turns need one another (`independent.py`). What is
inside a loop that is divided is not divided again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tailorbird import knobs
from tailorbird.ir.expr import Dim, Sym, evaluate
from tailorbird.lower.apart import stores_of
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.kernel import Axis, Load, Nest
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import Control, Loop, Program, ProgramStep, While, bodies

LANES = 8  # of a vector, against which the weight of scalars is reckoned
TURN = 8  # weight of a turn of a loop, or of a step in it, apart from its nests
MANY = 16  # turns of a loop that are worth dividing; and of one of which nobody knows how many
AWAKE = 1  # log2 of how much less work pays inside of loops, where other threads wait awake


def divide_all(program: Program, sizes: Mapping[Sym, int]) -> None:
    """Marks the nests of every control function."""
    if not knobs.is_on("divide"):
        return
    divider = _Divider(Bounds(program.graph.guards), sizes)
    for step in program.steps:
        if isinstance(step, Control):
            divider.steps(step.steps)


def outgrown(program: Program, sizes: Mapping[Sym, int]) -> bool:
    """Whether more of a program would be divided if it were made for sizes like these."""
    if not knobs.is_on("divide"):
        return False
    divider = _Divider(Bounds(program.graph.guards), sizes)
    return any(divider.gains(s.steps) for s in program.steps if isinstance(s, Control))


def weight(nest: Nest) -> int:
    """What a point costs, memory included, in eighths of a vector instruction."""
    accesses = sum(isinstance(x, Load) for x in expressions(nest)) + len(list(stores_of(nest)))
    return max(1, (nest.schedule.cost + accesses) * LANES // nest.schedule.width)


def lengths(nest: Nest) -> list[Dim]:
    """How many points a nest has, along each axis; the turns of all its stages are one more."""
    turns: Dim = 0
    for stage in nest.stages:
        turns = turns + (0 if stage.turns is None else stage.turns.extent)
    own = [a.extent for a in (*nest.rows, *nest.inner)]
    return own if turns == 0 else [*own, turns]


def axis_to_divide(nest: Nest) -> Axis | None:
    """The outermost axis, if threads may share its points."""
    folds = any(stage.folds for stage in nest.stages)
    if nest.packs or (nest.scan and not nest.turns and not (nest.rows and folds)):
        return None
    if not nest.rows and (folds or not nest.inner or len(nest.stages) > 1):
        return None
    axis = (nest.rows or nest.inner)[0]
    moves = all(s.at.stride(axis.name) != 0 and not s.computed for s in stores_of(nest))
    turns = any(stage.turns is not None and stage.turns.name == axis.name for stage in nest.stages)
    return axis if moves and not turns and axis.extent != 1 else None


class _Divider:
    def __init__(self, bounds: Bounds, sizes: Mapping[Sym, int]) -> None:
        self.bounds = bounds
        self.sizes = sizes
        self.least = knobs.get("parallel") >> AWAKE

    def steps(self, steps: Sequence[ProgramStep]) -> None:
        for step in steps:
            if isinstance(step, Nest):
                step.divided = axis_to_divide(step) if self.may_pay(step) else None
            elif isinstance(step, Loop):
                step.divided = self.turn_to_divide(step)
                if not step.divided:
                    self.bounds.enter(step.var, step.start, step.stop, step.step)
                    self.steps(step.body)
                    self.bounds.leave(step.var)
            else:
                for inside in bodies(step):
                    self.steps(inside)

    def gains(self, steps: Sequence[ProgramStep]) -> bool:
        """Whether something would be divided that is not."""
        return any(map(self.gain, steps))

    def gain(self, step: ProgramStep) -> bool:
        if isinstance(step, Nest):
            small = step.divided is None and axis_to_divide(step) is not None
            return small and self.may_pay(step)
        if not isinstance(step, Loop):
            return any(map(self.gains, bodies(step)))
        if step.divided or self.turn_to_divide(step):
            return not step.divided
        self.bounds.enter(step.var, step.start, step.stop, step.step)
        found = self.gains(step.body)
        self.bounds.leave(step.var)
        return found

    def may_pay(self, nest: Nest) -> bool:
        """Whether there is enough to do in some turn of the call at hand."""
        if self.least == 0:
            return True
        return self.work(nest, 0) >= self.least

    def work(self, nest: Nest, unknown: int) -> int:
        """The most that a nest costs in the call at hand."""
        return weight(nest) * math.prod(self.most(n, unknown) for n in lengths(nest))

    def most(self, x: Dim, unknown: int) -> int:
        """How large a number becomes in the call at hand, or another one if that is not known."""
        most = self.bounds.most(x)
        try:
            return unknown if most is None else max(0, evaluate(most, self.sizes))
        except KeyError:
            return unknown

    # -- loops by their turns

    def turn_to_divide(self, loop: Loop) -> int:
        """What a turn costs, if threads may share them and there is enough to do; else 0."""
        if not loop.independent:
            return 0
        turns = self.turns(loop)
        one = self.turn(loop)
        enough = turns >= MANY and turns * one >= self.least
        return one if enough or self.least == 0 else 0

    def turns(self, loop: Loop) -> int:
        return self.most((loop.stop - loop.start) * (1 if loop.step > 0 else -1), MANY) // abs(
            loop.step
        )

    def turn(self, loop: Loop) -> int:
        self.bounds.enter(loop.var, loop.start, loop.stop, loop.step)
        one = self.all_of(loop.body)
        self.bounds.leave(loop.var)
        return one

    def all_of(self, steps: Sequence[ProgramStep]) -> int:
        """What some steps are reckoned to cost; branches as if both arms ran."""
        total = TURN
        for step in steps:
            if isinstance(step, Nest):
                total += TURN + self.work(step, MANY)
            elif isinstance(step, Loop):
                total += self.turns(step) * self.turn(step)
            else:
                times = MANY if isinstance(step, While) else 1
                total += TURN + times * sum(map(self.all_of, bodies(step)))
        return total
