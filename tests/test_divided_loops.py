"""Loops divided by their turns: the same answers, and no two turns meet."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from divided_kit import (
    N,
    R,
    everything_is_divided,
    is_interrupted,
    places,
    program_of,
    same,
    square,
    turns,
)
from hunt_loops import near

import tailorbird as tb
from tailorbird import knobs
from tailorbird.ir.expr import evaluate
from tailorbird.lower.apart import loads_of, stores_of
from tailorbird.lower.steps import Loop, inner_steps
from tailorbird.lower.touch import written_by

__all__ = ["everything_is_divided"]


def escapes(n, most, out):
    for i in range(n):
        for j in range(n):
            x = y = 0.0
            k = 0
            while k < most and x * x + y * y < 4.0:
                x, y = x * x - y * y + j * 2.5 / n - 2.0, 2.0 * x * y + i * 2.5 / n - 1.25
                k += 1
            out[i, j] = k


def sparse(rows, columns, values, x):
    y = np.empty(rows.size - 1)
    for i in range(rows.size - 1):
        at = columns[rows[i] : rows[i + 1]]
        y[i] = values[rows[i] : rows[i + 1]] @ x[at]
    return y


def first_above(a, out):
    for i in range(a.shape[0] - 1, -1, -2):
        out[i] = -1
        for j in range(a.shape[1]):
            if a[i, j] > 0.8:
                out[i] = j
                break


def below(a, out, scale):
    for _ in range(2):
        s = out[0, 0] * scale
        for i in range(1, a.shape[0], 3):
            for j in range(i):
                t = s
                for k in range(j):
                    t += a[i, k] * a[k, j]
                out[i, j] = t


def raises(a, out):
    for i in range(out.shape[0]):
        k = 0
        while a[i, k] < 0.9:
            k += 1
        out[i] = k


def sparse_arguments():
    rows = np.concatenate([[0], np.cumsum(R.integers(0, 5, N))])
    return rows, R.integers(-N, N, rows[-1]), R.random(rows[-1]), R.random(N)


def with_a_scalar_from_before(a, out):
    s = 0.0
    for i in range(a.shape[0]):
        out[i] = s
        for j in range(a.shape[1]):
            s = a[i, j] * 0.5
            if s > 0.4:
                break


def neighbours(a, out):
    for i in range(1, a.shape[0]):
        for j in range(i):
            if a[i, j] > 0.5:
                out[i] = out[i - 1] + a[i, j]


def one_place(a, out):
    for i in range(a.shape[0]):
        for j in range(i):
            if a[i, j] > 0.5:
                out[0] = a[i, j]


def wandering(a, out):
    for i in range(a.shape[0]):
        for j in range(i):
            if a[i, j] > 0.5:
                out[i // 2 + j] = a[i, j]


def grows(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0.5:
                s += a[i, j]
    return s


def known_afterwards(a, out):
    for i in range(a.shape[0]):
        k = 0
        while k < i and a[i, k] < 0.9:
            k += 1
        out[i] = k
    return k + 1


LOOPS = [  # function, its arguments, loops that are divided
    (escapes, lambda: (N, 20, np.zeros((N, N), np.int64)), 1),
    (sparse, sparse_arguments, 1),
    (first_above, lambda: (square(), np.zeros(N, np.int64)), 1),
    (below, lambda: (square(), square(), 0.5), 1),
    (raises, lambda: (np.where(square() > 0.3, 0.95, 0.1), np.zeros(N, np.int64)), 1),
    (raises, lambda: (np.full((N, N), 0.1), np.zeros(N, np.int64)), 1),
    (with_a_scalar_from_before, lambda: (square(), np.zeros(N)), 0),
    (neighbours, lambda: (square(), np.zeros(N)), 0),
    (one_place, lambda: (square(), np.zeros(N)), 0),
    (wandering, lambda: (square(), np.zeros(2 * N)), 0),
    (grows, lambda: (square(),), 0),
    (known_afterwards, lambda: (square(), np.zeros(N, np.int64)), 0),
]


@pytest.mark.parametrize("function, make, wanted", LOOPS, ids=[f.__name__ for f, *_ in LOOPS])
def test_loops(function, make, wanted):
    f = tb.tailor(function, background=False)
    arguments = make()
    same(f, arguments, function, near)
    same(f, make(), function, near)
    program, _ = program_of(function, arguments)
    loops = [s for s in inner_steps(program.steps) if isinstance(s, Loop)]
    assert sum(bool(loop.divided) for loop in loops) == wanted
    if f.variants:
        assert ("threads over turns" in f.explain(*arguments).text()) == bool(wanted)


def test_a_few_turns_of_much_work_are_not_divided():
    few, many = (np.zeros((n, 4000)) for n in (4, 400))
    with knobs.scope(parallel=1 << 20):
        for a, wanted in ((few, 0), (many, 1)):
            program, _ = program_of(first_above, (a, np.zeros(len(a))))
            loops = [s for s in inner_steps(program.steps) if isinstance(s, Loop)]
            assert sum(bool(loop.divided) for loop in loops) == wanted


# What turns touch


def touched_by_turns(loop, known):
    """For some turns of a loop: of the arrays that it writes, what a turn stores, and touches."""
    written = written_by(loop.body)
    ends = (evaluate(x, known) for x in (loop.start, loop.stop))
    values = range(*ends, loop.step)
    for value in {values[k] for k in (0, 1, len(values) // 2, -1)}:
        stored, touched = set(), set()
        for nest, inside in turns(loop.body, known | {loop.var: value}):
            for accesses, found in ((stores_of, stored), (loads_of, touched)):
                for x in accesses(nest):
                    if x.buffer.shape and x.buffer.name in written:
                        assert not x.computed
                        at = places(x.at, nest, None, None, inside)
                        found |= {(x.buffer.name, k) for k in at}
        yield stored, touched | stored


@pytest.mark.parametrize("function, make, wanted", LOOPS[:6], ids=range(6))
def test_turns_never_meet(function, make, wanted):
    program, known = program_of(function, make())
    loop = next(s for s in inner_steps(program.steps) if isinstance(s, Loop) and s.divided)
    for one, two in itertools.permutations(touched_by_turns(loop, known), 2):
        assert one[0] and one[0].isdisjoint(two[1])


# Signals


def counting(ends, out):
    for i in range(ends.shape[0]):
        k = 0.0
        while k < ends[i]:
            k += 1.0
        out[i] = k


def long_calls():
    """Calls that last for hours: the first turn, or the last."""
    for at in (0, -1):
        ends = np.zeros(N)
        ends[at] = 1e13
        yield counting, (np.zeros(N), np.zeros(N)), (ends, np.zeros(N))


@pytest.mark.parametrize("function, first, call", [*long_calls()])
def test_an_interrupt_arrives(function, first, call):
    is_interrupted(function, first, call)
