"""Decomposing keeps the meaning: graphs of one node, before and after, run by the interpreter.

Integers, bools and the ops in `EXACT` must agree bit for bit, other floats within a few ulp.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from decompose_check import GONE, check, one_node, ops, parts, sign, special, values

from tailorbird.errors import Refused
from tailorbird.ir.expr import symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import Graph, Value, type_of
from tailorbird.ir.ops import OPS, UFUNCS
from tailorbird.ir.parse import parse
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import Type
from tailorbird.rewrite.decompose import DECOMPOSE, decompose

DTYPES = ["?", "i1", "u1", "i2", "i4", "i8", "u8", "f4", "f8", "c8", "c16"]
NUMBERS = ["?", "i1", "i8", "f4", "f8", "c8", "c16"]
LOOSE = {"expit", "float_power", "reciprocal"}
EXACT = (set(UFUNCS) | {"where", "cast", "real", "imag", "min", "max"}) - LOOSE


def test_every_row_is_an_op():
    assert set(DECOMPOSE) <= set(OPS)
    assert set(DECOMPOSE) >= GONE


# Maps

UNARY_ROWS = [
    op for op in DECOMPOSE if OPS[op].kind == "map" and getattr(UFUNCS.get(op), "nin", 1) == 1
]
UNARY_ROWS = sorted(set(UNARY_ROWS) - {"where", "cast"})
BINARY_ROWS = ["float_power", "logical_and", "logical_or", "logical_xor"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", UNARY_ROWS)
def test_unary_maps(op, dtype):
    for x in (special(dtype), values((3, 1), dtype), values((0,), dtype), special(dtype)[1]):
        try:
            graph = one_node(op, [x], {})
        except Refused:
            pytest.skip("NumPy has no such loop, or computes it in float16")
        check(graph, [x], exact=op in EXACT)


@pytest.mark.parametrize("op", BINARY_ROWS)
@pytest.mark.parametrize(
    "dtypes", list(itertools.product(["?", "u1", "i8", "f4", "c16"], repeat=2))
)
def test_binary_maps(op, dtypes):
    x = values((4, 1), dtypes[0])
    y = values((3,), dtypes[1], seed=1)
    if op == "float_power":
        x, y = x + x.dtype.type(1), np.abs(y).astype(dtypes[1])
    check(one_node(op, [x, y], {}), [x, y], exact=op in EXACT, rtol=64)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_reciprocals_have_the_signs_of_numpy(dtype):
    x = special(dtype)
    graph = one_node("reciprocal", [x], {})
    before, after = (parts(run(g, [x])) for g in (graph, decompose(graph)))
    np.testing.assert_array_equal(sign(before), sign(after))
    np.testing.assert_array_equal(before == 0, after == 0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_expit_is_within_four_ulp_of_the_truth(dtype):
    x = np.concatenate([np.linspace(-110, 110, 4001), np.linspace(-1, 1, 801)]).astype(dtype)
    got = run(decompose(one_node("expit", [x], {})), [x])
    wide = x.astype(np.longdouble)
    truth = 1 / (1 + np.exp(-wide))
    error = np.abs(got - truth) / np.spacing(np.maximum(truth, np.finfo(dtype).tiny).astype(dtype))
    assert error.max() < 4


@pytest.mark.parametrize("op", ["degrees", "radians", "fabs", "square", "positive", "expit"])
@pytest.mark.parametrize("x", [2.5, -3], ids=str)
@pytest.mark.parametrize("weak", [False, True])
def test_python_scalars_keep_their_weakness(op, x, weak):
    parameter = Value(type_of(float(x)), name="s")
    graph = Graph(op, [parameter])
    result = infer(op, [parameter])
    result = Type(result.dtype, (), weak)
    graph.results = graph.body.add(op, [parameter], {}, result)
    found = check(graph, [float(x)], exact=op in EXACT)
    assert type(run(found, [float(x)])) is (float if weak else np.float64)


@pytest.mark.parametrize("op", ["logical_not", "signbit", "logical_xor", "logical_and", "where"])
def test_python_ints_are_not_compared_as_objects(op):
    graph = Graph(op, ints=["k"])
    k = symbol("k", "int")
    operands = {"where": [k, 1.0, 2.0], "logical_not": [k], "signbit": [k]}.get(op, [k, 3])
    graph.results = graph.body.add(op, operands, {}, infer(op, operands))
    for number in (-2, 0, 2):
        check(graph, [number])


def test_where_on_numbers_asks_for_truth():
    condition, x, y = values((4, 3), "f4"), values((3,), "f8"), values((4, 1), "i4")
    graph = one_node("where", [condition, x, y], {})
    assert ops(check(graph, [condition, x, y])) == ["not_equal", "where"]


def test_what_changes_nothing_is_dropped():
    graph = parse("""graph same(%x: f32[n0,n1])
  %0: f32[n0,n1] = cast %x {dtype=f32}
  %1: f32[n0,n1] = reshape %0 {shape=(n0, n1)}
  %2: f32[n0,n1] = read %1[0:n0, 0:n1]
  %3: f32[n0,n1] = positive %2
  return %3
""")
    assert ops(check(graph, [values((2, 3), "f4")])) == []


# Reductions

SHAPES = [(5,), (3, 4), (1, 4), (2, 3, 4), (2, 1, 3), (1, 1), (0, 3), (3, 0), ()]
REDUCTIONS = sorted(op for op in OPS if OPS[op].kind == "reduce")


def axes(shape):
    every = range(len(shape))
    return [c for k in range(len(shape) + 1) for c in itertools.combinations(every, k)]


def reduction_attrs(op, dtype, axis, keepdims):
    attrs = {"axis": axis}
    if keepdims:
        attrs["keepdims"] = True
    if op == "mean":
        attrs["dtype"] = np.mean(np.ones(1, dtype)).dtype
    return attrs


@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:Degrees of freedom")
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op, dtype):
    for shape, keepdims in itertools.product(SHAPES, [False, True]):
        x = values(shape, dtype)[()]
        for axis in axes(shape):
            folded = [shape[k] for k in axis]
            if op in ("min", "max", "argmin", "argmax") and 0 in folded:
                continue
            if op in ("argmin", "argmax") and (len(axis) not in (1, len(shape)) or 0 in shape):
                continue
            graph = one_node(op, [x], reduction_attrs(op, dtype, axis, keepdims))
            check(graph, [x], exact=op in EXACT, rtol=32)


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("op", ["mean", "var", "std"])
def test_averages_are_those_of_numpy_bit_for_bit(op, dtype, axis):
    draw = np.random.default_rng(3)
    x = (draw.standard_normal((37, 129)) * 10).astype(dtype)
    attrs = {"axis": axis} if op != "mean" else {"axis": axis, "dtype": x.dtype}
    check(one_node(op, [x], attrs), [x], exact=True)


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize("ddof", [0, 1, 2, 5, 1.0, 0.5])
@pytest.mark.parametrize("op", ["var", "std"])
def test_degrees_of_freedom(op, ddof):
    for x in (values((3, 4), "f4"), values((1, 3), "i4"), values((4,), "c16")):
        check(one_node(op, [x], {"axis": (x.ndim - 1,), "ddof": ddof}), [x], exact=False)


@pytest.mark.parametrize("found, asked", [("f4", "f8"), ("i8", "f4"), ("i1", "i1"), ("i8", "i8")])
@pytest.mark.parametrize("op", ["sum", "prod", "mean", "var", "std", "cumsum", "cumprod"])
def test_a_dtype_that_was_asked_for(op, found, asked):
    if op == "std" and np.dtype(asked).kind == "i":
        pytest.skip("NumPy has no square root in integers")
    x = values((6, 3), found)
    axis = 0 if op.startswith("cum") else (0,)
    check(one_node(op, [x], {"axis": axis, "dtype": np.dtype(asked)}), [x], exact=False, rtol=32)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_scans(op, dtype):
    x = values((3, 5), dtype)
    wanted = getattr(np, op)(x, axis=1).dtype
    check(one_node(op, [x], {"axis": 1, "dtype": wanted}), [x], exact=True)


def test_sums_of_bools_in_bool():
    x = values((3, 4), "?")
    for op, core in (("sum", "any"), ("prod", "all")):
        graph = one_node(op, [x], {"axis": (1,), "dtype": np.dtype(bool)})
        assert ops(check(graph, [x])) == [core]


@pytest.mark.parametrize("op", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_folding_one_element_starts_from_the_neutral_one(op, dtype):
    x = special(dtype)[:, None]
    graph = one_node(op, [x], {"axis": (1,), "dtype": x.dtype})
    assert op not in ops(check(graph, [x]))


# Contractions

PRODUCTS = [
    ("matmul", (4,), (4,)),
    ("matmul", (3, 4), (4,)),
    ("matmul", (4,), (4, 5)),
    ("matmul", (3, 4), (4, 5)),
    ("matmul", (2, 3, 4), (4,)),
    ("matmul", (4,), (2, 4, 5)),
    ("matmul", (2, 3, 4), (2, 4, 5)),
    ("matmul", (2, 1, 3, 4), (6, 4, 5)),
    ("matmul", (1, 3, 4), (2, 4, 5)),
    ("matmul", (3, 1), (1, 5)),
    ("matmul", (3, 0), (0, 5)),
    ("matmul", (0, 4), (4, 5)),
    ("dot", (), (3, 4)),
    ("dot", (), ()),
    ("dot", (4,), (4,)),
    ("dot", (0,), (0,)),
    ("dot", (3, 4), (4,)),
    ("dot", (4,), (4, 5)),
    ("dot", (3, 4), (4, 5)),
    ("dot", (2, 3, 4), (4, 5)),
    ("dot", (3, 4), (2, 4, 5)),
    ("dot", (6, 3, 4), (2, 4, 5)),
    ("dot", (6, 3, 4), (4,)),
    ("dot", (1, 1), (1, 5)),
]


@pytest.mark.parametrize("dtype", [*NUMBERS, "u1"])
@pytest.mark.parametrize("op, left, right", PRODUCTS, ids=str)
def test_products(op, left, right, dtype):
    x, y = values(left, dtype)[()], values(right, dtype, seed=1)[()]
    check(one_node(op, [x, y], {}), [x, y], exact=False, rtol=32)


@pytest.mark.parametrize("op", ["matmul", "dot"])
@pytest.mark.parametrize("dtypes", [("f4", "f8"), ("i8", "f4"), ("?", "i1"), ("f8", "c8")])
def test_products_of_two_dtypes(op, dtypes):
    x, y = values((3, 4), dtypes[0]), values((4, 5), dtypes[1], seed=1)
    check(one_node(op, [x, y], {}), [x, y], exact=False, rtol=32)


def test_small_integers_wrap_as_in_numpy():
    x = np.full(6, 100, np.int8)
    for op, attrs in (("matmul", {}), ("dot", {}), ("einsum", {"subscripts": "i,i->"})):
        check(one_node(op, [x, x], attrs), [x, x])


EINSUMS = [
    ("ij,jk->ik", [(3, 4), (4, 5)], 1),
    ("ij,jk->ki", [(3, 4), (4, 5)], 1),
    ("ji,kj->ik", [(4, 3), (5, 4)], 1),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], 1),
    ("bij,bkj->kbi", [(2, 3, 4), (2, 5, 4)], 1),
    ("abk,kn->abn", [(2, 3, 4), (4, 5)], 1),
    ("abk,kcd->abcd", [(2, 3, 4), (4, 5, 6)], 1),
    ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)], 1),
    ("ij,jk->ik", [(3, 1), (4, 5)], 0),
    ("ijkl,klm->ijm", [(2, 3, 4, 5), (4, 5, 6)], 0),
    ("ij,jk->ijk", [(3, 4), (4, 5)], 0),
    ("i,j->ij", [(3,), (4,)], 0),
    ("i,i->", [(4,), (4,)], 0),
    ("i,i->i", [(4,), (4,)], 0),
    ("ij,j->i", [(3, 4), (4,)], 0),
    ("i,ij->j", [(3,), (3, 4)], 0),
    ("bi,bij->bj", [(2, 3), (2, 3, 4)], 0),
    ("ij,ij->", [(3, 4), (3, 4)], 0),
    ("ij,jk->k", [(3, 4), (4, 5)], 0),
    ("ij,kl->", [(3, 4), (2, 5)], 0),
    ("ii->i", [(4, 4)], 0),
    ("ii->", [(4, 4)], 0),
    ("iij->j", [(3, 3, 4)], 0),
    ("iijj->ij", [(3, 3, 4, 4)], 0),
    ("ii,ij->j", [(3, 3), (3, 4)], 0),
    ("ij->ji", [(3, 4)], 0),
    ("ij->ij", [(3, 4)], 0),
    ("ij->i", [(3, 4)], 0),
    ("ij->", [(0, 4)], 0),
    (",ij->ji", [(), (3, 4)], 0),
    ("i,j,k->kij", [(2,), (3,), (4,)], 0),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], 0),
    ("ij, jk -> ik", [(3, 4), (4, 5)], 1),
]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("subscripts, shapes, products", EINSUMS, ids=str)
def test_einsums(subscripts, shapes, products, dtype):
    arguments = [values(shape, dtype, seed=k)[()] for k, shape in enumerate(shapes)]
    graph = one_node("einsum", arguments, {"subscripts": subscripts})
    found = check(graph, arguments, exact=False, rtol=32)
    expected = products if np.dtype(dtype).kind in "fc" else 0
    assert ops(found).count("matmul") == expected


def test_a_matrix_product_in_order_needs_no_reads():
    x, y = values((2, 3, 4), "f8"), values((4, 5), "f8")
    for op, attrs in (("dot", {}), ("einsum", {"subscripts": "abk,kn->abn"})):
        assert ops(decompose(one_node(op, [x, y], attrs))) == ["matmul"]
    v = values((4,), "f8")
    assert ops(decompose(one_node("matmul", [x, v], {}))) == ["multiply", "sum"]


# Creations

ENDS = [
    (0.0, 1.0),
    (0, 7),
    (3, -2),
    (-1.5, 1e300),
    (0.0, np.inf),
    (0.0, 5e-324),
    (2.0, 2.0),
    (0.1, 0.7),
    (0j, 3 + 1j),
    (np.float32(0.1), np.float32(0.7)),
    (np.float32(0.1), 0.7),
    (1, np.float32(9.3)),
    (np.int64(3), np.float32(9.3)),
    (np.int8(3), np.int8(90)),
    (np.float64(0.3), np.int32(5)),
]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("endpoint", [False, True])
def test_linspace_is_that_of_numpy_bit_for_bit(ends, endpoint):
    for count, asked in itertools.product([0, 1, 2, 5, 50, 1001], [None, "f4", "i8"]):
        complex_ends = any(isinstance(x, complex) for x in ends)
        if asked == "i8" and (complex_ends or not np.isfinite(ends[1]) or abs(ends[1]) > 1e6):
            continue
        if asked is not None and complex_ends:
            continue
        dtype = np.linspace(*ends, 0).dtype if asked is None else np.dtype(asked)
        parameters = [Value(type_of(x), name=f"x{k}") for k, x in enumerate(ends)]
        weak_int = [type(x) is int for x in ends]
        operands = [x if weak else p for x, p, weak in zip(ends, parameters, weak_int)]
        graph = Graph("linspace", [p for p, weak in zip(parameters, weak_int) if not weak], ["n"])
        attrs = {"shape": (symbol("n", "int"),), "endpoint": endpoint, "dtype": dtype}
        result = infer("linspace", operands, attrs)
        graph.results = graph.body.add("linspace", operands, attrs, result)
        arguments = [x for x, weak in zip(ends, weak_int) if not weak]
        check(graph, [*arguments, count])
