"""Sizes that change from turn to turn: arrays that a mask makes shorter, say.

In: a loop that carries arrays whose sizes its parameters bind anew, or a branch whose results bind
theirs. Out: for each such size a cell in memory, which holds it at the head of every turn and
behind the branch. Memory is made once, for the size that enters, or for the larger one.

Invariant: a size that is carried never grows; where that is not known, the loop is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tailorbird.dataclass import dataclass
from tailorbird.errors import Refused
from tailorbird.fuse.groups import Plan
from tailorbird.fuse.versions import carried_inputs
from tailorbird.ir.expr import Dim, Sym, apply
from tailorbird.ir.node import Graph, Node, Operand, identity_view, type_of
from tailorbird.ir.scope import Binders, bare
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.kernel import Buffer
from tailorbird.lower.program import Lowerer
from tailorbird.lower.steps import Bind, ProgramStep
from tailorbird.reasons import why

NewCell = Callable[[], Buffer]
Sizes = dict[Sym, tuple[Dim, ...]]  # late sizes, none larger than the largest of these


@dataclass
class Late:
    """A size that a loop carries, or that a branch decides.

    `heads` are what it is called in each region of a loop, `entering` what a loop starts with;
    `ends` are what the regions that end with it end with, `result` is what it is called behind.
    """

    heads: tuple[Sym, ...]
    entering: Dim
    ends: tuple[Dim, ...]
    result: Sym | None
    cell: Buffer

    def at_head(self, region: int) -> ProgramStep:
        return Bind(self.heads[region], self.cell)


def loop_sizes(node: Node, binders: Binders, cell: NewCell) -> list[Late]:
    """The sizes that the parameters of a loop bind."""
    found = []
    body = node.regions[-1]
    for k, x in enumerate(carried_inputs(node)):
        for axis, _ in binders.get(body.parameters[k], ()):
            heads = (bare(region.parameters[k].type.shape[axis]) for region in node.regions)
            bound = dict(binders.get(node.outputs[k], ()))
            ends = (type_of(body.yields[k]).shape[axis],)
            known = tuple(sym for sym in heads if sym is not None)
            found.append(Late(known, type_of(x).shape[axis], ends, bound.get(axis), cell()))
    return found


def branch_sizes(node: Node, binders: Binders, cell: NewCell) -> list[Late]:
    """The sizes that the results of a branch bind."""
    found = []
    for k, result in enumerate(node.outputs):
        for axis, sym in binders.get(result, ()):
            ends = tuple(type_of(region.yields[k]).shape[axis] for region in node.regions)
            found.append(Late((), 0, ends, sym, cell()))
    return found


def must_not_grow(size: Late, parts: Sizes) -> None:
    """Refuses a size of which a turn may leave more than it began with."""
    seen: set[Sym] = set()
    pending = list(size.ends)
    while pending:
        sym = bare(pending.pop())
        if sym == size.heads[-1] or sym in seen:
            continue
        if sym is None or sym not in parts:
            raise Refused(why("unknown_size", name="the size of an array that a loop changes"))
        seen.add(sym)
        pending += parts[sym]


def largest(bounds: Bounds, dims: tuple[Dim, ...]) -> Dim:
    """What none of some sizes is larger than."""
    found: Dim | None = None
    for x in dims:
        most = bounds.most(x)
        most = x if most is None else most
        found = most if found is None else apply("max", found, most)
    assert found is not None
    return found


class LateLowerer(Lowerer):
    """What lowering does with such sizes."""

    bounds: Bounds

    def __init__(self, graph: Graph, plan: Plan, layouts: tuple[str, ...]) -> None:
        self.parts: Sizes = {}
        super().__init__(graph, plan, layouts)

    def note_size(self, size: Sym, *parts: Dim) -> None:
        """A late size that is no larger than the largest of some sizes."""
        self.parts[size] = parts
        self.bounds.limits[size] = largest(self.bounds, parts)

    def new_cell(self) -> Buffer:
        return self.new_buffer("i64", (), "temp")

    def with_sizes(self, body: list[ProgramStep], sizes: Sequence[Late]) -> list[ProgramStep]:
        """The body of a loop with the sizes that it carries."""
        return [*(size.at_head(-1) for size in sizes), *body, *self.sizes_left(sizes, 0)]

    def sizes_left(self, sizes: Sequence[Late], region: int) -> list[ProgramStep]:
        """The sizes that a region ends with, in their cells."""
        return [self.copy(size.ends[region], size.cell, identity_view(())) for size in sizes]

    def behind(self, node: Node, sizes: list[Late]) -> None:
        """The sizes that a loop left behind, and the results that have them."""
        for size in sizes:
            if size.result is not None:
                self.steps.append(Bind(size.result, size.cell))
                if size.heads:
                    self.note_size(size.result, size.entering)
        for k, result in enumerate(node.outputs if sizes and node.op != "branch" else ()):
            last = self.buffer(node.regions[-1].parameters[k])
            if result.type.rank and self.buffer(result).name != last.name:
                self.copy_into(self.look(last, result.type.shape), self.buffer(result))

    def copy_into(self, x: Operand | Buffer, target: Buffer) -> None:
        """A copy to memory that is as large, or has been made for more."""
        shape = x.shape if isinstance(x, Buffer) else type_of(x).shape
        fits = target if not shape or shape == target.shape else self.look(target, shape)
        self.steps.append(self.copy(x, fits, identity_view(fits.shape)))
