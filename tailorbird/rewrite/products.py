"""What is written as products, sums over axes, transposes and parts, as one sum of products.

    (a @ b) @ v              a[i,j] b[j,k] v[k] -> [i]
    sum(x @ w, axis=1)       x[i,j] w[j,k]      -> [i]
    trace(a @ b)             a[i,j] b[j,i]      -> []
    diag(d) @ x              d[i] x[i,k]        -> [i,k]
    (a @ b)[3]               a[3][j] b[j,k]     -> [k]

In: a value of a captured graph, and how often each value is used. Out: its factors with the labels
of their axes, the labels of the result, and the nodes that the factors stand for.

Invariants: a value that something else reads as well is a factor, never looked into. Labels that
turn out to be one are told apart by nobody: `one` gives the one that stands for them.
"""

from __future__ import annotations

from collections import Counter
from itertools import count

import numpy as np

from tailorbird.dataclass import dataclass, replace
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Node, Operand, Value, View, identity_view, type_of

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Factor:
    """An array, the part of it that is read, and the labels of the axes of that part."""

    array: Operand
    view: View
    labels: Labels


class Unlike(Exception):
    """This is no sum of products, or none that is understood."""


class Product:
    """One sum of products; `nodes` are those that it stands for. `spread` says that a factor is the
    diagonal of a matrix of zeros, which has one label twice: sums over them are left out.
    """

    def __init__(self, root: Node, uses: Counter[Value]) -> None:
        self.uses = uses
        self.dtype: np.dtype = root.result.type.dtype
        self.factors: list[Factor] = []
        self.extents: dict[str, Dim] = {}
        self.nodes: list[Node] = []
        self.spread = False
        self._same: dict[str, str] = {}
        self._names = (f"l{k}" for k in count())
        self.output = tuple(map(self.one, self._of_node(root)))

    @property
    def terms(self) -> list[Labels]:
        """The labels of every factor."""
        return [tuple(map(self.one, factor.labels)) for factor in self.factors]

    def one(self, label: str) -> str:
        """The label that stands for this one."""
        while label in self._same:
            label = self._same[label]
        return label

    def _new(self, extent: Dim) -> str:
        name = next(self._names)
        self.extents[name] = extent
        return name

    def _join(self, a: str, b: str) -> None:
        a, b = self.one(a), self.one(b)
        if a != b:
            if self.extents[a] != self.extents[b]:
                raise Unlike
            self._same[b] = a

    # -- reading

    def _of(self, x: Operand) -> Labels:
        """The labels of a value's axes."""
        if isinstance(x, Value) and x.node is not None and self.uses[x] == 1:
            before = list(self.factors), dict(self._same), list(self.nodes)
            try:
                return self._of_node(x.node)
            except Unlike:
                self.factors, self._same, self.nodes = before
        kind = type_of(x)
        if kind.dtype != self.dtype or not kind.rank:
            raise Unlike
        labels = tuple(map(self._new, kind.shape))
        self.factors.append(Factor(x, identity_view(kind.shape), labels))
        return labels

    def _of_node(self, node: Node) -> Labels:
        self.nodes.append(node)
        if node.op in ("matmul", "dot"):
            return self._of_product(node)
        if node.op == "sum" and not node.attrs.get("keepdims"):
            return self._of_sum(node)
        if node.op == "read":
            return self._of_view(node, node.attrs["view"])
        if node.op == "reshape":
            return self._of_diagonal(node)
        raise Unlike

    def _of_product(self, node: Node) -> Labels:
        if not all(1 <= type_of(x).rank <= 2 for x in node.inputs):
            raise Unlike
        a, b = (self._of(x) for x in node.inputs)
        self._join(a[-1], b[0])
        return (*a[:-1], *b[1:])

    def _of_sum(self, node: Node) -> Labels:
        if node.attrs.get("dtype", self.dtype) != self.dtype:
            raise Unlike
        inner, axes = self._of_inner(node.inputs[0]), node.attrs["axis"]
        return tuple(label for k, label in enumerate(inner) if k not in axes)

    def _of_inner(self, x: Operand) -> Labels:
        """The labels of what is no factor itself."""
        known = len(self.nodes)
        labels = self._of(x)
        if len(self.nodes) == known:
            raise Unlike
        return labels

    def _of_view(self, node: Node, view: View) -> Labels:
        """A transpose, a diagonal, or a part of a product, which is a product of parts."""
        base = type_of(node.inputs[0]).shape
        labels: dict[int, str] = {}
        for label, extent, (start, step, axis) in zip(
            self._of_inner(node.inputs[0]), base, view.dims, strict=True
        ):
            if axis is None:
                self._cut(label, (start, 0), None)
                continue
            length = view.shape[axis]
            whole = (start, step, length) == (0, 1, extent)
            kept = label if whole else self._cut(label, (start, step), length)
            self._join(labels.setdefault(axis, kept), kept)
        if len(labels) < len(view.shape):
            raise Unlike  # an axis along which it is repeated
        return tuple(labels[k] for k in range(len(view.shape)))

    def _cut(self, label: str, places: tuple[Dim, Dim], length: Dim | None) -> str:
        """Reads every factor along a label at one place, or at several in steps."""
        label = self.one(label)
        new = "" if length is None else self._new(length)
        for k, (factor, term) in enumerate(zip(self.factors, self.terms, strict=True)):
            if term.count(label) > 1:
                raise Unlike
            if label in term:
                self.factors[k] = _part(replace(factor, labels=term), label, places, length, new)
        return new

    def _of_diagonal(self, node: Node) -> Labels:
        """`np.diag(d)`: zeros of n by n, and d written into every n + 1st of them."""
        written = _made_by(node.inputs[0], "write")
        flat = written and _made_by(written.inputs[0], "reshape")
        zeros = flat and _made_by(flat.inputs[0], "full")
        if not written or not zeros or zeros.inputs[0] != 0:
            raise Unlike
        d, shape = written.inputs[1], node.result.type.shape
        along = View(((0, shape[0] + 1, 0),), shape[:1])
        if shape != (shape[0],) * 2 or written.attrs["view"] != along:
            raise Unlike
        if type_of(d).dtype != self.dtype or type_of(d).shape != shape[:1]:
            raise Unlike
        label = self._new(shape[0])
        self.spread = True
        self.factors.append(Factor(d, identity_view(shape[:1]), (label,)))
        return label, label


def _made_by(x: Operand, op: str) -> Node | None:
    node = x.node if isinstance(x, Value) else None
    return node if node is not None and node.op == op else None


def _part(
    factor: Factor, label: str, places: tuple[Dim, Dim], length: Dim | None, new: str
) -> Factor:
    """The part of a factor at some places along one label."""
    axis = factor.labels.index(label)
    shape = factor.view.shape
    if length is None:
        dims: list[tuple[Dim, Dim, int | None]]
        dims = [(0, 1, k - (k > axis)) for k in range(len(shape))]
        dims[axis] = (*places, None)
        view = View(tuple(dims), (*shape[:axis], *shape[axis + 1 :]))
        labels = (*factor.labels[:axis], *factor.labels[axis + 1 :])
    else:
        steps = [(*places, k) if k == axis else (0, 1, k) for k in range(len(shape))]
        view = View(tuple(steps), (*shape[:axis], length, *shape[axis + 1 :]))
        labels = (*factor.labels[:axis], new, *factor.labels[axis + 1 :])
    return Factor(factor.array, factor.view.then(view), labels)
