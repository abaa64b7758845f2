"""Moves of data that need not be: reshapes go behind maps, concatenations are read in part."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.fuse.groups import Group
from tailorbird.pipeline import run_stages

R = np.random.default_rng(3)


def turned_and_flat(x, y):
    z = x + y
    return x.T.reshape(-1) * (z + 1.0).T.reshape(-1) + 2.0


def twice(x, y):
    return (x * y).reshape(-1).reshape(y.shape[1], -1) - 1.0


def with_another(x, y):
    z = x * y
    return x.T.reshape(-1) * z.reshape(-1)


def other_shapes(x, y):
    return x.T.reshape(-1) + (y * 2.0)[: x.shape[0], None].reshape(-1)


def spread(x, y):
    return np.exp(x[0])[:, None] * y.T


def a_part(x, y):
    i, j = np.mgrid[0 : x.shape[0], 0 : y.shape[1]]
    return i * 10 + j


def of_two_parts(x, y):
    both = np.concatenate([x[None], y[None] * 2.0])
    return both[1] + both[0, :, ::-1]


def butterflies(x, n):
    y = x.copy()
    for i in range(n):
        lines = np.transpose(y.reshape(2**i, 2, 2 ** (n - i - 1)), (1, 0, 2))
        turn = np.exp(-1j * np.arange(2**i) / 2**i)
        scaled = lines * np.repeat(turn.reshape(1, -1, 1), 2 ** (n - i - 1), axis=2)
        y[:] = (np.array([[1, 1], [1, -1]]) @ scaled.reshape(2, -1)).reshape(-1)
    return y


def pair(m, n):
    return R.random((m, n)), R.random((m, n))


CASES = [turned_and_flat, twice, with_another, other_shapes, spread, a_part, of_two_parts]


@pytest.mark.parametrize("function", CASES, ids=[f.__name__ for f in CASES])
def test_the_answers_are_those_of_before(function):
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(function, background=False)
        for m, n in ((3, 4), (5, 5), (1, 7), (6, 1), (0, 3), (17, 33)):
            x, y = pair(m, n)
            got = outcome(f, x, y)
            wanted = outcome(function, x, y)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, equal_nan=True)
    assert any(variant.hits for variant in f.variants)


def test_arrays_reshaped_otherwise_in_every_turn_are_one_loop():
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(butterflies, background=False)
        for n in (1, 5, 9, 20):
            x = R.random(2**n) + 1j * R.random(2**n)
            np.testing.assert_allclose(f(x, n), butterflies(x, n), rtol=1e-9, atol=1e-9)
    assert len(f.variants) == 1


def test_one_array_is_in_memory_behind_the_map():
    assert len(stored(turned_and_flat, *pair(3, 4))) == 1


def test_what_is_dear_and_read_along_lines_is_computed_once_an_element():
    made, product = (group.domain for group in groups(spread, *pair(3, 40)))
    assert len([d for d in made if d != 1]) == 1
    assert len(product) == 2


def test_a_part_of_a_concatenation_is_all_that_is_there():
    ops = [node.op for node in at_stage(a_part, "rewrite", *pair(3, 4)).graph.body.nodes]
    assert "concatenate" not in ops


def outcome(f, x, y):
    try:
        return f(x, y)
    except (ValueError, IndexError, ZeroDivisionError):
        return np.nan


def at_stage(function, last, *arguments):
    names = list(inspect.signature(function).parameters)
    return run_stages(function, dict(zip(names, arguments)), names, last)


def stored(function, *arguments):
    return [b for b in at_stage(function, "lower", *arguments).program.buffers if b.shape]


def groups(function, *arguments):
    plan = at_stage(function, "fuse", *arguments).plan
    return [step for step in plan.walk() if isinstance(step, Group)]
