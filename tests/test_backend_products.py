"""Matrix products: batches, broadcasting, one row, one column, nothing to sum, every layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tailorbird.ir.expr import symbol
from tailorbird.ir.node import Graph, Value
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import Type
from tailorbird.lower.steps import Gemm
from tests.backend_kit import MISS, compile_graph
from tests.layouts import LAYOUTS, laid_out

B, M, K, N = (symbol(name) for name in ("b", "m", "k", "n"))
SIZES = ((3, 4, 5), (1, 4, 5), (3, 4, 1), (1, 4, 1), (3, 1, 5), (1, 1, 1), (3, 0, 5), (0, 4, 5))
SIZES += ((3, 4, 0), (17, 33, 16), (64, 64, 64))
SHAPES = {
    "plain": ((M, K), (K, N)),
    "batch": ((B, M, K), (B, K, N)),
    "left batch": ((B, M, K), (K, N)),
    "right batch": ((M, K), (B, K, N)),
    "spread batch": ((1, M, K), (B, K, N)),
    "one row": ((1, K), (K, N)),
    "one column": ((M, K), (K, 1)),
    "one summed": ((M, 1), (1, N)),
}


def make(op: str, shapes: tuple, dtype: np.dtype, **attrs) -> Graph:
    x, y = (Value(Type(dtype, shape), name=name) for name, shape in zip("xy", shapes))
    graph = Graph("product", [x, y])
    graph.results = graph.body.add(op, [x, y], attrs, infer(op, [x, y], attrs))
    return graph


def numbers(shape: tuple, sizes: dict, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    concrete = tuple(d if isinstance(d, int) else sizes[str(d)] for d in shape)
    x = rng.normal(size=concrete)
    return (x + 1j * rng.normal(size=concrete) if dtype[0] == "c" else x).astype(dtype)


def check(name: str, dtype: str, layouts: tuple[str, str]) -> None:
    graph = make("matmul", SHAPES[name], np.dtype(dtype))
    native = None
    for m, k, n in SIZES:
        sizes = {"b": 2, "m": m, "k": k, "n": n}
        a, b = (
            laid_out(numbers(shape, sizes, dtype, seed), lay)
            for seed, (shape, lay) in enumerate(zip(SHAPES[name], layouts))
        )
        if native is None or native(a, b) is MISS:
            native = compile_graph(graph, [a, b])
        got, wanted = native(a, b), np.matmul(a, b)
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        eps = np.finfo(wanted.dtype).eps
        size = np.matmul(np.abs(a), np.abs(b))
        far = np.abs(got - wanted) > 4 * (k + 1) * eps * size
        assert not far.any(), f"{name} {dtype} {layouts} {(m, k, n)}"


@pytest.mark.parametrize("name", SHAPES)
def test_dtypes(name):
    for dtype in ("f4", "f8", "c8", "c16"):
        check(name, dtype, ("C", "C"))


@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(first):
    for second, name in itertools.product(LAYOUTS, ("plain", "batch")):
        check(name, "f8", (first, second))


@pytest.mark.parametrize("name", ("one row", "one column", "one summed"))
def test_fortran_order_of_one_row_or_column(name):
    for layouts in (("F", "F"), ("C", "F"), ("F", "C"), ("every second", "backwards")):
        check(name, "f4", layouts)


@pytest.mark.parametrize("dtype", ("?", "i4", "u8"))
def test_products_of_integers_are_exact(dtype):
    a = (np.arange(6 * 7).reshape(6, 7) % 5).astype(dtype)
    b = (np.arange(7 * 4).reshape(7, 4) % 3).astype(dtype)
    native = compile_graph(make("matmul", SHAPES["plain"], np.dtype(dtype)), [a, b])
    np.testing.assert_array_equal(native(a, b), a @ b)


@pytest.mark.parametrize("subscripts", ("ij,jk->ik", "ij,jk->ki", "ij,jk->", "ij,jk->ijk"))
def test_einsum(subscripts):
    a, b = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(4, 5)
    graph = make("einsum", SHAPES["plain"], np.dtype("f8"), subscripts=subscripts)
    got = compile_graph(graph, [a, b])(a, b)
    np.testing.assert_allclose(got, np.einsum(subscripts, a, b), rtol=1e-14)


def test_a_batch_over_one_matrix_becomes_rows():
    for name, batch in (("left batch", 0), ("batch", 1), ("right batch", 1)):
        x, y = (numbers(s, {"b": 2, "m": 3, "k": 4, "n": 5}, "f8", 0) for s in SHAPES[name])
        native = compile_graph(make("matmul", SHAPES[name], np.dtype("f8")), [x, y])
        (step,) = [step for step in native.program.steps if isinstance(step, Gemm)]
        assert len(step.batch) == batch
        np.testing.assert_allclose(native(x, y), x @ y, rtol=1e-13)
    spread = ((B, M, 1, K), (K, N))
    x, y = (numbers(s, {"b": 2, "m": 3, "k": 4, "n": 5}, "f8", 0) for s in spread)
    native = compile_graph(make("matmul", spread, np.dtype("f8")), [x, y])
    (step,) = [step for step in native.program.steps if isinstance(step, Gemm)]
    assert not step.batch
    np.testing.assert_allclose(native(x, y), x @ y, rtol=1e-13)


def test_a_matrix_and_its_transpose_make_a_symmetric_product():
    from tests.test_backend_moves import PROGRAMS, make_graph

    x = np.random.default_rng(0).normal(size=(40, 30))
    got = compile_graph(make_graph(PROGRAMS["product"], np.dtype("f8")), [x])(x)
    np.testing.assert_array_equal(got, got.T)
    np.testing.assert_allclose(got, x @ x.T, rtol=1e-12)
