"""Exceptions are NumPy's: the same type and message, and arguments left in the same state."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from api_kit import answers, is_same, native

NUMPY2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
X = np.linspace(-3.0, 4.0, 24).reshape(4, 6)


def bad_axis(x):
    return x.sum(axis=5)


def mismatch(x, y):
    return x + y


def product(x, y):
    return x @ y


def bad_index(x, k):
    return x[k] * 2


def first_of_none(x):
    return x.max()


ERRORS = [
    (bad_axis, (X,)),
    (mismatch, (X, X[:, :5])),
    (mismatch, (X, np.ones((3, 4, 5)))),
    (product, (X, X)),
    (bad_index, (X, 4)),
    (bad_index, (X, -5)),
    (first_of_none, (X[:0],)),
    (mismatch, (X, "text")),
    (mismatch, (X, None)),
    *([(mismatch, (np.arange(3, dtype=np.uint8), 300))] if NUMPY2 else []),
]


@pytest.mark.parametrize("function, args", ERRORS)
@pytest.mark.parametrize("warm", [False, True])
def test_the_same_exception_as_numpy(function, args, warm):
    with pytest.raises(Exception) as expected:
        function(*args)
    tailored = native(function)
    if warm:
        good = {bad_index: (X, 1), product: (X, X.T), bad_axis: None}
        arguments = good.get(function, (X, X)[: len(args)])
        if arguments is not None:
            assert answers(tailored, *arguments)
    for _ in range(3):
        with pytest.raises(type(expected.value)) as found:
            tailored(*args)
        assert str(found.value) == str(expected.value)


def test_arguments_written_before_an_exception_are_left_as_in_numpy():
    def invert(x, y):
        x *= 2
        found = np.linalg.inv(x)
        x += y
        return found

    tailored = native(invert)
    assert answers(tailored, np.eye(3), 1.0)
    for _ in range(3):
        mine, theirs = np.ones((3, 3)), np.ones((3, 3))
        for function, array in ((tailored, mine), (invert, theirs)):
            with pytest.raises(np.linalg.LinAlgError, match="Singular"):
                function(array, 1.0)
        assert is_same(mine, theirs)
    assert answers(tailored, np.eye(3), 1.0)


def test_division_under_errstate():
    tailored = native(lambda x, y: x / y)
    zeros = np.zeros(3)
    assert answers(tailored, np.ones(3), zeros)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        tailored(np.ones(3), zeros)
    with np.errstate(all="raise"):
        assert is_same(tailored(np.ones(3), np.full(3, 2.0)), np.full(3, 0.5))
        assert "errstate" in str(tailored.explain(zeros, zeros))
    called = []
    with np.errstate(divide="call", call=lambda *found: called.append(found)):
        tailored(np.ones(3), zeros)
    assert called
    with np.errstate(all="ignore"):
        assert answers(tailored, np.ones(3), zeros)


def test_errstate_inside_the_function():
    def quiet(x, y):
        with np.errstate(divide="raise"):
            return x / y

    tailored = native(quiet)
    for _ in range(2):
        with pytest.raises(FloatingPointError):
            tailored(np.ones(3), np.zeros(3))
        assert is_same(tailored(np.ones(3), np.ones(3)), np.ones(3))


def test_integer_division_by_zero():
    tailored = native(lambda x, y: x // y + x % y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert answers(tailored, np.arange(4), np.array([0, 1, 2, 0]))
