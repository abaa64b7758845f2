"""Which arguments native code takes, and that all others are answered as NumPy answers them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from api_kit import answers, hits, is_same, native, plainly
from numpy.lib.stride_tricks import as_strided

from tailorbird import events

NUMPY2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
BASE = np.linspace(-3.0, 4.0, 24)
X = BASE.reshape(4, 6)


def mixed(x, y):
    return x * 2 + y


def reduced(x):
    return x.sum(axis=0) - x.mean()


# dtype, rank, layout


@pytest.mark.parametrize("dtype", "?bhilBHILfdFD")
def test_every_dtype_is_native(dtype):
    tailored = native(mixed)
    x, y = X.astype(dtype), X[:, ::-1].astype(dtype)
    assert answers(tailored, x, y)
    assert answers(tailored, x, y)


def test_dtype_objects_that_are_equal_but_not_the_same():
    tailored = native(mixed)
    assert answers(tailored, X, X)
    pickled = pickle.loads(pickle.dumps(X))
    assert pickled.dtype is not X.dtype
    before = hits(tailored)
    assert is_same(tailored(pickled, X), mixed(X, X))
    assert hits(tailored) == before + 1
    assert answers(native(mixed), pickled, pickled)


@pytest.mark.parametrize("dtype", "qQ")
def test_long_long_is_plain(dtype):
    tailored = native(mixed)
    x = X.astype(dtype)
    assert not answers(tailored, x, x)
    assert "long long" in str(tailored.explain(x, x))
    assert tailored(x, x).dtype.char == mixed(x, x).dtype.char


def test_a_new_dtype_or_rank_has_a_variant_of_its_own():
    tailored = native(mixed)
    cases = [(X, X), (X.astype("f"), X), (X[0], X), (X, X[0]), (X[:, :, None], X.astype("i8"))]
    for x, y in (*cases, *cases):
        x, y = (x, y) if x.ndim < 3 else (x, y[:, :, None])
        assert answers(tailored, x, y)
    assert len(tailored.variants) == len(cases)


WIDE = np.arange(400.0).reshape(20, 20)
LAYOUTS = {
    "C": WIDE[:4, :6].copy(),
    "F": np.asfortranarray(WIDE[:4, :6]),
    "transposed": WIDE[:6, :4].copy().T,
    "rows": WIDE[:4, :6],
    "columns": WIDE[::3][:4, ::3][:, :6],
    "reversed": WIDE[3::-1, 5::-1],
    "backwards columns": WIDE[:4, 6:0:-1],
    "broadcast": np.broadcast_to(np.arange(6.0), (4, 6)),
    "one element repeated": np.broadcast_to(np.float64(3.0), (4, 6)),
    "read-only": np.frombuffer(WIDE[:4, :6].tobytes()).reshape(4, 6),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    for function, args in ((mixed, (LAYOUTS[layout], X)), (reduced, (LAYOUTS[layout],))):
        tailored = native(function)
        expected = plainly(function, *args)
        for _ in range(2):
            assert is_same(tailored(*args), expected)
        assert hits(tailored) == 2
        assert is_same(native(function)(*args), expected)


def test_one_function_over_all_layouts():
    tailored = native(mixed)
    for x in LAYOUTS.values():
        for y in LAYOUTS.values():
            assert is_same(tailored(x, y), mixed(x, y))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), (1, 7), (7, 1)])
def test_empty_and_single(shape):
    tailored = native(mixed)
    x = np.arange(float(np.prod(shape))).reshape(shape)
    assert answers(tailored, x, x + 1)
    assert answers(tailored, x, 2.5)
    larger = np.ones(tuple(d + 5 for d in shape))
    answers(tailored, larger, larger)


def test_a_hundred_shapes_are_one_compilation():
    def shapes_of_one_function(x, y):
        return np.exp(-x * x).sum(axis=1) * y

    tailored = native(shapes_of_one_function)
    rng = np.random.default_rng(0)
    for k in range(100):
        n, m = 2 + k, 3 + (7 * k) % 31
        assert answers(tailored, rng.random((n, m)), rng.random(n))
    assert len(tailored.variants) == 1
    name = tailored.__qualname__
    assert len(events.recent("compiled", name)) == 1
    assert hits(tailored) == 100


def test_size_one_broadcasts():
    tailored = native(mixed)
    for x, y in [(X, X), (X, X[:1]), (X[:, :1], X), (X[:1], X[:, :1]), (X, X), (X, X[:1])]:
        assert answers(tailored, x, y)


# Scalars


SCALARS = [2, -3, 2.5, True, 1 + 2j, *(np.dtype(c).type(3) for c in "?bhilqBHILQfdFD"), 10**15]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("dtype", "bifdD")
def test_scalars_promote_as_in_numpy(scalar, dtype):
    x = X.astype(dtype)
    try:
        plainly(mixed, x, scalar)
    except OverflowError:
        with pytest.raises(OverflowError):
            native(mixed)(x, scalar)
        return
    tailored = native(mixed)
    answers(tailored, x, scalar)
    answers(tailored, x, scalar)
    answers(tailored, scalar, x)


def test_a_python_int_is_not_a_constant():
    tailored = native(lambda x, k: x * k + k)
    for k in (2, 3, -7, 10**12, 0, 1):
        assert answers(tailored, X, k)
    assert len(tailored.variants) <= 3


def test_ints_beyond_64_bits_are_plain():
    tailored = native(mixed)
    assert not answers(tailored, X, 2**70)
    if NUMPY2:
        with pytest.raises(OverflowError):
            tailored(np.arange(3), 2**70)


# What is not understood runs plain


class Tagged(np.ndarray):
    """A subclass with a memory of its own."""

    def __array_finalize__(self, other):
        self.tag = getattr(other, "tag", "none")


def tagged(x):
    found = x.view(Tagged)
    found.tag = "mine"
    return found


def misaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    found = raw[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


STRANGE = {
    "subclass": lambda: tagged(X),
    "unsupported_dtype": lambda: X.astype(np.float16),
    "object_array": lambda: X.astype(object),
    "misaligned": lambda: misaligned(X),
}
PLAIN = {
    **STRANGE,
    "matrix": lambda: X.view(np.matrix),
    "masked": lambda: np.ma.masked_greater(X, 1.0),
    "long double": lambda: X.astype(np.longdouble),
    "clong double": lambda: X.astype(np.clongdouble),
    "byte-swapped": lambda: X.astype(X.dtype.newbyteorder()),
    "timedelta": lambda: X.astype("m8[s]"),
    "memmap": lambda: X.copy().view(np.memmap),
}


@pytest.mark.parametrize("name", PLAIN)
def test_arrays_that_stay_plain(name):
    tailored = native(mixed)
    argument = PLAIN[name]()
    with np.errstate(all="ignore"):
        expected = mixed(argument, argument)
        found = tailored(argument, argument)
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert np.array_equal(np.asarray(found), np.asarray(expected))
    assert getattr(found, "tag", None) == getattr(expected, "tag", None)
    if name == "masked":
        assert np.array_equal(found.mask, expected.mask)
    assert hits(tailored) == 0
    assert tailored.explain(argument, argument).reasons
    assert answers(tailored, X, X), "other arguments are native all the same"
    assert is_same(tailored(argument, argument).dtype, expected.dtype)


@pytest.mark.parametrize("name", STRANGE)
def test_the_reason_is_named(name):
    tailored = native(mixed)
    tailored(STRANGE[name](), X)
    (event,) = events.recent("refused", "mixed")[-1:]
    assert event.data["why"].code == name


def test_dates_and_text_stay_plain():
    tailored = native(lambda x, y: x - y)
    days = np.array(["2024-01-01", "2024-03-01"], "M8[D]")
    assert np.array_equal(tailored(days, days[::-1]), days - days[::-1])
    joined = native(lambda x, y: np.char.add(x, y))
    assert list(joined(np.array(["a"]), np.array(["b"]))) == ["ab"]


def test_structured_arrays_stay_plain():
    pairs = np.zeros(3, [("a", "f8"), ("b", "i4")])
    tailored = native(lambda p: p["a"] * 2 + p["b"])
    assert np.array_equal(tailored(pairs), np.zeros(3))


def test_a_subclass_after_an_array_of_the_same_kind():
    tailored = native(mixed)
    assert answers(tailored, X, X)
    assert tailored(tagged(X), X).tag == "mine"
    assert answers(tailored, X, X)


# Writes


def add_in_place(x, y):
    x += y
    return x


def fill(x, k):
    x[1:, ::2] = k
    x[0] = x[1]


def shift(x, y):
    x[1:] = y[:-1] * 2
    return y.sum()


def test_written_arguments_are_written():
    tailored = native(add_in_place)
    x = X.copy()
    assert tailored(x, X) is x
    assert is_same(x, X + X)
    assert tailored(x, X) is x
    assert is_same(x, X + X + X)
    for k in (1.0, 2, np.float32(3)):
        answers(native(fill), X.copy(), k)


@pytest.mark.parametrize("function", [add_in_place, shift])
def test_writing_read_only_arguments_raises(function):
    tailored = native(function)
    frozen = X.copy()
    frozen.flags.writeable = False
    for first in (False, True):
        with pytest.raises(ValueError, match="read-only"):
            tailored(frozen, X.copy())
        assert np.array_equal(frozen, X)
        if not first:
            tailored(X.copy(), X.copy())


OVERLAPS = {
    "same": lambda base: (base[2:20], base[2:20]),
    "ahead": lambda base: (base[3:21], base[2:20]),
    "behind": lambda base: (base[2:20], base[3:21]),
    "reversed": lambda base: (base[2:20], base[2:20][::-1]),
    "interleaved": lambda base: (base[0:20:2], base[1:21:2]),
    "apart": lambda base: (base[:10], base[10:20]),
}


@pytest.mark.parametrize("function", [add_in_place, shift])
@pytest.mark.parametrize("case", OVERLAPS)
@pytest.mark.parametrize("warm", [False, True])
def test_overlapping_arguments(function, case, warm):
    tailored = native(function)
    if warm:
        tailored(BASE[:9].copy(), BASE[:9].copy())
    mine, theirs = BASE.copy(), BASE.copy()
    for _ in range(3):
        found = tailored(*OVERLAPS[case](mine))
        expected = function(*OVERLAPS[case](theirs))
        assert is_same(found, expected)
        assert is_same(mine, theirs)


ON_ITSELF = {
    "windows": lambda base: as_strided(base, (4, 3), (8, 8)),
    "one row": lambda base: as_strided(base, (4, 3), (0, 8)),
    "one element": lambda base: as_strided(base, (4, 3), (0, 0)),
    "backwards": lambda base: as_strided(base[9:], (4, 3), (-16, -8)),
}


@pytest.mark.parametrize("case", ON_ITSELF)
@pytest.mark.parametrize("warm", [False, True])
def test_a_written_argument_that_overlaps_itself(case, warm):
    def twice(x, y):
        x[...] = y
        return x * 2

    tailored = native(twice)
    y = np.arange(12.0).reshape(4, 3)
    if warm:
        answers(tailored, np.zeros((8, 6))[::2, ::2], y)
        answers(tailored, np.zeros((8, 6))[::-2, 3:], y)
        assert tailored.variants
    mine, theirs = BASE.copy(), BASE.copy()
    for _ in range(3):
        found = tailored(ON_ITSELF[case](mine), y)
        assert is_same(found, twice(ON_ITSELF[case](theirs), y))
        assert is_same(mine, theirs)


def test_one_array_twice_where_nothing_is_written():
    tailored = native(mixed)
    assert answers(tailored, X, X)
    x = X.copy()
    assert is_same(tailored(x, x), mixed(x, x))
    assert is_same(tailored(x, x.T.reshape(4, 6)), mixed(x, x.T.reshape(4, 6)))


# Results


def test_kinds_of_results():
    tailored = native(lambda x: (x.sum(), x.max(axis=0), x.shape, x.ndim, 2.0 * 3, None, x > 0))
    assert answers(tailored, X)
    found = tailored(X)
    assert type(found[0]) is np.float64
    assert type(found[2]) is tuple
    assert type(found[4]) is float
    python = native(lambda a, b: a * b + 1.0)
    answers(python, 2.0, 3.0)
    answers(python, 2, 3)
    answers(python, 2.0, np.float32(3))


def test_zero_dimensional_results_are_numpy_scalars():
    for function in (lambda x: x.sum(), lambda x: x[0, 0] * 2, lambda x: np.sqrt(x[1, 1] ** 2)):
        tailored = native(function)
        answers(tailored, X)
        assert type(tailored(X)) is np.float64
    zero = np.array(3.0)
    answers(native(lambda x: x + 1), zero)
    answers(native(lambda x, y: x * y), zero, X)
    answers(native(lambda x: x), zero)


def test_an_argument_returned_is_the_same_object():
    for function in (lambda x: x, lambda x: (x, x + 1), lambda x: {"x": x, "y": [x]}):
        tailored = native(function)
        for _ in range(2):
            found = tailored(X)
            found = found[0] if isinstance(found, tuple) else found
            found = found["x"] if isinstance(found, dict) else found
            assert found is X


def test_views_of_arguments_share_memory_as_in_numpy():
    for function in (lambda x: x.T, lambda x: x[1:], lambda x: x.reshape(-1), lambda x: (x, x[0])):
        tailored = native(function)
        for _ in range(2):
            found = tailored(X)
            found = found[1] if isinstance(found, tuple) else found
            assert np.shares_memory(found, X)


def test_results_own_their_memory_and_may_be_written():
    tailored = native(mixed)
    first, second = tailored(X, X), tailored(X, X)
    first[...] = 0
    assert is_same(second, mixed(X, X))
    assert second.flags.owndata or second.base is not None
    assert second.flags.writeable
    big = np.ones(1 << 18)
    kept = [tailored(big * k, big) for k in range(6)]
    assert all(np.all(found == 2 * k + 1) for k, found in enumerate(kept))


def test_what_a_variant_says_of_itself():
    tailored = native(mixed)
    answers(tailored, X, X)
    (variant,) = tailored.variants
    assert variant.guards == ["x: f64[n0,n1] C", "y: f64[n0,n1] C"]
    assert variant.groups == [["multiply", "add"]]
    assert variant.hits == 1
