"""Loops and branches: graphs by hand, native code against the interpreter, arguments compared."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from backend_kit import MISS, compile_graph

from tailorbird.ir.interp import run
from tailorbird.ir.node import leaves
from tailorbird.ir.parse import parse
from tailorbird.ir.verify import verify
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import inner_steps

JACOBI = """graph jacobi(%A: f64[n0,n1], %B: f64[n0,n1]; ints T)
  given n0-3>=0, n1-3>=0
  %A.3: f64[n0,n1], %B.3: f64[n0,n1] = loop t in 0:T:1, %A, %B
    do (%A.1: f64[n0,n1], %B.1: f64[n0,n1])
      %0: f64[n0-2,n1-2] = read %A.1[1:n0-1, 1:n1-1]
      %1: f64[n0-2,n1-2] = read %A.1[1:n0-1, 0:n1-2]
      %2: f64[n0-2,n1-2] = add %0, %1
      %3: f64[n0-2,n1-2] = read %A.1[2:n0, 1:n1-1]
      %4: f64[n0-2,n1-2] = add %2, %3
      %5: f64[n0-2,n1-2] = multiply 0.3, %4
      %B.2: f64[n0,n1] = write %B.1[1:n0-1, 1:n1-1] <- %5
      %6: f64[n0-2,n1-2] = read %B.2[1:n0-1, 1:n1-1]
      %7: f64[n0-2,n1-2] = read %B.2[1:n0-1, 0:n1-2]
      %8: f64[n0-2,n1-2] = add %6, %7
      %9: f64[n0-2,n1-2] = multiply 0.5, %8
      %A.2: f64[n0,n1] = write %A.1[1:n0-1, 1:n1-1] <- %9
      yield %A.2, %B.2
  return None
  final %A := %A.3
  final %B := %B.3
"""
CHOLESKY = """graph cholesky(%A: f64[n0,n0])
  given n0-1>=0
  %0: f64 = read %A[0, 0]
  %1: f64 = sqrt %0
  %A.1: f64[n0,n0] = write %A[0, 0] <- %1
  %A.7: f64[n0,n0] = loop i in 1:n0:1, %A.1
    do (%A.2: f64[n0,n0])
      %A.5: f64[n0,n0] = loop j in 0:i:1, %A.2
        do (%A.3: f64[n0,n0])
          %2: f64 = read %A.3[i, j]
          %3: f64[j] = read %A.3[i, 0:j]
          %4: f64[j] = read %A.3[j, 0:j]
          %5: f64 = dot %3, %4
          %6: f64 = subtract %2, %5
          %7: f64 = read %A.3[j, j]
          %8: f64 = divide %6, %7
          %A.4: f64[n0,n0] = write %A.3[i, j] <- %8
          yield %A.4
      %9: f64 = read %A.5[i, i]
      %10: f64[i] = read %A.5[i, 0:i]
      %11: f64 = dot %10, %10
      %12: f64 = subtract %9, %11
      %13: f64 = sqrt %12
      %A.6: f64[n0,n0] = write %A.5[i, i] <- %13
      yield %A.6
  return None
  final %A := %A.7
"""
WRAPPED = """graph wrapped(%x: f64[n0], %a: py_f64)
  %s: f64 = cast 0.5 {dtype=f64}
  %r: f64, %p: f64 = loop i in 0:n0:1, %s, %s
    do (%s1: f64, %q1: f64)
      %0: f64 = read %x[i]
      %1: f64 = multiply %0, %a
      %2: f64 = add %s1, %1
      %3: b1 = greater %2, 3.0
      %4: f64, %5: f64 = branch %3
        then
          %6: f64 = subtract %2, 3.0
          yield %6, %q1
        else
          yield %2, %2
      yield %5, %4
  return (%r, %p)
"""
DOUBLING = """graph doubling(%x: f64)
  %k0: f64 = cast 0.0 {dtype=f64}
  %k: f64, %z: f64 = while %k0, %x
    test (%a: f64, %b: f64)
      %c: b1 = less %b, 1000.0
      yield %c
    do (%a2: f64, %b2: f64)
      %d: f64 = add %a2, 1.0
      %e: f64 = multiply %b2, 1.5
      yield %d, %e
  return (%k, %z)
"""
CONJUGATE = """graph conjugate(%A: f64[n0,n0], %b: f64[n0]; ints T)
  %z: f64[n0] = full 0.0 {shape=(n0,), dtype=f64}
  %rs: f64 = dot %b, %b
  %x: f64[n0], %r: f64[n0], %p: f64[n0], %q: f64 = loop t in 0:T:1, %z, %b, %b, %rs
    do (%x1: f64[n0], %r1: f64[n0], %p1: f64[n0], %q1: f64)
      %Ap: f64[n0] = dot %A, %p1
      %0: f64 = dot %p1, %Ap
      %al: f64 = divide %q1, %0
      %1: f64[n0] = multiply %al, %p1
      %x2: f64[n0] = add %x1, %1
      %2: f64[n0] = multiply %al, %Ap
      %r2: f64[n0] = subtract %r1, %2
      %q2: f64 = dot %r2, %r2
      %3: f64 = divide %q2, %q1
      %4: f64[n0] = multiply %3, %p1
      %p2: f64[n0] = add %r2, %4
      yield %x2, %r2, %p2, %q2
  return (%x, %q)
"""
ROTATE = """graph rotate(%a: f64[n0], %b: f64[n0], %c: f64[n0]; ints T)
  %x: f64[n0], %y: f64[n0], %z: f64[n0] = loop t in 0:T:1, %a, %b, %c
    do (%x1: f64[n0], %y1: f64[n0], %z1: f64[n0])
      %0: f64[n0] = add %x1, %y1
      yield %y1, %z1, %0
  return (%x, %y, %z)
"""
SEIDEL = """graph seidel(%A: f64[n0,n1]; ints T)
  given n0-3>=0, n1-3>=0
  %A.5: f64[n0,n1] = loop t in 0:T:1, %A
    do (%A.1: f64[n0,n1])
      %A.4: f64[n0,n1] = loop i in n0-2:0:-1, %A.1
        do (%A.2: f64[n0,n1])
          %0: f64[n1-2] = read %A.2[i, 0:n1-2]
          %1: f64[n1-2] = read %A.2[i, 2:n1]
          %2: f64[n1-2] = add %0, %1
          %3: f64[n1-2] = read %A.2[i-1, 1:n1-1]
          %4: f64[n1-2] = add %2, %3
          %5: f64[n1-2] = multiply %4, 0.3
          %A.3: f64[n0,n1] = write %A.2[i, 1:n1-1] <- %5
          yield %A.3
      yield %A.4
  return None
  final %A := %A.5
"""
STALE = """graph stale(%A: f64[n0]; ints T)
  given n0-2>=0
  %s: f64 = cast 0.0 {dtype=f64}
  %A.3: f64[n0], %s.3: f64 = loop t in 0:T:1, %A, %s
    do (%A.1: f64[n0], %s.1: f64)
      %0: f64[n0] = multiply %A.1, 2.0
      %1: f64[n0-1] = read %A.1[0:n0-1]
      %A.2: f64[n0] = write %A.1[1:n0] <- %1
      %2: f64[n0] = add %0, %A.2
      %3: f64 = sum %2 {axis=(0,)}
      %s.2: f64 = add %s.1, %3
      yield %A.2, %s.2
  return (%s.3, %A.3)
"""
SHARED = """graph shared(%d: f64[n0]; ints T)
  given n0-2>=0
  %0: f64[n0] = multiply %d, 0.5
  %a: f64[n0], %b: f64[n0] = loop t in 0:T:1, %0, %0
    do (%a.1: f64[n0], %b.1: f64[n0])
      %1: f64 = read %b.1[1]
      %a.2: f64[n0] = write %a.1[0] <- %1
      %2: f64 = read %a.2[0]
      %3: f64 = add %2, 1.0
      %b.2: f64[n0] = write %b.1[1] <- %3
      yield %a.2, %b.2
  return (%a, %b, %0)
"""
SEARCH = """graph search(%x: f64[n0], %v: f64)
  %no: i64 = cast -1 {dtype=i64}
  %k: i64 = loop i in 0:n0:1, %no {stops}
    do (%k.1: i64)
      %0: f64 = read %x[i]
      %1: b1 = greater %0, %v
      %2: i64 = branch %1
        then
          %3: i64 = cast i {dtype=i64}
          yield %3
        else
          yield %k.1
      yield %2, %1
  return %k
"""
ARMS = """graph arms(%A: f64[n0], %B: f64[n0], %c: f64)
  given n0-1>=0
  %0: b1 = greater %c, 0.0
  %A.2: f64[n0], %x: f64[n0] = branch %0
    then
      %A.1: f64[n0] = write %A[0] <- %c
      %1: f64[n0] = add %A.1, %B
      yield %A.1, %1
    else
      yield %A, %B
  %2: f64[n0] = multiply %x, %A.2
  return %2
  final %A := %A.2
"""
MASKED = """graph masked(%Z: f64[n0], %c: f64[n0]; ints T)
  %n: i64[n0] = full 0 {shape=(n0,), dtype=i64}
  %0: f64[n0] = multiply %Z, 1.0
  %n.3: i64[n0], %Z.3: f64[n0] = loop t in 0:T:1, %n, %0
    do (%n.1: i64[n0], %Z.1: f64[n0])
      %1: b1[n0] = less %Z.1, 4.0
      %n.2: i64[n0] = write_mask %n.1, %1, t
      %2: f64[n0] = square %Z.1
      %3: f64[n0] = add %2, %c
      %4: f64[n0] = where %1, %3, %Z.1
      yield %n.2, %4
  return (%n.3, %Z.3)
"""
SPD = np.cov(np.random.default_rng(3).random((12, 40))) + np.eye(12)
R = np.random.default_rng(5)


def answers(text, arguments):
    """The leaves of the results and the arguments, of the interpreter and of native code."""
    graph = verify(parse(text))
    native = compile_graph(graph, arguments)
    mine, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    flat = not isinstance(graph.results, tuple | list | dict)
    got = native(*mine)
    assert got is not MISS
    wanted = list(leaves(run(parse(text), theirs)))
    return native, [*([got] if flat else got), *mine], [*wanted, *theirs]


CASES = {
    "jacobi": (JACOBI, [(R.random((9, 11)), R.random((9, 11)), 5)]),
    "cholesky": (CHOLESKY, [(SPD,), (SPD[:1, :1].copy(),), (SPD[:2, :2].copy(),)]),
    "wrapped": (WRAPPED, [(R.random(17), 2.0), (np.zeros(0), 2.0), (R.random(1), 90.0)]),
    "doubling": (DOUBLING, [(np.float64(2.5),), (np.float64(5e3),)]),
    "conjugate": (CONJUGATE, [(SPD, R.random(12), 4), (SPD, R.random(12), 0)]),
    "rotate": (ROTATE, [(R.random(5), R.random(5), R.random(5), t) for t in (0, 1, 2, 7)]),
    "seidel": (SEIDEL, [(R.random((7, 8)), 3), (R.random((3, 3)), 2), (R.random((40, 40)), 2)]),
    "stale": (STALE, [(R.random(9), 4), (R.random(33), 1), (R.random(2), 0)]),
    "shared": (SHARED, [(R.random(6), 3), (R.random(6), 0)]),
    "search": (SEARCH, [(R.random(20), np.float64(v)) for v in (0.3, 0.99, 2.0)]),
    "masked": (MASKED, [(R.random(40), R.random(40), t) for t in (0, 1, 6)]),
    "arms": (ARMS, [(R.random(5), R.random(5), np.float64(c)) for c in (2.0, -2.0)]),
}


@pytest.mark.parametrize("name", CASES)
def test_native_code_is_the_interpreter(name):
    text, calls = CASES[name]
    for arguments in calls:
        _, got, wanted = answers(text, list(arguments))
        assert len(got) == len(wanted)
        for x, y in zip(got, wanted):
            if y is not None:
                np.testing.assert_allclose(x, y, rtol=1e-12)
                assert np.asarray(x).dtype == np.asarray(y).dtype


def copies(name):
    """The nests of a program that only move an array."""
    text, calls = CASES[name]
    native, _, _ = answers(text, list(calls[0]))
    steps = inner_steps(native.program.steps)
    nests = [
        s for s in steps if isinstance(s, Nest) and s.nodes == ["copy"] and (s.inner or s.rows)
    ]
    return [n for n in nests if "loads" in _kinds(n)]


def _kinds(nest):
    (stage,) = nest.stages
    values = [x for store in stage.stores for x in store.value]
    return {"loads" if type(x).__name__ == "Load" else "computes" for x in values}


def test_stencils_and_triangles_are_written_where_they_lie():
    assert not copies("jacobi")
    assert not copies("cholesky")


def test_what_a_turn_makes_anew_replaces_the_old_point_by_point():
    # The starts of r and p are copies of the argument b, made by one nest; nothing is copied in the
    # loop.
    (copy,) = copies("conjugate")
    assert len(copy.stages[0].stores) == 2
    assert not copies("masked")


def test_a_window_that_reads_its_neighbours_goes_through_a_temporary():
    assert len(copies("seidel")) == 1
