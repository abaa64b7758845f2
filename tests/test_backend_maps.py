"""Every map of the table of ops, by dtype, size and special value, against NumPy.

Integers, bools, comparisons and arithmetic are bit for bit NumPy's; elementary functions within 4
ulp of the true value or of NumPy's answer. One compilation answers every size.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tailorbird.errors import Refused
from tailorbird.ir.ops import BINARY, OPS, UNARY
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import LONG
from tests.backend_kit import agree, compile_graph, graph_of

SIZES = (0, 1, 7, 15, 16, 17, 31, 33, 1000)
DTYPES = tuple(LONG)
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -2.5,
    3.5,
    1e-310,
    -5e-324,
    1e300,
    np.nan,
    np.inf,
    -np.inf,
]
FLOATS += [0.1, 7.0, -7.0, 2.5, 1.5, -0.3, 100.25, 1e-5, 12345.678, -88.0]
# Answers that a C compiler or a vector unit may give either way.
SKIP_ZEROS = frozenset({"maximum", "minimum", "fmax", "fmin", "hypot", "power", "float_power"})
EXACT = frozenset(
    [
        "negative",
        "positive",
        "absolute",
        "fabs",
        "sign",
        "signbit",
        "rint",
        "floor",
        "ceil",
        "trunc",
        "sqrt",
        "square",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "invert",
        "conjugate",
        "spacing",
        "reciprocal",
        "degrees",
        "radians",
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "copysign",
        "nextafter",
        "heaviside",
        "ldexp",
        "gcd",
        "lcm",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "floor_divide",
        "remainder",
        "fmod",
        "bitwise_count",
        "where",
        "cast",
        "real",
        "imag",
    ]
)
# Complex functions: NumPy's own are the C library's, or vector forms with fused products.
COMPLEX_ULPS = 8
MIXED = [("i32", "f32"), ("u64", "i64"), ("i64", "u64"), ("b1", "i8"), ("u8", "i8"), ("f32", "f64")]
MIXED += [("f64", "i16"), ("c64", "f64"), ("f32", "c64"), ("b1", "f32"), ("u32", "i32")]


def special_values(short: str) -> np.ndarray:
    """The numbers of a dtype that functions treat apart."""
    dtype = LONG[short]
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wanted = [0, 1, 2, 3, 5, 7, 31, 63, 64, 65, -1, -2, -7, -64, limits.min, limits.max]
        return np.array([x for x in wanted if limits.min <= x <= limits.max], dtype=dtype)
    with np.errstate(all="ignore"):
        floats = np.array(FLOATS).astype("f4" if short in ("f32", "c64") else "f8")
        if dtype.kind == "f":
            return floats
        pairs = np.array(list(itertools.product(floats[:14], floats[:14])))
        out = np.empty(len(pairs), dtype)
        out.real, out.imag = pairs.T
        return out


def ordinary_values(short: str, count: int, seed: int) -> np.ndarray:
    """Random numbers of many sizes."""
    rng = np.random.default_rng([seed, count])
    dtype = LONG[short]
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        return np.where(rng.random(count) < 0.5, wide, wide % 17).astype(dtype)
    x = rng.normal(size=count) * 10.0 ** rng.integers(-3, 3, count)
    if dtype.kind == "c":
        x = x + 1j * rng.normal(size=count)
    return x.astype(dtype)


def arguments(shorts: tuple[str, ...]) -> list[list[np.ndarray]]:
    """Argument lists: every pair of special values, and each size."""
    specials = [special_values(s) for s in shorts]
    grids = [g.ravel().copy() for g in np.meshgrid(*specials, indexing="ij")]
    lists = [grids]
    for n in SIZES:
        lists.append([ordinary_values(s, n, k) for k, s in enumerate(shorts)])
    return lists


def limit_of(op: str, kinds: set[str], result: np.dtype) -> float:
    if result.kind not in "fc":
        return 0
    if "c" in kinds or result.kind == "c":
        return (
            COMPLEX_ULPS if op not in ("add", "subtract", "negative", "conjugate", "where") else 0
        )
    return 0 if op in EXACT else 4


def compare(op: str, xs: list[np.ndarray], got: np.ndarray, attrs: dict) -> None:
    """Against NumPy; where functions differ by more, against NumPy in a wider type."""
    with np.errstate(all="ignore"):
        wanted = OPS[op].meaning(*xs, **attrs)
    wanted = np.asarray(wanted)
    kinds = {x.dtype.kind for x in xs}
    limit = limit_of(op, kinds, wanted.dtype)
    zeros = op not in SKIP_ZEROS and "c" not in kinds
    note = f"{op} {[str(x.dtype) for x in xs]} n={xs[0].size}"
    if wanted.dtype.kind == "c" or "c" in kinds:
        agree_complex(op, xs, got, wanted, limit, note)
        return
    if limit and wanted.dtype == np.float32:
        wide = [x.astype("f8") if x.dtype == np.float32 else x for x in xs]
        with np.errstate(all="ignore"):
            wanted = np.asarray(OPS[op].meaning(*wide, **attrs)).astype("f4")
    agree(got, wanted, limit, zeros, note)


def agree_complex(op: str, xs, got, wanted, limit: float, note: str) -> None:
    """Each part within a few ulp of the size of the number; infinities and nans in place."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, note
    if got.dtype.kind not in "fc" or limit == 0:
        agree(got, wanted, limit, False, note)
        return
    fine = np.isfinite(wanted)
    np.testing.assert_array_equal(fine, np.isfinite(got), err_msg=note)
    eps = np.finfo(wanted.dtype).eps
    scale = np.abs(wanted[fine]) + np.finfo(wanted.dtype).tiny
    if op in ("multiply", "square"):
        a, b = (xs * 2)[:2]
        scale = scale + np.abs(a[fine]) * np.abs(b[fine])
    with np.errstate(all="ignore"):
        error = np.abs(got[fine] - wanted[fine]) / scale
    far = error > limit * eps
    if far.any():
        bad = np.flatnonzero(far)[:4]
        inputs = [x[fine][bad] for x in xs]
        raise AssertionError(f"{note}: {inputs} -> {got[fine][bad]}, not {wanted[fine][bad]}")


def check_op(op: str, shorts: tuple[str, ...], **attrs) -> None:
    lists = arguments(shorts)
    try:
        infer(op, lists[0], attrs) if False else None
        graph = graph_of(lambda add, *xs: add(op, *xs, **attrs), lists[-1])
    except Refused:
        return
    native = compile_graph(graph, lists[-1])
    for xs in lists:
        got = native(*xs)
        assert isinstance(got, np.ndarray), f"{op} {shorts}: a guard missed"
        compare(op, xs, got, attrs)


@pytest.mark.parametrize("op", UNARY)
def test_unary(op):
    for short in DTYPES:
        check_op(op, (short,))


@pytest.mark.parametrize("op", BINARY)
def test_binary(op):
    pairs = [(s, s) for s in DTYPES] + MIXED
    for pair in pairs:
        if op == "ldexp" and LONG[pair[1]].kind not in "iub":
            continue
        if op in ("power", "float_power") and LONG[pair[0]].kind in "iu" and op == "power":
            continue
        check_op(op, pair)
