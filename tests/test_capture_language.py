"""Python around the arrays: functions, closures, containers, objects, loops, static tests."""

from __future__ import annotations

import functools
import math
from collections import namedtuple
from dataclasses import dataclass

import capture_helpers
import numpy as np
import pytest
from capture_helpers import scaled
from capture_kit import captured, check, run_captured, same
from numpy import exp as exponential

from tailorbird import knobs
from tailorbird.capture import capture
from tailorbird.ir.show import show

OFFSET = 1.25
STEPS = 3
TABLE = np.array([1.0, 2.0, 3.0, 4.0])
NAMES = ("a", "b")


def use_globals(x):
    return x * OFFSET + TABLE[1] + STEPS


def use_module(x):
    return capture_helpers.scaled(x, 3.0) + capture_helpers.GAIN


def use_imported(x):
    return scaled(x, shift=1.0) + exponential(x)


def use_hidden_array(x):
    return capture_helpers.weighted(x) + capture_helpers.repeated(x)[:3]


def nested(x):
    k = 2.0

    def inner(y, power=2):
        return y**power * k

    k = 3.0
    return inner(x) + inner(x, power=3)


def lambdas(x):
    double = lambda y: y * 2
    fs = [double, lambda y: y + 1]
    for f in fs:
        x = f(x)
    return x


def star_arguments(x, y):
    def total(*parts, scale=1.0, **more):
        result = 0
        for p in parts:
            result = result + p
        return result * scale + more["extra"]

    parts = (x, y)
    options = {"scale": 2.0, "extra": 1}
    return total(*parts, x, **options)


def swap_names(x, y):
    x, y = y, x
    (a, b), c = (x, y), x + 1
    return a - b, c


def starred_unpack(x):
    first, *rest = [x, x * 2, x * 3]
    return first + rest[0] + rest[-1]


def static_loop(x):
    out = x
    for k in range(3):
        out = out * x + k
    for i, (a, b) in enumerate(zip([1, 2], [3.0, 4.0])):
        out = out + a * b * i
    return out


def symbolic_loop(x, k):
    out = x
    for i in range(k):
        out = out + x * i
    return out


def loop_with_exits(x):
    total = x * 0
    for i in range(10):
        if i == 2:
            continue
        if i > 4:
            break
        total = total + i
    else:
        total = total * 100
    return total


def while_loop(x):
    n = 0
    while n < 3:
        x = x * 2
        n += 1
    return x


def iterate_rows(x):
    total = 0
    for row in x:
        total = total + row
    return total


def comprehensions(x):
    parts = [x * i for i in range(4) if i % 2]
    names = {name: x + k for k, name in enumerate(NAMES)}
    return sum(parts) + sum(v for v in names.values()), {k: v * 2 for k, v in names.items()}


def branches(x, flag=True, mode="fast", extra=None):
    if x.ndim != 1:
        raise ValueError(f"rank {x.ndim}")
    if extra is not None:
        x = x + extra
    elif flag and mode == "fast":
        x = x * 2
    else:
        x = x * 3
    y = x if not flag else x + 1
    return y


def shapes(x):
    n, m = x.shape
    assert n > 0, "empty"
    assert x.shape[1] == m
    return x.reshape(m, n) * (n * m) / (n + m) + len(x) ** 2 + n // 2 + n % 3


def shape_tests(x):
    if x.shape[0] > 3:
        return x[:3] * 2
    return x * 3


def integer_math(x, k):
    half = k // 2
    return x * (k + half) + x[k % 2] + min(k, len(x)) - max(k, 1) + abs(-k) + k**2


def float_math(x, s):
    t = s * 2 + 1
    u = t / s - s // 0.3 + s % 0.4 + s**2
    return x * u + (-t) + abs(-s) + math.sqrt(s) + math.exp(s) + math.log(s) + math.sin(s)


def static_math(x):
    c = math.sqrt(2.0) * math.pi + float("2.5") + int(3.7) + round(2.6) + np.pi
    return x * c + np.float32(2.5) + np.sqrt(16.0)


def size_math(x):
    scale = 1.0 / math.sqrt(x.shape[-1])
    return x * scale * (1 / len(x)) + np.prod(x.shape) + math.ceil(x.shape[0])


def dtype_math(x):
    eps = np.finfo(x.dtype).eps
    kind = np.result_type(x.dtype, np.float32)
    return (x + eps).astype(kind) + np.iinfo(np.int8).max


def chained(x):
    return x[(1 < len(x) <= 100 and 1) or 0]


def text(x):
    name = f"k{2 + 1:03d}-{x.ndim!r}"
    return x * len(name) + {"k003-1": 5}[name.lower()]


def returns_structures(x, k):
    return {"sum": x.sum(), "n": len(x), "k": k + 1, "none": None}, [x * 2, (1, "a", 2.5)], True


def returns_nothing(x):
    x + 1


def recursive(x, depth=3):
    return x if depth == 0 else recursive(x * 2, depth - 1) + 1


def containers(x):
    found = []
    found.append(x)
    found.extend([x * 2, x * 3])
    found.insert(0, x * 4)
    last = found.pop()
    table = {"a": x}
    table["b"] = last
    table.update(c=x + 1)
    key = "b" if "b" in table else "a"
    return found[0] + table[key] + table.get("zzz", 3) + len(found)


def doubled(x):
    return x * 2


def partials(x):
    f = functools.partial(scaled, by=4.0)
    g = functools.reduce(lambda a, b: a + b, [x, x, x])
    return f(x, shift=2.0) + g + sum(map(doubled, [x, x]))


def type_tests(x, s):
    if isinstance(x, np.ndarray) and isinstance(s, float) and not isinstance(s, int):
        return x * s
    return x


def local_import(x):
    import math as m

    from numpy import tanh

    return tanh(x) * m.pi


def walrus(x):
    if (n := len(x)) > 2:
        return x * n
    return x


ROWS = [
    (use_globals, "f64[n]"),
    (use_module, "f32[n]"),
    (use_imported, "f64[n]"),
    (use_hidden_array, "f64[n]"),
    (nested, "f64[n]"),
    (lambdas, "f32[n]"),
    (star_arguments, "f64[n] f64[n]"),
    (swap_names, "f64[n] f64[n]"),
    (starred_unpack, "f64[n]"),
    (static_loop, "f32[n]"),
    (symbolic_loop, "f64[n] int"),
    (loop_with_exits, "f64[n]"),
    (while_loop, "f64[n]"),
    (iterate_rows, "f64[n,m]"),
    (comprehensions, "f64[n]"),
    (branches, "f64[n]"),
    (shapes, "f64[n,m]"),
    (shape_tests, "f64[n]"),
    (integer_math, "f64[n] int"),
    (float_math, "f32[n] float"),
    (static_math, "f32[n]"),
    (size_math, "f32[n,m]"),
    (dtype_math, "f32[n]"),
    (chained, "f64[n]"),
    (text, "f64[n]"),
    (returns_structures, "f64[n] int"),
    (returns_nothing, "f64[n]"),
    (recursive, "f64[n]"),
    (containers, "f64[n]"),
    (partials, "f64[n]"),
    (type_tests, "f32[n] float"),
    (local_import, "f64[n]"),
    (walrus, "f64[n]"),
]


@pytest.mark.parametrize(("function", "spec"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_python_means_what_python_means(function, spec):
    check(function, spec)


# Objects and paths

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
