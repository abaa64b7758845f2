"""Vector math against long double and NumPy: 4 ulp everywhere, special values exact.

Every function, both element types, at full width, as a scalar, and for an AVX2 machine.
"""

from __future__ import annotations

import functools
import math

import mpmath as mp
import numpy as np
import pytest
from vmath_kernel import BINARY, DTYPES, full_width, host_has_avx512, kernel

from tailorbird.emit.vmath import VECTOR_MATH

LIMIT = 4.0
POINTS = 4000
MODES = ["full", "single", "avx2"]
LONG = np.longdouble

# Arguments around which something changes: overflow, underflow, saturation, switches of method.
THRESHOLDS = [
    *(
        88.72283,
        88.72284,
        89.4,
        -87.33,
        -103.27,
        -103.97,
        -103.98,
        127.99999,
        128,
        -126,
        -149,
        -150,
    ),
    *(709.782712893384, 709.7827128933841, 710.4758600739439, 710.475860073944, -708.4, -744.4),
    *(-745.13321910194, -745.14, 1023.9999, 1024, -1022, -1074, -1075, -1076, 0.5, 0.75, 1.5, 2, 3),
    *(math.pi / 4, math.pi / 2, math.pi, 0.34657, 0.0216, 0.0108, 9.01, 9.5, 18.7, 20, 26.6, 1e5),
]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@functools.cache
def points(dtype: type) -> np.ndarray:
    """Random bits, every exponent, near 1, ordinary sizes, special points; both signs."""
    rng = np.random.default_rng(7)
    info = np.finfo(dtype)
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits = rng.integers(0, np.iinfo(unsigned).max, 2 * POINTS, dtype=unsigned).view(dtype)
    near = 1 + rng.uniform(-0.3, 0.6, POINTS) * np.exp(rng.uniform(-20, 0, POINTS))
    small = np.exp(rng.uniform(-20, 6, POINTS))
    exponents = np.ldexp(rng.uniform(1, 2, 2100), np.arange(-1075, 1025)[:2100])
    special = np.array([0, np.inf, np.nan, 1, info.max, info.tiny, info.smallest_subnormal])
    edges = np.array([*special, *THRESHOLDS], dtype)
    edges = np.concatenate([edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(9e9))])
    ordinary = rng.uniform(-1, 1, (4, POINTS)) * np.array([[1.2], [6], [110], [760]])
    both = np.concatenate([near, small, exponents[:2100], edges])
    return np.concatenate([bits, ordinary.ravel(), both, -both]).astype(dtype)


def reference(name: str, *args: np.ndarray) -> np.ndarray:
    if name == "erf":
        true = np.array([LONG(mp.nstr(mp.erf(float(x)), 25)) for x in args[0]])
        return np.copysign(true, args[0].astype(LONG))
    return getattr(np, name)(*[a.astype(LONG) for a in args])


def ulps(got: np.ndarray, true: np.ndarray, floor: np.ndarray | None = None) -> np.ndarray:
    """Errors in ulps; 0 where both are the same infinity or NaN, inf where only one is.

    The ulp is that of the true value, or of the floor where that is larger.
    """
    info = np.finfo(got.dtype)
    rounded = true.astype(got.dtype)
    _, exponent = np.frexp(true if floor is None else np.maximum(np.abs(true), floor))
    unit = np.maximum(np.ldexp(LONG(1), exponent - 1 - info.nmant), LONG(info.smallest_subnormal))
    error = np.abs(got.astype(LONG) - true) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    finite = np.isfinite(got) & np.isfinite(rounded)
    return np.where(finite, error, np.where(same, 0, np.inf))


# log(e^x + e^y) passes through 0, and there even the exact sum of two rounded terms is far off.
CANCELS = {"logaddexp", "logaddexp2"}


def build(name: str, ty: str, mode: str):
    avx512 = mode != "avx2" and host_has_avx512()
    return kernel(name, ty, 1 if mode == "single" else full_width(ty, avx512), avx512)


def assert_close(name: str, got: np.ndarray, true: np.ndarray, *args: np.ndarray) -> None:
    floor = np.maximum(*(np.abs(a.astype(LONG)) for a in args)) if name in CANCELS else None
    errors = ulps(got, true, floor)
    worst = int(np.argmax(errors))
    at = tuple(a[worst] for a in args)
    message = f"{name}{at}: got {got[worst]!r}, true {true[worst]!r}, {errors[worst]} ulp"
    assert errors[worst] <= LIMIT, message
    zero = (true == 0) & (np.signbit(true) != np.signbit(got))
    assert not zero.any(), f"{name}: wrong sign of zero at {[a[zero][:3] for a in args]}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ty", DTYPES)
@pytest.mark.parametrize("name", sorted(VECTOR_MATH - BINARY))
def test_one_argument(name: str, ty: str, mode: str) -> None:
    x = points(DTYPES[ty])[:: 8 if name == "erf" else 1]
    got = build(name, ty, mode)(x)
    assert_close(name, got, reference(name, x), x)


@functools.cache
def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special points; random bits; ordinary sizes; bases with fitting exponents."""
    rng = np.random.default_rng(8)
    special = points(dtype)[-600:]
    special = special[:: len(special) // 40]
    whole = np.arange(-5, 6).astype(dtype)
    info = np.finfo(dtype)
    edges = [
        0.0,
        np.inf,
        np.nan,
        1.0,
        0.5,
        2.0,
        1e9 + 1,
        info.max,
        info.tiny,
        info.smallest_subnormal,
    ]
    special = np.concatenate([special, whole, np.array(edges, dtype), -np.array(edges, dtype)])
    first, second = (a.ravel() for a in np.meshgrid(special, special))
    some = points(dtype)
    x, y = rng.permutation(some), rng.permutation(some)
    base = np.exp(rng.uniform(-1, 1, 4 * POINTS) * np.exp(rng.uniform(-12, 6, 4 * POINTS)))
    base = np.maximum(base.astype(dtype), info.tiny)
    reach = (np.log(float(info.max)) * 1.06) * rng.uniform(-1, 1, len(base))
    fitting = (reach / np.log(base.astype(LONG))).astype(dtype)
    near = x * (1 + rng.uniform(-1, 1, len(x)) * 2.0 ** rng.uniform(-20, 3, len(x))).astype(dtype)
    return (
        np.concatenate([first, x, base, x]),
        np.concatenate([second, y, fitting, near]),
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ty", DTYPES)
@pytest.mark.parametrize("name", sorted(VECTOR_MATH & BINARY))
def test_two_arguments(name: str, ty: str, mode: str) -> None:
    x, y = pairs(DTYPES[ty])
    got = build(name, ty, mode)(x, y)
    assert_close(name, got, reference(name, x, y), x, y)


WIDTHS = [1, 2, 4, 8, 32]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("ty", DTYPES)
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "power", "erf", "hypot"])
def test_bits_do_not_depend_on_the_width(name: str, ty: str, width: int) -> None:
    avx512 = host_has_avx512()
    args = pairs(DTYPES[ty]) if name in BINARY else (points(DTYPES[ty]),)
    usual = kernel(name, ty, full_width(ty, avx512), avx512)(*args)
    np.testing.assert_array_equal(kernel(name, ty, width, avx512)(*args), usual)


@pytest.mark.parametrize("name", sorted(VECTOR_MATH - BINARY - {"erf"}))
@pytest.mark.parametrize("ty", DTYPES)
def test_special_values_are_those_of_numpy(name: str, ty: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], DTYPES[ty])
    expected = getattr(np, name)(x)
    exact = np.isin(expected, [0, 1, -1, np.inf, -np.inf]) | np.isnan(expected)
    for mode in MODES:
        got = build(name, ty, mode)(x)
        np.testing.assert_array_equal(got[exact], expected[exact])
        settled = exact & ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[settled]), np.signbit(expected[settled]))


@pytest.mark.parametrize("ty", DTYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_near_multiples_of_pi(name: str, ty: str) -> None:
    """Where x is close to k pi/2, all of the result is what the reduction left."""
    dtype = DTYPES[ty]
    counts = np.unique(np.floor(2.0 ** np.linspace(0, 16 if ty == "float" else 60, 300)))
    with mp.workdps(60):
        x = np.array([float(mp.mpf(k) * mp.pi / 2) for k in counts], dtype)
        x = np.concatenate([x, np.nextafter(x, dtype(0)), -np.nextafter(x, dtype(np.inf))])
        f = getattr(mp, name)
        true = np.array([LONG(mp.nstr(f(mp.mpf(float(a))), 25)) for a in x])
    for mode in MODES:
        assert_close(name, build(name, ty, mode)(x), true, x)


@pytest.mark.parametrize("ty", DTYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tanh", "erf"])
def test_nothing_passes_one(name: str, ty: str) -> None:
    x = points(DTYPES[ty])
    for mode in MODES:
        got = build(name, ty, mode)(x)
        assert not (np.abs(got) > 1).any()
