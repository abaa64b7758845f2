"""Functions of bytes are looked up: the same bits, and only where that pays."""

from __future__ import annotations

import numpy as np
import pytest

from tailorbird import knobs
from tests.api_kit import hits, is_same, native

RNG = np.random.default_rng(3)
IMAGE = RNG.integers(0, 256, (130, 131), dtype=np.uint8)


def gamma(x):
    return (x / 255.0) ** 2.2


def tone(x):
    y = x.astype(np.float32) / np.float32(255)
    y = np.sqrt(np.exp(-y * y) + np.log1p(y)) * np.sin(y)
    return (y * 255).astype(np.uint8)


def scaled(x, s):
    return np.exp(x * s) + np.log(x + s)


def mixed(x, w):
    return np.exp(np.sin(x / 9.0)) * w + x


def folded(x):
    return np.sum(np.tanh(np.sqrt(x / 3.0)), axis=1)


def two_of_them(x, y):
    return np.exp(np.cos(x / 3.0)) - np.exp(np.sin(y / 5.0))


def nested(x):
    total = 0.0
    for k in range(3):
        total += np.sum(np.exp(np.sin(x / (k + 1.0))))
    return total


FUNCTIONS = {
    gamma: (),
    tone: (),
    scaled: (0.25,),
    mixed: (RNG.normal(size=IMAGE.shape),),
    folded: (),
    two_of_them: (IMAGE[::-1].copy(),),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_it_has_the_bits_of_the_chain(function, dtype):
    image, more = IMAGE.astype(dtype), FUNCTIONS[function]
    more = tuple(x.astype(dtype) if np.shape(x) and x.dtype == IMAGE.dtype else x for x in more)
    with np.errstate(all="ignore"):
        tailored = native(function)
        found = tailored(image, *more)
        assert "take %" in str(tailored.explain(image, *more))
        with knobs.scope(off=("tables",)):
            chain = native(function)
            assert "take %" not in str(chain.explain(image, *more))
            wanted = chain(image, *more)
        assert hits(tailored) == hits(chain) == 1
        assert found.dtype == wanted.dtype
        if function is not folded:
            assert np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f")
        assert is_same(found, function(image, *more))


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, ::-1], np.s_[::-3, 1::2]])
def test_any_layout(view):
    image = np.tile(IMAGE, (4, 4))[view]
    tailored = native(gamma)
    assert is_same(tailored(image), gamma(image)) and is_same(tailored(image.T), gamma(image.T))


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 7), (90, 91), (91, 91)])
def test_small_arrays_have_a_variant_of_their_own(shape):
    tailored, image = native(gamma), RNG.integers(0, 256, shape, dtype=np.uint8)
    assert is_same(tailored(IMAGE), gamma(IMAGE))
    assert is_same(tailored(image), gamma(image))
    assert hits(tailored) == 2
    looked_up = "take %" in str(tailored.explain(image))
    assert looked_up == (image.size >= 8192)


def cheap(x):
    return x.astype(np.float32) * 2 + 1


def of_words(x):
    return np.exp(x / 3.0)


def test_what_costs_little_or_is_not_of_bytes_is_computed():
    assert "take %" not in str(native(cheap).explain(IMAGE))
    assert "take %" not in str(native(of_words).explain(IMAGE.astype(np.int16)))
    assert "looked up in a table" in str(native(gamma).explain(IMAGE))


def test_what_is_inside_a_loop_is_left_there():
    assert is_same(native(nested)(IMAGE), nested(IMAGE))


def test_an_argument_that_is_written_is_read_before():
    def brighter(x):
        y = np.sqrt(np.exp(x / 255.0))
        x += 1
        return y, x.sum()

    image, other = IMAGE.copy(), IMAGE.copy()
    assert is_same(native(brighter)(image), brighter(other)) and np.array_equal(image, other)
