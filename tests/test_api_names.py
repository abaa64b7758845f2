"""Names that change between calls are seen: globals, helpers, modules, closures, methods."""

from __future__ import annotations

import types

import numpy as np
import pytest
from api_kit import answers, is_same, native

import tailorbird as tb

X = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
Y = np.linspace(1.0, 2.0, 12).reshape(3, 4)
SCALE = 2.0
OFFSET = np.arange(4.0)


def helper(x):
    return x + 1


def uses_module(x):
    return xp.sin(x)  # noqa: F821 - set by the test


def uses_globals(x):
    return helper(x * SCALE) + OFFSET


def test_globals_that_change_are_seen(monkeypatch):
    here = globals()
    tailored = native(uses_globals)
    assert answers(tailored, X)
    for scale in (3.0, 4, np.float32(1.5), 2.5):
        monkeypatch.setitem(here, "SCALE", scale)
        answers(tailored, X)
        answers(tailored, X)
    for offset in (np.ones(4), np.ones((3, 4), np.float32), 7.0):
        monkeypatch.setitem(here, "OFFSET", offset)
        answers(tailored, X)
        answers(tailored, X)
    monkeypatch.setitem(here, "helper", lambda x: x - 1)
    assert is_same(tailored(X), X * 2.5 - 1 + 7.0)
    assert is_same(tailored(X), X * 2.5 - 1 + 7.0)


def test_modules_that_change_are_seen(monkeypatch):
    monkeypatch.setitem(globals(), "xp", np)
    tailored = native(uses_module)
    assert answers(tailored, X)
    assert answers(tailored, X)
    monkeypatch.setitem(globals(), "xp", types.SimpleNamespace(sin=np.cos))
    assert is_same(tailored(X), np.cos(X))
    monkeypatch.setitem(globals(), "xp", np)
    assert answers(tailored, X)


def test_methods_that_are_hidden_or_replaced_are_seen(monkeypatch):
    class Base:
        def act(self, x):
            return x * 2

    class Model(Base):
        def step(self, x):
            return self.act(x) + 1

    tailored = native(Model.step)
    one, other = Model(), Model()
    assert answers(tailored, one, X)
    one.act = lambda x: x * 5
    assert is_same(tailored(one, X), X * 5 + 1)
    assert is_same(tailored(other, X), X * 2 + 1)
    monkeypatch.setattr(Base, "act", lambda self, x: x * 7)
    assert is_same(tailored(other, X), X * 7 + 1)
    monkeypatch.setattr(Model, "act", lambda self, x: x * 9, raising=False)
    assert is_same(tailored(other, X), X * 9 + 1)


def test_a_helper_redefined_with_the_same_text_stays_native(monkeypatch):
    tailored = native(uses_globals)
    assert answers(tailored, X)
    for _ in range(3):
        copied = type(helper)(helper.__code__, helper.__globals__, "helper")
        monkeypatch.setitem(globals(), "helper", copied)
        answers(tailored, X)
        assert answers(tailored, X)


def test_attributes_of_another_kind_are_seen():
    class Box:
        pass

    box = Box()
    tailored = tb.tailor(lambda box, x: box.w * x, background=False)
    for w in (X, 3, 2.5, [1.0, 2.0, 3.0, 4.0], X.astype("f"), np.float64(2), X, X[0]):
        box.w = w
        for _ in range(12):
            assert is_same(tailored(box, X), np.multiply(w, X))
    box.w = "text"
    with pytest.raises(TypeError):
        tailored(box, X)
    del box.w
    with pytest.raises(AttributeError):
        tailored(box, X)


def test_closures_that_change_are_seen():
    k, w = 2.0, Y

    def inner(x):
        return x * k + w

    tailored = native(inner)
    assert answers(tailored, X)
    k = 5.0
    assert answers(tailored, X)
    w = np.ones(4)
    answers(tailored, X)
    assert answers(tailored, X)


def test_nested_tailored_functions():
    inner = native(lambda x: np.tanh(x) * 2)

    def outer(x, y):
        return inner(x) + inner(y)

    tailored = native(outer)
    assert answers(tailored, X, Y)
    assert answers(tailored, X, Y)
    assert answers(inner, X)


def test_recursion_stays_right():
    def powers(x, n):
        return x if n <= 1 else x * powers(x, n - 1)

    tailored = native(powers)
    for n in (1, 2, 5, 40):
        answers(tailored, X, n)
