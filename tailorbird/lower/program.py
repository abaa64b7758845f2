"""A graph and its groups become a program: buffers and steps.

Invariants:
- A value has one buffer, written by one step (or several nests in a row) before any step reads it.
- A reshape shares its base's buffer. A write copies its base and then writes the window; a final
  value is copied to its argument at the end. `sharing.py` removes the copies that are not needed
  and lets temporaries share memory.
- Results are NumPy arrays allocated for the call; temporaries share one arena; scalars are
  one-element temporaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tailorbird.fuse.flow import Index, Position, along, flat, view_index
from tailorbird.fuse.groups import Group, Nested, Plan, Single, Step
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.ir.node import (
    Graph,
    Guard,
    Node,
    Operand,
    Value,
    View,
    identity_view,
    leaves,
    map_leaves,
    type_of,
)
from tailorbird.ir.ops import LINEAR, OPS
from tailorbird.ir.scope import bare
from tailorbird.lower.blocks import block_all
from tailorbird.lower.divide import divide_all
from tailorbird.lower.jam import jam_all
from tailorbird.lower.kernel import Buffer, Nest, Store, c_strides, f_strides
from tailorbird.lower.linear import column_strides, factor, is_factor
from tailorbird.lower.matrices import Lying, is_positive, one_row
from tailorbird.lower.moves import join_pack, packs_into, scatters_into
from tailorbird.lower.nests import (
    build_check,
    build_copy,
    build_nest,
    build_scan,
    copy_nest,
    plain_inliner,
)
from tailorbird.lower.opaque import as_call
from tailorbird.lower.order import layout_order, order_of
from tailorbird.lower.placed import place_products
from tailorbird.lower.rearrange import rearrange
from tailorbird.lower.schedule import schedule
from tailorbird.lower.sharing import Copies, Window, share
from tailorbird.lower.steps import (
    Bind,
    Check,
    Gemm,
    Matrix,
    Program,
    ProgramStep,
    PythonCall,
    inner_steps,
    parameter_strides,
    taller,
    widened,
)
from tailorbird.lower.sweeps import join_sweeps
from tailorbird.lower.tidy import tidy

__all__ = ["Bind", "Check", "Gemm", "Matrix", "Program", "PythonCall", "lower", "parameter_strides"]


def lower(
    graph: Graph,
    plan: Plan,
    layouts: tuple[str, ...],
    width_bytes: int,
    sizes: Mapping[Sym, int] | None = None,
) -> Program:
    """Lowers a fused graph for arguments that lie as `layouts` says (one for each parameter).

    `sizes` are those of the call at hand, where known; schedules are chosen by them.
    """
    if plan.versions is not None:
        from tailorbird.lower.regions import RegionLowerer

        program = RegionLowerer(graph, plan, layouts, plan.versions, sizes or {}).run()
    else:
        lowerer = Lowerer(graph, plan, layouts)
        program = lowerer.run()
        share(program, lowerer.views, lowerer.copies, lowerer.windows)
    rearrange(program, sizes or {})
    backward = False
    for k, step in enumerate(inner_steps(program.steps)):
        if isinstance(step, Nest):
            step.name = f"k{k}"
            tidy(step)
            owes = schedule(step, width_bytes, sizes).schedule.owes
            step.schedule.backward, backward = backward, not backward
            if isinstance(owes, Expr):
                graph.guards.append(Guard(">=", owes))
    jam_all(program.steps)
    block_all(program.steps)
    place_products(program.steps)
    divide_all(program, sizes or {})
    program.steps = join_sweeps(program.steps)
    return program


class Lowerer:
    """Lowers a straight graph: every write copies its base, and `share` removes what it can."""

    def __init__(self, graph: Graph, plan: Plan, layouts: tuple[str, ...]) -> None:
        self.graph = graph
        self.plan = plan
        self.layouts = layouts
        self.buffers: dict[Value, Buffer] = {}
        self.scalars: dict[Value, str] = {}
        self.made: list[Buffer] = []  # one for each memory
        self.views: list[Buffer] = []  # every look at it
        self.steps: list[ProgramStep] = []
        self.copies: list[Copies] = []
        self.windows: list[Window] = []
        self.roles: dict[Value, str] = {}
        self.uses: dict[Value, int] = {}
        self.orders: dict[Value, str] = {}
        self.order_memo: dict[Value, str] = {}
        self.parameters: dict[Value, Buffer] = {}
        for k, (p, layout) in enumerate(zip(graph.parameters, layouts, strict=True)):
            if p.type.rank:
                strides = parameter_strides(k, p.type.shape, layout)
                buffer = Buffer(f"p{k}", p.type.short, p.type.shape, strides, "param")
                self.parameters[p] = self.buffers[p] = buffer
                self.orders[p] = layout_order(layout, p.type.rank)
            else:
                self.scalars[p] = f"p{k}"
        self.homes = {v: self.parameters[p] for p, v in graph.finals.items() if p.type.rank}
        self.count_uses()

    # -- buffers

    def count_uses(self) -> None:
        for node in self.graph.body.walk():
            for x in (*node.inputs, *(y for region in node.regions for y in region.yields)):
                if isinstance(x, Value):
                    self.uses[x] = self.uses.get(x, 0) + 1
        for x in [*leaves(self.graph.results), *self.graph.finals.values()]:
            if isinstance(x, Value):
                self.uses[x] = self.uses.get(x, 0) + 1
        for x in leaves(self.graph.results):
            if isinstance(x, Value) and x.type.rank:
                self.roles[x] = "result"

    def new_buffer(
        self, ty: str, shape: tuple[Dim, ...], role: str, strides: tuple[Dim, ...] | None = None
    ) -> Buffer:
        layout = c_strides(shape) if strides is None else strides
        buffer = Buffer(f"b{len(self.made)}", ty, shape, layout, role)
        self.made.append(buffer)
        self.views.append(buffer)
        return buffer

    def look(self, buffer: Buffer, shape: tuple[Dim, ...]) -> Buffer:
        """The same contiguous memory in another shape."""
        view = Buffer(buffer.name, buffer.ty, shape, c_strides(shape), buffer.role)
        self.views.append(view)
        return view

    def buffer(self, value: Value) -> Buffer:
        """The buffer of a stored value, made when first asked for."""
        if value not in self.buffers:
            shape = value.type.shape
            alias = self.result_reshape(value)
            if alias is not None:
                self.buffers[value] = self.look(self.buffer(alias), shape)
            else:
                role = self.roles.get(value, "temp")
                strides = self.strides_for(value, role)
                self.buffers[value] = self.new_buffer(value.type.short, shape, role, strides)
        return self.buffers[value]

    def strides_for(self, value: Value, role: str) -> tuple[Dim, ...]:
        """How a stored value lies: as LAPACK makes it, like the argument it ends in, else in the
        order NumPy gives.
        """
        shape = value.type.shape
        if role == "temp" and is_factor(value):
            return column_strides(shape)
        home = self.homes.get(value)
        if home is not None and value not in self.roles and is_dense(home):
            return home.strides
        node = value.node
        ordered = node is not None and OPS[node.op].kind == "map" and len(shape) > 1
        if ordered and order_of(value, self.orders, self.order_memo) == "F":
            self.orders[value] = "F"
            return f_strides(shape)
        return c_strides(shape)

    def result_reshape(self, value: Value) -> Value | None:
        """The result that is a reshape of this value and of nothing else: then the value is made in
        the result's memory.
        """
        if value in self.roles or self.uses.get(value, 0) != 1:
            return None
        for node in self.graph.body.nodes:
            if node.op == "reshape" and node.inputs[0] is value:
                return node.result if node.result in self.roles else None
        return None

    def contiguous(self, x: Value) -> Buffer:
        """A C-contiguous buffer that holds the value, copied if it lies otherwise."""
        shape = x.type.shape
        if x.node is None or x in self.plan.stored:
            buffer = self.buffer(x)
            if buffer.strides == c_strides(shape):
                return buffer
        copy = self.new_buffer(x.type.short, shape, "temp")
        self.add_copy(x, copy, identity_view(shape))
        return copy

    # -- steps

    def run(self) -> Program:
        self.lower_steps(self.plan.steps)
        self.write_finals()
        results = map_leaves(
            self.graph.results, lambda x: self.buffers[x] if isinstance(x, Value) else x
        )
        return Program(
            self.graph,
            self.layouts,
            self.parameters,
            self.scalars,
            self.made,
            self.steps,
            results,
        )

    def lower_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Group):
                needed = self.needed(step)
                self.steps.append(build_nest(step, self.plan, self.buffer, needed, self.scalars))
            else:
                self.single(step)

    def needed(self, group: Group) -> set[Value]:
        """Members that must reach memory: what other steps read; of a group with rows all maps, and
        of one that folds everything all folds.
        """
        outside = {m for m in group.members if self.readers[m] > (m in group.reads)}
        maps = {m for m in group.members if m.node is None or m.node.op not in _FOLDS}
        return outside | (maps if group.rows else set(group.members) - maps)

    @cached_property
    def readers(self) -> Counter[Any]:
        """How many steps read a value; the end of the function is one."""
        found = Counter({*leaves(self.graph.results), *self.graph.finals.values()})
        for step in self.plan.walk():
            found.update(_read_by(step, self.plan.stored))
        return found

    def single(self, step: Single | Nested) -> None:
        node = step.node
        if node.op in LINEAR:
            factor(self, node)
            return
        handler = getattr(self, f"do_{node.op}", self.do_call)
        handler(node)

    def add_copy(self, x: Operand, target: Buffer, view: View) -> None:
        """target[view] = x, cast and broadcast."""
        self.steps.append(self.copy(x, target, view))

    def copy(self, x: Operand | Buffer, target: Buffer, view: View) -> Nest:
        """target[view] = x, as a nest over the view's elements."""
        index: Index = tuple(along(f"a{k}") for k in range(len(view.shape)))
        value = build_copy(x, index, target.ty, self.plan, self.buffer, self.scalars)
        where = view_index(view, index)
        at = flat(where, target.strides)
        store = Store(target, Position(at.offset, at.axes), value, index=where)
        return copy_nest(view.shape, store)

    def staged(self, x: Operand, target: Buffer, view: View) -> tuple[Buffer, list[Nest]]:
        """target[view] = x by way of a temporary of its size."""
        temporary = self.new_buffer(target.ty, view.shape, "temp")
        whole = identity_view(view.shape)
        return temporary, [self.copy(x, temporary, whole), self.copy(temporary, target, view)]

    def do_reshape(self, node: Node) -> None:
        base = node.inputs[0]
        assert isinstance(base, Value)
        value = node.result
        if value in self.buffers:
            return
        if value in self.roles:
            target = self.look(self.buffer(value), base.type.shape)
            self.add_copy(base, target, identity_view(base.type.shape))
            return
        self.buffers[value] = self.look(self.contiguous(base), value.type.shape)

    def do_concatenate(self, node: Node) -> None:
        target = self.buffer(node.result)
        axis: int = node.attrs["axis"]
        start: Dim = 0
        for part in node.inputs:
            shape = type_of(part).shape
            dims = tuple((start if k == axis else 0, 1, k) for k in range(len(shape)))
            self.add_copy(part, target, View(dims, shape))
            start = start + shape[axis]

    def do_write(self, node: Node) -> None:
        """A copy of the base, and the window written."""
        base, value = node.inputs
        assert isinstance(base, Value)
        shape = base.type.shape
        target = self.write_target(node)
        at = len(self.steps)
        if base.node is None or base.node.op != "empty":
            self.add_copy(base, target, identity_view(shape))
            if base in self.plan.stored or base in self.parameters:
                self.copies.append(Copies(self.steps[at], self.buffer(base), target))
        view: View = node.attrs["view"]
        self.add_copy(value, target, view)
        self.windows.append(Window(self.steps[-1], lambda: self.staged(value, target, view)))

    def write_target(self, node: Node) -> Buffer:
        """Memory that lies like the base, so that the two can be one."""
        base, result = node.inputs[0], node.result
        assert isinstance(base, Value)
        if result not in self.roles and (base in self.plan.stored or base in self.parameters):
            found = self.buffer(base)
            if is_dense(found):
                ty = result.type.short
                self.buffers[result] = self.new_buffer(ty, found.shape, "temp", found.strides)
        return self.buffer(result)

    def do_cumsum(self, node: Node) -> None:
        if node.op == "cumprod" and node.result.type.dtype.kind == "c":
            self.do_call(node)
            return
        self.steps.append(build_scan(node, self.plan, self.buffer, self.scalars))

    do_cumprod = do_cumsum

    def do_check(self, node: Node) -> None:
        flag = self.new_buffer("b1", (), "temp")
        self.steps.append(build_check(node, flag, self.plan, self.buffer, self.scalars))
        self.steps.append(Check(flag))

    def do_bind(self, node: Node) -> None:
        """An integer that is computed from arrays, known from here on."""
        x = node.inputs[0]
        cell = self.new_buffer("i64", (), "temp")
        self.add_copy(x, cell, identity_view(()))
        symbol = Sym(node.attrs["symbol"], "value")
        self.steps.append(Bind(symbol, cell, type_of(x).short))

    def do_compress(self, node: Node) -> None:
        """What a mask picks, unless only its size is asked for."""
        if self.uses.get(node.result, 0):
            inliner = plain_inliner(self.plan, self.buffer, self.scalars)
            nest = packs_into(node, self.buffer(node.result), inliner)
            if not self.steps or not join_pack(self.steps[-1], nest):
                self.steps.append(nest)

    def do_scatter(self, node: Node) -> None:
        """A copy of the base, and the places written."""
        base = node.inputs[0]
        assert isinstance(base, Value)
        target = self.write_target(node)
        self.add_copy(base, target, identity_view(base.type.shape))
        if base in self.plan.stored or base in self.parameters:
            self.copies.append(Copies(self.steps[-1], self.buffer(base), target))
        inliner = plain_inliner(self.plan, self.buffer, self.scalars)
        self.steps.append(scatters_into(node, target, inliner))

    def do_extent(self, node: Node) -> None:
        length = node.inputs[0]
        size = bare(node.attrs["size"])
        assert isinstance(length, Value) and size is not None
        self.steps.append(Bind(size, self.buffer(length)))
        if self.uses.get(node.result, 0):
            target = self.buffer(node.result)
            self.add_copy(False, target, identity_view(node.result.type.shape))

    def do_matmul(self, node: Node) -> None:
        out = node.result
        a, b = (self.matrix(x, out.type.short) for x in node.inputs)
        shape_a, shape_b = (type_of(x).shape for x in node.inputs)
        batch = out.type.shape[:-2]
        if a is None or b is None:
            self.do_call(node)
            return
        strides = self.buffer(out).strides
        result = Matrix(self.buffer(out), 0, False, strides[-2], strides[:-2])
        a, b = widened(a, shape_a, batch), widened(b, shape_b, batch)
        sizes = shape_a[-2], shape_b[-1], shape_a[-1]
        self.steps.append(taller(Gemm(a, b, result, *sizes, batch, "sparse" in node.attrs)))

    def matrix(self, x: Operand, ty: str) -> Matrix | None:
        """A matrix operand as it lies in memory; copied when BLAS cannot read it so. None: another
        type.
        """
        if not isinstance(x, Value) or x.type.short != ty:
            return None
        found = self.strides_of(x)
        if found is not None and x.type.shape[-2] == 1:
            found = one_row(found, x.type.shape[-1])
        if found is None or not all(map(is_positive, found[2][-2:])):
            buffer = self.contiguous(x)
            found = (buffer, 0, buffer.strides)
        buffer, offset, strides = found
        if strides[-1] == 1:
            return Matrix(buffer, offset, False, strides[-2], strides[:-2])
        return Matrix(buffer, offset, True, strides[-1], strides[:-2])

    def strides_of(self, x: Value) -> Lying | None:
        """Buffer, offset and strides of a stored value or of a plain view of one, if one of the
        last two strides is 1.
        """
        index: Index = tuple(along(f"a{k}") for k in range(x.type.rank))
        base, at = x, index
        if x not in self.buffers and x.node is not None and x.node.op == "read":
            inner = x.node.inputs[0]
            assert isinstance(inner, Value)
            base, at = inner, view_index(x.node.attrs["view"], index)
        if base not in self.buffers:
            return None
        where = flat(at, self.buffers[base].strides)
        strides = tuple(where.stride(f"a{k}") for k in range(x.type.rank))
        if 1 not in strides[-2:]:
            return None
        return self.buffers[base], where.offset, strides

    def do_call(self, node: Node) -> None:
        """A node that is left to Python, with arrays of its own and arguments nobody writes."""
        call = as_call(node)
        operands: list[Buffer | Operand] = []
        for x in call.inputs:
            if not isinstance(x, Value) or (x in self.parameters and x not in self.graph.finals):
                operands.append(x)
                continue
            array = self.new_buffer(x.type.short, x.type.shape, "array")
            self.add_copy(x, array, identity_view(x.type.shape))
            operands.append(array)
        outputs = []
        for v in node.outputs:
            self.buffers[v] = self.new_buffer(v.type.short, v.type.shape, "returned")
            outputs.append(self.buffers[v])
        self.steps.append(PythonCall(call, operands, outputs))
        for v in node.outputs:
            if v in self.roles and not v.type.rank:
                copy = self.new_buffer(v.type.short, v.type.shape, "result")
                self.add_copy(v, copy, identity_view(v.type.shape))
                self.buffers[v] = copy

    def write_finals(self) -> None:
        """Arguments are written after everything has been read: first every value that is itself an
        argument into a temporary, then all copies.
        """
        for parameter, value in self.graph.finals.items():
            if value.node is None and value is not parameter:
                copy = self.new_buffer(value.type.short, value.type.shape, "temp")
                self.add_copy(value, copy, identity_view(value.type.shape))
                self.buffers[value] = copy
        for parameter, value in self.graph.finals.items():
            if value is parameter:
                continue
            target = self.parameters[parameter]
            self.add_copy(value, target, identity_view(target.shape))
            self.copies.append(Copies(self.steps[-1], self.buffer(value), target))


_FOLDS = frozenset(["sum", "prod", "min", "max", "any", "all", "argmin", "argmax"])


def is_dense(buffer: Buffer) -> bool:
    """Whether memory of its size holds a buffer."""
    return buffer.strides in (c_strides(buffer.shape), f_strides(buffer.shape))


def _read_by(step: Step, stored: set[Value]) -> set[Value]:
    """Stored values a step reads, through the maps it inlines; what its regions end with."""
    if isinstance(step, Group):
        return step.reads
    found: set[Value] = set()
    ends = (x for region in step.node.regions for x in region.yields)
    stack = [x for x in (*step.node.inputs, *ends) if isinstance(x, Value)]
    while stack:
        x = stack.pop()
        if x in found:
            continue
        found.add(x)
        if x.node is not None and x not in stored:
            stack.extend(y for y in x.node.inputs if isinstance(y, Value))
    return found
