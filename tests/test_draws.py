"""Random generators: the same numbers, and left in the same state, as plain Python leaves them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import events, knobs


def state_of(rng):
    state = rng.get_state(legacy=False) if isinstance(rng, np.random.RandomState) else None
    return repr(state or rng.bit_generator.state)


def outcome(function, rng, arguments):
    try:
        return function(rng, *arguments)
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return type(error)


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, tuple) else [x]


def agrees(function, *calls, make=np.random.default_rng, native=True):
    """Calls one after another draw what the plain function draws, from one generator."""
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(function, background=False)
        mine, theirs = make(11), make(11)
        for arguments in calls:
            found = outcome(tailored, mine, copy.deepcopy(arguments))
            wanted = outcome(function, theirs, copy.deepcopy(arguments))
            for a, b in zip(flat(found), flat(wanted), strict=True):
                assert type(a) is type(b)
                if not isinstance(b, type):
                    assert np.asarray(a).dtype == np.asarray(b).dtype
                    np.testing.assert_allclose(a, b, rtol=1e-13)
            assert state_of(mine) == state_of(theirs)
    assert bool(tailored.variants) is native, tailored.explain(make(1), *calls[0])
    return tailored


def price(rng, paths, steps):
    s = np.full(paths, 100.0)
    for _ in range(steps):
        s = s * np.exp(0.01 * rng.standard_normal(paths) - 0.00005)
    return np.maximum(s - 100.0, 0.0).mean()


def many_kinds(rng, x):
    n = x.size
    return (
        rng.random(n) + x,
        rng.integers(0, 9, size=(2, n)) * 2,
        rng.integers(3, size=n, dtype=np.int8) + x,
        rng.normal(x, 2.0) * x,
        rng.uniform(-1, 1, size=(n, 2)).sum(axis=1),
        rng.poisson(3.0, n) + x,
        rng.random(n, dtype=np.float32) * 2,
        rng.permutation(n) + x,
        rng.permutation(x) * 2,
        rng.choice(x, 4) + 1,
        rng.choice(7, size=(2, 2)) * 2,
    )


def numbers(rng, x):
    return x * rng.random() + rng.normal(1.0, 2.0), x + rng.integers(9)


def unused(rng, x):
    rng.random(5)
    return x + rng.random(x.size)


def shuffles(rng, x):
    rng.shuffle(x)
    return x * 2


def by_branch(rng, x):
    if x.sum() > 0:
        return x + rng.random(x.size)
    return x * rng.standard_normal(x.size)


def walk(rng, limit):
    at = 0.0
    steps = 0
    while abs(at) < limit:
        at += rng.standard_normal()
        steps += 1
    return at, steps


def helper(rng, n):
    return rng.standard_normal(n)


def through_a_helper(rng, x):
    a = helper(rng, x.size)
    return a - helper(rng, x.size) * x


X = np.linspace(1.0, 2.0, 7)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (price, [(50, 7), (3, 2), (0, 1), (9, 0)]),
        (many_kinds, [(X,), (X[:5],)]),
        (numbers, [(X,), (X,)]),
        (unused, [(X,), (X[:0],)]),
        (shuffles, [(X,), (X[:1],)]),
        (by_branch, [(X,), (-X,), (X,)]),
        (walk, [(2.0,), (0.0,), (5.0,)]),
        (through_a_helper, [(X,), (X,)]),
    ],
)
def test_draws_are_the_plain_functions(function, calls):
    agrees(function, *calls)


def old_style(rng, x):
    return rng.rand(x.size) + rng.randn(x.size, 2).sum(axis=1) + rng.randint(5, size=x.size) * x


def test_the_generators_of_old():
    agrees(old_style, (X,), (X[:3],), make=np.random.RandomState)


def behind_the_module(x):
    return np.random.rand(x.size) * x + np.random.normal(0.0, 1.0, x.size)


def test_the_generator_behind_np_random():
    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(behind_the_module, background=False)
        np.random.seed(3)
        found = [tailored(X), tailored(X)]
        np.random.seed(3)
        wanted = [behind_the_module(X), behind_the_module(X)]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert tailored.variants


def leaves_half_way(rng, x, idx):
    out = np.zeros(4)
    for i in range(len(idx)):
        out[idx[i]] = x[i] * rng.random()
    return out


def test_a_call_that_leaves_half_way_is_taken_back():
    """What native code drew before the index out of range is put back for plain Python."""
    good, bad = np.array([0, 2, 1]), np.array([0, 1, 9])
    tailored = agrees(leaves_half_way, (X, good), (X, bad), (X, good))
    assert len(tailored.variants) == 1


def draws_badly(rng, x, scale):
    a = x + rng.random(x.size)
    return a * rng.normal(0.0, scale, x.size)


def test_an_exception_of_a_draw():
    agrees(draws_badly, (X, 1.0), (X, -1.0), (X, 2.0))


def two(rng, other, x):
    return rng.random(x.size) + other.random(x.size)


def test_two_generators_stay_plain():
    """They may be one."""
    rng, same = np.random.default_rng(1), np.random.default_rng(1)
    tailored = tb.tailor(two, background=False)
    np.testing.assert_array_equal(tailored(rng, rng, X), two(same, same, X))
    assert not tailored.variants
    assert "more than one random generator" in str(tailored.explain(rng, rng, X))


def test_what_is_drawn_is_explained():
    tailored = agrees(price, (50, 7))
    told = str(tailored.explain(np.random.default_rng(1), 50, 7))
    assert "standard_normal of a random generator, left to Python" in told


def unknown_method(rng, x):
    return x + rng.multivariate_normal(np.zeros(2), np.eye(2))


def test_a_method_without_a_row_stays_plain():
    tailored = agrees(unknown_method, (X[:2],), native=False)
    assert "multivariate_normal" in str(tailored.explain(np.random.default_rng(1), X[:2]))


def test_reading_a_function_draws_nothing():
    rng = np.random.default_rng(5)
    before = state_of(rng)
    tb.tailor(many_kinds, background=False).explain(rng, X)
    assert state_of(rng) == before


NOISY = """
import numpy as np

def noisy(rng, x):
    return x + rng.standard_normal(x.size)
"""


def test_a_later_process_draws_the_same(process):
    for kind in ("compiled", "restored"):
        tailored = tb.tailor(process(NOISY).noisy, background=False)
        with knobs.scope(race=False):
            found = tailored(np.random.default_rng(2), X)
        wanted = X + np.random.default_rng(2).standard_normal(X.size)
        np.testing.assert_array_equal(found, wanted)
        assert kind in [e.kind for e in events.recent()]
