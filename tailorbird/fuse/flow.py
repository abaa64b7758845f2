"""How an index travels: reading a node's result here means reading its operands there.

A `Position` is one index along one axis of a value, as an exact expression over the axes of the
loop nest around it: `offset + sum(axis * stride)`, plus terms that are not affine (a gather, a
clamp). Because positions are algebra, views, transposes, flips, diagonals and broadcasts cost
nothing: they are composed here and never seen again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tailorbird.dataclass import dataclass
from tailorbird.fuse.capable import generated
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Node, Operand, Value, View, type_of
from tailorbird.ir.ops import OPS


@dataclass(frozen=True)
class Term:
    """An index that must be computed: `load` of an integer value, or `wrap`, `clamp`, `reflect`,
    `symmetric` of a position.
    """

    kind: str
    value: Value | None
    positions: tuple[Position, ...]
    extent: Dim = 0


@dataclass(frozen=True)
class Position:
    """offset + sum(axis * stride) + sum(term * stride)."""

    offset: Dim = 0
    axes: tuple[tuple[str, Dim], ...] = ()
    terms: tuple[tuple[Term, Dim], ...] = ()

    def stride(self, axis: str) -> Dim:
        """How far one step along an axis moves."""
        for name, stride in self.axes:
            if name == axis:
                return stride
        return 0

    def plus(self, other: Position) -> Position:
        strides = dict(self.axes)
        for name, stride in other.axes:
            strides[name] = strides.get(name, 0) + stride
        axes = tuple((name, s) for name, s in strides.items() if s != 0)
        return Position(self.offset + other.offset, axes, self.terms + other.terms)

    def times(self, k: Dim) -> Position:
        if k == 0:
            return ZERO
        axes = tuple((name, s * k) for name, s in self.axes)
        return Position(self.offset * k, axes, tuple((t, s * k) for t, s in self.terms))


ZERO = Position()
Index = tuple[Position, ...]


def along(axis: str) -> Position:
    """The position that is the axis itself."""
    return Position(0, ((axis, 1),))


def flat(index: Index, strides: tuple[Dim, ...]) -> Position:
    """The element offset of an index in memory with these strides."""
    total = ZERO
    for position, stride in zip(index, strides, strict=True):
        total = total.plus(position.times(stride))
    return total


def broadcast_index(operand: Operand, index: Index) -> Index:
    """The index of a broadcast operand: trailing axes, and 0 along axes of one element."""
    shape = type_of(operand).shape
    tail = index[len(index) - len(shape) :]
    return tuple(ZERO if d == 1 else p for d, p in zip(shape, tail, strict=True))


def view_index(view: View, index: Index) -> Index:
    """The index of the base that a view reads."""
    out = []
    for start, step, axis in view.dims:
        moved = index[axis].times(step) if axis is not None else ZERO
        out.append(Position(start).plus(moved))
    return tuple(out)


def is_trivial_reshape(node: Node) -> bool:
    """Only axes of one element appear or vanish."""
    before = [d for d in type_of(node.inputs[0]).shape if d != 1]
    after = [d for d in node.result.type.shape if d != 1]
    return before == after


def _reshape_index(node: Node, index: Index) -> Index:
    kept = [p for d, p in zip(node.result.type.shape, index, strict=True) if d != 1]
    out: list[Position] = []
    for d in type_of(node.inputs[0]).shape:
        out.append(ZERO if d == 1 else kept.pop(0))
    return tuple(out)


PAD_TERMS = {"edge": "clamp", "wrap": "wrap", "reflect": "reflect", "symmetric": "symmetric"}


def _pad_index(node: Node, index: Index) -> Index:
    kind = PAD_TERMS[node.attrs["mode"]]
    out = []
    for (before, after), extent, p in zip(
        node.attrs["width"], type_of(node.inputs[0]).shape, index, strict=True
    ):
        if before == 0 and after == 0:
            out.append(p)
            continue
        shifted = Position(-before).plus(p)
        out.append(Position(0, (), ((Term(kind, None, (shifted,), extent), 1),)))
    return tuple(out)


def _take_index(node: Node, index: Index) -> tuple[Index, Index]:
    axis: int = node.attrs["axis"]
    indices = node.inputs[1]
    rank = type_of(indices).rank
    inner = index[axis : axis + rank]
    term = Term("load", indices, inner, type_of(node.inputs[0]).shape[axis])  # type: ignore[arg-type]
    base = (*index[:axis], Position(0, (), ((term, 1),)), *index[axis + rank :])
    return base, inner


def index_axes(node: Node, indices: Sequence[Operand]) -> tuple[int, ...]:
    """The base axes that the indices of a gather or a scatter stand on."""
    return tuple(node.attrs.get("axes", range(len(indices))))


def _layout(node: Node, indices: Sequence[Operand]) -> tuple[int, int, tuple[int, ...]]:
    """Where in the result the axes of the indices stand, how many they are, the base axes left."""
    axes = index_axes(node, indices)
    rank = max((type_of(i).rank for i in indices), default=0)
    left = tuple(k for k in range(type_of(node.inputs[0]).rank) if k not in axes)
    ordered = sorted(axes)
    place = ordered[0] if ordered[-1] - ordered[0] == len(axes) - 1 else 0
    return place, rank, left


def _base_index(
    node: Node, indices: Sequence[Operand], index: Index
) -> tuple[Index, list[tuple[Operand, Index]]]:
    """The index of the base that an index of what is picked reads, and that of each index."""
    place, rank, left = _layout(node, indices)
    inner, outer = index[place : place + rank], (*index[:place], *index[place + rank :])
    found: dict[int, Position] = dict(zip(left, outer, strict=True))
    reads: list[tuple[Operand, Index]] = []
    shape = type_of(node.inputs[0]).shape
    for axis, i in zip(index_axes(node, indices), indices, strict=True):
        at = broadcast_index(i, inner)
        if isinstance(i, Value):
            found[axis] = Position(0, (), ((Term("load", i, at, shape[axis]), 1),))
            reads.append((i, at))
        else:
            found[axis] = Position(i if isinstance(i, Expr) else int(i))  # type: ignore[arg-type]
    return tuple(found[k] for k in range(len(shape))), reads


def _gathered(node: Node, index: Index) -> Iterator[tuple[Operand, Index]]:
    base, reads = _base_index(node, node.inputs[1:], index)
    yield node.inputs[0], base
    yield from reads


def gathered_at(node: Node, indices: Sequence[Operand]) -> tuple[tuple[Dim, ...], Index]:
    """The shape of what indices pick, and the index of the base over its axes a0, a1, ..."""
    place, rank, left = _layout(node, indices)
    shape = type_of(node.inputs[0]).shape
    kept = [shape[k] for k in left]
    inserted: list[Dim] = [1] * rank
    for i in indices:
        own = type_of(i).shape
        for k, d in enumerate(own, rank - len(own)):
            inserted[k] = d if inserted[k] == 1 else inserted[k]
    full = (*kept[:place], *inserted, *kept[place:])
    index = tuple(along(f"a{k}") for k in range(len(full)))
    return full, _base_index(node, indices, index)[0]


INLINE_MOVES: dict[str, Callable[[Node], bool]] = {
    "read": lambda node: True,
    "reshape": is_trivial_reshape,
    "pad": lambda node: node.attrs["mode"] in PAD_TERMS,
    "take": lambda node: True,
    "gather": lambda node: True,
    "write_mask": lambda node: type_of(node.inputs[2]).rank == 0,
}


def inlines(node: Node) -> bool:
    """Whether a node's result can be computed at any index, on demand, from its operands."""
    kind = OPS[node.op].kind
    if kind == "map":
        return generated(node)
    if kind == "create":
        return True
    test = INLINE_MOVES.get(node.op)
    return test is not None and test(node)


def operands_at(node: Node, index: Index) -> Iterator[tuple[Operand, Index]]:
    """Which operands, at which index, the element of a node's result at `index` needs."""
    kind = OPS[node.op].kind
    if kind in ("map", "create"):
        for x in node.inputs:
            yield x, broadcast_index(x, index)
    elif node.op == "read":
        yield node.inputs[0], view_index(node.attrs["view"], index)
    elif node.op == "reshape":
        yield node.inputs[0], _reshape_index(node, index)
    elif node.op == "pad":
        yield node.inputs[0], _pad_index(node, index)
    elif node.op == "take":
        base, inner = _take_index(node, index)
        yield node.inputs[0], base
        yield node.inputs[1], inner
    elif node.op == "gather":
        yield from _gathered(node, index)
    elif node.op == "write_mask":
        base_value, mask, new = node.inputs
        yield base_value, index
        yield mask, index[: type_of(mask).rank]
        yield new, ()
    else:
        raise AssertionError(f"{node.op} is not inlined")


def reduced_operand(node: Node, rows: Index, inner: Index) -> Index:
    """The index of a reduction's operand, from positions along kept and reduced axes."""
    axis: tuple[int, ...] = node.attrs["axis"]
    rest = list(rows)
    folded = list(inner)
    rank = type_of(node.inputs[0]).rank
    return tuple(folded.pop(0) if k in axis else rest.pop(0) for k in range(rank))
