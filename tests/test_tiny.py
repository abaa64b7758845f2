"""What you run while editing, in under 10 s: functions through every stage, promises in small."""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird.capture import capture
from tailorbird.ir import interp
from tailorbird.ir.parse import parse
from tailorbird.ir.show import show
from tailorbird.rewrite.decompose import decompose

RNG = np.random.default_rng(0)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def chain(x, a, b=0.5):
    return np.tanh(a * x + b) * np.exp(-x * x) + np.where(x > 0, x, 0.01 * x)


def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


def moments(x):
    return x.mean(), x.var(axis=0), np.abs(x).max(axis=1)


def stencil(x):
    return 0.25 * (x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1])


def scaled_in_place(x, s):
    x *= s
    return x


CASES = [
    (softmax, (RNG.standard_normal((7, 33)).astype("f4"),)),
    (chain, (RNG.standard_normal(1001), 1.5)),
    (layer, tuple(RNG.standard_normal(s) for s in ((5, 8), (8, 3), (3,)))),
    (moments, (RNG.standard_normal((6, 17)),)),
    (stencil, (RNG.standard_normal((9, 12)),)),
    (scaled_in_place, (np.arange(20.0), 3.0)),
]
IDS = [function.__name__ for function, _ in CASES]


def copies(arguments):
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def assert_same(found, wanted):
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for x, y in zip(found, wanted):
            assert_same(x, y)
        return
    assert type(found) is type(wanted) and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-6 if found.dtype == "f4" else 1e-13)


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=IDS)
def test_graph_means_what_the_function_does(function, arguments):
    bound = dict(zip(function.__code__.co_varnames, arguments + (function.__defaults__ or ())))
    captured = capture(function, bound)
    text = show(captured.graph)
    assert show(parse(text)) == text
    live = copies(arguments)
    values = [s.find(function, {**bound, **dict(zip(bound, live))}) for s in captured.sources]
    assert_same(interp.run(decompose(captured.graph), values), function(*copies(arguments)))


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=IDS)
def test_native_code_answers_as_numpy(function, arguments):
    tailored = tb.tailor(function, deterministic=True)
    assert_same(tailored(*copies(arguments)), function(*copies(arguments)))
    assert tailored.variants and tailored.variants[0].hits == 1


def test_a_new_shape_does_not_recompile():
    tailored = tb.tailor(softmax, deterministic=True)
    for rows, columns in ((2, 3), (0, 4), (17, 200), (64, 16)):
        x = RNG.standard_normal((rows, columns))
        assert_same(tailored(x), softmax(x))
    assert len(tailored.variants) == 1


def test_what_stays_plain_says_why():
    def branch(x):
        if x.sum() > 0:
            return x
        return -x

    tailored = tb.tailor(branch, background=False)
    x = np.ones(3)
    assert tailored(x) is x
    assert not tailored.variants
    assert "test_tiny.py" in str(tailored.explain(x)) and "depends" in str(tailored.explain(x))


def test_explain_names_the_kernel():
    text = str(tb.tailor(softmax).explain(np.ones((3, 4))))
    assert "max + subtract + exp + sum + divide" in text
