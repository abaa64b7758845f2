"""Routines of LAPACK: every type, layout and batch, in loops and branches, and where they fail."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from api_kit import answers, hits, is_same, native, plainly
from backend_kit import agree, compile_graph

from tailorbird import explain
from tailorbird.assemble import blas
from tailorbird.ir.expr import symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import Graph, Node, Value
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.shapes import infer_all
from tailorbird.ir.types import LONG, Type

N, B, K = symbol("n"), symbol("b"), symbol("k")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def factor(a):
    return np.linalg.cholesky(a)


def inverse(a):
    return np.linalg.inv(a)


def determinant(a):
    return np.linalg.det(a)


def signed(a):
    sign, logarithm = np.linalg.slogdet(a)
    return sign, logarithm


def solution(a, b):
    return np.linalg.solve(a, b)


OF_ONE = (factor, inverse, determinant, signed)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "every other": lambda x: np.repeat(np.repeat(x, 2, axis=-1), 2, axis=0)[::2, ..., ::2],
    "backwards": lambda x: x[..., ::-1, ::-1],
    "transposed": lambda x: np.swapaxes(x, -1, -2),
}


def matrices(n, dtype, batch=(), seed=0):
    """Positive definite ones."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((*batch, n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((*batch, n, n))
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)).astype(dtype)


def right_side(shape, dtype):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def agrees(function, *args, limit=0):
    """Native code gives what the plain function does, to the bit."""
    tailored = native(function)
    found, expected = tailored(*args), plainly(function, *args)
    assert hits(tailored) == 1, tailored.explain(*args)
    assert "library" in dict(tailored.explain(*args).lines)
    pairs = zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]
    for mine, wanted in pairs:
        assert type(mine) is type(wanted)
        agree(mine, wanted, limit, note=function.__name__)


@pytest.mark.parametrize("function", OF_ONE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4", "?"])
def test_functions_of_one_matrix(function, dtype):
    limit = 64 if function is determinant else 0  # the exponential is ours
    for n in (0, 1, 2, 7, 33):
        for batch in ((), (3,), (2, 0), (2, 1)):
            a = matrices(n, dtype, batch)
            if dtype == "?":
                a = np.broadcast_to(np.eye(n, dtype=bool), a.shape)
            agrees(function, a, limit=limit)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout):
    for batch in ((), (3,)):
        a = LAYOUTS[layout](matrices(6, "f8", batch))
        for function in (factor, inverse, signed):
            agrees(function, a)
        agrees(solution, a, LAYOUTS[layout](right_side((3, 6, 6), "f8")))


@pytest.mark.parametrize("dtypes", ["f8 f8", "f4 f4", "f4 f8", "f8 c8", "c16 i4", "i4 f4"])
def test_solving(dtypes):
    one, two = dtypes.split()
    for n in (0, 1, 5, 20):
        a = matrices(n, one)
        for shape in ((n,), (n, 1), (n, 3), (n, 0), (4, n, 2)):
            agrees(solution, a, right_side(shape, two))
        if not LEGACY:  # NumPy 1.26 takes a right side of one dimension less for vectors
            agrees(solution, matrices(n, one, (4,)), right_side((n, 2), two))
            agrees(solution, matrices(n, one, (4, 1)), right_side((3, n, 2), two))


def test_nan_and_inf_are_what_lapack_makes_of_them():
    for x in (np.nan, np.inf, -0.0):
        a = matrices(5, "f8")
        a[1, 1] = x
        for function in OF_ONE:
            tailored = native(function)
            try:
                expected = plainly(function, a)
            except np.linalg.LinAlgError as error:
                with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                    tailored(a)
            else:
                np.testing.assert_allclose(tailored(a), expected, rtol=1e-12)


def test_a_singular_matrix_has_no_determinant_and_no_inverse():
    a = np.arange(9.0).reshape(3, 3) * 0
    agrees(determinant, a)
    agrees(signed, np.stack([a, a + np.eye(3)]))
    tailored = native(inverse)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            tailored(a)
        assert answers(tailored, np.eye(3) * 2)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        tailored(np.stack([np.eye(3), a]))


def test_what_is_no_square_matrix_is_left_to_numpy():
    for args in ((np.ones((2, 3)),), (np.ones(3),)):
        with pytest.raises(np.linalg.LinAlgError):
            native(inverse)(*args)
    with pytest.raises(ValueError):
        native(solution)(np.eye(3), np.ones(2))


# In whole programs


def solves(ms, bs):
    out = np.zeros_like(bs)
    for k in range(ms.shape[0]):
        if bs[k, 0] > 0:
            out[k] = np.linalg.solve(ms[k], bs[k])
        else:
            out[k] = np.linalg.inv(ms[k]) @ bs[k]
    return out


def square_root(a, n):
    x = np.eye(a.shape[0])
    for _ in range(n):
        x = 0.5 * (x + np.linalg.inv(x) @ a)
        if np.linalg.det(x) > 1e6:
            break
    return x


def in_place(a, b):
    b += 1
    for _ in range(3):
        b[:] = np.linalg.solve(a, b)
    return b.sum()


def leading_minors(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += np.linalg.slogdet(a[:i, :i])[1]
    return total


def factor_kept(a):
    a[:] = np.linalg.cholesky(a) + np.triu(a, k=1)


def smallest(a):
    v, far, count = np.ones(a.shape[0]), 1.0, 0
    while far > 1e-8 and count < 50:
        w = np.linalg.solve(a, v)
        w = w / np.sqrt((w * w).sum())
        far, v, count = np.abs(w - v).max(), w, count + 1
    return v, count


def filtered(f, h, q, r, zs):
    x, p = np.zeros(f.shape[0]), np.eye(f.shape[0])
    out = np.empty((zs.shape[0], f.shape[0]))
    for i in range(zs.shape[0]):
        x, p = f @ x, f @ p @ f.T + q
        k = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        x, p = x + k @ (zs[i] - h @ x), (np.eye(f.shape[0]) - k @ h) @ p
        out[i] = x
    return out


def swapped(a, b, n):
    for _ in range(n):
        a, b = np.linalg.inv(b), a @ b
    return a, b, np.linalg.cholesky(b @ b.T + np.eye(3)).T.reshape(-1)


def programs():
    rng = np.random.default_rng(0)
    a = matrices(5, "f8")
    many, sides = rng.standard_normal((7, 4, 4)), rng.standard_normal((7, 4))
    broken = many.copy()
    broken[3] = 0
    model = (np.eye(2) + 0.1 * np.eye(2, k=1), np.array([[1.0, 0]]), 0.01 * np.eye(2), np.eye(1))
    return [
        (solves, (many, sides)),
        (solves, (broken, sides)),
        (square_root, (a, 6)),
        (in_place, (a, rng.standard_normal((5, 2)))),
        (in_place, (0 * a, rng.standard_normal((5, 2)))),
        (leading_minors, (a,)),
        (factor_kept, (a,)),
        (factor_kept, (-a,)),
        (smallest, (a,)),
        (filtered, (*model, rng.standard_normal((9, 1)))),
        (swapped, (matrices(3, "f8"), matrices(3, "f8", seed=2), 3)),
    ]


@pytest.mark.parametrize("case", range(len(programs())))
def test_programs_with_loops_around_lapack(case):
    function, args = programs()[case]
    mine = copy.deepcopy(args)
    tailored = native(function)
    try:
        expected = plainly(function, *args)
    except np.linalg.LinAlgError as error:
        with pytest.raises(np.linalg.LinAlgError, match=str(error)):
            tailored(*mine)
    else:
        assert is_same(tailored(*mine), expected)
        assert hits(tailored) == 1
    for x, y in zip(mine, args):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    said = tailored.explain(*programs()[case][1])
    assert said.tier == explain.NATIVE_TIER
    assert not [text for label, text in said.lines if label == "call"]


# Graphs, and the library


@pytest.mark.parametrize("op", ["cholesky", "solve", "inv", "slogdet"])
@pytest.mark.parametrize("short", ["f64", "c128"])
def test_native_code_and_the_interpreter_agree(op, short):
    types = [Type(LONG[short], (B, N, N)), Type(LONG[short], (N, K))]
    parameters = [Value(t, name=f"x{k}") for k, t in enumerate(types)][: 1 + (op == "solve")]
    graph = Graph(op, parameters)
    node = graph.body.append(Node(op, parameters, {}, infer_all(op, parameters)))
    graph.results = node.outputs
    dtype = LONG[short]
    arguments = [matrices(4, dtype, (3,)), right_side((4, 2), dtype)][: len(parameters)]
    arguments[0][1] = 0
    found, wanted = compile_graph(graph, arguments)(*arguments), run(graph, arguments)
    failed = wanted[-1] != 0 if op != "slogdet" else np.zeros(3, bool)
    assert failed.sum() == (op != "slogdet")
    for mine, theirs in zip(found[: 1 + (op == "slogdet")], wanted):
        np.testing.assert_allclose(mine[~failed], theirs[~failed], rtol=1e-12)
    if op != "slogdet":
        np.testing.assert_array_equal(found[-1] != 0, failed)


def test_lapack_is_numpys_or_else_scipys(monkeypatch):
    own = blas.lapack("dgesv")
    assert own is not None and own[1] == blas.lapack_bits()
    assert blas.lapack("dnothing") is None
    monkeypatch.setattr(blas, "_candidates", list)
    blas.lapack.cache_clear()
    try:
        assert blas.lapack_bits() == 32
        agrees(signed, matrices(9, "f8"), limit=64)
        agrees(inverse, np.eye(4) * 3.0)
    finally:
        monkeypatch.undo()
        blas.lapack.cache_clear()
