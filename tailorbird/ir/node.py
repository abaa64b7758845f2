"""Nodes, values, regions, views and graphs.

Invariants: a node's operands are values defined earlier in its region or an enclosing one, exact
integers, or scalar literals; a region keeps program order; a value belongs to one node, or is a
parameter of a region or graph; types never change once made. Attributes are hashable, so that a
pure node is found again by `Region.add` (hash-consing within a region and its parents).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tailorbird.dataclass import dataclass, field
from tailorbird.ir.expr import Dim, Expr, divide_exactly
from tailorbird.ir.leaves import leaves as leaves
from tailorbird.ir.leaves import map_leaves as map_leaves
from tailorbird.ir.types import Type, type_of_literal


@dataclass(frozen=True)
class View:
    """An index map from a result to its base.

    Base axis k is read at `start + step * index[axis]`, or at `start` when axis is None (then the
    step is 0). Basic indexing, transposes, flips, newaxis, diagonals (two base axes on one result
    axis) and broadcasting (a result axis that no base axis uses) all compose into one view. `shape`
    is the shape of the result. Printed as slices that never wrap, `[1:n0-1, 0, n1-1:-1:-1]`; the
    notation is in docs/ir.md.
    """

    dims: tuple[tuple[Dim, Dim, int | None], ...]
    shape: tuple[Dim, ...]

    def __post_init__(self) -> None:
        if any(axis is None and step != 0 for _, step, axis in self.dims):
            dims = tuple((s, 0 if axis is None else step, axis) for s, step, axis in self.dims)
            object.__setattr__(self, "dims", dims)

    def then(self, outer: View) -> View:
        """The view that reads `outer` of what this view shows."""
        dims: list[tuple[Dim, Dim, int | None]] = []
        for start, step, axis in self.dims:
            if axis is None:
                dims.append((start, 0, None))
                continue
            start2, step2, axis2 = outer.dims[axis]
            dims.append((start + step * start2, step * step2, axis2))
        return View(tuple(dims), outer.shape)

    def __str__(self) -> str:
        used = [axis for _, _, axis in self.dims if axis is not None]
        tagged = used != sorted(set(used))
        parts: list[str] = []
        shown = 0
        for start, step, axis in self.dims:
            if axis is None:
                parts.append(str(start))
                continue
            parts += [f"*{self.shape[k]}" for k in range(shown, axis) if not tagged]
            shown = axis + 1
            parts.append(self._slice(start, step, axis) + (f" @{axis}" if tagged else ""))
        for k in range(0 if tagged else shown, len(self.shape)):
            if k not in used:
                parts.append(f"*{self.shape[k]}" + (f" @{k}" if tagged else ""))
        return f"[{', '.join(parts)}]"

    def _slice(self, start: Dim, step: Dim, axis: int) -> str:
        count = self.shape[axis]
        stop: Dim = start + step * count
        exact = step != 0 and divide_exactly(stop - start, step) == count
        middle = str(stop) if exact else f"({count})"
        return f"{start}:{middle}" + ("" if step == 1 else f":{step}")


def identity_view(shape: Sequence[Dim]) -> View:
    """The view of everything."""
    return View(tuple((0, 1, k) for k in range(len(shape))), tuple(shape))


class Value:
    """One result of a node, or a parameter (then `node` is None)."""

    __slots__ = ("index", "name", "node", "type")

    def __init__(
        self, type: Type, node: Node | None = None, index: int = 0, name: str = ""
    ) -> None:
        self.type = type
        self.node = node
        self.index = index
        self.name = name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


Literal = bool | float | complex | np.generic
Operand = Value | Expr | int | Literal


def type_of(x: Operand) -> Type:
    """The type of any operand."""
    return x.type if isinstance(x, Value) else type_of_literal(x)


class Node:
    """One operation: `op`, operands, attributes, results, and regions if the op holds graphs."""

    __slots__ = ("attrs", "inputs", "line", "op", "outputs", "regions")

    def __init__(
        self,
        op: str,
        inputs: Sequence[Operand],
        attrs: dict[str, Hashable] | None = None,
        types: Sequence[Type] = (),
        regions: Sequence[Region] = (),
        line: str = "",
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.attrs: dict[str, Any] = attrs or {}
        self.outputs = tuple(Value(t, self, k) for k, t in enumerate(types))
        self.regions = tuple(regions)
        self.line = line

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.outputs
        return value

    def __repr__(self) -> str:
        return f"<{self.op} -> {', '.join(str(v.type) for v in self.outputs)}>"


def _name(pair: tuple[str, Any]) -> str:
    return pair[0]


def operand_key(x: Operand) -> Hashable:
    """Identity for hash-consing: -0.0 is not 0.0, 1 is not True, nan is itself."""
    if isinstance(x, Value):
        return id(x)
    if isinstance(x, Expr):
        return x
    return (type(x), repr(x))


class Region:
    """Nodes in program order, with parameters (for loops) and the operands it yields."""

    __slots__ = ("_seen", "nodes", "parameters", "parent", "yields")

    def __init__(self, parent: Region | None = None) -> None:
        self.parent = parent
        self.parameters: list[Value] = []
        self.nodes: list[Node] = []
        self.yields: tuple[Operand, ...] = ()
        self._seen: dict[Hashable, Node] = {}

    def add(
        self,
        op: str,
        inputs: Sequence[Operand],
        attrs: dict[str, Hashable] | None,
        type: Type,
        line: str = "",
    ) -> Value:
        """The result of a pure node, made once for equal operands."""
        attributes = attrs or {}
        key = (
            op,
            tuple(map(operand_key, inputs)),
            tuple(sorted(attributes.items(), key=_name)) if attributes else (),
            type,
        )
        region: Region | None = self
        while region is not None:
            if key in region._seen:
                return region._seen[key].result
            region = region.parent
        node = Node(op, inputs, attributes, [type], line=line)
        self._seen[key] = node
        self.nodes.append(node)
        return node.result

    def append(self, node: Node) -> Node:
        """Adds a node that is not pure, or has regions or several results."""
        self.nodes.append(node)
        return node

    def walk(self) -> Iterator[Node]:
        """Every node, those of inner regions too, in program order."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()


@dataclass(frozen=True)
class Guard:
    """A relation between sizes and integer arguments that the code relies on: `expr rel 0`.

    `rel` is one of `==`, `!=`, `>=`.
    """

    rel: str
    expr: Dim

    def holds(self, value: int) -> bool:
        return {"==": value == 0, "!=": value != 0, ">=": value >= 0}[self.rel]

    def __str__(self) -> str:
        return f"{self.expr}{self.rel}0"


@dataclass
class Graph:
    """A captured function: parameters, guards over sizes, a body, results, the arguments it writes.

    `results` is a structure of tuples, lists and dicts whose leaves are operands, static Python
    values wrapped in `Static`, or `Argument` for an argument object itself.
    `finals` maps a parameter that the function writes to the value it holds at the end.
    """

    name: str
    parameters: list[Value] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    body: Region = field(default_factory=Region)
    results: Any = None
    finals: dict[Value, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Static:
    """A result that does not depend on array data: None, a string, a dtype, ..."""

    value: Any


@dataclass(frozen=True)
class Argument:
    """A result that is the argument object itself, not its value."""

    parameter: Value


@dataclass(frozen=True)
class Slot:
    """In the `template` of a call node: where operand `index` goes."""

    index: int
