"""Our own matrix product: every size, layout and strip, special values, nothing outside touched."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailorbird import knobs
from tailorbird.api import tailor
from tailorbird.assemble import blas, build, multiply, pool, symbols, target
from tailorbird.dispatch import products
from tailorbird.emit import gemm
from tailorbird.emit.gemm_kernels import Shape

POINTER, SIZE = ctypes.c_void_p, ctypes.c_int64
PROTOTYPE = ctypes.CFUNCTYPE(None, *[POINTER, SIZE, SIZE] * 2, POINTER, *[SIZE] * 5)
TYPES = {"f64": "f8", "f32": "f4"}
TARGETS = ("", "haswell")
MARK = -7.0
_libc = ctypes.CDLL(None, use_errno=True)

# m, n, k about every edge: of a tile, of a vector, of a block, of what is packed together.
SIZES = [
    (1, 1, 1),
    (1, 40, 7),
    (40, 1, 7),
    (3, 4, 5),
    (6, 8, 1),
    (7, 16, 2),
    (8, 24, 7),
    (9, 25, 300),
    (15, 49, 9),
    (33, 129, 1),
    (64, 64, 64),
    (65, 97, 63),
    (130, 70, 515),
    (5, 700, 401),
    (257, 301, 130),
]


def make(rng: np.random.Generator, rows: int, columns: int, dtype: str, lies: int) -> np.ndarray:
    """Numbers in a matrix that lies by rows or transposed, with a gap behind each."""
    shape = (columns, rows + 2) if lies else (rows, columns + 3)
    wide = rng.normal(size=shape).astype(dtype)
    return wide[:, :rows].T if lies else wide[:, :columns]


def call(function, a: np.ndarray, b: np.ndarray, lies: tuple[int, int], gram: int = 0):
    """The product, in the middle of numbers that must stay."""
    (m, k), n = a.shape, b.shape[1]
    wide = np.full((m + 2, n + 5), MARK, a.dtype)
    out = wide[1 : m + 1, 1 : n + 1]
    sides = []
    for x, transposed in zip((a, b), lies, strict=True):
        apart = x.strides[1 if transposed else 0] // x.itemsize
        sides += [x.ctypes.data, apart, transposed]
    function(*sides, out.ctypes.data, n + 5, m, n, k, gram)
    kept = wide.copy()
    kept[1 : m + 1, 1 : n + 1] = MARK
    assert (kept == MARK).all(), "written outside the result"
    return out.copy()


def close(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Within the bound of a sum of k products, in any order."""
    wide = np.longdouble if a.dtype == np.float64 else np.float64
    a, b = a.astype(wide), b.astype(wide)
    bound = (a.shape[1] + 2) * np.finfo(got.dtype).eps * (np.abs(a) @ np.abs(b))
    return bool((np.abs(got - a @ b) <= bound).all())


@pytest.fixture(params=[(ty, name) for ty in TYPES for name in TARGETS], ids=str)
def product(request):
    """The function of a type on a target, and its NumPy dtype."""
    ty, name = request.param
    with knobs.scope(target=name):
        yield PROTOTYPE(multiply.address(ty)), TYPES[ty]


@pytest.mark.parametrize("lies", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_sizes_and_layouts(product, lies):
    function, dtype = product
    rng = np.random.default_rng(0)
    for m, n, k in SIZES:
        a, b = make(rng, m, k, dtype, lies[0]), make(rng, k, n, dtype, lies[1])
        assert close(call(function, a, b, lies), a, b), (m, n, k)


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(st.integers(1, 60), st.integers(1, 130), st.integers(1, 90)),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
    st.sampled_from(sorted(TYPES)),
    st.integers(0, 1 << 30),
)
def test_any_small_product(sizes, lies, ty, seed):
    m, n, k = sizes
    rng = np.random.default_rng(seed)
    function = PROTOTYPE(multiply.address(ty))
    a, b = make(rng, m, k, TYPES[ty], lies[0]), make(rng, k, n, TYPES[ty], lies[1])
    assert close(call(function, a, b, lies), a, b)


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(st.integers(1, 20), st.integers(1, 60), st.integers(1, 12)),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
    st.sampled_from(sorted(TYPES)),
    st.integers(0, 1 << 30),
)
def test_special_values_stay_where_they_are(sizes, lies, ty, seed):
    """One inf or nan touches its row or column alone, and no zero of a padding meets it."""
    m, n, k = sizes
    rng = np.random.default_rng(seed)
    function = PROTOTYPE(multiply.address(ty))
    a, b = make(rng, m, k, TYPES[ty], lies[0]), make(rng, k, n, TYPES[ty], lies[1])
    for x in (a, b):
        x[rng.integers(x.shape[0]), rng.integers(x.shape[1])] = rng.choice(
            [np.inf, -np.inf, np.nan, 0.0, -0.0]
        )
    with np.errstate(invalid="ignore"):
        wanted = (a.astype("f8")[:, :, None] * b.astype("f8")).sum(axis=1)
    got = call(function, a, b, lies)
    for test in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(test(got), test(wanted))


@pytest.mark.parametrize("m, k", [(1, 4), (5, 5), (40, 30), (100, 300), (257, 90)])
def test_a_matrix_and_its_transpose_are_exactly_symmetric(product, m, k):
    function, dtype = product
    rng = np.random.default_rng(0)
    for lies in (0, 1):
        x = make(rng, m, k, dtype, lies)
        got = call(function, x, x.T, (lies, 1 - lies), gram=1)
        np.testing.assert_array_equal(got, got.T)
        assert close(got, x, x.T)


def test_strips_change_nothing(product):
    function, dtype = product
    rng = np.random.default_rng(0)
    for m, n, k in ((200, 210, 190), (17, 1500, 130), (1500, 17, 130), (260, 260, 130)):
        lies = (0, 1)
        a = make(rng, m, k, dtype, 0)
        b = a.T if m == n else make(rng, k, n, dtype, 1)
        seen = []
        for threads in (1, 2, 5):
            with knobs.scope(threads=threads):
                pool.refresh()
                seen.append(call(function, a, b, lies, gram=int(m == n)))
        pool.refresh()
        np.testing.assert_array_equal(seen[0], seen[1])
        np.testing.assert_array_equal(seen[0], seen[2])
        assert close(seen[0], a, b)


@pytest.mark.parametrize("name", TARGETS)
def test_without_scratch_memory(name):
    no = ctypes.CFUNCTYPE(POINTER, SIZE)(lambda size: None)

    def resolve(names):
        known = {"tb_scratch": ctypes.cast(no, POINTER).value}
        return {x: known.get(x) or symbols.resolve_one(x) for x in names}

    rng = np.random.default_rng(0)
    with knobs.scope(target=name):
        for ty, dtype in TYPES.items():
            text = gemm.emit_module(ty, target.host().vector_bytes, 32 << 10, 1 << 20)
            library = build.build(text, ["multiply"], resolve)
            function = PROTOTYPE(library.address("multiply"))
            for lies in ((0, 0), (1, 1)):
                a, b = make(rng, 150, 90, dtype, lies[0]), make(rng, 90, 140, dtype, lies[1])
                assert close(call(function, a, b, lies), a, b)


def fenced(x: np.ndarray, lies: int) -> np.ndarray:
    """The same numbers, ending where memory that may be touched ends."""
    flat = np.ascontiguousarray(x.T if lies else x)
    pages = -(-flat.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    base = np.frombuffer(memory, np.uint8)
    fence = ctypes.c_void_p(base.ctypes.data + pages * mmap.PAGESIZE)
    assert _libc.mprotect(fence, SIZE(mmap.PAGESIZE), 0) == 0
    start = pages * mmap.PAGESIZE - flat.nbytes
    placed = base[start : start + flat.nbytes].view(x.dtype).reshape(flat.shape)
    placed[...] = flat
    return placed.T if lies else placed


@pytest.mark.parametrize("lies", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_nothing_behind_a_matrix_is_touched(product, lies):
    function, dtype = product
    rng = np.random.default_rng(0)
    for m, n, k in SIZES:
        a, b = (rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n)))
        a, b = fenced(a, lies[0]), fenced(b, lies[1])
        out = fenced(np.zeros((m, n), dtype), 0)
        lda, ldb = (m if lies[0] else k), (k if lies[1] else n)
        sides = [a.ctypes.data, lda, lies[0], b.ctypes.data, ldb, lies[1]]
        function(*sides, out.ctypes.data, n, m, n, k, 0)
        assert close(out, a, b), (m, n, k)


def test_blocks_fit_their_room():
    for ty in TYPES:
        for wide in (32, 64):
            shape = Shape(ty, wide)
            for first, second in ((0, 0), (32 << 10, 256 << 10), (1 << 20, 64 << 20)):
                sizes = gemm.blocks(shape, first, second)
                rows = gemm.GATHER * (sizes.deep * shape.rows[0] * shape.size + 64)
                tile = shape.vectors[0] * shape.lanes
                area = (sizes.deep * sizes.broad + shape.side * tile) * shape.size
                assert rows + area <= gemm.SCRATCH
                assert sizes.broad % tile == sizes.flat_broad % tile == sizes.deep % 8 == 0
                assert sizes.broad and sizes.flat_broad


def test_equally_wide_blas_does_large_products(monkeypatch):
    monkeypatch.setattr(blas.Blas, "vector_bytes", lambda self, most: most)
    machine = target.host()
    if blas.blas() is None:
        pytest.skip("NumPy's BLAS cannot be called directly here")
    assert products.choose(machine).most == products.SMALL
    step = tailor(lambda x, y: x @ y, background=False)
    x = np.random.default_rng(0).normal(size=(70, 70))
    for n in (5, 70):
        np.testing.assert_allclose(step(x[:n], x), x[:n] @ x, rtol=1e-12)
    assert "up to" in str(step.explain(x, x))


def test_products_in_a_loop():
    def powers(x, count):
        y = x
        for _ in range(count):
            y = x @ y
        return y

    step = tailor(powers, background=False)
    x = np.random.default_rng(0).normal(size=(9, 9)) / 3
    np.testing.assert_allclose(step(x, 12), powers(x, 12), rtol=1e-10)


def test_thin_products_of_large_transposed_matrices():
    rng = np.random.default_rng(0)
    step = tailor(lambda x, y: x @ y, background=False)
    for m, n, k in ((300, 2, 200), (2, 300, 200), (300, 9, 200), (17, 300, 200)):
        x, y = rng.normal(size=(k, m)).T, rng.normal(size=(n, k)).T
        np.testing.assert_allclose(step(x, y), x @ y, rtol=1e-10, atol=1e-12)


def test_the_text_of_the_product_is_written_only_to_be_compiled(tmp_path, monkeypatch):
    exports, written = ("multiply",), []

    def write(*made_for):
        written.append(made_for)
        return gemm.emit_module(*made_for)

    made_for = ("f64", target.host().vector_bytes, 32 << 10, 1 << 20)
    fresh = build.build_runtime.__wrapped__
    with knobs.scope(cache_dir=str(tmp_path / "cache")):
        for _ in range(2):
            fresh("multiply", write, made_for, exports, symbols.resolve)
        assert written == [made_for]
        monkeypatch.setattr(build, "own_state", lambda: "edited")
        fresh("multiply", write, made_for, exports, symbols.resolve)
    assert len(written) == 2
