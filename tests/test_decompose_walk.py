"""The walker: regions, lines, effects, what is dropped; and random graphs through every row."""

from __future__ import annotations

import numpy as np
import pytest
from decompose_check import agree, check, is_core, ops, values
from hypothesis import HealthCheck, given, settings
from strategies import REJECT_EMPTY, STRAIGHT, programs

from tailorbird.ir.expr import symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import Graph, Value, leaves
from tailorbird.ir.parse import parse
from tailorbird.ir.show import show
from tailorbird.ir.types import Type
from tailorbird.ir.verify import verify
from tailorbird.rewrite.decompose import DECOMPOSE, decompose

# Rows that go another way than NumPy: within a few ulp, which a later node may amplify.
ROUNDS = frozenset({"expit", "float_power", "reciprocal", "einsum", "dot", "matmul"})
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def test_regions_are_walked_and_lines_are_kept():
    graph = parse("""graph steps(%x: f64[n0,n1]; ints k)
  given n0-1>=0
  %x.1: f64[n0,n1] = loop i in 0:k:1, %x   # steps.py:2
    do (%x.2: f64[n0,n1])
      %0: f64[n1] = mean %x.2 {axis=(0,), dtype=f64}   # steps.py:3
      %1: f64[n0,n1] = subtract %x.2, %0   # steps.py:4
      %2: f64[n0,n1] = square %1   # steps.py:5
      %3: f64[n0,n1] = square %1   # steps.py:6
      %4: f64[n0,n1] = add %2, %3   # steps.py:6
      yield %4
  %5: f64 = dot 2.0, 3.0   # steps.py:7
  return (%x.1, argument(%x))
  final %x := %x.1
""")
    found = decompose(graph)
    verify(found)
    assert ops(found) == ["loop", "sum", "divide", "subtract", "multiply", "add"]
    lines = [node.line for node in found.body.walk()]
    assert lines == [f"steps.py:{k}" for k in (2, 3, 3, 4, 5, 6)]
    assert found.parameters == graph.parameters and found.guards == graph.guards
    x = values((3, 4), "f8")
    expected, got = x.copy(), x.copy()
    agree(run(graph, [expected, 2])[0], run(found, [got, 2])[0], True, 0, show(found))
    np.testing.assert_array_equal(got, expected)


def test_effects_stay_and_branches_are_pruned():
    graph = parse("""graph effects(%x: f64[n0], %c: b1)
  %0: f64 = sum %x {axis=(0,), dtype=f64}
  check %0 {rel='>='}
  %1: f64[n0] = exp %x
  %2: f64[n0] = branch %c
    then
      %3: f64[n0] = square %x
      %4: f64[n0] = sin %x
      yield %3
    else
      yield %x
  %5: f64[n0] = branch %c
    then
      %6: f64[n0] = square %x
      yield %6
    else
      yield %x
  return %2
""")
    found = check(graph, [np.arange(3.0), np.bool_(True)])
    assert ops(found) == ["sum", "check", "branch", "multiply"]


def test_the_value_that_binds_a_needed_symbol_stays():
    n, k = symbol("n"), symbol("k1", "fresh")
    mask = Value(Type(np.dtype(bool), (n,)), name="m")
    x = Value(Type(np.dtype("i8"), (n,)), name="x")
    graph = Graph("bound", [x, mask])
    picked = graph.body.add("compress", [x, mask], {"size": k}, Type(np.dtype("i8"), (k,)))
    graph.results = graph.body.add("isnan", [picked], {}, Type(np.dtype(bool), (k,)))
    arguments = [np.arange(4), np.array([True, False, True, True])]
    assert ops(check(graph, arguments)) == ["cast", "sum", "extent", "full"]


def test_what_was_dropped_is_not_found_again():
    x = Value(Type(np.dtype("f8"), (3,)), name="x")
    graph = Graph("dead", [x])
    graph.body.add("exp", [x], {}, x.type)
    graph.results = x
    found = decompose(graph)
    assert ops(found) == []
    found.results = found.body.add("exp", [x], {}, x.type)
    assert ops(found) == ["exp"]


def test_a_final_that_became_a_literal_is_a_value():
    x = Value(Type(np.dtype("f8")), name="x")
    graph = Graph("literal", [x])
    graph.finals = {x: graph.body.add("positive", [np.float64(3)], {}, x.type)}
    argument = np.array(1.0)
    run(decompose(graph), [argument])
    assert argument == 3.0


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Casting complex")
@FUZZ
@given(programs(ops=STRAIGHT - REJECT_EMPTY - ROUNDS))
def test_random_graphs_agree_bit_for_bit(program):
    graph, arguments = program
    found = decompose(graph)
    verify(found)
    before, after = (copies(arguments) for _ in range(2))
    expected, got = run(graph, before), run(found, after)
    pairs = zip([*leaves(expected), *before], [*leaves(got), *after], strict=True)
    for x, y in pairs:
        if isinstance(x, np.ndarray | np.generic):
            agree(x, y, True, 0, show(found))


@FUZZ
@given(programs(ops=frozenset(DECOMPOSE) - REJECT_EMPTY - {"check"}))
def test_random_graphs_become_core_graphs(program):
    graph, _ = program
    text = show(graph)
    found = decompose(graph)
    verify(found)
    assert show(graph) == text
    assert [node for node in found.body.walk() if not is_core(node)] == []
    assert show(decompose(found)) == show(found)


def copies(arguments):
    return [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
