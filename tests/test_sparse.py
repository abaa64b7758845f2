"""Products that pass over zeros: every size, special values, nothing outside touched, and when."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailorbird as tb
from tailorbird import knobs
from tailorbird.assemble import build, multiply, target
from tailorbird.dispatch.leaf import COUNTDOWN
from tailorbird.emit import sparse
from tailorbird.profile.look import look, profile_of
from tests.api_kit import hits, is_same, native, plainly

POINTER, SIZE = ctypes.c_void_p, ctypes.c_int64
PROTOTYPE = ctypes.CFUNCTYPE(SIZE, *[POINTER, SIZE] * 3, *[SIZE] * 3)
TYPES = {"f32": "f4", "f64": "f8"}
SIZES = [(1, 1, 1), (2, 16, 300), (7, 17, 33), (129, 100, 64), (300, 513, 70), (5, 270, 40_000)]
MARK = -7.0
RNG = np.random.default_rng(5)


@pytest.fixture(scope="module", params=[(ty, cpu) for ty in TYPES for cpu in ("", "haswell")])
def kernel(request):
    """A product of a type, for this machine and for one without AVX-512; its dtype."""
    ty, cpu = request.param
    with knobs.scope(target=cpu):
        text = sparse.emit_module(ty, target.host().vector_bytes)
        library = build.build(text, ["sparse"], multiply._resolve)
    function = PROTOTYPE(library.address("sparse"))
    function.library = library
    return function, TYPES[ty]


def thinned(shape, density, dtype):
    return np.where(RNG.random(shape) < density, RNG.normal(size=shape), 0).astype(dtype)


def run(kernel, a, b):
    """Whether it was done, and the product in the middle of numbers that must stay."""
    function, dtype = kernel
    wide = np.full((len(a) + 2, b.shape[1] + 5), MARK, dtype)
    out = wide[1:-1, 1 : b.shape[1] + 1]
    sides = [x for m in (a, b, out) for x in (m.ctypes.data, m.strides[0] // m.itemsize)]
    done = function(*sides, len(a), b.shape[1], b.shape[0])
    found = out.copy()
    out[:] = MARK
    assert (wide == MARK).all(), "written outside the result"
    return done, found


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("density", [0, 0.02, 0.1])
def test_it_is_the_product(kernel, m, n, k, density):
    dtype = kernel[1]
    a = thinned((m, k + 3), density, dtype)[:, :k]
    b = RNG.normal(size=(k, n + 2)).astype(dtype)[:, :n]
    done, found = run(kernel, a, b)
    assert done or a.size < 64, "small matrices may not look sparse"
    if done:
        places = 1e-12 if dtype == "f8" else 1e-4
        wanted = a.astype("f8") @ b.astype("f8")
        assert np.allclose(found, wanted, rtol=places, atol=places * np.sqrt(k))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_special_numbers_on_the_left_are_like_any_others(data):
    kernel = PROTOTYPE(multiply.sparse("f64")), "f8"
    m, n, k = (data.draw(st.integers(1, most)) for most in (40, 40, 60))
    a = thinned((m, k), 0.1, "f8")
    special = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308]
    for _ in range(3):
        a[data.draw(st.integers(0, m - 1)), data.draw(st.integers(0, k - 1))] = data.draw(
            st.sampled_from(special)
        )
    b = RNG.integers(-3, 4, (k, n)).astype("f8")
    done, found = run(kernel, a, b)
    if done:
        with np.errstate(all="ignore"):
            assert np.allclose(found, a @ b, equal_nan=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [(0, 0), (63, 40), (31, 32), (63, 0)])
def test_a_right_side_that_is_not_finite_is_left_alone(kernel, bad, at):
    a, b = thinned((50, 64), 0.02, kernel[1]), np.ones((64, 41), kernel[1])
    assert run(kernel, a, b)[0]
    b[at] = bad
    assert not run(kernel, a, b)[0], "0 * inf is nan, and must not be passed over"
    b[at] = np.finfo(kernel[1]).max
    assert run(kernel, a, b)[0]


def test_dense_data_is_left_to_a_dense_product(kernel):
    a, b = np.ones((64, 64), kernel[1]), np.ones((64, 32), kernel[1])
    assert not run(kernel, a, b)[0]
    a[:] = 0
    assert run(kernel, a, b)[0]


def test_data_that_is_dense_where_the_sample_did_not_fall(kernel):
    """One row in five is full: more than the sample may meet, less than is given up."""
    a, b = np.zeros((1000, 256), kernel[1]), np.ones((256, 20), kernel[1])
    a[::5] = 1
    done, found = run(kernel, a, b)
    assert not done or np.array_equal(found, a @ b)
    mostly = np.ones((1000, 256), kernel[1])
    mostly[:100] = 0
    assert not run(kernel, mostly, b)[0]


# Whole functions


def layers(x, w, v):
    h = np.maximum(x @ w, 0)
    return h @ v


def big(density, dtype="f8"):
    x = thinned((300, 400), density, dtype)
    return x, RNG.normal(size=(400, 310)).astype(dtype), RNG.normal(size=(310, 200)).astype(dtype)


def test_a_product_looks_where_the_data_is_sparse_and_after_a_cut():
    with knobs.scope(threads=2):
        sparse_x, dense_x = big(0.01), big(1.0)
        tailored = native(layers)
        for args in (sparse_x, dense_x, big(0.1), big(0.0), sparse_x):
            assert is_same(tailored(*args), layers(*args))
        assert hits(tailored) == 5
        text = str(tailored.explain(*sparse_x))
        assert text.count("{sparse}") == 2, "x is sparse, and so may be what a cut gives"
        assert "zeros on the left" in text
        assert str(native(layers).explain(*dense_x)).count("{sparse}") == 1
        with knobs.scope(off=("sparse",)):
            assert "{sparse}" not in str(native(layers).explain(*sparse_x))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_meets_zeros_as_in_numpy(bad):
    x, w, v = big(0.01)
    w = w.copy()
    w[77, 5] = bad
    tailored = native(layers)
    assert is_same(tailored(x, w, v), plainly(layers, x, w, v))
    x[:, 77] = 0
    assert is_same(tailored(x, w, v), plainly(layers, x, w, v))
    assert hits(tailored) == 2


def test_data_that_becomes_sparse_gets_a_variant_when_the_race_is_looked_at_again():
    """Two at most: what it looks like now is known the next time."""
    dense, sparse_x = big(1.0), big(0.01)
    tailored = tb.tailor(layers, background=False)
    with knobs.scope(off=("algebra",)):
        for round_, args in enumerate((dense, sparse_x, dense, sparse_x)):
            for _ in range(12):
                assert is_same(tailored(*args), layers(*args))
            for variant in tailored.variants:
                variant.words[COUNTDOWN] = 1
            assert is_same(tailored(*args), layers(*args))
            assert len(tailored.variants) == min(round_ + 1, 2)
    assert "%x, %w {sparse}" in str(tailored.explain(*sparse_x))


# The sample


def test_what_a_sample_says():
    assert look(thinned((100, 100), 0.01, "f8")).zeros
    assert not look(thinned((100, 100), 0.9, "f8")).zeros
    assert not look(np.zeros(10)).zeros, "too small to matter"
    rows, columns = np.zeros((1000, 1000)), np.zeros((1000, 1000))
    rows[::2], columns[:, ::2] = 1, 1
    assert not look(rows).zeros and not look(columns).zeros
    assert look(rows[1::2]).zeros and not look(columns.T[::2]).zeros
    assert profile_of((np.ones(9), [thinned((99, 99), 0.01, "f8")])) == "1 mostly zeros"
    assert profile_of(({"a": np.ones((99, 99))}, 3, "x")) == ""
