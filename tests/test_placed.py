"""Products put where they are copied to: whatever else reads or writes there."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.lower.steps import Gemm, inner_steps


def whole(a, b, y, n):
    for _ in range(n):
        y[:] = a @ b
        b *= 0.5
    return y.sum()


def reshaped(a, b, y, n):
    z = np.zeros(y.size, y.dtype)
    for k in range(n):
        z[:] = np.reshape(a @ b, y.size)
        z += k
    y[:] = z.reshape(y.shape)
    return z


def of_itself(a, b, y, n):
    for _ in range(n):
        y[:] = y @ b[: y.shape[1], : y.shape[1]]
        b *= 0.5
    return y


def read_twice(a, b, y, n):
    total = y * 0
    for _ in range(n):
        c = a @ b
        y[:] = c
        y[0] = 1
        total += c
    return total


def in_part(a, b, y, n):
    for _ in range(n):
        y[1:] = (a @ b)[1:]
        y[:, 0] = (a @ b)[:, 1]
    return y


def read_between(a, b, y, n):
    for _ in range(n):
        c = a @ b
        b[0] += y[0, 0]
        y[:] = c
    return b


PROGRAMS = (whole, reshaped, of_itself, read_twice, in_part, read_between)


def temporaries(f):
    steps = list(inner_steps(step for v in f.variants for step in v.program.steps))
    return [s.out.buffer.role == "temp" for s in steps if isinstance(s, Gemm)]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["f8", "f4", "c16"])
def test_products(function, kind):
    rng = np.random.default_rng(3)
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(function, background=False)
        for m, k, n in ((3, 4, 5), (1, 2, 2), (17, 9, 30), (8, 40, 40), (2, 3, 300)):
            if function is of_itself:
                k = n = min(k, n)
            a, b, y = (rng.normal(size=s).astype(kind) for s in ((m, k), (k, n), (m, n)))
            for out in (y, np.asfortranarray(y), np.repeat(y, 2, axis=1)[:, ::2]):
                for turns in (3, 1, 0):
                    ours, theirs = ([a.copy(), b.copy(), out.copy("K")] for _ in range(2))
                    found, wanted = f(*ours, turns), function(*theirs, turns)
                    for p, q in zip([found, *ours], [wanted, *theirs], strict=True):
                        room = 1e-4 if kind == "f4" else 1e-10
                        np.testing.assert_allclose(p, q, rtol=room, atol=room)
    assert f.variants


@pytest.mark.parametrize(("function", "some"), [(whole, False), (read_twice, True)])
def test_a_temporary_is_made_where_it_must_be(function, some):
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(function, background=False)
        a = np.ones((50, 50))
        f(a, a.copy(), a.copy(), 3)
    assert temporaries(f) == [some]


def test_one_array_as_two_arguments():
    with knobs.scope(race=False, cache=False):
        f = tb.tailor(whole, background=False)
        a = np.random.default_rng(0).normal(size=(20, 20))
        f(a.copy(), a.copy(), a.copy(), 2)
        for both in (0, 1):
            ours, theirs = ([a.copy(), a.copy(), a.copy()] for _ in range(2))
            ours[2], theirs[2] = ours[both], theirs[both]
            f(*ours, 2)
            whole(*theirs, 2)
            np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-10, atol=1e-10)
