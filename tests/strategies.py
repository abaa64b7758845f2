"""Random straight-line graphs and arguments for them, for property tests of every stage.

`programs()` draws `(graph, arguments)`: a verified graph over the table of ops, and arrays that fit
it. Narrow it by what a backend can do: `programs(ops={"add", "sum"}, dtypes=["f4"])`.

Left out are operations whose answer differs between machines or that NumPy rejects for some data:
integer powers, and casts from floats to integers or from complex to real.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tailorbird.errors import Refused
from tailorbird.ir.expr import Dim, apply, evaluate, product, symbol
from tailorbird.ir.node import Argument, Graph, Guard, Operand, Static, Value, View
from tailorbird.ir.ops import LINEAR, OPS
from tailorbird.ir.shapes import infer
from tailorbird.ir.signature import SIGNATURES
from tailorbird.ir.types import LONG, WEAK_FLOAT, Type

N0, N1, K = symbol("n0"), symbol("n1"), symbol("k", "int")
DIMS: list[Dim] = [N0, N1, N0, N1, 1, 3]
LITERALS: list[Operand] = [2, 0.5, -1.5, np.float32(2.5), np.int64(3), True, K, K + N0]
SPECIAL_VALUES = [np.nan, np.inf, -np.inf, -0.0, 0.0]


class Builder:
    """A graph in the making, and the choices behind it."""

    def __init__(self, draw: Callable[[Any], Any], dtypes: Sequence[np.dtype]) -> None:
        self.draw = draw
        self.dtypes = dtypes
        self.graph = Graph("random", ints=["k"])
        self.graph.guards = [Guard(">=", N0 - 1), Guard(">=", N1 - 1)]
        self.pool: list[Value] = []
        self.fresh = 0

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def parameters(self) -> None:
        anchor = Type(self.pick(self.dtypes), (N0, N1))
        shapes = st.lists(st.sampled_from(DIMS), max_size=3).map(tuple)
        drawn = self.draw(st.lists(shapes, max_size=2))
        types = [anchor, *(Type(self.pick(self.dtypes), shape) for shape in drawn)]
        if self.draw(st.booleans()):
            types.append(WEAK_FLOAT)
        self.pool = [Value(t, name=name) for t, name in zip(types, "xyzs")]
        self.graph.parameters = list(self.pool)

    def values(self, test: Callable[[Type], bool]) -> list[Value]:
        return [v for v in self.pool if test(v.type)]

    def operand(self) -> Operand:
        return self.pick([*self.pool, *self.pool, *LITERALS])

    def add(self, op: str, operands: Sequence[Operand], /, **attrs: Any) -> None:
        """Adds a node if its operands go together."""
        try:
            result = infer(op, operands, attrs)
        except Refused:
            return
        if op == "power" and result.dtype.kind in "iu":
            return
        line = f"random.py:{len(self.graph.body.nodes) + 1}"
        value = self.graph.body.add(op, operands, attrs, result, line)
        if value not in self.pool:
            self.pool.append(value)

    def node(self, ops: Collection[str]) -> None:
        op = self.pick(sorted(ops))
        make = MAKERS.get(op) or MAKERS_OF_KIND[OPS[op].kind]
        make(self, op)

    def finish(self) -> Graph:
        x = self.graph.parameters[0]
        last = self.pool[-1]
        kept = self.draw(st.lists(st.sampled_from(self.pool), max_size=3))
        self.graph.results = (last, kept, {"k": K + 1, "none": Static(None)}, Argument(x))
        ends = self.values(lambda t: t == x.type)
        if len(ends) > 1 and self.draw(st.booleans()):
            self.graph.finals = {x: ends[-1]}
        return self.graph


def _map(b: Builder, op: str) -> None:
    b.add(op, [b.operand() for _ in range(SIGNATURES[op].least)])


def _cast(b: Builder, op: str) -> None:
    value = b.pick(b.pool)
    dtype = b.pick(b.dtypes)
    if np.can_cast(value.type.dtype, dtype, "same_kind") or value.type.dtype.kind in "biu":
        b.add(op, [value], dtype=dtype)


def _reduce(b: Builder, op: str) -> None:
    value = b.pick(b.pool)
    rank = value.type.rank
    axes = b.draw(st.sets(st.integers(0, rank - 1))) if rank else set()
    if op in ("argmin", "argmax"):
        axes = b.pick([set(range(rank)), {0} if rank else set()])
    attrs: dict[str, Any] = {"ddof": 1} if op in ("var", "std") and b.draw(st.booleans()) else {}
    b.add(op, [value], axis=tuple(sorted(axes)), keepdims=b.draw(st.booleans()), **attrs)


def _scan(b: Builder, op: str) -> None:
    arrays = b.values(lambda t: t.rank > 0)
    value = b.pick(arrays)
    dtype = infer("sum", [value], {"axis": ()}).dtype
    b.add(op, [value], axis=b.draw(st.integers(0, value.type.rank - 1)), dtype=dtype)


def _contract(b: Builder, op: str) -> None:
    arrays = b.values(lambda t: 0 < t.rank <= 2)
    b.add(op, [b.pick(arrays), b.pick(arrays)])


def _einsum(b: Builder, op: str) -> None:
    value = b.pick(b.values(lambda t: t.rank == 2))
    b.add(op, [value, value], subscripts=b.pick(["ij,ij->i", "ij,kj->ik", "ij,ij->ji"]))


def _create(b: Builder, op: str) -> None:
    dtype = b.pick([d for d in b.dtypes if d.kind in "fiu"] or b.dtypes)
    shape = (b.pick(DIMS),)
    if op == "full":
        b.add(op, [b.pick([1, K, True])], shape=(*shape, b.pick(DIMS)), dtype=dtype)
    elif op == "arange":
        b.add(op, [b.pick([0, 1, K]), b.pick([1, 2])], shape=shape, dtype=dtype)
    elif op == "linspace" and dtype.kind == "f":
        b.add(op, [b.pick([0, K]), 2.5], shape=shape, endpoint=b.draw(st.booleans()), dtype=dtype)


def draw_view(b: Builder, shape: Sequence[Dim], writable: bool = False) -> View:
    """A random view of an array of this shape: indices, slices, flips, transposes, new axes."""
    starts: list[tuple[Dim, Dim, Dim | None]] = []
    for n in shape:
        whole: tuple[Dim, Dim, Dim | None] = (0, 1, n)
        if type(n) is not int and n not in (N0, N1):  # it may be empty
            starts.append(whole)
            continue
        half = (0, 2, apply("floordiv", n + 1, 2))
        starts.append(b.pick([whole, whole, (1, 1, n - 1), (n - 1, -1, n), half, (n - 1, 0, None)]))
    kept = [k for k, (_, _, count) in enumerate(starts) if count is not None]
    order = b.draw(st.permutations(kept)) if b.draw(st.booleans()) else kept
    sizes: list[Dim] = [starts[k][2] or 0 for k in order]
    axes = {k: axis for axis, k in enumerate(order)}
    if b.draw(st.booleans()):
        place = b.draw(st.integers(0, len(sizes)))
        sizes.insert(place, 1 if writable else b.pick(DIMS))
        axes = {k: axis + (axis >= place) for k, axis in axes.items()}
    dims = tuple((start, step, axes.get(k)) for k, (start, step, _) in enumerate(starts))
    return View(dims, tuple(sizes))


def _read(b: Builder, op: str) -> None:
    value = b.pick(b.values(lambda t: not t.weak))
    b.add(op, [value], view=draw_view(b, value.type.shape))


def _write(b: Builder, op: str) -> None:
    base = b.pick(b.values(lambda t: t.rank > 0))
    view = draw_view(b, base.type.shape, writable=True)
    fitting = b.values(lambda t: t.shape in ((), view.shape) and t.dtype == base.type.dtype)
    b.add(op, [base, b.pick([*fitting, True, 1])], view=view)


def _masked(b: Builder, op: str) -> None:
    masks = b.values(lambda t: t.dtype.kind == "b" and t.rank > 0)
    if not masks:
        return
    mask = b.pick(masks)
    base = b.pick(b.values(lambda t: t.shape == mask.type.shape))
    if op == "write_mask":
        b.add(op, [base, mask, 1])
    else:
        b.fresh += 1
        b.add(op, [base, mask], size=symbol(f"k{b.fresh}", "fresh"))


def _indexed(b: Builder, op: str) -> None:
    base = b.pick(b.values(lambda t: t.rank > 0))
    axis = b.draw(st.integers(0, base.type.rank - 1))
    n = base.type.shape[axis]
    if type(n) is not int and n not in (N0, N1):
        return
    indices = infer("arange", [0, 1], {"shape": (n,), "dtype": np.dtype(np.int64)})
    attrs = {"shape": (n,), "dtype": indices.dtype}
    index = b.graph.body.add("arange", [n - 1, -1], attrs, indices)
    if op == "take":
        b.add(op, [base, b.pick([index, 0])], axis=axis)
    elif op == "gather":
        b.add(op, [base, index], axes=(axis,))
    else:
        ops = ["add"] if base.type.dtype.kind == "c" else ["add", "maximum"]
        more = {"op": b.pick(ops)} if b.draw(st.booleans()) else {}
        b.add(op, [base, index, 1], axes=(axis,), **more)


def _extent(b: Builder, op: str) -> None:
    """Bools as many as a count says."""
    value = b.pick(b.values(lambda t: not t.weak))
    axes = tuple(range(value.type.rank))
    attrs = {"axis": axes}
    length = b.graph.body.add(
        "count_nonzero", [value], attrs, infer("count_nonzero", [value], attrs)
    )
    b.fresh += 1
    b.add(op, [length], size=symbol(f"k{b.fresh}", "fresh"))


def _reshape(b: Builder, op: str) -> None:
    value = b.pick(b.values(lambda t: not t.weak))
    size = product(value.type.shape)
    b.add(op, [value], shape=b.pick([(size,), (1, size), (*value.type.shape, 1)]))


def _concatenate(b: Builder, op: str) -> None:
    first = b.pick(b.values(lambda t: t.rank > 0))
    others = b.values(lambda t: t.rank == first.type.rank)
    parts = [first, *b.draw(st.lists(st.sampled_from(others), max_size=2))]
    b.add(op, parts, axis=b.draw(st.integers(0, first.type.rank - 1)))


def _pad(b: Builder, op: str) -> None:
    value = b.pick(b.values(lambda t: t.rank > 0))
    if all(type(n) is int or n in (N0, N1) for n in value.type.shape):
        b.add(op, [value], width=((1, K),) * value.type.rank, mode="edge")


MAKERS_OF_KIND: dict[str, Callable[[Builder, str], None]] = {
    "map": _map,
    "reduce": _reduce,
    "scan": _scan,
    "contract": _contract,
    "create": _create,
}
MAKERS: dict[str, Callable[[Builder, str], None]] = {
    "cast": _cast,
    "einsum": _einsum,
    "read": _read,
    "write": _write,
    "write_mask": _masked,
    "compress": _masked,
    "gather": _indexed,
    "scatter": _indexed,
    "take": _indexed,
    "extent": _extent,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "pad": _pad,
}
# `empty` holds nothing that could be compared, LAPACK is `test_linear.py`'s; the rest are not
# straight-line.
STRAIGHT = (
    frozenset(OPS)
    - LINEAR
    - {
        "empty",
        "loop",
        "while",
        "branch",
        "call",
        "transfer",
        "check",
        "bind",
    }
)
# These reject an empty axis, which a slice of a drawn array may be.
REJECT_EMPTY = frozenset({"min", "max", "argmin", "argmax", "pad"})


def draw_array(rng: np.random.Generator, dtype: np.dtype, shape: Any, special: bool) -> Any:
    """An array of small values; with `special`, floats hold some nan, inf and -0."""
    values = rng.integers(0 if dtype.kind in "bu" else -4, 5, shape)
    if dtype.kind in "biu":
        return values.astype(dtype)
    array = (values + rng.integers(0, 4, shape) / 4).astype(dtype)
    if dtype.kind == "c":
        array = (array + 1j * rng.integers(-2, 3, shape)).astype(dtype)
    if special and array.size and rng.integers(3) == 0:
        picked = rng.integers(array.size, size=2)
        array.reshape(-1)[picked] = rng.choice(SPECIAL_VALUES, 2)
    return array


def draw_arguments(
    graph: Graph, seed: int, special: bool = True, most: Sequence[int] = (4, 4)
) -> list[Any]:
    """Arguments that fit a graph of `programs`, the same for the same seed; sizes up to `most`."""
    rng = np.random.default_rng(seed)
    drawn = zip((N0, N1), most)
    sizes = {s.terms[0][0][0]: int(rng.integers(1, n + 1)) for s, n in drawn}
    arguments: list[Any] = []
    for parameter in graph.parameters:
        t = parameter.type
        shape = tuple(evaluate(dim, sizes) for dim in t.shape)
        array = np.asarray(draw_array(rng, t.dtype, shape, special))
        arguments.append(array.item() if t.weak else array if t.rank else array[()])
    return [*arguments, int(rng.integers(1, 4))]


@st.composite
def programs(
    draw: Any,
    ops: Collection[str] = STRAIGHT - REJECT_EMPTY,
    dtypes: Sequence[Any] = tuple(LONG.values()),
    most_nodes: int = 8,
    special: bool = True,
) -> tuple[Graph, list[Any]]:
    """A random graph over these ops and dtypes, and arguments that fit it."""
    builder = Builder(draw, [np.dtype(d) for d in dtypes])
    builder.parameters()
    for _ in range(draw(st.integers(1, most_nodes))):
        builder.node(ops)
    graph = builder.finish()
    return graph, draw_arguments(graph, draw(st.integers(0, 2**32)), special)
