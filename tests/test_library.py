"""NumPy's library functions as they are compiled: what they decompose into, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird.ir.promote import LEGACY
from tailorbird.lower.steps import PythonCall, inner_steps

RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.normal(size=shape)


def special(n):
    """Numbers of all kinds, nan and infinities among them."""
    x = RNG.normal(size=n)
    x[::5] = np.nan
    x[1::7] = np.inf
    x[2::9] = -0.0
    x[3::11] = -np.inf
    return x


def in_order(n):
    return np.sort(RNG.normal(size=n))


def check(function, *arguments, exact=False, native=True, more=()):
    """Native code gives what NumPy gives, on these arguments, with others in the first place, and
    on strided ones.
    """
    tailored = tb.tailor(function, deterministic=True, background=False)
    wide = [np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a for a in arguments]
    for given in (arguments, *((x, *arguments[1:]) for x in more), wide):
        with np.errstate(all="ignore"):
            wanted = function(*given)
        tailored.warm(*given)
        found = tailored(*given)
        flat = [x if isinstance(x, tuple) else (x,) for x in (wanted, found)]
        for w, f in zip(*flat, strict=True):
            assert type(w) is type(f)
            assert np.shape(w) == np.shape(f)
            assert np.asarray(w).dtype == np.asarray(f).dtype
            if exact or np.asarray(w).dtype.kind in "iub":
                np.testing.assert_array_equal(f, w)
            else:
                rtol = 1e-4 if np.asarray(w).dtype in (np.float32, np.complex64) else 1e-11
                np.testing.assert_allclose(f, w, rtol=rtol, atol=rtol, equal_nan=True)
    assert tailored.variants, tailored.explain(*arguments)
    if native and not LEGACY:  # NumPy 1.26 promotes by value, which leaves some calls to Python
        steps = inner_steps(tailored.variants[0].program.steps)
        assert not any(isinstance(s, PythonCall) for s in steps)
        assert sum(v.hits for v in tailored.variants) >= 2


SIZES = (1, 2, 3, 7, 33, 1000)
DTYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bins", (1, 7, 100))
def test_histogram_counts_as_numpy_does(dtype, bins):
    many = [(RNG.normal(size=n) * 50).astype(dtype) for n in (1, 3, 33, 70_000)]
    check(lambda x, b: np.histogram(x, len(b)), many[0], np.zeros(bins), more=many[1:])
    check(
        lambda x, b: np.histogram(x, len(b), range=(2, 30.5))[0],
        many[0], np.zeros(bins), more=many[1:],
    )  # fmt: skip


@pytest.mark.parametrize("n", (1, 5, 1000, 70_000))
@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_histogram_with_weights(n, dtype):
    x, w = floats(n).astype(dtype), floats(n).astype(dtype)
    check(lambda x, w: np.histogram(x, 13, weights=w)[0], x, w)
    check(lambda x, w: np.histogram(x, 13, range=(-0.5, 0.5), weights=w)[0], x, w)


def test_histogram_at_the_edges():
    """Values right on an edge, next to one, and all of one value."""
    edges = np.linspace(0.1, 0.7, 14)
    x = np.concatenate([edges, np.nextafter(edges, 1), np.nextafter(edges, 0)])
    check(lambda x: np.histogram(x, 13, range=(0.1, 0.7)), x)
    check(lambda x: np.histogram(x, 13), x)
    check(lambda x: np.histogram(x, 13), np.full(9, 4.0))
    check(lambda x: np.histogram(x, 13), np.full(9, -3))
    big = np.array([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max])
    check(lambda x: np.histogram(x, 5)[0], big)
    check(lambda x: np.histogram(x, 5)[0], np.array([-128, 3, 127], np.int8))


def test_histogram_of_nan_raises_as_numpy_does():
    tailored = tb.tailor(lambda x: np.histogram(x, 4)[0], background=False)
    tailored.warm(floats(20))
    with pytest.raises(ValueError, match="not finite"):
        tailored(special(20))


def test_histogram_in_a_range_leaves_out_nan():
    check(lambda x: np.histogram(x, 4, range=(-1.0, 1.0))[0], special(100))


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("n", (0, *SIZES))
def test_searchsorted(n, side):
    places = np.sort(RNG.integers(0, 40, n)).astype(float)
    check(
        lambda a, v: np.searchsorted(a, v, side),
        places,
        RNG.integers(-2, 44, 77) * 1.0,
        native=n > 0,
    )
    check(lambda a, v: np.searchsorted(a, v, side), places, special(50), native=n > 0)
    check(lambda a, v: np.searchsorted(a, v[0, 1], side), places, floats(2, 2), native=n > 0)
    check(
        lambda a, v: a.searchsorted(v, side),
        places.astype(int),
        RNG.integers(-2, 44, (3, 5)),
        native=n > 0,
    )
    check(
        lambda a, v: np.searchsorted(a, v, side), places.astype("f4"), np.arange(50), native=n > 0
    )


def test_searchsorted_in_what_is_not_sorted_is_numpys():
    check(lambda a, v: np.searchsorted(a, v), floats(100), floats(20), native=False)
    check(lambda a, v: np.searchsorted(a, v), np.sort(special(99)), floats(20), native=False)


def test_digitize():
    check(lambda x, b: np.digitize(x, b), special(100), in_order(9))
    check(lambda x, b: np.digitize(x, b, right=True), special(100), in_order(9))
    check(lambda x, b: np.digitize(x, b), floats(100), in_order(9)[::-1], native=False)


@pytest.mark.parametrize("n", SIZES)
def test_interp(n):
    xp = in_order(n)
    check(lambda x, xp, fp: np.interp(x, xp, fp), special(55), xp, floats(n))
    check(lambda x, xp, fp: np.interp(x, xp, fp), xp, xp, special(n))
    check(lambda x, xp, fp: np.interp(x, xp, fp, left=-7, right=9), floats(3, 4), xp, floats(n))
    twice = np.repeat(xp, 2)
    check(lambda x, xp, fp: np.interp(x, xp, fp), np.append(floats(9), xp), twice, floats(2 * n))


@pytest.mark.parametrize("mode", ("full", "same", "valid"))
@pytest.mark.parametrize("m", (1, 2, 5, 8))
def test_convolve_and_correlate(mode, m):
    for n in (m, 8, 65):
        check(lambda a, v: np.convolve(a, v, mode), floats(n), floats(m))
        check(lambda a, v: np.convolve(v, a, mode), floats(n), floats(m))
        check(lambda a, v: np.correlate(a, v, mode), floats(n), floats(m))
        check(lambda a, v: np.convolve(a, v, mode), np.arange(n), RNG.integers(-9, 9, m))
        z = floats(n) + 1j * floats(n)
        check(lambda a, v: np.correlate(a, v, mode), z, z[:m])


X, Y, A, B = floats(33), floats(33), floats(5, 33), floats(6, 6)
V = floats(7, 3)
READ = {
    "cov": (lambda a: np.cov(a), A),
    "cov of columns": (lambda a: np.cov(a, rowvar=False, ddof=0), A),
    "cov of two": (lambda x, y: np.cov(x, y, bias=True), X, Y),
    "cov of single": (lambda a: np.cov(a), A.astype("f4")),
    "cov of integers": (lambda a: np.cov(a), RNG.integers(0, 9, (3, 8))),
    "corrcoef": (lambda a: np.corrcoef(a), A),
    "corrcoef of two": (lambda x, y: np.corrcoef(x, y)[0, 1], X, Y),
    "trapezoid": (lambda x, y: np.trapezoid(x, y), X, Y),
    "trapezoid of rows": (lambda a: np.trapezoid(a, dx=0.25, axis=0), A),
    "cross": (lambda a, b: np.cross(a, b), V, V[::-1]),
    "cross of one": (lambda a, b: np.cross(a, b[0]), V, V),
    "cross of columns": (lambda a, b: np.cross(a, b, axis=0), V.T, V[::-1].T),
    "kron": (lambda a, b: np.kron(a, b), A, B),
    "kron of vectors": (lambda x, a: np.kron(x, a), X, A),
    "gradient": (lambda x: np.gradient(x), X),
    "gradient of rows": (lambda a: np.gradient(a, 0.5, axis=1), A),
    "gradients": (lambda a: tuple(np.gradient(a)), A),
    "polyval": (lambda x, y: np.polyval(y[:4], x), X, Y),
    "vander": (lambda x: np.vander(x, 4), X),
    "matrix_power": (lambda b: np.linalg.matrix_power(b, 5), B),
    "matrix_power of integers": (lambda b: np.linalg.matrix_power(b, 3), B.astype(int)),
    "matrix_power below 0": (lambda b: np.linalg.matrix_power(b, -2), B),
    "norm 1": (lambda b: np.linalg.norm(b, 1), B),
    "norm inf": (lambda b: np.linalg.norm(b, -np.inf, axis=(0, 1), keepdims=True), B),
    "norm 3": (lambda x: np.linalg.norm(x, 3), X),
    "norm 0": (lambda x: np.linalg.norm(x, 0), X),
    "norm of rows": (lambda a: np.linalg.norm(a, -1, axis=1), A),
    "average": (lambda a, x: np.average(a, axis=1, weights=np.abs(x)), A, X),
    "average and sum": (lambda a: np.average(a, axis=0, returned=True), A),
    "fftfreq": (lambda x: np.fft.fftfreq(x.size, 0.1), X),
    "fftshift": (lambda a: np.fft.ifftshift(np.fft.fftshift(a) + 1), A),
    "max initial": (lambda a: np.max(a, axis=1, initial=0.5), A),
}


@pytest.mark.parametrize("name", READ)
def test_what_numpy_writes_in_python_is_read(name):
    function, *arguments = READ[name]
    if "trapezoid" in name and not hasattr(np, "trapezoid"):
        pytest.skip("NumPy 2")
    check(function, *arguments)


def test_reasons_have_the_users_line():
    def programs(x):
        return np.cov(x, aweights=np.abs(x[0]))

    tailored = tb.tailor(programs, background=False)
    tailored.warm(A)
    text = str(tailored.explain(A))
    assert "function_base" not in text
