"""The reference interpreter: what a graph means, run with NumPy one node at a time.

In: a graph and concrete values for its parameters and ints. Out: what the captured function
returns, with the arguments it writes written. This is the definition that every backend is tested
against, so it prefers being obvious to being fast.

Invariants: a value is never changed once made (a write copies its base); rank-0 results are NumPy
scalars, weak ones are Python scalars computed by Python's operators; each value is asserted against
its type, since a difference is a bug of whoever made the graph. Arguments are written last, after
everything is computed, so a failure leaves them as they were. Arguments that do not fit the graph
raise `GuardMissed`.

The nodes that have no meaning in the table of ops:

    read %b [view]              the window; as NumPy's basic indexing, without wrapping
    write %b [view] <- x        a copy of %b with x assigned to the window
    write_mask %b, %m, x        a copy of %b after `b[m] = x`
    compress %b, %m             `b[m]`
    gather %b, %i...            `b[i...]`, the indices on the base axes in `axes`
    scatter %b, %i..., x        a copy of %b after `b[i...] = x`; with `op`, each element is what
                                that op makes of it and x, once for every time it is indexed
    extent %n                   `np.zeros(n, bool)`: only its length matters, a size known late
    loop v in a:b:s, carried    region do(carried) yields the next carried; with `stops` one more,
                                true to leave after this iteration. Results are the last carried
    while carried               region test(carried) yields a condition, region do(carried) the next
    branch c                    region then or else, by c; its yields are the results
    call operands               function(*args, **kwargs) as `template` says; `many` results
    transfer x                  x
    bind v = x                  the symbol v is the integer x until the end of the region
    check x                     leaves by `GuardMissed` unless `x rel 0` (everywhere, for an array)
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailorbird.errors import GuardMissed
from tailorbird.ir.expr import Dim, Expr, Sym, evaluate
from tailorbird.ir.node import (
    Argument,
    Graph,
    Node,
    Operand,
    Region,
    Slot,
    Static,
    Value,
    View,
    map_leaves,
    type_of,
)
from tailorbird.ir.ops import LINEAR, OPS
from tailorbird.ir.promote import LEGACY, converted
from tailorbird.ir.scope import binders
from tailorbird.ir.types import PYTHON_TYPES, Type

PYTHON_MEANINGS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}
RELATIONS: dict[str, Callable[[Any], Any]] = {
    "==": lambda x: x == 0,
    "!=": lambda x: x != 0,
    ">=": lambda x: x >= 0,
}


def run(graph: Graph, arguments: Sequence[Any]) -> Any:
    """The results of a graph for the values of its parameters followed by those of its ints."""
    with np.errstate(all="ignore"):
        return _Run(graph, arguments).finish()


def misfit(graph: Graph, arguments: Sequence[Any]) -> str:
    """Why arguments do not fit a graph, in words; the empty text when they do."""
    try:
        _Run(graph, arguments).bind_arguments()
    except GuardMissed as missed:
        return str(missed)
    return ""


class _Run:
    """One run: the value of each `Value` and of each symbol so far."""

    def __init__(self, graph: Graph, arguments: Sequence[Any]) -> None:
        count = len(graph.parameters)
        assert len(arguments) == count + len(graph.ints), "one argument a parameter, then the ints"
        self.graph = graph
        self.binders = binders(graph)
        self.values: dict[Value, Any] = {}
        self.objects = dict(zip(graph.parameters, arguments))
        ints = (int(x) for x in arguments[count:])
        self.symbols: dict[Sym, int] = {Sym(n, "int"): x for n, x in zip(graph.ints, ints)}

    def finish(self) -> Any:
        self.bind_arguments()
        self.run_nodes(self.graph.body)
        results = map_leaves(self.graph.results, self.leaf)
        finals = [(self.objects[p], self.values[v]) for p, v in self.graph.finals.items()]
        finals = [(array, np.array(value)) for array, value in finals]
        for array, value in finals:
            array[...] = value
        return results

    # Arguments and symbols

    def bind_arguments(self) -> None:
        for value, x in self.objects.items():
            if not _is_of(x, value.type):
                raise GuardMissed(f"%{value.name} is {_describe(x)}, not {value.type}")
            self.values[value] = _settle(x)
            self.bind_symbols(value, x)
        for value, x in self.objects.items():
            expected = self.shape(value.type.shape)
            if np.shape(x) != expected:
                raise GuardMissed(f"%{value.name} has shape {np.shape(x)}, not {expected}")
        for guard in self.graph.guards:
            if not guard.holds(self.number(guard.expr)):
                raise GuardMissed(f"{guard} does not hold")

    def bind_symbols(self, value: Value, x: Any) -> None:
        for axis, sym in self.binders.get(value, ()):
            self.symbols[sym] = np.shape(x)[axis]

    def number(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else evaluate(dim, self.symbols)

    def shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(self.number(d) for d in dims)

    def concrete(self, x: Any) -> Any:
        """An attribute with every expression in it replaced by its number."""
        if isinstance(x, Expr):
            return self.number(x)
        if isinstance(x, tuple | list):
            return type(x)(self.concrete(item) for item in x)
        return x

    # Values

    def operand(self, x: Operand) -> Any:
        if isinstance(x, Value):
            return self.values[x]
        return self.number(x) if isinstance(x, Expr) else x

    def operands(self, xs: Sequence[Operand]) -> list[Any]:
        return [self.operand(x) for x in xs]

    def leaf(self, x: Any) -> Any:
        if isinstance(x, Static):
            return x.value
        if isinstance(x, Argument):
            return self.objects[x.parameter]
        value = self.operand(x)
        return value.copy() if isinstance(value, np.ndarray) else value

    def define(self, value: Value, x: Any, node: Node) -> None:
        """Gives a value what was computed for it, asserted against its type."""
        t = value.type
        if t.weak:
            x = PYTHON_TYPES[t.dtype.kind](x)
        x = _settle(x)
        self.bind_symbols(value, x)
        shape = self.shape(t.shape)
        learnt = _is_of(x, t) and np.shape(x) == shape
        if node.op == "call" and not learnt:  # what another call gave, and need not always
            raise GuardMissed(f"call at {node.line or '?'} made {_describe(x)}")
        assert _is_of(x, t) and np.shape(x) == shape, (
            f"{node.op} at {node.line or '?'} made {_describe(x)}, the type says {t} = {shape}"
        )
        self.values[value] = x

    def define_all(self, values: Sequence[Value], xs: Sequence[Any], node: Node) -> None:
        assert len(values) == len(xs), f"{node.op} made {len(xs)} values, not {len(values)}"
        for value, x in zip(values, xs):
            self.define(value, x, node)

    # Nodes

    def run_nodes(self, region: Region) -> None:
        for node in region.nodes:
            special = SPECIAL.get(node.op)
            if special is not None:
                self.define_all(node.outputs, special(self, node), node)
                continue
            meaning = OPS[node.op].meaning
            by_python = node.op in PYTHON_MEANINGS and node.result.type.weak
            if by_python:
                meaning = _by_python(node)
            assert meaning is not None, node.op
            attrs = {name: self.concrete(x) for name, x in node.attrs.items()}
            operands = self.operands(node.inputs)
            if LEGACY and not by_python:
                operands = converted(node.op, [type_of(x) for x in node.inputs], operands)
            made = meaning(*operands, **attrs)
            self.define_all(node.outputs, made if node.op in LINEAR else [made], node)

    def run_region(self, region: Region, entering: Sequence[Any], node: Node) -> list[Any]:
        """The yields of a region whose parameters are given values."""
        self.define_all(region.parameters, entering, node)
        self.run_nodes(region)
        return self.operands(region.yields)


def _by_python(node: Node) -> Callable[..., Any]:
    """What Python's own operator does with Python scalars; where it raises, the graph is left."""

    def meaning(*operands: Any) -> Any:
        try:
            result = PYTHON_MEANINGS[node.op](*operands)
        except ArithmeticError as error:
            raise GuardMissed(f"{node.op} at {node.line or '?'}: {error}") from error
        if isinstance(result, complex) and node.result.type.dtype.kind != "c":
            raise GuardMissed(f"{node.op} at {node.line or '?'} became complex")
        return result

    return meaning


def _settle(x: Any) -> Any:
    """A rank-0 array becomes a NumPy scalar."""
    return x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x


def _is_of(x: Any, t: Type) -> bool:
    """Whether x has the dtype, rank and weakness of a type."""
    if t.weak:
        return type(x) is PYTHON_TYPES[t.dtype.kind]
    return isinstance(x, np.ndarray | np.generic) and x.dtype == t.dtype and x.ndim == t.rank


def _describe(x: Any) -> str:
    if isinstance(x, np.ndarray | np.generic):
        return f"{x.dtype}{list(x.shape)}"
    return f"a Python {type(x).__name__}"


def window(base: Any, view: View, number: Callable[[Dim], int]) -> np.ndarray:
    """The part of an array that a view shows, as a NumPy view of it; also at rank 0."""
    base = np.asarray(base)
    shape = tuple(number(d) for d in view.shape)
    if 0 in shape:
        return np.empty(shape, base.dtype)
    strides = [0] * len(shape)
    starts = []
    for k, (start, step, axis) in enumerate(view.dims):
        first = number(start)
        stride = number(step)
        last = first if axis is None else first + stride * (shape[axis] - 1)
        assert 0 <= min(first, last) <= max(first, last) < base.shape[k], f"{view} leaves axis {k}"
        starts.append(slice(first, None))
        if axis is not None:
            strides[axis] += stride * base.strides[k]
    return np.lib.stride_tricks.as_strided(base[(*starts, ...)], shape, strides)


# Each takes the run and the node, and returns the list of results.


def _read(state: _Run, node: Node) -> list[Any]:
    return [window(state.operand(node.inputs[0]), node.attrs["view"], state.number)]


def _write(state: _Run, node: Node) -> list[Any]:
    base, x = state.operands(node.inputs)
    changed = np.array(base)
    window(changed, node.attrs["view"], state.number)[...] = x
    return [changed]


def _write_mask(state: _Run, node: Node) -> list[Any]:
    base, mask, x = state.operands(node.inputs)
    changed = np.array(base)
    changed[mask] = x
    return [changed]


def _compress(state: _Run, node: Node) -> list[Any]:
    base, mask = state.operands(node.inputs)
    return [base[mask]]


def index_axes(node: Node, count: int) -> tuple[int, ...]:
    """The base axes that the index operands of a gather or scatter stand on."""
    return tuple(node.attrs.get("axes", range(count)))


def _indices(node: Node, rank: int, indices: list[Any]) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * rank
    for axis, x in zip(index_axes(node, len(indices)), indices, strict=True):
        index[axis] = x
    return tuple(index)


def _gather(state: _Run, node: Node) -> list[Any]:
    base, *indices = state.operands(node.inputs)
    return [base[_indices(node, base.ndim, indices)]]


def _scatter(state: _Run, node: Node) -> list[Any]:
    base, *indices, x = state.operands(node.inputs)
    changed = np.array(base)
    where = _indices(node, changed.ndim, indices)
    if "op" in node.attrs:
        getattr(np, node.attrs["op"]).at(changed, where, x)
    else:
        changed[where] = x
    return [changed]


def _extent(state: _Run, node: Node) -> list[Any]:
    return [np.zeros(int(state.operand(node.inputs[0])), np.bool_)]


def _loop(state: _Run, node: Node) -> list[Any]:
    start, stop, step, *carried = state.operands(node.inputs)
    var = Sym(node.attrs["var"], "loop")
    (body,) = node.regions
    for i in range(int(start), int(stop), int(step)):
        state.symbols[var] = i
        carried = state.run_region(body, carried, node)
        if node.attrs.get("stops") and carried.pop():
            break
    return carried


def _while(state: _Run, node: Node) -> list[Any]:
    carried = state.operands(node.inputs)
    test, body = node.regions
    while state.run_region(test, carried, node)[0]:
        carried = state.run_region(body, carried, node)
    return carried


def _branch(state: _Run, node: Node) -> list[Any]:
    chosen = node.regions[0 if state.operand(node.inputs[0]) else 1]
    return state.run_region(chosen, (), node)


def _call(state: _Run, node: Node) -> list[Any]:
    module, _, path = node.attrs["function"].partition(":")
    function: Any = importlib.import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    operands = state.operands(node.inputs)

    def fill(x: Any) -> Any:
        if isinstance(x, Slot):
            return operands[x.index]
        if isinstance(x, tuple | list):
            return type(x)(fill(item) for item in x)
        return state.concrete(x)

    args, kwargs = node.attrs["template"]
    result = function(*fill(args), **{name: fill(x) for name, x in kwargs})
    return list(result) if node.attrs.get("many") else [result]


def _transfer(state: _Run, node: Node) -> list[Any]:
    return [state.operand(node.inputs[0])]


def _check(state: _Run, node: Node) -> list[Any]:
    x = state.operand(node.inputs[0])
    if not np.all(RELATIONS[node.attrs["rel"]](x)):
        raise GuardMissed(f"check at {node.line or '?'}: {x!r} {node.attrs['rel']} 0 fails")
    return []


def _bind(state: _Run, node: Node) -> list[Any]:
    x = int(state.operand(node.inputs[0]))
    if x >= 2**63 and not type_of(node.inputs[0]).weak:
        raise GuardMissed(f"bind at {node.line or '?'}: {x} is beyond int64")
    state.symbols[Sym(node.attrs["symbol"], "value")] = x
    return []


SPECIAL: dict[str, Callable[[_Run, Node], list[Any]]] = {
    "read": _read,
    "write": _write,
    "write_mask": _write_mask,
    "compress": _compress,
    "gather": _gather,
    "scatter": _scatter,
    "extent": _extent,
    "loop": _loop,
    "while": _while,
    "branch": _branch,
    "call": _call,
    "transfer": _transfer,
    "check": _check,
    "bind": _bind,
}
