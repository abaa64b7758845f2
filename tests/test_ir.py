"""The graph: its tables agree, random graphs hold together, and the interpreter means NumPy."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import REJECT_EMPTY, STRAIGHT, programs

from tailorbird.errors import GuardMissed
from tailorbird.ir.expr import Sym, apply, evaluate, symbol
from tailorbird.ir.interp import run, window
from tailorbird.ir.node import Graph, map_leaves
from tailorbird.ir.ops import OPS
from tailorbird.ir.parse import parse
from tailorbird.ir.shapes import RULES, RULES_OF_KIND, RULES_OF_SEVERAL
from tailorbird.ir.show import show
from tailorbird.ir.signature import SIGNATURES
from tailorbird.ir.verify import verify

DOCS = Path(__file__).resolve().parent.parent / "docs"
MAPS = frozenset(name for name, row in OPS.items() if row.kind == "map")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
many = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def graph_of(body: str, parameters: str = "%x: f64[n0]", results: str = "") -> Graph:
    """A verified graph from the lines of its body; without results, it returns the last value."""
    values = re.findall(r"^  (%[\w.]+):", body, re.M)
    lines = "\n".join(line for line in body.splitlines() if line.strip())
    return verify(parse(f"graph f({parameters})\n{lines}\n  return {results or values[-1]}\n"))


def result(body, *arguments, parameters="%x: f64[n0]", results=""):
    """What a graph of this body returns."""
    return run(graph_of(body, parameters, results), arguments)


def bits(x: object) -> object:
    """What must be equal for two results to be the same to the last bit."""
    if isinstance(x, np.ndarray | np.generic):
        return (x.dtype, x.shape, np.ascontiguousarray(x).tobytes())
    return (type(x), repr(x))


# The tables


def test_every_op_has_a_form():
    assert set(SIGNATURES) == set(OPS)


def test_every_op_has_a_type_rule_or_is_checked_by_itself():
    special = {"loop", "while", "branch", "call", "check", "bind"}
    for name, row in OPS.items():
        ruled = name in RULES or name in RULES_OF_SEVERAL or row.kind in RULES_OF_KIND
        assert ruled != (name in special), name


# Random graphs


@many
@given(programs())
def test_random_graphs_verify_print_parse_and_run(program):
    graph, arguments = program
    text = show(graph)
    again = verify(parse(text))
    verify(graph)
    assert show(again) == text
    first = run(graph, copy.deepcopy(arguments))
    second = run(again, copy.deepcopy(arguments))
    assert map_leaves(first, bits) == map_leaves(second, bits)


@many
@given(programs(ops=(MAPS | REJECT_EMPTY | {"sum", "matmul"}) & STRAIGHT))
def test_random_graphs_of_ops_that_reject_empty_axes(program):
    graph, arguments = program
    assert show(verify(parse(show(graph)))) == show(graph)
    run(graph, arguments)


@many
@given(programs(ops={"add", "write", "read", "write_mask", "less", "scatter"}))
def test_arguments_are_left_alone_unless_final(program):
    graph, arguments = program
    before = copy.deepcopy(arguments)
    results = run(graph, arguments)
    assert results[-1] is arguments[0]
    kept = arguments[1:] if graph.finals else arguments
    assert [bits(x) for x in kept] == [bits(x) for x in before[-len(kept) :]]


@many
@given(programs(ops={"read"}))
def test_views_read_what_their_definition_says(program):
    graph, _ = program
    for node in graph.body.nodes:
        check_view(node.attrs["view"], len(node.inputs[0].type.shape))


def check_view(view, rank):
    shape = tuple(number(d) for d in view.shape)
    reach = []
    for start, step, axis in view.dims:
        ends = [number(start)]
        if axis is not None:
            ends.append(number(start) + number(step) * (shape[axis] - 1))
        reach.append(max(*ends, 0) + 1)
    assert len(reach) == rank
    base = np.arange(int(np.prod(reach, dtype=int))).reshape(reach)
    shown = window(base, view, number)
    for index in np.ndindex(shape):
        place = tuple(
            number(start) + (number(step) * index[axis] if axis is not None else 0)
            for start, step, axis in view.dims
        )
        assert shown[index] == base[place]


def number(dim):
    return evaluate(dim, {Sym("n0"): 4, Sym("n1"): 3})


# The interpreter: arguments


def test_symbols_bind_on_first_sight_and_are_checked_after():
    graph = graph_of("  %0: f64[n0] = add %x, %y", "%x: f64[n0], %y: f64[n0]")
    assert run(graph, [np.ones(3), np.ones(3)]).tolist() == [2, 2, 2]
    with pytest.raises(GuardMissed, match="shape"):
        run(graph, [np.ones(3), np.ones(4)])
    with pytest.raises(GuardMissed, match="float32"):
        run(graph, [np.ones(3, "f4"), np.ones(3)])


def test_compound_sizes_may_come_before_their_symbol():
    graph = graph_of("  %0: f64 = sum %x {axis=(0,)}", "%x: f64[2*n0+k], %y: f64[n0]; ints k")
    assert run(graph, [np.ones(7), np.ones(3), 1]) == 7
    with pytest.raises(GuardMissed):
        run(graph, [np.ones(7), np.ones(3), 2])


def test_guards_are_checked():
    text = "graph f(%x: f64[n0]; ints k)\n  given n0-k>=0\n  return n0-k\n"
    assert run(parse(text), [np.ones(3), 2]) == 1
    with pytest.raises(GuardMissed, match="does not hold"):
        run(parse(text), [np.ones(3), 4])


def test_a_weak_parameter_takes_a_python_scalar_only():
    graph = graph_of("  %0: f32[n0] = multiply %x, %s", "%x: f32[n0], %s: py_f64")
    assert run(graph, [np.ones(2, "f4"), 0.5]).dtype == np.float32
    for other in (np.float64(0.5), 1, True):
        with pytest.raises(GuardMissed):
            run(graph, [np.ones(2, "f4"), other])


def test_finals_are_written_after_everything_is_computed():
    text = """graph swap(%x: f64[n0], %y: f64[n0])
  return (%x, argument(%y))
  final %x := %y
  final %y := %x
"""
    x, y = np.zeros(2), np.ones(2)
    old, same = run(verify(parse(text)), [x, y])
    assert same is y
    assert (old.tolist(), x.tolist(), y.tolist()) == ([0, 0], [1, 1], [0, 0])


def test_a_failure_leaves_arguments_alone():
    text = """graph f(%x: f64[n0]; ints k)
  %x.1: f64[n0] = write %x[0:n0] <- 5.0
  check k {rel='=='}
  return None
  final %x := %x.1
"""
    x = np.zeros(2)
    with pytest.raises(GuardMissed):
        run(verify(parse(text)), [x, 1])
    assert x.tolist() == [0, 0]


# The interpreter: nodes


def test_empty_is_poison():
    assert np.isnan(result("  %0: f64[3] = empty {dtype=f64, shape=(3,)}", np.ones(1))).all()
    assert (result("  %0: i8[3] = empty {dtype=i8, shape=(3,)}", np.ones(1)) == 123).all()


def test_rank_0_results_are_numpy_scalars_and_weak_ones_python_scalars():
    total = result("  %0: f64 = sum %x {axis=(0,)}", np.ones(3))
    assert type(total) is np.float64
    assert type(result("  %0: f64 = read %x[1]", np.ones(3))) is np.float64
    weak = result("  %0: py_f64 = multiply %s, 2", 1.5, parameters="%s: py_f64")
    assert type(weak) is float


def test_weak_arithmetic_is_pythons_and_leaves_where_python_raises():
    half = result("  %0: py_f64 = power k, -1", 2, parameters="; ints k")
    assert half == 0.5
    with pytest.raises(GuardMissed):
        result("  %0: py_f64 = divide 1.0, %s", 0.0, parameters="%s: py_f64")
    with pytest.raises(GuardMissed, match="complex"):
        result("  %0: py_f64 = power %s, 0.5", -1.0, parameters="%s: py_f64")


def test_writes_read_back():
    body = """
  %x.1: f64[n0,n1] = write %x[0:n0, 1] <- 9.0
  %x.2: f64[n0,n1] = write %x.1[n0-1:-1:-1 @1, 0:n1 @0] <- %y
"""
    x, y = np.zeros((2, 3)), np.arange(6.0).reshape(3, 2)
    written = result(body, x, y, parameters="%x: f64[n0,n1], %y: f64[n1,n0]")
    expected = x.copy()
    expected[::-1].T[...] = y
    assert (written == expected).all()
    assert not x.any()


def test_diagonal_and_broadcast_views():
    x = np.arange(9.0).reshape(3, 3)
    square = "%x: f64[n0,n0]"
    diagonal = result("  %0: f64[n0] = read %x[0:n0 @0, 0:n0 @0]", x, parameters=square)
    assert diagonal.tolist() == [0, 4, 8]
    tiled = result("  %0: f64[2,n0] = read %x[1, *2, 0:n0]", x, parameters=square)
    assert tiled.tolist() == [[3, 4, 5], [3, 4, 5]]


def test_a_view_outside_its_base_is_a_bug():
    with pytest.raises(AssertionError, match="leaves axis"):
        result("  %0: f64[n0] = read %x[1:n0+1]", np.ones(3))


def test_masks_bind_their_size():
    body = """
  %0: b1[n0] = greater %x, 1.0
  %1: f64[k1] = compress %x, %0 {size=k1}
  %2: f64[k1] = multiply %1, 2.0
  %x.1: f64[n0] = write_mask %x, %0, %2
"""
    assert result(body, np.array([0.0, 2, 1, 3])).tolist() == [0, 4, 1, 6]


def test_gather_puts_separated_indices_first_as_numpy_does():
    x = np.arange(24).reshape(2, 3, 4)
    i, j = np.array([0, 1, 1]), np.array([3, 2, 0])
    body = "  %0: i64[n3,n1] = gather %x, %i, %j {axes=(0, 2)}"
    parameters = "%x: i64[n0,n1,n2], %i: i64[n3], %j: i64[n3]"
    assert (result(body, x, i, j, parameters=parameters) == x[i, :, j]).all()
    body = "  %0: i64[n0,n3] = gather %x, %i, %j {axes=(1, 2)}"
    assert (result(body, x, i, j, parameters=parameters) == x[:, i, j]).all()
    body = "  %x.1: i64[n0,n1,n2] = scatter %x, %i, %j, -1 {axes=(1, 2)}"
    expected = x.copy()
    expected[:, i, j] = -1
    assert (result(body, x, i, j, parameters=parameters) == expected).all()


LOOP = """
  %x.3: f64[n0] = loop i in k:0:-1, %x {stops}
    do (%x.1: f64[n0])
      %x.2: f64[n0] = write %x.1[i] <- i
      %0: b1 = read %m[i]
      yield %x.2, %0
"""


def test_a_loop_carries_and_stops():
    parameters = "%x: f64[n0], %m: b1[n0]; ints k"
    stop = np.array([0, 0, 1, 0, 0], bool)
    assert result(LOOP, np.zeros(5), stop, 4, parameters=parameters).tolist() == [0, 0, 2, 3, 4]
    assert result(LOOP, np.zeros(5), stop, 0, parameters=parameters).tolist() == [0] * 5


def test_a_while_runs_its_test_first():
    body = """
  %2: f64, %3: py_i64 = while %x, 0
    test (%0: f64, %1: py_i64)
      %4: b1 = greater %0, 1.0
      yield %4
    do (%5: f64, %6: py_i64)
      %7: f64 = divide %5, 2.0
      %8: py_i64 = add %6, 1
      yield %7, %8
"""
    for x, steps in ((np.float64(9), 4), (np.float64(1), 0)):
        found = result(body, x, parameters="%x: f64", results="(%2, %3)")
        assert found == (x / 2**steps, steps)


def test_a_branch_runs_one_side():
    body = """
  %0: b1 = any %x {axis=(0,)}
  %3: f64[k1] = branch %0
    then
      %1: f64[2] = full 1.0 {dtype=f64, shape=(2,)}
      yield %1
    else
      yield %x
"""
    assert result(body, np.zeros(3)).tolist() == [0, 0, 0]
    assert result(body, np.ones(3)).tolist() == [1, 1]


def test_a_loop_may_carry_an_array_that_grows():
    body = """
  %5: f64[k2] = loop i in 0:k:1, %x
    do (%6: f64[d])
      %7: f64[d+1] = concatenate %6, %o {axis=0}
      yield %7
"""
    parameters = "%x: f64[n0], %o: f64[1]; ints k"
    assert result(body, np.zeros(1), np.ones(1), 3, parameters=parameters).tolist() == [0, 1, 1, 1]


def test_calls_import_their_function_and_fill_the_template():
    body = (
        "  %0: f64[n0] = call %x {function='numpy:sort', template=((slot(0),), (('axis', 0),))}\n"
        "  %1: f64[k1], %2: i64[k1] = call %x {function='numpy:unique', many,"
        " template=((slot(0),), (('return_counts', True),))}"
    )
    x = np.array([2.0, 1, 2])
    ordered, found, counts = result(body, x, results="(%0, %1, %2)")
    assert ordered.tolist() == [1, 2, 2]
    assert (found.tolist(), counts.tolist()) == ([1, 2], [1, 2])


def test_check_holds_for_every_element():
    graph = graph_of("  check %x {rel='>='}", results="None")
    assert run(graph, [np.ones(2)]) is None
    with pytest.raises(GuardMissed, match="check"):
        run(graph, [np.array([1.0, -1.0])])


def test_a_wrong_type_is_noticed_when_run():
    graph = parse("graph f(%x: f64[n0])\n  %0: f32[n0] = sqrt %x\n  return %0\n")
    with pytest.raises(AssertionError, match="the type says f32"):
        run(graph, [np.ones(2)])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_arange_is_numpys(dtype):
    for start, step in ((0, 1), (3, -2), (0.1, 0.3)):
        if np.dtype(dtype).kind == "i" and isinstance(step, float):
            continue
        expected = np.arange(start, start + 50 * step, step, dtype=dtype)[:50]
        made = OPS["arange"].meaning(start, step, shape=(len(expected),), dtype=np.dtype(dtype))
        assert bits(made) == bits(expected)


def test_the_example_in_the_docs_is_a_graph():
    (text,) = re.findall(r"```graph\n(.*?)```", (DOCS / "ir.md").read_text(), re.S)
    graph = verify(parse(text))
    assert show(graph) == text
    a, w = np.arange(12.0).reshape(4, 3), np.ones(4, "f4")
    expected = a.copy()
    for _ in range(2):
        expected[1:-1] = expected[:-2] + expected[:1:-1]
    sums, rest = run(graph, [a, w, 2.0, 2])
    assert (a == expected).all()
    assert (sums == expected.sum(1)).all()
    assert rest["rows"] == 4


def test_powers_of_one_base_are_one_power():
    k, i = symbol("K", "int"), symbol("i", "loop")
    r = symbol("R", "int")
    power = apply("pow", r, k - i - 1) * apply("pow", r, i) * r
    assert power == apply("pow", r, k)
    assert apply("pow", r, 2 - i) * apply("pow", r, i) * r == r * r * r
    assert evaluate(power + 1, {Sym("R", "int"): 3, Sym("K", "int"): 4}) == 82


def test_sums_and_products_with_numbers_have_the_form_of_all_others():
    n, m = symbol("n"), symbol("m")
    for x in (n, n * m + 2 * n, m - 7, 3 * n * n - m + 1):
        zero = n - n
        assert x + zero is x
        assert x * zero == 0
        assert x + 5 + -5 == x
        assert str(x + 5) == str(x + (n + 5) - n)
        assert x * 3 == x + x + x
        assert str(x * -2) == str(-x - x)
        assert x * 1 == x
