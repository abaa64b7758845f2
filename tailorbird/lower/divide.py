"""Which nests inside loops and branches are divided among threads, and over which axis.

In: a scheduled program, and the sizes of the call at hand. Out: the same program, `divided` set
where it may pay. Whether it does is decided at run time, by how many points there are and how many
threads are allowed; what is small in the call at hand is emitted in place, where it costs no call.

Invariants: a nest is divided over its outermost axis, and only where every store moves along it:
rows are independent, and so are the points of a nest of maps. What folds without rows, packs, or
scatters runs on one thread, as do loops whose turns need one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailorbird import knobs
from tailorbird.ir.expr import Sym, evaluate
from tailorbird.lower.apart import stores_of
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.kernel import Axis, Load, Nest
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import Control, Loop, Program, ProgramStep, bodies

LANES = 8  # of a vector, against which the weight of scalars is reckoned
AWAKE = 1  # log2 of how much less work pays inside of loops, where other threads wait awake


def divide_all(program: Program, sizes: Mapping[Sym, int]) -> None:
    """Marks the nests of every control function."""
    divider = _Divider(Bounds(program.graph.guards), sizes)
    for step in program.steps:
        if isinstance(step, Control):
            divider.steps(step.steps)


def weight(nest: Nest) -> int:
    """What a point costs, memory included, in eighths of a vector instruction."""
    accesses = sum(isinstance(x, Load) for x in expressions(nest)) + len(list(stores_of(nest)))
    return max(1, (nest.schedule.cost + accesses) * LANES // nest.schedule.width)


def axis_to_divide(nest: Nest) -> Axis | None:
    """The outermost axis, if threads may share its points."""
    folds = any(stage.folds for stage in nest.stages)
    if nest.packs or (nest.scan and not nest.turns and not (nest.rows and folds)):
        return None
    if not nest.rows and (folds or not nest.inner or len(nest.stages) > 1):
        return None
    axis = (nest.rows or nest.inner)[0]
    moves = all(s.at.stride(axis.name) != 0 and not s.computed for s in stores_of(nest))
    return axis if moves and axis.extent != 1 else None


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
                self.bounds.enter(step.var, step.start, step.stop, step.step)
                self.steps(step.body)
                self.bounds.leave(step.var)
            else:
                for inside in bodies(step):
                    self.steps(inside)

    def may_pay(self, nest: Nest) -> bool:
        """Whether there is enough to do in some turn of the call at hand."""
        if self.least == 0:
            return True
        work = weight(nest)
        for axis in (*nest.rows, *nest.inner):
            most = self.bounds.most(axis.extent)
            try:
                work *= 0 if most is None else evaluate(most, self.sizes)
            except KeyError:
                return False
        return work >= self.least
