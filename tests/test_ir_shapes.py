"""Shape and dtype rules against NumPy itself: every op on every dtype, contractions, moves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tailorbird.errors import Refused
from tailorbird.ir.expr import symbol
from tailorbird.ir.node import Value, type_of
from tailorbird.ir.ops import BINARY, OPS, UNARY
from tailorbird.ir.promote import LEGACY, refuse_by_value
from tailorbird.ir.shapes import broadcast, infer, result_dtype
from tailorbird.ir.types import LONG, WEAK_FLOAT, Type

N0, N1 = symbol("n0"), symbol("n1")
SCALARS = [1, 1.5, 1j, True]
FOLDS = [name for name, row in OPS.items() if row.kind == "reduce"]
pytestmark = pytest.mark.filterwarnings("ignore")


def of(x):
    """An operand of the type that x has."""
    return x if isinstance(x, int | float | complex) and type(x) in map(type, SCALARS) else typed(x)


def typed(x):
    return Value(Type(x.dtype, x.shape))


def agrees(name, *operands, **attrs):
    """Holds a rule against what NumPy makes of these operands."""
    try:
        refuse_by_value(name, [type_of(of(x)) for x in operands])
        found = infer(name, [of(x) for x in operands], attrs)
    except Refused as refused:
        return refused.why.code
    with np.errstate(all="ignore"):
        expected = np.asarray(OPS[name].meaning(*operands, **attrs))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (name, operands)
    return ""


def rejected_by_numpy(name, *operands):
    try:
        with np.errstate(all="ignore"):
            return OPS[name].meaning(*operands).dtype == object
    except (TypeError, OverflowError):
        return True


def operands():
    for dtype in LONG.values():
        yield np.ones((2,), dtype)
        yield np.ones((), dtype)[()]
    yield from SCALARS


@pytest.mark.parametrize("name", [*UNARY, "erf", "expit", "real", "imag"])
def test_unary_dtypes_are_numpys(name):
    for x in operands():
        if agrees(name, x) == "numpy_raises":
            assert rejected_by_numpy(name, x), x


@pytest.mark.parametrize("name", BINARY)
def test_binary_dtypes_are_numpys(name):
    arrays = [x for x in operands() if np.ndim(x)]
    for x, y in itertools.chain(
        itertools.product(arrays, operands()), itertools.product(SCALARS, operands())
    ):
        if agrees(name, x, y) == "numpy_raises":
            assert rejected_by_numpy(name, x, y), (x, y)


def test_where_is_numpys():
    for x, y in itertools.product(operands(), operands()):
        agrees("where", np.array([True, False]), x, y)


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_numpys(name, keepdims):
    for dtype in LONG.values():
        x = np.ones((2, 3, 4), dtype)
        for axis in ((1,), (0, 1, 2)):
            assert agrees(name, x, axis=axis, keepdims=keepdims) == ""
        if not name.startswith("arg"):
            assert agrees(name, x, axis=(0, 2), keepdims=keepdims) == ""
            assert agrees(name, x, axis=(), keepdims=keepdims) == ""
    if name in ("sum", "prod", "mean", "var", "std"):
        for dtype in ("f4", "f8", "c16"):
            assert agrees(name, np.ones((2, 3), dtype), axis=(0,), dtype=np.dtype("c16")) == ""


@pytest.mark.parametrize("name", ["matmul", "dot"])
def test_contractions_are_numpys(name):
    shapes = [(3,), (3, 3), (2, 3), (3, 4), (5, 3, 3), (1, 3, 3)]
    for a, b in itertools.product(shapes, shapes):
        x, y = np.ones(a, "f4"), np.ones(b, "i4")
        try:
            getattr(np, name)(x, y)
        except ValueError:
            with pytest.raises(Refused, match="ValueError"):
                infer(name, [typed(x), typed(y)])
        else:
            assert agrees(name, x, y) == ""


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,jk->", "ii,jk->ikj", "ij,jk->kji"])
def test_einsum_is_numpys(subscripts):
    assert agrees("einsum", np.ones((3, 3), "f4"), np.ones((3, 2)), subscripts=subscripts) == ""


def test_einsum_without_explicit_output_is_refused():
    x = np.ones((2, 2))
    assert agrees("einsum", x, x, subscripts="ij,jk") == "unsupported_call"
    assert agrees("einsum", x, x, subscripts="...j,jk->...k") == "unsupported_call"


def test_moves_are_numpys():
    x = np.ones((2, 3), "f4")
    assert agrees("pad", x, width=((1, 2), (0, 3)), mode="edge") == ""
    assert agrees("take", x, np.array([[0, 1]]), axis=1) == ""
    assert agrees("concatenate", x, np.ones((5, 3), "i8"), axis=0) == ""
    assert agrees("cumsum", np.ones(3, "i2"), axis=0, dtype=np.dtype("i8")) == ""
    assert agrees("reshape", x, shape=(3, 2)) == ""
    assert agrees("linspace", 0, 1, shape=(4,), endpoint=False, dtype=np.dtype("f4")) == ""


def test_broadcasting_of_symbols():
    assert broadcast([(N0, 1), (N1,)]) == (N0, N1)
    assert broadcast([(), (N0,), (1, 1, 1)]) == (1, 1, N0)
    assert broadcast([(0,), (1,)]) == (0,)
    with pytest.raises(Refused, match="broadcast"):
        broadcast([(N0,), (N1,)])
    asked = []
    same = lambda a, b: asked.append((a, b)) or True
    assert broadcast([(N0, N0), (N1,)], same) == (N0, N0)
    assert asked == [(N0, N1)]


def test_literals_that_do_not_fit_are_refused():
    x = np.ones(2, "u1")
    code = "promotion" if LEGACY else "numpy_raises"
    assert agrees("add", x, 300) == code
    assert agrees("less", x, -1) == "promotion"
    assert agrees("add", x, 255) == ""


def test_half_precision_is_refused():
    assert agrees("sqrt", np.ones(2, "i1")) == "unsupported_dtype"


def test_operand_dtypes_say_what_the_code_computes_in():
    f32 = Type(np.dtype("f4"), (N0,))
    i64 = Type(np.dtype("i8"), (N0,))
    assert result_dtype("multiply", [f32, WEAK_FLOAT])[0] == (f32.dtype, f32.dtype)
    assert result_dtype("less", [f32, i64]) == ((np.dtype("f8"),) * 2, np.dtype(bool))
    mask = Type(np.dtype(bool), (N0,))
    assert result_dtype("where", [mask, f32, i64])[0] == (mask.dtype, *[np.dtype("f8")] * 2)


@pytest.mark.skipif(not LEGACY, reason="NumPy 1.26 promotes by value")
def test_promotion_by_value_is_refused():
    assert agrees("add", np.ones(2, "f4"), np.float64(1)) == "promotion"
    assert agrees("add", np.float32(1), 1.0) == "promotion"
    assert agrees("add", np.ones(2, "f4"), 1.0) == ""
