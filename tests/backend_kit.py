"""What the tests of the backend share: one graph in, native code out, and how answers are compared.

`compile_graph` runs fuse, lower, emit and assemble for one graph and the layouts of live arguments;
the callable it gives returns the leaves of the results, or MISS when a guard does not hold.
`agree` holds an answer against NumPy's: dtype, shape, bit for bit or within a number of ulp.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailorbird import knobs
from tailorbird.assemble import build, symbols, target
from tailorbird.dispatch import entry, products
from tailorbird.dispatch import object as callables
from tailorbird.dispatch.leaf import COUNTDOWN, OBJECTS
from tailorbird.dispatch.outside import Outside
from tailorbird.dispatch.variant import leaves_of
from tailorbird.fuse.groups import fuse
from tailorbird.ir.expr import symbol
from tailorbird.ir.node import Graph, Value, leaves, type_of
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import Type
from tailorbird.lower.program import Program, lower
from tailorbird.rewrite.decompose import decompose
from tailorbird.rewrite.selects import select

MISS: Any = object()
NEVER = 1 << 62

__all__ = ["MISS", "Native", "agree", "compile_graph", "graph_of", "run_once", "sized_type"]


@dataclass(eq=False)
class Native:
    """Compiled code of one graph."""

    graph: Graph
    program: Program
    ir: str
    call: Callable[..., Any]
    words: Any

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def compile_graph(graph: Graph, arguments: Sequence[Any]) -> Native:
    """Native code for a graph and arguments that lie as these do."""
    graph = select(decompose(graph))
    found = leaves_of(graph, arguments)
    machine = target.host()
    layouts = tuple(leaf.layout for leaf in found[: len(graph.parameters)])
    program = lower(graph, fuse(graph), layouts, machine.vector_bytes)
    wide, choice = machine.vector_bytes == 64, products.choose(machine)
    emitter = entry.EntryEmitter(program, found, list(range(len(found))), wide, choice)
    ir, context = emitter.emit([])
    with knobs.scope(cache=False):
        code = build.build(ir, ["entry"], symbols.resolve)
    keep = [x.callable() if isinstance(x, Outside) else x for x in context.objects]
    words = (ctypes.c_int64 * (OBJECTS + len(keep) + 1))()
    for k, x in enumerate(keep):
        words[OBJECTS + k] = id(x)
    words[COUNTDOWN] = NEVER
    native = callables.new(_native_type())
    names = [f"leaf{k}" for k in range(len(found))]
    ready = (code.address("entry"), ctypes.addressof(words), (code, words, keep))
    callables.install(native, callables.Table(names, (), _missed, [ready]))
    return Native(graph, program, ir, native, words)


def _missed(self: Any, *arguments: Any) -> Any:
    return MISS


@functools.cache
def _native_type() -> type:
    return callables.make_type(type("Native", (), {"__doc__": "Native code under test."}))


def sized_type(x: Any) -> Type:
    """The type of a value with a symbol for each size; equal sizes share one, 1 stays 1."""
    if not isinstance(x, np.ndarray | np.generic):
        return type_of(x)
    return Type(x.dtype, tuple(1 if n == 1 else symbol(f"n{n}") for n in x.shape))


def graph_of(make: Callable[..., Any], arguments: Sequence[Any]) -> Graph:
    """A graph by hand: `make(add, *parameters)` gives results, `add(op, *operands)` a node."""
    parameters = [Value(sized_type(x), name=f"x{k}") for k, x in enumerate(arguments)]
    graph = Graph("test", parameters)

    def add(op: str, *operands: Any, **attrs: Any) -> Value:
        return graph.body.add(op, operands, attrs, infer(op, operands, attrs), "test.py:1")

    graph.results = make(add, *parameters)
    return graph


def run_once(op: str, arguments: Sequence[Any], **attrs: Any) -> Any:
    """One op on these arguments, compiled and called."""
    graph = graph_of(lambda add, *xs: add(op, *xs, **attrs), arguments)
    return compile_graph(graph, arguments)(*arguments)


def expected_leaves(results: Any) -> list[Any]:
    """The interpreter's results as the native code returns them: a flat list of leaves."""
    return list(leaves(results))


def native_leaves(graph: Graph, answer: Any) -> list[Any]:
    """The leaves of a native answer."""
    flat = not isinstance(graph.results, tuple | list | dict)
    return [answer] if flat else list(answer)


def parts(x: np.ndarray) -> np.ndarray:
    """Real numbers: complex ones as pairs."""
    return np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x


def ulps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many floats lie between; 0 for equal infinities and for two nans."""
    kind = np.int32 if x.dtype == np.float32 else np.int64
    lines = []
    for a in (x, y):
        raw = np.ascontiguousarray(a).view(kind).astype(object)
        lines.append(np.where(raw < 0, -(raw + 2 ** (8 * kind(0).itemsize - 1)), raw))
    steps = np.abs(lines[0] - lines[1])
    return np.where(np.isnan(x) & np.isnan(y), 0, steps)


def agree(got: Any, wanted: Any, limit: float = 0, zeros: bool = False, note: str = "") -> None:
    """Asserts dtype, shape and values within `limit` ulp; `zeros` also compares signs of zero."""
    if isinstance(wanted, bool | int | float | complex) or wanted is None:
        assert type(got) is type(wanted), f"{note}: {got!r}, not {wanted!r}"
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype, f"{note}: {got.dtype}, not {wanted.dtype}"
    assert got.shape == wanted.shape, f"{note}: {got.shape}, not {wanted.shape}"
    a, b = parts(got), parts(wanted)
    if a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b, err_msg=note)
        return
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=f"{note}: nans")
    far = ulps(np.atleast_1d(a), np.atleast_1d(b)) > limit
    far &= np.atleast_1d(a != b)
    if zeros:
        far |= np.atleast_1d((np.signbit(a) != np.signbit(b)) & ~np.isnan(a))
    if far.any():
        where = np.flatnonzero(far)[:5]
        left, right = (np.atleast_1d(v).ravel()[where] for v in (a, b))
        raise AssertionError(f"{note}: {far.sum()} differ, at {where}: {left}, not {right}")
