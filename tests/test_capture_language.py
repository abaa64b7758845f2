"""Python around the arrays: functions, closures, containers, objects, loops, static tests."""

from __future__ import annotations

import functools
import math

import capture_helpers
import numpy as np
import pytest
from capture_helpers import scaled
from capture_kit import check
from numpy import exp as exponential

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
