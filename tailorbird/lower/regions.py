"""Graphs with loops and branches become programs: a buffer for each memory, writes where they lie.

In: a graph, its plan and its versions (`fuse/versions.py`). Out: steps, with loops and branches as
`Control` steps that hold the steps of their bodies.

Invariants: all values of one memory have one buffer. What is carried is copied when the versions
say so, and all that is copied at the end of a turn is read before the first of it is written. A
window that reads other elements of what it overwrites is computed into a temporary first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from tailorbird.errors import Refused
from tailorbird.fuse.flow import Index, along, view_index
from tailorbird.fuse.groups import Nested, Plan, Single, Step
from tailorbird.fuse.versions import Memory, Versions, carried_inputs
from tailorbird.ir.expr import Dim, Expr, Sym, product
from tailorbird.ir.node import (
    Graph,
    Node,
    Operand,
    Region,
    Value,
    View,
    identity_view,
    leaves,
    type_of,
)
from tailorbird.ir.scope import bare, binders
from tailorbird.lower.apart import Apart
from tailorbird.lower.aside import read_aside
from tailorbird.lower.bounds import Bounds
from tailorbird.lower.kernel import Buffer, Load, Nest
from tailorbird.lower.late import (
    Late,
    LateLowerer,
    branch_sizes,
    largest,
    loop_sizes,
    must_not_grow,
)
from tailorbird.lower.lifetimes import Span, lifetimes
from tailorbird.lower.moves import scatters_into
from tailorbird.lower.nests import plain_inliner
from tailorbird.lower.opaque import as_call
from tailorbird.lower.schedule import expressions
from tailorbird.lower.statements import joined
from tailorbird.lower.steps import (
    Branch,
    Control,
    Factor,
    Loop,
    Program,
    ProgramStep,
    PythonCall,
    While,
    inner_steps,
)
from tailorbird.lower.touch import touched_by
from tailorbird.lower.turns import straighten
from tailorbird.reasons import why

IN_LOOPS = frozenset(("loop", "value", "fresh"))


class RegionLowerer(LateLowerer):
    """Lowers a graph that has regions."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        layouts: tuple[str, ...],
        versions: Versions,
        sizes: Mapping[Sym, int],
    ) -> None:
        self.versions = versions
        self.sizes = sizes
        self.memories: dict[Memory, Buffer] = {}
        self.bounds = Bounds(graph.guards)
        self.apart = Apart(self.bounds)
        self.spans = lifetimes(graph, plan, versions)
        self.rooms: dict[tuple[Dim, str], list[tuple[Buffer, list[Span]]]] = {}
        self.controls = 0
        self.inside = False
        self.binders = binders(graph)
        super().__init__(graph, plan, layouts)

    def run(self) -> Program:
        program = super().run()
        kept = {x.name for x in leaves(program.results) if isinstance(x, Buffer)}
        program.steps = straighten(program.steps, self.bounds, kept, self.aside, self.sizes)
        program.buffers = [b for b in self.made if b.role != "param"]
        self.find_cells(program)
        return program

    # -- buffers

    def buffer(self, value: Value) -> Buffer:
        if value not in self.buffers:
            memory = self.versions.memory[value]
            if memory not in self.memories:
                self.memories[memory] = self.room_for(memory)
            found = self.memories[memory]
            same = found.shape == value.type.shape
            self.buffers[value] = found if same else self.look(found, value.type.shape)
        return self.buffers[value]

    def room_for(self, memory: Memory) -> Buffer:
        """The buffer of a memory: an argument, a result, or a temporary."""
        if memory.parameter is not None:
            return self.parameters[memory.parameter]
        first = memory.members[0]
        role = "result" if any(m in self.roles for m in memory.members) else "temp"
        strides = self.strides_for(first, role)
        if role == "temp" and first.type.rank and first in self.plan.stored:
            return self.shared_room(memory, first, strides)
        return self.new_buffer(first.type.short, first.type.shape, role, strides)

    def shared_room(self, memory: Memory, first: Value, strides: tuple[Dim, ...]) -> Buffer:
        """Memory that somebody is done with before this begins, or new memory."""
        start, end = self.spans[memory]
        ty, shape = first.type.short, first.type.shape
        key = (product(shape), ty)
        for home, spans in self.rooms.setdefault(key, []):
            if all(end < other[0] or other[1] < start for other in spans):
                spans.append((start, end))
                view = Buffer(home.name, ty, shape, strides, "temp", home.room)
                self.views.append(view)
                return view
        made = self.new_buffer(ty, shape, "temp", strides)
        self.rooms[key].append((made, [(start, end)]))
        return made

    def new_buffer(
        self, ty: str, shape: tuple[Dim, ...], role: str, strides: tuple[Dim, ...] | None = None
    ) -> Buffer:
        buffer = super().new_buffer(ty, shape, role, strides)
        known = {s.kind for d in shape if isinstance(d, Expr) for s in d.symbols()}
        # The size of a result is known before the loop or branch that makes it.
        if self.inside and role != "result" and known & IN_LOOPS:
            buffer.room = self.most_elements(shape)
        return buffer

    def most_elements(self, shape: tuple[Dim, ...]) -> Dim:
        """Elements that are surely enough; what sizes come to may be known better than each is."""
        total = product(shape)
        most = self.bounds.most(total) if isinstance(total, int) or len(total.terms) == 1 else None
        if most is not None:
            return most
        for d in shape:
            one = self.bounds.most(d)
            if one is None:
                raise Refused(why("unknown_size", name=f"{d}, the size of an array in a loop,"))
            most = one if most is None else most * one
        assert most is not None
        return most

    def aside(self, ty: str, shape: tuple[Dim, ...]) -> Buffer:
        """A temporary whose size is known when the call begins."""
        return super().new_buffer(ty, shape, "temp")

    def result_reshape(self, value: Value) -> Value | None:
        return None

    # -- steps

    def do_write(self, node: Node) -> None:
        base, value = node.inputs
        assert isinstance(base, Value)
        target = self.buffer(node.result)
        if node in self.versions.copied and (base.node is None or base.node.op != "empty"):
            self.add_copy(base, target, identity_view(base.type.shape))
        self.put(value, target, node.attrs["view"])

    def put(self, value: Operand, target: Buffer, view: View) -> None:
        """target[view] = value; by way of a temporary where other elements of it are read."""
        nest = self.copy(value, target, view)
        index = view_index(view, tuple(along(f"a{k}") for k in range(len(view.shape))))
        elsewhere = self.reads_elsewhere(nest, target, index)
        aside = read_aside(nest, elsewhere, self.new_temporary)
        self.steps += self.staged(value, target, view)[1] if aside is None else aside
        self.join_last()

    def new_temporary(self, ty: str, shape: tuple[Dim, ...]) -> Buffer:
        return self.new_buffer(ty, shape, "temp")

    def lower_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            super().lower_steps([step])
            self.join_last()

    def join_last(self) -> None:
        """Makes the last two steps one nest where that is possible, inside of loops."""
        while self.inside and len(self.steps) > 1:
            first, second = self.steps[-2:]
            if not isinstance(first, Nest) or not isinstance(second, Nest):
                return
            both = joined(first, second, self.apart.disjoint)
            steps = [both] if both is not None else self.written_back(first, second)
            if steps is None:
                return
            self.steps[-2:] = steps
            if len(steps) > 1:
                return

    def written_back(self, first: Nest, second: Nest) -> list[Nest] | None:
        """What one nest computes and the next one copies to where the first still reads, stored
        there at once: what other points read of it is read before.
        """
        stores = [s for stage in second.stages for s in (*stage.head, *stage.stores)]
        made = {s.buffer.name for stage in first.stages for s in (*stage.head, *stage.stores)}
        copied = [x for s in stores for x in s.value]
        if len(stores) != 1 or stores[0].buffer.name in made or len(first.stages) != 1:
            return None
        if not all(isinstance(x, Load) and x.buffer.name in made for x in copied):
            return None
        elsewhere = self.reads_elsewhere(first, stores[0].buffer, stores[0].index)
        aside = read_aside(first, elsewhere, self.new_temporary)
        both = None if aside is None else joined(aside[-1], second, self.apart.disjoint)
        return None if aside is None or both is None else [*aside[:-1], both]

    def reads_elsewhere(self, nest: Nest, target: Buffer, index: Index) -> list[Load]:
        """The loads of a nest that stores at an index that may see what another point stores."""
        axes = [*nest.rows, *nest.inner]
        sizes = {a.name: a.extent for a in axes}
        return [
            x
            for x in expressions(nest)
            if axes and isinstance(x, Load) and x.buffer.name == target.name
            if x.computed
            or len(x.index) != len(index)
            or (x.index != index and not self.apart.disjoint(x.index, index, sizes))
        ]

    def do_bind(self, node: Node) -> None:
        super().do_bind(node)
        if type_of(node.inputs[0]).dtype.kind == "u":
            self.bounds.positive.add(Sym(node.attrs["symbol"], "value"))

    def do_scatter(self, node: Node) -> None:
        base = node.inputs[0]
        assert isinstance(base, Value)
        target = self.buffer(node.result)
        if node in self.versions.copied:
            self.add_copy(base, target, identity_view(base.type.shape))
        inliner = plain_inliner(self.plan, self.buffer, self.scalars)
        self.steps.append(scatters_into(node, target, inliner))

    def do_extent(self, node: Node) -> None:
        """A size that a mask decides is at most what the mask has elements."""
        super().do_extent(node)
        size, length = bare(node.attrs["size"]), node.inputs[0]
        made = length.node if isinstance(length, Value) else None
        while made is not None and made.op == "cast":
            inner = made.inputs[0]
            made = inner.node if isinstance(inner, Value) else None
        if size is not None and made is not None and made.op == "sum":
            self.note_size(size, product(type_of(made.inputs[0]).shape))

    def single(self, step: Single | Nested) -> None:
        if isinstance(step, Nested):
            self.nested(step)
        else:
            super().single(step)

    def do_call(self, node: Node) -> None:
        """What Python returns is copied to where later versions of it are written, if any are."""
        if self.inside:
            return self.call_inside(node)
        super().do_call(node)
        for v in node.outputs:
            memory = self.versions.memory.get(v)
            if memory is not None and len(memory.members) > 1:
                came = self.buffers.pop(v)
                self.steps.append(self.copy(came, self.buffer(v), identity_view(v.type.shape)))

    def call_inside(self, node: Node) -> None:
        """Python sees the operands where they lie, and its results are copied to where they belong.
        A size that it decides is no more than all its operands have elements.
        """
        call = as_call(node)
        operands: list[Buffer | Operand] = [
            self.seen_by_python(x) if isinstance(x, Value) else x for x in call.inputs
        ]
        most: Dim = 0
        for x in call.inputs:
            size = self.bounds.most(product(type_of(x).shape))
            most = most + (self.unknown_room(node) if size is None else size)
        binds = [sym for v in node.outputs for _, sym in self.binders.get(v, ())]
        self.bounds.limits.update(dict.fromkeys(binds, most))
        outputs = [self.buffer(v) for v in node.outputs]
        self.steps.append(PythonCall(call, operands, outputs, binds))

    def unknown_room(self, node: Node) -> NoReturn:
        raise Refused(why("unknown_size", name=f"an operand of {node.attrs.get('function')}"))

    def seen_by_python(self, x: Value) -> Buffer:
        """A value in C order; a scalar in memory of its own."""
        if x.type.rank:
            return self.contiguous(x)
        cell = self.new_buffer(x.type.short, (), "temp")
        self.add_copy(x, cell, identity_view(()))
        return cell

    def control(self, steps: list[ProgramStep]) -> None:
        """Steps that only a function of control flow can run: as they are inside of one."""
        if self.inside:
            self.steps += steps
        else:
            self.controls += 1
            self.steps.append(Control(f"c{self.controls}", steps))

    # -- loops and branches

    def nested(self, step: Nested) -> None:
        outermost, self.inside = not self.inside, True
        sizes: list[Late] = []
        steps = self.collect(lambda: self.around(step, sizes))
        self.inside = not outermost
        self.control(steps)
        self.behind(step.node, sizes)

    def collect(self, lower: Callable[[], None]) -> list[ProgramStep]:
        """The steps that something makes."""
        around, self.steps = self.steps, []
        lower()
        found, self.steps = self.steps, around
        return found

    def around(self, step: Nested, sizes: list[Late]) -> None:
        """What enters, the loop itself, and what the scalars among the results are outside."""
        node = step.node
        if node.op == "branch":
            self.branch(step, sizes)
            return
        sizes += loop_sizes(node, self.binders, self.new_cell)
        for size in sizes:
            self.add_copy(size.entering, size.cell, identity_view(()))
            most = largest(self.bounds, (size.entering,))
            self.bounds.limits.update(dict.fromkeys(size.heads, most))
        parameters = node.regions[0].parameters
        for k, x in enumerate(carried_inputs(node)):
            if (node, k) in self.versions.entering:
                self.copy_into(x, self.buffer(parameters[k]))
        (self.loop if node.op == "loop" else self.repeat)(step, sizes)
        for size in sizes:
            must_not_grow(size, self.parts)
        for parameter, result in zip(parameters, node.outputs):
            if not result.type.rank and self.buffer(result).name != self.buffer(parameter).name:
                self.add_copy(parameter, self.buffer(result), identity_view(()))

    def body(
        self, steps: Sequence[Step], region: Region, targets: Sequence[Value]
    ) -> list[ProgramStep]:
        """The steps of a region, and what it leaves behind."""

        def lower() -> None:
            self.lower_steps(steps)
            self.leave_behind(region, targets)

        return self.collect(lower)

    def leave_behind(self, region: Region, targets: Sequence[Value]) -> None:
        """Copies what a region yields to where it is expected, as if all at once."""
        moved = [
            (x, self.buffer(target))
            for k, (x, target) in enumerate(zip(region.yields, targets))
            if (region, k) in self.versions.yielded
        ]
        homes = {target.name for _, target in moved}
        ready: list[tuple[Operand | Buffer, Buffer]] = []
        for x, target in moved:
            source = self.buffer(x) if isinstance(x, Value) and x not in self.scalars else None
            if source is not None and source.name in homes and len(moved) > 1:
                aside = self.new_buffer(target.ty, source.shape, "temp")
                self.add_copy(x, aside, identity_view(source.shape))
                ready.append((aside, target))
            else:
                ready.append((x, target))
        for end, target in ready:
            self.copy_into(end, target)
            self.join_last()

    def loop(self, step: Nested, sizes: Sequence[Late]) -> None:
        node, (region,) = step.node, step.node.regions
        start, stop, stride = node.inputs[:3]
        ends = (start, stop, stride)
        if not all(isinstance(x, (int, Expr)) for x in ends) or not isinstance(stride, int):
            raise Refused(why("data_dependent_loop", name="range"))
        var = Sym(node.attrs["var"], "loop")
        self.bounds.enter(var, start, stop, stride)  # type: ignore[arg-type]
        until: Buffer | None = None
        targets = region.parameters
        body = self.body(step.bodies[0], region, targets)
        if node.attrs.get("stops"):
            until, more = self.flag(region.yields[-1])
            body = body + more if more else body
        body = self.with_sizes(body, sizes)
        self.bounds.leave(var)
        self.steps.append(Loop(var, start, stop, stride, body, until))  # type: ignore[arg-type]

    def flag(self, x: Operand) -> tuple[Buffer, list[ProgramStep]]:
        """A condition in memory, and the steps that put it there."""
        if isinstance(x, Value) and x not in self.scalars:
            return self.buffer(x), []
        cell = self.new_buffer("b1", (), "temp")
        return cell, self.collect(lambda: self.add_copy(x, cell, identity_view(())))

    def repeat(self, step: Nested, sizes: Sequence[Late]) -> None:
        test_region, region = step.node.regions
        test = self.collect(lambda: self.lower_steps(step.bodies[0]))
        flag, more = self.flag(test_region.yields[0])
        test = [*(size.at_head(0) for size in sizes), *test]
        body = self.body(step.bodies[1], region, region.parameters)
        body = self.with_sizes(body, sizes)
        self.steps.append(While(test + more, flag, body))

    def branch(self, step: Nested, sizes: list[Late]) -> None:
        node = step.node
        flag, more = self.flag(node.inputs[0])
        self.steps += more
        sizes += branch_sizes(node, self.binders, self.new_cell)
        if sizes:
            self.steps.append(Branch(flag, self.arms_of_sizes(step, sizes)))
            return
        first, second = (
            self.body(steps, region, node.outputs)
            for steps, region in zip(step.bodies, node.regions)
        )
        self.steps.append(Branch(flag, (first, second)))

    def arms_of_sizes(
        self, step: Nested, sizes: list[Late]
    ) -> tuple[list[ProgramStep], list[ProgramStep]]:
        """The arms of a branch that end with sizes of their own: what they leave behind has room
        for the larger one.
        """
        node = step.node
        if any(v in self.roles for v in node.outputs if self.binders.get(v)):
            raise Refused(why("unknown_size", name="the size of a result that a branch makes"))
        arms = [self.collect(partial(self.lower_steps, steps)) for steps in step.bodies]
        for size in sizes:
            assert size.result is not None
            self.note_size(size.result, *size.ends)
        for k, region in enumerate(node.regions):
            arms[k] += self.collect(partial(self.leave_behind, region, node.outputs))
            arms[k] += self.sizes_left(sizes, k)
        return arms[0], arms[1]

    # -- the end

    def write_finals(self) -> None:
        """Results that lie in an argument are copied out; then arguments get what they end with,
        all of it read before the first is written.
        """
        for x in leaves(self.graph.results):
            if isinstance(x, Value) and x.type.rank and self.buffer(x).role == "param":
                copy = super().new_buffer(x.type.short, x.type.shape, "result")
                self.add_copy(x, copy, identity_view(x.type.shape))
                self.buffers[x] = copy
        ready: list[tuple[Value | Buffer, Buffer]] = []
        for parameter, value in self.graph.finals.items():
            target, source = self.parameters[parameter], self.buffer(value)
            if source.name == target.name:
                continue
            if source.role == "param":
                aside = super().new_buffer(source.ty, source.shape, "temp")
                self.add_copy(value, aside, identity_view(source.shape))
                ready.append((aside, target))
            else:
                ready.append((value, target))
        for x, target in ready:
            self.steps.append(self.copy(x, target, identity_view(target.shape)))

    def find_cells(self, program: Program) -> None:
        """Scalars that one function of control flow alone touches live in its registers."""
        users: dict[str, set[int]] = {}
        for k, step in enumerate(program.steps):
            for name in touched_by([step]):
                users.setdefault(name, set()).add(k)
        kept = {x.name for x in leaves(program.results) if isinstance(x, Buffer)}
        inside = (s for s in inner_steps(program.steps) if isinstance(s, Factor))
        kept |= {x.name for step in inside for x in step.vectors}  # found by address
        calls = [s for s in inner_steps(program.steps) if isinstance(s, PythonCall)]
        kept |= {x.name for s in calls for x in (*s.operands, *s.outputs) if isinstance(x, Buffer)}
        for buffer in list(program.buffers):
            own = users.get(buffer.name, set())
            if buffer.role == "temp" and not own and buffer.name not in kept:
                program.buffers.remove(buffer)
            if buffer.shape or buffer.role != "temp" or buffer.name in kept:
                continue
            home = program.steps[min(own)] if len(own) == 1 else None
            if isinstance(home, Control):
                home.cells.append(buffer)
                program.buffers.remove(buffer)
