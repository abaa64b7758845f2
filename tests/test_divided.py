"""Nests inside loops, divided among threads: the same answers, and no two threads meet.

With `parallel=0` every nest that may be divided is, at any size.
"""

from __future__ import annotations

import copy
import os
import random
import threading

import numpy as np
import pytest
from divided_kit import (
    N,
    R,
    at_threads,
    equal,
    everything_is_divided,
    is_interrupted,
    places,
    program_of,
    same,
    square,
    turns,
)
from hunt_loops import KINDS, function_of, inputs, near
from test_turns import CASES

import examples
import tailorbird as tb
from tailorbird import knobs
from tailorbird.assemble import pool
from tailorbird.dataclass import replace
from tailorbird.errors import Refused
from tailorbird.ir.expr import evaluate
from tailorbird.lower.apart import loads_of, stores_of
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import Loop, inner_steps

__all__ = ["everything_is_divided"]

# Programs, at one thread and at two


@pytest.mark.parametrize("function, make, left", CASES, ids=[f.__name__ for f, *_ in CASES])
def test_turns(function, make, left):
    f = tb.tailor(function, background=False)
    for n in (33, 8, 3, 1, 0):
        same(f, make(n), function, near)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(4))
def test_random_programs(kind, part):
    for seed in range(part * 8, part * 8 + 8):
        function = function_of(KINDS[kind](random.Random(seed)), f"{kind}{seed}")
        f = tb.tailor(function, background=False)
        for which in range(4):
            with np.errstate(all="ignore"):
                try:
                    function(*inputs(which))
                except Exception:  # noqa: BLE001 - compared where there is something to compare
                    continue
            same(f, inputs(which), function, near)


@pytest.mark.parametrize("name", examples.names())
def test_examples(name):
    example = examples.load(name)
    f = tb.tailor(example.main, background=False)
    arguments = example.make_arguments(1)
    f.warm(*copy.deepcopy(arguments))
    one, two = (at_threads(count, f, arguments) for count in (1, 2))
    assert equal(one, two)


# What threads touch


def heat(t, a, b):
    for _ in range(t):
        b[1:-1, 1:-1] = a[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1] - 2.0 * a[1:-1, 1:-1])
        a[1:-1, 1:-1] = b[1:-1, 1:-1]


def eliminate(a):
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k, k + 1 :]


def normalise(t, a):
    for _ in range(t):
        a /= 1.0 + np.abs(a).sum(axis=1, keepdims=True)


def scaled_by_a_scalar(t, a, z):
    s = z[0]
    for k in range(t):
        a += s.real * k
        z *= s
        s = z[1] * 0.5
    return s


def swept(t, a):
    for _ in range(t):
        a[:] = np.cumsum(a, axis=1) * 0.01


def halves(t, a):
    m = a.shape[0] // 2
    for _ in range(t):
        a[:m] += a[m : 2 * m]
        a[m : 2 * m] -= 0.5 * a[:m]


def under_a_branch(t, a):
    for k in range(t):
        if a[0, 0] > 0.5:
            a[1:] = np.sin(a[1:]) + k
        else:
            a[0] += 1.0


def masked(t, a):
    for _ in range(t):
        a[a > 0.4] *= 0.5


NESTS = [  # function, its arguments, nests that are divided
    (heat, lambda: (3, square(), square()), 2),
    (eliminate, lambda: (square() + N * np.eye(N),), 2),
    (normalise, lambda: (3, square()), 1),
    (scaled_by_a_scalar, lambda: (4, square(), R.random(N) + 1j), 2),
    (swept, lambda: (3, square()), 1),
    (halves, lambda: (3, square()), 1),
    (under_a_branch, lambda: (4, square()), 1),
    (masked, lambda: (4, square()), 1),
]
IDS = [f.__name__ for f, *_ in NESTS]


@pytest.mark.parametrize("function, make, least", NESTS, ids=IDS)
def test_nests(function, make, least):
    f = tb.tailor(function, background=False)
    arguments = make()
    same(f, arguments, function, near)
    assert f.variants
    text = f.explain(*arguments).text()
    assert text.count("threads over") >= least


def meeting(nest, known):
    """What one half of a nest stores and the other half stores or reads."""
    axis = nest.divided
    middle = evaluate(axis.extent, known) // 2
    halves = (slice(None, middle), slice(middle, None))
    stores, loads = list(stores_of(nest)), list(loads_of(nest))
    for store in stores:
        for other in (*stores, *loads):
            if other.buffer.name != store.buffer.name:
                continue
            assert not other.computed and not store.computed
            for one, two in (halves, halves[::-1]):
                mine = places(store.at, nest, axis, one, known)
                yield from mine & places(other.at, nest, axis, two, known)


def check_apart(function, arguments):
    """How many nests and loops of a program are divided; no two halves of a nest meet."""
    program, known = program_of(function, arguments)
    for nest, values in turns(program.steps, known):
        if nest.divided is not None:
            try:
                assert not set(meeting(nest, values)), (nest.name, values)
            except KeyError:  # a number that only the data knows
                continue
    steps = (s for s in inner_steps(program.steps) if isinstance(s, Nest | Loop))
    return sum(bool(step.divided) for step in steps)


@pytest.mark.parametrize("function, make, least", NESTS, ids=IDS)
def test_halves_of_nests_never_meet(function, make, least):
    assert check_apart(function, make()) >= least


def test_halves_of_the_nests_of_other_programs_never_meet():
    found = sum(check_apart(function, make(9)) for function, make, _ in CASES)
    for kind in KINDS:
        for seed in range(60):
            function = function_of(KINDS[kind](random.Random(seed)), f"{kind}{seed}")
            try:
                function(*inputs(0))
                found += check_apart(function, inputs(0))
            except (Refused, ArithmeticError, IndexError, ValueError, TypeError):
                continue
    assert found > 100


def test_places_that_meet_are_found():
    program, known = program_of(eliminate, (square(),))
    nest, values = next(
        (n, v) for n, v in turns(program.steps, known) if n.divided is not None and n.rows
    )
    store = nest.stages[0].stores[0]
    by = store.at.stride(nest.divided.name)
    nest.stages[0].stores.append(replace(store, at=replace(store.at, offset=store.at.offset + by)))
    assert set(meeting(nest, values))


# One thread, and small sizes


def test_what_is_small_is_emitted_in_place():
    with knobs.scope(parallel=1 << 20):
        small, large = (
            check_apart(heat, (3, np.zeros((n, n)), np.zeros((n, n)))) for n in (40, 900)
        )
    assert (small, large) == (0, 2)


def test_code_that_was_made_for_small_arrays_is_made_anew_for_large_ones():
    with knobs.scope(parallel=1 << 20, race=True, threads=2):
        f = tb.tailor(heat, background=False)
        for n, wanted in ((40, 0), (50, 0), (900, 2), (60, 2), (1800, 2)):
            f(2, np.zeros((n, n)), np.zeros((n, n)))
            a = np.zeros((n, n))
            assert f.explain(2, a, a.copy()).text().count("threads over") == wanted
        assert len(f.variants) == 2
    with knobs.scope(parallel=1 << 20, race=True, threads=1):
        f = tb.tailor(heat, background=False)
        for n in (40, 900):
            f(2, np.zeros((n, n)), np.zeros((n, n)))
        assert len(f.variants) == 1


def test_threads_are_left_alone_by_a_limit_of_one():
    f = tb.tailor(heat, background=False)
    with knobs.scope(threads=1):
        before = pool.started()
        f(3, square(), square())
        assert pool.started() == before


# Others at the same time


def test_two_python_threads_at_once():
    f = tb.tailor(heat, background=False)
    a, b = R.random((2, 300, 200))
    f.warm(40, a.copy(), b.copy())
    with knobs.scope(threads=2):
        pool.refresh()
    wanted = a.copy()
    heat(40, wanted, b.copy())
    wrong = []

    def work():
        for _ in range(5):
            mine = a.copy()
            f(40, mine, b.copy())
            if not np.allclose(mine, wanted, rtol=1e-12):
                wrong.append(mine)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_forked_child_divides_too():
    f = tb.tailor(heat, background=False)
    arguments = (3, square(), square())
    wanted = at_threads(2, f, arguments)
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = equal(at_threads(2, f, arguments), wanted) and pool.started() == 1
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_interrupt_arrives():
    a, b = R.random((2, 200, 200))
    is_interrupted(heat, (1, a, b), (10_000_000, a, b))
