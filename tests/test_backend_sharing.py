"""What the lowering leaves out: copies that nobody can tell, memory that is no longer needed.

Every test also holds the answer against the interpreter, since leaving out too much is the danger.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tailorbird.ir.expr import symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import Argument, Graph, Node, Value, View, leaves
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import WEAK_FLOAT, Type
from tailorbird.lower.kernel import Nest
from tests.backend_kit import MISS, agree, compile_graph, native_leaves

N, M = symbol("n"), symbol("m")
F8 = np.dtype("f8")
INNER = View(((1, 1, 0),), (N - 2,))


class Build:
    """A graph by hand over parameters x, y, ..."""

    def __init__(self, *types: Type, ints: tuple[str, ...] = ()) -> None:
        self.parameters = [Value(t, name=n) for t, n in zip(types, "xyzw")]
        self.graph = Graph("sharing", list(self.parameters), list(ints))

    def __call__(self, op: str, *operands: Any, **attrs: Any) -> Value:
        return self.graph.body.add(op, operands, attrs, infer(op, operands, attrs), "s.py:1")

    def check(self, x: Any, rel: str) -> None:
        self.graph.body.append(Node("check", [x], {"rel": rel}, []))

    def done(self, results: Any, **finals: Value) -> Graph:
        self.graph.results = results
        named = {p.name: p for p in self.parameters}
        self.graph.finals = {named[name]: value for name, value in finals.items()}
        return self.graph


def same(graph: Graph, arguments: list[Any]) -> Any:
    """Runs both and compares results and written arguments; the native code."""
    ours = list(arguments)
    theirs = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    native = compile_graph(graph, ours)
    wanted, got = run(graph, theirs), native(*ours)
    assert got is not MISS
    if wanted is not None:
        for a, b in zip(native_leaves(graph, got), leaves(wanted)):
            agree(a, b, 4)
    for a, b in zip(ours, theirs):
        agree(a, b, 4)
    return native


def nests(native: Any) -> int:
    return sum(isinstance(step, Nest) for step in native.program.steps)


def temporaries(native: Any) -> list[str]:
    return [b.name for b in native.program.buffers if b.role == "temp"]


def vector(n: int = 10) -> np.ndarray:
    return np.random.default_rng(n).normal(size=n)


def test_an_update_of_an_argument_goes_straight_to_it():
    b = Build(Type(F8, (N,)), Type(F8, (N,)))
    x, y = b.parameters
    native = same(b.done(Argument(x), x=b("add", x, y)), [vector(), vector(11)[:10]])
    assert nests(native) == 1 and not temporaries(native)


@pytest.mark.parametrize("order", ("C", "F"))
def test_an_update_of_a_matrix_goes_straight_to_it(order):
    b = Build(Type(F8, (N, M)))
    (x,) = b.parameters
    array = np.asarray(vector(12).reshape(3, 4), order=order)
    native = same(b.done(None, x=b("multiply", x, 2.0)), [array])
    assert nests(native) == 1 and not temporaries(native)


def test_a_strided_argument_is_written_through_a_temporary():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    same(b.done(None, x=b("multiply", x, 2.0)), [vector(20)[::2]])


def test_one_element_is_written_in_place():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    first = View(((0, 0, None),), ())
    native = same(b.done(None, x=b("write", x, 5.0, view=first)), [vector()])
    assert nests(native) == 1 and not temporaries(native)


def test_neighbours_are_read_before_they_are_written():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    left = b("read", x, view=View(((0, 1, 0),), (N - 2,)))
    right = b("read", x, view=View(((2, 1, 0),), (N - 2,)))
    moved = b("write", x, b("add", left, right), view=INNER)
    for n in (3, 4, 10, 1000):
        native = same(b.done(None, x=moved), [vector(n)])
        assert nests(native) == 2 and len(temporaries(native)) == 1


def test_a_row_is_made_from_the_row_before():
    """Each write reads what the one before it wrote; none copies the matrix."""
    b = Build(Type(F8, (N, M)))
    value: Any = b.parameters[0]
    for k in range(1, 4):
        above = b("read", value, view=View(((k - 1, 0, None), (0, 1, 0)), (M,)))
        row = View(((k, 0, None), (0, 1, 0)), (M,))
        value = b("write", value, b("multiply", above, 2.0), view=row)
    native = same(b.done(None, x=value), [vector(20).reshape(4, 5)])
    assert nests(native) == 6 and len(temporaries(native)) == 1


def test_a_value_from_before_two_writes_is_kept():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    first = b("write", x, b("multiply", b("read", x, view=INNER), 2.0), view=INNER)
    left = b("read", x, view=View(((0, 1, 0),), (N - 2,)))
    second = b("write", first, left, view=INNER)
    same(b.done(b("sum", first, axis=(0,)), x=second), [vector()])


def test_writes_in_a_row_share_one_copy():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    value: Any = x
    for k in range(3):
        value = b("write", value, float(k), view=View(((k, 0, None),), ()))
    native = same(b.done(None, x=value), [vector()])
    assert nests(native) == 3 and not temporaries(native)


def test_a_write_after_a_read_of_its_base_keeps_the_old_one():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    base = b("add", x, x)
    written = b("write", base, 0.0, view=INNER)
    same(b.done((b("add", written, base), b("sum", base, axis=(0,)))), [vector()])


def test_a_write_to_a_reshape_leaves_its_base():
    b = Build(Type(F8, (N, M)))
    (x,) = b.parameters
    base = b("add", x, x)
    flat = b("reshape", base, shape=(N * M,))
    written = b("write", flat, 0.0, view=View(((0, 0, None),), ()))
    same(
        b.done((b("sum", written, axis=(0,)), b("sum", base, axis=(0,)))),
        [vector(12).reshape(3, 4)],
    )


def test_two_arguments_are_exchanged():
    b = Build(Type(F8, (N,)), Type(F8, (N,)))
    x, y = b.parameters
    same(b.done(None, x=y, y=x), [vector(), vector(11)[:10]])
    b = Build(Type(F8, (N,)), Type(F8, (N,)))
    x, y = b.parameters
    same(b.done(None, x=b("add", y, 1.0), y=b("add", x, 1.0)), [vector(), vector(11)[:10]])


def test_a_final_value_that_is_also_a_result():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    value = b("add", x, 1.0)
    same(b.done(value, x=value), [vector()])


def test_an_argument_that_is_still_read_after_a_fold_is_kept():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    value = b("subtract", x, b("sum", x, axis=(0,)))
    later = b("multiply", x, b("sum", value, axis=(0,)))
    same(b.done(later, x=value), [vector()])


def test_overlapping_arguments_are_a_miss():
    b = Build(Type(F8, (N,)), Type(F8, (N,)))
    x, y = b.parameters
    array = vector(20)
    native = compile_graph(b.done(None, x=b("add", x, y)), [array[:10], array[10:]])
    assert native(array[:10], array[5:15]) is MISS
    assert native(array[:10], array[10:]) is None


def test_nothing_is_written_when_a_check_fails():
    b = Build(Type(F8, (N,)))
    (x,) = b.parameters
    value = b("add", x, 1.0)
    b.check(b("sum", value, axis=(0,)), ">=")
    native = compile_graph(b.done(None, x=value), [np.ones(3)])
    good, bad = np.ones(3), -9 * np.ones(3)
    assert native(good) is None and native(bad) is MISS
    agree(good, 2 * np.ones(3))
    agree(bad, -9 * np.ones(3))


@pytest.mark.parametrize("rel, good, bad", [("==", 0.0, 1.0), ("!=", 1.0, 0.0), (">=", 0.0, -1.0)])
def test_a_check_of_every_element(rel, good, bad):
    b = Build(Type(F8, (N, M)))
    (x,) = b.parameters
    b.check(x, rel)
    native = compile_graph(b.done(b("add", x, x)), [np.zeros((3, 5))])
    array = np.full((3, 5), good)
    agree(native(array), array + array)
    array[2, 4] = bad
    assert native(array) is MISS


def test_temporaries_share_memory():
    """A chain of columns and rows: each step needs only the one before it."""
    b = Build(Type(F8, (N, N)))
    (x,) = b.parameters
    value = x
    for _ in range(6):
        value = b("cumsum", value, axis=0, dtype=F8)
    native = same(b.done(value), [vector(25).reshape(5, 5)])
    assert len(temporaries(native)) == 2


def test_long_chains_compile():
    b = Build(Type(F8, (N,)))
    value = b.parameters[0]
    for k in range(1000):
        value = b("add", b("multiply", value, 0.5), float(k % 3))
    same(b.done(value), [vector()])


def test_python_scalars_stay_python_scalars_in_calls():
    """ldexp is left to NumPy; a Python float must not make the result float64."""
    b = Build(Type(np.dtype("f4"), (N,)), WEAK_FLOAT)
    x, s = b.parameters
    same(b.done(b("nextafter", x, s)), [vector().astype("f4"), 0.5])


def test_integers_that_leave_64_bits_are_a_miss():
    b = Build(Type(F8, (N,)), ints=("k",))
    k = symbol("k", "int")
    native = compile_graph(b.done((b("add", b.parameters[0], 1.0), k * k + 1)), [vector(), 3])
    assert native(vector(), 3)[1] == 10
    assert native(vector(), 2**62) is MISS
    assert native(vector(), 2**70) is MISS
