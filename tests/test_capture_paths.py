"""Where values come from: objects, containers, globals, closures, defaults, and their paths."""

from __future__ import annotations

import functools
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
from capture_helpers import scaled
from capture_kit import captured, run_captured, same

from tailorbird import knobs
from tailorbird.capture import capture
from tailorbird.ir.show import show

OFFSET = 1.25
STEPS = 3
TABLE = np.array([1.0, 2.0, 3.0, 4.0])


def use_globals(x):
    return x * OFFSET + TABLE[1] + STEPS


def use_imported(x):
    return scaled(x, shift=1.0)


Pair = namedtuple("Pair", "left right")


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray
    gain: float = 2.0
    power: int = 2

    factor = 3.0

    def __call__(self, x):
        return self.apply(x)

    def apply(self, x, times=1):
        return (x @ self.w + self.b) * self.gain * self.scale * times + self.factor

    @property
    def scale(self):
        return self.gain / 2.0

    @staticmethod
    def halve(x):
        return x / 2

    @classmethod
    def describe(cls, x):
        return cls.halve(x) + 1


def layer():
    return Layer(np.arange(6.0).reshape(2, 3), np.ones(3))


def use_object(x, net):
    return net.apply(x, times=2) + net.halve(net.b) + net.describe(x).sum() + net.power


def use_dict(params, x):
    h = np.tanh(x @ params["w"] + params["b"])
    return {"h": h, "size": len(params), "rest": params["nested"]["k"] * 2}


def use_sequences(xs, pair):
    total = xs[0] * pair[1]
    for x in xs[1:]:
        total = total + x
    left, right = pair
    return total + left * right


def use_namedtuple(p):
    a, b = p
    return a + p.right * 2 + p[0] + b


def use_arguments(*xs, scale=2.0, **rest):
    bonus = rest.pop("bonus", 0.0)
    return sum(xs) * scale + bonus + len(xs)


def run_both(function, *args):
    c = captured(function, args)
    assert same(function(*args), run_captured(c, function, args))
    return c


def test_attributes_of_objects_are_found_by_path():
    c = run_both(use_object, np.ones((4, 2)), layer())
    paths = {str(s) for s in c.sources}
    assert {"x", "net.w", "net.b", "net.gain", "net.power"} <= paths
    assert ("type(net)", Layer) in [(str(s), v) for s, v in c.statics]


def test_a_method_is_captured_with_self():
    net = layer()
    x = np.ones((4, 2))
    c = captured(Layer.apply, [net, x])
    assert same(net.apply(x), run_captured(c, Layer.apply, [net, x]))


def test_other_values_behind_the_same_paths_are_used():
    net = layer()
    x = np.ones((4, 2))
    c = captured(Layer.apply, [net, x])
    net.gain = 7.0
    net.w = np.full((2, 3), 0.25)
    assert same(net.apply(x), run_captured(c, Layer.apply, [net, x]))


def test_dicts_tuples_and_lists_are_opened():
    params = {"w": np.ones((2, 3)), "b": np.ones(3), "nested": {"k": 2.0}}
    c = run_both(use_dict, params, np.ones((5, 2)))
    assert "params['nested']['k']" in {str(s) for s in c.sources}
    c = run_both(use_sequences, [np.ones(3), np.ones(3)], (np.ones(3), 2.0))
    assert ("len(xs)", 2) in [(str(s), v) for s, v in c.statics]
    run_both(use_namedtuple, Pair(np.ones(3), np.arange(3.0)))


def test_star_and_keyword_arguments():
    c = captured(use_arguments, [np.ones(3), np.arange(3.0)])
    found = run_captured(c, use_arguments, [np.ones(3), np.arange(3.0)])
    assert same(found, use_arguments(np.ones(3), np.arange(3.0)))


def test_globals_are_read_at_each_call(monkeypatch):
    c = captured(use_globals, [np.ones(4)])
    monkeypatch.setitem(globals(), "OFFSET", 10.0)
    monkeypatch.setitem(globals(), "TABLE", np.arange(9.0))
    assert same(use_globals(np.ones(4)), run_captured(c, use_globals, [np.ones(4)]))


def make_closure(scale, table):
    def inside(x):
        return x * scale + table[0]

    return inside


def test_closures_are_hidden_parameters():
    f = make_closure(3.0, np.arange(1.0, 4.0))
    c = captured(f, [np.ones(5)])
    assert {("cell", "scale"), ("cell", "table")} <= {s.root for s in c.sources}
    assert same(f(np.ones(5)), run_captured(c, f, [np.ones(5)]))


def use_closure_of_another(x):
    return OTHER(x) + 1


OTHER = make_closure(2.0, np.ones(2))


def test_a_helper_brings_its_own_closure_and_defaults():
    c = run_both(use_closure_of_another, np.ones(3))
    assert any("cell_contents" in str(s) for s in c.sources)


class Tailored:
    """What a tailored function looks like from outside."""

    __module__ = "tailorbird.stand_in"

    def __init__(self, function):
        self.__wrapped__ = function

    def __get__(self, owner, kind=None):
        return self if owner is None else functools.partial(self.__wrapped__, owner)

    def __call__(self, *args):
        return self.__wrapped__(*args)


@Tailored
def tailored_helper(x):
    return x * 3


class Model:
    def __init__(self):
        self.k = 2.0

    @Tailored
    def scale(self, x):
        return x * self.k


def use_tailored(x, model):
    return tailored_helper(x) + model.scale(x)


def test_tailored_functions_are_inlined():
    run_both(use_tailored, np.ones(3), Model())
    c = captured(tailored_helper.__wrapped__, [np.ones(3)])
    with knobs.scope(strict=True):
        again = capture(tailored_helper, {"x": np.ones(3)})
    assert show(c.graph) == show(again.graph)


def test_an_option_that_is_none_or_an_object_is_told_apart():
    def optional(x, option=None):
        return x if option is None else x + 1

    c = captured(optional, [np.ones(3), Model()])
    assert ("type(option)", Model) in [(str(s), v) for s, v in c.statics]
    c = captured(optional, [np.ones(3), None])
    assert ("option", None) in [(str(s), v) for s, v in c.statics]


def test_functions_are_relied_on_by_identity():
    c = captured(use_imported, [np.ones(3)])
    assert scaled in [v for _, v in c.statics]


def test_unused_arguments_are_not_looked_at():
    def ignores(x, anything):
        return x + 1

    c = captured(ignores, [np.ones(3), object()])
    assert [str(s) for s in c.sources] == ["x"]


def test_zero_d_arguments_are_marked():
    c = captured(lambda x: x + 1, [np.array(2.0)])
    assert c.sources[0].kind == "zero_d"
