"""A graph and its groups become a program: buffers and steps.

Invariants:
- A value has one buffer, written by one step (a concatenation or a write by several nests in a row)
  before any step reads it.
- A reshape shares its base's buffer; a write takes over its base's buffer when nothing else reads
  the base.
- Arguments are written last (`finals`), through a temporary unless every read of that argument is
  at the point being written.
- Results are NumPy arrays allocated for the call; temporaries share one arena; scalars are
  one-element temporaries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tailorbird.fuse.flow import Index, Position, along, flat, view_index
from tailorbird.fuse.groups import Group, Plan, Single
from tailorbird.ir.expr import Dim, symbol
from tailorbird.ir.node import (
    Graph,
    Node,
    Operand,
    Value,
    View,
    identity_view,
    leaves,
    map_leaves,
    type_of,
)
from tailorbird.lower.kernel import Axis, Buffer, Nest, Stage, Store, c_strides
from tailorbird.lower.nests import build_nest, build_scan
from tailorbird.lower.schedule import schedule


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory for BLAS: where it starts, whether it lies transposed, and its leading
    dimension.
    """

    buffer: Buffer
    offset: Dim
    transposed: bool
    leading: Dim
    batch: tuple[Dim, ...]


@dataclass
class Gemm:
    """out[b] = a[b] @ b[b] for every b of the batch."""

    a: Matrix
    b: Matrix
    out: Matrix
    m: Dim
    n: Dim
    k: Dim
    batch: tuple[Dim, ...]


@dataclass
class PythonCall:
    """An opaque call: operands are arrays or scalars, results come back as fresh contiguous
    arrays.
    """

    node: Node
    operands: list[Buffer | Operand]
    outputs: list[Buffer]


ProgramStep = Nest | Gemm | PythonCall


@dataclass
class Program:
    """What is compiled: parameters with their layouts, buffers, steps in order, and results."""

    graph: Graph
    layouts: tuple[str, ...]
    parameters: dict[Value, Buffer]
    scalars: dict[Value, str]
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[ProgramStep] = field(default_factory=list)
    results: Any = None  # graph.results with values replaced by buffers


def parameter_strides(position: int, shape: tuple[Dim, ...], layout: str) -> tuple[Dim, ...]:
    """Element strides of an argument: `C`, `F`, or `S` followed by the axis of unit stride (or
    `-`).
    """
    if layout == "C":
        return c_strides(shape)
    if layout == "F":
        return tuple(reversed(c_strides(tuple(reversed(shape)))))
    unit = layout[1:]
    return tuple(
        1 if str(k) == unit else symbol(f"s{position}_{k}", "stride") for k in range(len(shape))
    )


def lower(graph: Graph, plan: Plan, layouts: tuple[str, ...], width_bytes: int) -> Program:
    """Lowers a fused graph for arguments that lie as `layouts` says (one for each parameter)."""
    return _Lowerer(graph, plan, layouts, width_bytes).run()


class _Lowerer:
    def __init__(
        self, graph: Graph, plan: Plan, layouts: tuple[str, ...], width_bytes: int
    ) -> None:
        self.graph = graph
        self.plan = plan
        self.width_bytes = width_bytes
        self.buffers: dict[Value, Buffer] = {}
        self.scalars: dict[Value, str] = {}
        self.made: list[Buffer] = []
        self.steps: list[ProgramStep] = []
        self.roles: dict[Value, str] = {}
        self.uses: dict[Value, int] = {}
        self.layouts = layouts
        self.parameters: dict[Value, Buffer] = {}
        for k, (p, layout) in enumerate(zip(graph.parameters, layouts, strict=True)):
            if p.type.rank:
                strides = parameter_strides(k, p.type.shape, layout)
                self.parameters[p] = Buffer(f"p{k}", p.type.short, p.type.shape, strides, "param")
                self.buffers[p] = self.parameters[p]
            else:
                self.scalars[p] = f"p{k}"
        self.count_uses()

    # -- buffers

    def count_uses(self) -> None:
        for node in self.graph.body.nodes:
            for x in node.inputs:
                if isinstance(x, Value):
                    self.uses[x] = self.uses.get(x, 0) + 1
        for x in [*leaves(self.graph.results), *self.graph.finals.values()]:
            if isinstance(x, Value):
                self.uses[x] = self.uses.get(x, 0) + 1
        for x in leaves(self.graph.results):
            if isinstance(x, Value) and x.type.rank:
                self.roles[x] = "result"

    def new_buffer(self, ty: str, shape: tuple[Dim, ...], role: str) -> Buffer:
        buffer = Buffer(f"b{len(self.made)}", ty, shape, c_strides(shape), role)
        self.made.append(buffer)
        return buffer

    def buffer(self, value: Value, role: str = "") -> Buffer:
        """The buffer of a stored value, made when first asked for."""
        if value not in self.buffers:
            role = self.roles.get(value) or role or "temp"
            alias = self.result_reshape(value)
            if alias is not None:
                whole = self.buffer(alias)
                self.buffers[value] = Buffer(
                    whole.name, whole.ty, value.type.shape, c_strides(value.type.shape), whole.role
                )
            else:
                self.buffers[value] = self.new_buffer(value.type.short, value.type.shape, role)
        return self.buffers[value]

    def result_reshape(self, value: Value) -> Value | None:
        """The result that is a reshape of this value and of nothing else: then the value is made
        in the result's memory.
        """
        if value in self.roles or self.uses.get(value, 0) != 1:
            return None
        for node in self.graph.body.nodes:
            if (
                node.op == "reshape"
                and node.inputs[0] is value
                and self.roles.get(node.result) == "result"
            ):
                return node.result
        return None

    def contiguous(self, x: Value) -> Buffer:
        """A C-contiguous buffer that holds the value, copied if it lies otherwise."""
        if x in self.buffers and self.buffers[x].strides == c_strides(x.type.shape):
            return self.buffers[x]
        if x not in self.parameters:
            return self.buffer(x)
        copy = self.new_buffer(x.type.short, x.type.shape, "temp")
        self.add_copy(x, copy, identity_view(x.type.shape))
        return copy

    # -- steps

    def run(self) -> Program:
        for step in self.plan.steps:
            if isinstance(step, Group):
                self.add_nest(
                    build_nest(step, self.plan, self.buffer, self.needed(step), self.scalars)
                )
            else:
                self.single(step)
        self.write_finals()
        results = map_leaves(
            self.graph.results, lambda x: self.buffers[x] if isinstance(x, Value) else x
        )
        return Program(
            self.graph, self.layouts, self.parameters, self.scalars, self.made, self.steps, results
        )

    def add_nest(self, nest: Nest) -> None:
        nest.name = f"k{len(self.steps)}"
        self.steps.append(schedule(nest, self.width_bytes))

    def needed(self, group: Group) -> set[Value]:
        """Members that must reach memory: all but reductions read only inside their own group."""
        inside = set(group.members)
        outside = set(leaves(self.graph.results)) | set(self.graph.finals.values())
        for step in self.plan.steps:
            if isinstance(step, Single):
                outside |= _reachable(step.node, self.plan.stored)
            elif step is not group:
                outside |= step.reads
        if not group.rows:
            return inside
        return {m for m in inside if m in outside or m.node is None or m.node.op not in _FOLDS}

    def single(self, step: Single) -> None:
        node = step.node
        handler = getattr(self, f"do_{node.op}", None)
        if handler is not None:
            handler(node)
        else:
            self.do_call(node)

    def add_copy(self, x: Operand, target: Buffer, view: View) -> None:
        """target[view] = x, as a nest over x's elements."""
        shape = view.shape
        axes = [Axis(f"a{k}", d) for k, d in enumerate(shape)]
        index: Index = tuple(along(a.name) for a in axes)
        nest = build_nest(None, self.plan, self.buffer, set(), self.scalars, copy=(x, shape))
        at = flat(view_index(view, index), target.strides)
        value = (
            nest.stages[0].stores[0].value
            if nest.stages[0].stores
            else nest.stages[0].head[0].value
        )
        store = Store(target, Position(at.offset, at.axes), value)
        stage = Stage(stores=[store]) if axes else Stage(head=[store])
        self.add_nest(Nest("", axes[:-1], axes[-1:], [stage], nodes=["copy"]))

    def do_reshape(self, node: Node) -> None:
        base = node.inputs[0]
        assert isinstance(base, Value)
        value = node.result
        if value in self.buffers:
            return
        source = self.contiguous(base)
        if value in self.roles:
            target = self.buffer(value)
            alias = Buffer(
                target.name, target.ty, base.type.shape, c_strides(base.type.shape), target.role
            )
            self.add_copy(base, alias, identity_view(base.type.shape))
            return
        self.buffers[value] = Buffer(
            source.name, source.ty, value.type.shape, c_strides(value.type.shape), source.role
        )

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
        base, value = node.inputs
        assert isinstance(base, Value)
        mine = base in self.buffers and base not in self.parameters and base not in self.roles
        if (
            mine
            and self.uses[base] == 1
            and self.buffers[base].role == "temp"
            and node.result not in self.roles
        ):
            self.buffers[node.result] = self.buffers[base]
        else:
            target = self.buffer(node.result)
            if not (base.node is not None and base.node.op == "empty"):
                self.add_copy(base, target, identity_view(base.type.shape))
        view: View = node.attrs["view"]
        self.add_copy(value, self.buffers[node.result], view)

    def do_cumsum(self, node: Node) -> None:
        self.add_nest(build_scan(node, self.plan, self.buffer, self.scalars))

    do_cumprod = do_cumsum

    def do_matmul(self, node: Node) -> None:
        out = node.result
        a, b = (self.matrix(x, out.type.short) for x in node.inputs)
        shape_a, shape_b = (type_of(x).shape for x in node.inputs)
        batch = out.type.shape[:-2]
        if a is None or b is None:
            self.do_call(node)
            return
        target = self.buffer(out)
        strides = target.strides
        result = Matrix(target, 0, False, strides[-2], strides[:-2])
        a, b = _widen(a, shape_a, batch), _widen(b, shape_b, batch)
        self.steps.append(Gemm(a, b, result, shape_a[-2], shape_b[-1], shape_a[-1], batch))

    def matrix(self, x: Operand, ty: str) -> Matrix | None:
        """A matrix operand as it lies in memory; copied when BLAS cannot read it so. None:
        another type.
        """
        if not isinstance(x, Value) or x.type.short != ty:
            return None
        found = self.strides_of(x)
        if found is None or not (_positive(found[2][-1]) and _positive(found[2][-2])):
            buffer = self.contiguous_copy(x)
            found = (buffer, 0, buffer.strides)
        buffer, offset, strides = found
        if strides[-1] == 1:
            return Matrix(buffer, offset, False, strides[-2], strides[:-2])
        return Matrix(buffer, offset, True, strides[-1], strides[:-2])

    def strides_of(self, x: Value) -> tuple[Buffer, Dim, tuple[Dim, ...]] | None:
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

    def contiguous_copy(self, x: Value) -> Buffer:
        if x in self.plan.stored and x not in self.parameters:
            return self.buffer(x)
        copy = self.new_buffer(x.type.short, x.type.shape, "temp")
        self.add_copy(x, copy, identity_view(x.type.shape))
        return copy

    def do_call(self, node: Node) -> None:
        """A node that is left to Python: operands become NumPy arrays of their own."""
        operands: list[Buffer | Operand] = []
        for x in node.inputs:
            if not isinstance(x, Value):
                operands.append(x)
                continue
            array = self.new_buffer(x.type.short, x.type.shape, "array")
            self.add_copy(x, array, identity_view(x.type.shape))
            operands.append(array)
        outputs = []
        for v in node.outputs:
            buffer = self.new_buffer(v.type.short, v.type.shape, "returned")
            self.buffers[v] = buffer
            outputs.append(buffer)
        self.steps.append(PythonCall(node, operands, outputs))
        for v in node.outputs:
            if self.roles.get(v) == "result":
                copy = self.new_buffer(v.type.short, v.type.shape, "result")
                self.add_copy(v, copy, identity_view(v.type.shape))
                self.buffers[v] = copy

    def write_finals(self) -> None:
        """Arguments are written after everything has been read: first all values into
        temporaries, then all copies.
        """
        ready = []
        for parameter, value in self.graph.finals.items():
            target = self.parameters[parameter]
            if value in self.parameters or value.node is None:
                copy = self.new_buffer(value.type.short, value.type.shape, "temp")
                self.add_copy(value, copy, identity_view(value.type.shape))
                self.buffers[value] = copy
            ready.append((value, target))
        for value, target in ready:
            self.add_copy(value, target, identity_view(target.shape))


_FOLDS = frozenset(["sum", "prod", "min", "max", "any", "all", "argmin", "argmax"])


def _reachable(node: Node, stored: set[Value]) -> set[Value]:
    """Stored values a single step reads, through the maps it inlines."""
    found: set[Value] = set()
    stack = [x for x in node.inputs if isinstance(x, Value)]
    while stack:
        x = stack.pop()
        if x in found:
            continue
        found.add(x)
        if x.node is not None and x not in stored:
            stack.extend(y for y in x.node.inputs if isinstance(y, Value))
    return found


def _positive(stride: Dim) -> bool:
    """Surely positive: a constant, or products of sizes with positive coefficients."""
    if isinstance(stride, int):
        return stride > 0
    return all(c > 0 and all(s.kind == "size" for s in m) for m, c in stride.terms)


def _widen(m: Matrix, shape: tuple[Dim, ...], batch: tuple[Dim, ...]) -> Matrix:
    """Batch strides aligned with the result's batch: 0 where the operand is broadcast."""
    own = shape[:-2]
    strides = tuple(0 if d == 1 else s for d, s in zip(own, m.batch, strict=True))
    missing = (0,) * (len(batch) - len(own))
    return Matrix(m.buffer, m.offset, m.transposed, m.leading, missing + strides)
