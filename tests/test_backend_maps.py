"""Every map of the table of ops, by dtype, size, layout and special value, against NumPy.

Integers, bools, comparisons and arithmetic are bit for bit NumPy's; elementary functions within 4
ulp of NumPy's answer in double. One compilation answers every size.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

from tailorbird import knobs
from tailorbird.errors import Refused
from tailorbird.ir.ops import BINARY, OPS, UNARY
from tailorbird.ir.types import LONG
from tests.backend_kit import MISS, agree, compile_graph, graph_of, run_once
from tests.backend_values import INEXACT, ordinary_values, special_values
from tests.layouts import LAYOUTS, laid_out

SIZES = (0, 1, 7, 15, 16, 17, 31, 33, 1000)
MIXED = (
    *(("i32", "f32"), ("u64", "i64"), ("i64", "u64"), ("b1", "i8"), ("u8", "i8"), ("f32", "f64")),
    *(("f64", "i16"), ("c64", "f64"), ("f32", "c64"), ("b1", "f32"), ("u32", "i32")),
)
# The sign of a zero that a vector unit may give either way, and integer powers that may raise.
SKIP_ZEROS = frozenset({"maximum", "minimum", "fmax", "fmin", "hypot", "power", "float_power"})
WHOLE_POWERS = frozenset({("power", kinds) for kinds in itertools.product("biu", repeat=2)})
COMPLEX_EXACT = frozenset({"add", "subtract", "negative", "conjugate", "where", "cast"})
COMPLEX_ULPS = 8


def argument_lists(shorts: tuple[str, ...]) -> list[list[np.ndarray]]:
    """Every combination of special values, then each size."""
    grids = np.meshgrid(*(special_values(s) for s in shorts), indexing="ij")
    lists = [[g.ravel().copy() for g in grids]]
    for n in SIZES:
        lists.append([ordinary_values(s, n, k) for k, s in enumerate(shorts)])
    return lists


def expect(op: str, xs: list[Any], attrs: dict[str, Any]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(OPS[op].meaning(*xs, **attrs))


def compare(op: str, xs: list[np.ndarray], got: np.ndarray, attrs: dict[str, Any]) -> None:
    wanted = expect(op, xs, attrs)
    note = f"{op} {[str(x.dtype) for x in xs]} n={xs[0].size}"
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, note
    if any(x.dtype.kind == "c" for x in (*xs, wanted)):
        compare_complex(op, xs, got, wanted, note)
        return
    if op not in INEXACT or wanted.dtype.kind != "f":
        agree(got, wanted, 0, op not in SKIP_ZEROS, note)
        return
    if op in ("logaddexp", "logaddexp2"):  # near 0 the larger operand and the rest cancel
        sizes = [np.abs(x.astype("f8")) for x in xs]
        compare_scaled(got, wanted, np.maximum(*sizes), note)
        return
    if wanted.dtype == np.float32:
        wide = [x.astype("f8") if x.dtype == np.float32 else x for x in xs]
        with np.errstate(all="ignore"):
            wanted = expect(op, wide, attrs).astype("f4")
    agree(got, wanted, 4, op not in SKIP_ZEROS, note)


def compare_scaled(got: np.ndarray, wanted: np.ndarray, scale: np.ndarray, note: str) -> None:
    """Within 8 ulp of a number of this size; infinities and nans in place."""
    fine = np.isfinite(wanted)
    np.testing.assert_array_equal(fine, np.isfinite(got), err_msg=note)
    info = np.finfo(wanted.dtype)
    with np.errstate(all="ignore"):
        size = np.abs(wanted) + np.where(np.isfinite(scale), scale, 0)
        far = np.abs(got - wanted) > COMPLEX_ULPS * info.eps * size + info.tiny
    bad = np.flatnonzero(fine & far)[:4]
    assert not bad.size, f"{note}: {got[bad]}, not {wanted[bad]}"


def compare_complex(op: str, xs: Any, got: np.ndarray, wanted: np.ndarray, note: str) -> None:
    """NumPy's complex functions are the C library's; its products may be fused or not."""
    if got.dtype.kind not in "fc" or op in COMPLEX_EXACT:
        agree(got, wanted, 0, False, note)
        return
    scale = np.zeros(wanted.shape)
    with np.errstate(all="ignore"):
        if op in ("multiply", "square"):
            scale = np.abs(xs[0]) * np.abs(xs[-1])
    compare_scaled(got, wanted, scale, note)


def check_op(op: str, shorts: tuple[str, ...], **attrs: Any) -> None:
    """One op on one combination of dtypes, at every size."""
    lists = argument_lists(shorts)
    try:
        graph = graph_of(lambda add, *xs: add(op, *xs, **attrs), lists[-1])
    except Refused:
        return
    native = compile_graph(graph, lists[-1])
    for xs in lists:
        got = native(*xs)
        assert got is not MISS, f"{op} {shorts}: a guard missed"
        compare(op, xs, got, attrs)


@pytest.mark.parametrize("op", [*UNARY, "real", "imag"])
def test_unary(op):
    for short in LONG:
        check_op(op, (short,))


@pytest.mark.parametrize("op", ("erf", "expit"))
def test_special_functions(op):
    for short in ("f32", "f64"):
        check_op(op, (short,))


@pytest.mark.parametrize("op", BINARY)
def test_binary(op):
    for pair in [*((s, s) for s in LONG), *MIXED]:
        kinds = (LONG[pair[0]].kind, LONG[pair[1]].kind)
        if (op, kinds) not in WHOLE_POWERS:
            check_op(op, pair)


@pytest.mark.parametrize("op", ("add", "exp", "floor_divide", "power", "less", "left_shift"))
def test_for_avx2(op):
    with knobs.scope(target="haswell"):
        for short in LONG:
            if OPS[op].meaning.nin == 1:
                check_op(op, (short,))
            elif not (op == "power" and LONG[short].kind in "biu"):
                check_op(op, (short, short))


@pytest.mark.parametrize("short", LONG)
def test_where(short):
    for other in (short, "f32", "b1"):
        check_op("where", ("b1", short, other))


@pytest.mark.parametrize("source", LONG)
def test_casts(source):
    """Casts whose answer C defines: what does not fit is left out."""
    for target in LONG.values():
        check_cast(source, target)


def check_cast(source: str, target: np.dtype) -> None:
    lists = [fitting(x, target) for (x,) in argument_lists((source,))]
    graph = graph_of(lambda add, v: add("cast", v, dtype=target), lists[-1:])
    native = compile_graph(graph, lists[-1:])
    for x in lists:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = x.astype(target)
        agree(native(x), wanted, 0, True, f"{source} to {target}")


def fitting(x: np.ndarray, target: np.dtype) -> np.ndarray:
    """The numbers that a cast of floats to integers keeps."""
    if target.kind not in "iu" or x.dtype.kind not in "fc":
        return x
    limits = np.iinfo(target)
    low, high = max(limits.min, -(2**62)), min(limits.max, 2**62)
    real = x.real.astype("f8")
    with np.errstate(all="ignore"):
        return x[(real > low - 1) & (real < high)].copy()


@pytest.mark.parametrize("exponent", (0, 1, 2, 3, 5, 64))
def test_whole_powers(exponent):
    for short in ("i8", "u16", "i64", "u64", "f32", "c64"):
        x = ordinary_values(short, 33, 1)
        graph = graph_of(lambda add, v: add("power", v, exponent), [x])
        with np.errstate(all="ignore"):
            wanted = np.power(x, exponent)
            got = compile_graph(graph, [x])(x)
        if x.dtype.kind in "iu":
            agree(got, wanted, 0, True, f"{short} ** {exponent}")
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_whole_powers_that_raise_are_left_to_the_plain_function():
    x = np.array([2, 3])
    native = compile_graph(graph_of(lambda add, a, b: add("power", a, b), [x, x]), [x, x])
    agree(native(x, x), np.array([4, 27]))
    assert native(x, -x) is MISS


def test_a_scalar_function_of_a_large_argument_beside_an_array():
    """The slow path of a sine of one number is taken once, outside the loop."""
    x, s = np.linspace(0, 1, 100), np.float64(1e300)
    native = compile_graph(graph_of(lambda add, a, b: add("add", a, add("sin", b)), [x, s]), [x, s])
    agree(native(x, s), x + np.sin(s), 4)


@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(first):
    """Two operands in every pair of layouts; results lie as NumPy's do."""
    for second, short in itertools.product(LAYOUTS, ("f32", "c128", "u8", "b1")):
        native = None
        for shape in ((3, 4), (17, 33), (1, 7), (33, 1)):
            a = laid_out(ordinary_values(short, shape, 0), first)
            b = laid_out(ordinary_values(short, shape, 1), second)
            if native is None or native(a, b) is MISS:
                native = compile_graph(graph_of(lambda add, x, y: add("add", x, y), [a, b]), [a, b])
            got = native(a, b)
            agree(got, a + b, 0, False, f"{short} {first} + {second} {shape}")
            if min(shape) > 1 and {first, second} <= {"C", "F"}:
                assert got.strides == (a + b).strides


@pytest.mark.parametrize("name", ("f32", "c64", "i16"))
def test_division_by_one_number(name):
    """A product with the reciprocal that is rounded as the quotient is."""
    x, s = ordinary_values(name, 1000, 0), special_values(name)
    native = compile_graph(graph_of(lambda add, a, b: add("divide", a, b), [x, s[0]]), [x, s[0]])
    for divisor in s:
        compare("divide", [x, np.full_like(x, divisor)], native(x, divisor), {})


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_powers_are_numpys_to_the_bit(dtype):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(37) + 1j * rng.standard_normal(37)).astype(dtype)
    x[:9] = [0, 0, 1j, -1, np.inf, np.nan, 1e-30, 1e30, complex(0, np.inf)]
    small = rng.integers(-5, 6, 37).astype(dtype)
    other = (1j * rng.standard_normal(37) + rng.standard_normal(37)).astype(dtype)
    whole = (-1.0, 0.0, 1.0, 2.0, 3.0, 7.0, -9.0, 99.0, 100.0, -2.5, 0.5, 1 + 2j)
    for exponent in (*whole, small, other, x):
        with np.errstate(all="ignore"):
            wanted = np.power(x, exponent)
        agree(run_once("power", [x, exponent]), wanted, note=f"{exponent}")
