"""What stays plain, and why: each refusal has its reason, its file and its line."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from capture_kit import SIZES, captured, make_arguments, plain, refused
from hunt_loops import function_of

from tailorbird import knobs
from tailorbird.capture import capture
from tailorbird.errors import Refused
from tailorbird.ir.show import show

COUNTER = [0]


def branch_on_data(x):
    if x.sum() > 0:
        return x
    return x + 1


def branch_on_float(x, s):
    if s > 1.0:
        return x * s
    return x


def and_on_data(x):
    return x[0] > 0 and x[1] > 0


def chain_on_data(x):
    return 0 < x[0] < 1


def conditional_expression(x):
    return x if x[0] > 0 else x * 2


def assert_on_data(x):
    assert x[0] > -100
    return x * 2


def long_loop(x):
    for i in range(len(x)):
        x = x + i
    return x


def loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row
    return total


def while_on_data(x):
    while x.sum() < 10:
        x = x * 2
    return x


def endless(x):
    while True:
        x = x + 1
    return x


def row(x, i):
    return x[i[0]]


def slice_to(x):
    return x[: np.argmax(x)]


def try_block(x):
    try:
        return x + 1
    except ValueError:
        return x


def with_block(x):
    with np.errstate(all="ignore"):
        return x + 1


def prints(x):
    print("side effect")
    return x + 1


def uses_random(x):
    return x + np.random.multivariate_normal([0.0], [[1.0]])


def uses_generator(x):
    return x + np.random.default_rng(0).random()


def uses_stdlib_random(x):
    return x + random.random()


def uses_time(x):
    return x + time.time()


def reads_file(x):
    return x + np.loadtxt("/nowhere")


def appends_outside(x):
    COUNTER.append(1)
    return x + 1


def writes_outside(x):
    COUNTER[0] += 1
    return x + 1


def uses_global(x):
    global COUNTER
    COUNTER = [1]
    return x


def generator(x):
    yield x


def class_inside(x):
    class A:
        pass

    return x


def unknown_library(x):
    return x + len(np.array2string(x))


def in_place_library(x):
    np.fill_diagonal(x, 0)
    return x


def copyto(x):
    np.copyto(x, 1.0)


def calls_back(x):
    return np.apply_along_axis(lambda r: r * 2, 0, x)


def rounded_to_digits(x):
    return round(x.sum(), 2)


def flat(x):
    return x.flat


def no_name(x):
    return x + undefined_name  # noqa: F821


def unbound_local(x):
    y = y + x  # noqa: F821
    return y


def shape_mismatch(x, y):
    return x + y


def bad_axis(x):
    return x.sum(axis=3)


def bad_index(x):
    return x[99]


def bad_reshape(x):
    return x.reshape(7, -1)


def bad_matmul(x, y):
    return x @ y


def empty_max(x):
    return x[:0].max()


def int_overflow(x):
    return x + 1000


def negative_power(x):
    return x**-2


def integer_powers(x, y):
    return x**y


def bool_minus(x):
    return x - x


def user_raises(x):
    if x.ndim == 1:
        raise ValueError("rank")
    return x


def assertion_fails(x):
    assert x.ndim == 2
    return x


def zero_division(x):
    return x + 1 / (x.ndim - 1)


def half(x):
    return x.astype(np.float16)


def to_half(x):
    return np.sqrt(x)


def returns_function(x):
    return lambda: x


def returns_argument_list(xs):
    return xs


def deep(x):
    return deep(x) + 1


def many_nodes(x):
    for _ in [0] * 60:
        for _ in [0] * 60:
            x = x * 2 + 1
    return x


def roots(x):
    return np.roots(x)


ROWS = [
    (branch_on_data, "f64[n]", "joined_value"),
    (conditional_expression, "f64[n]", "joined_value"),
    (branch_on_float, "f64[n] float", "joined_value"),
    (endless, "f64[n]", "budget"),
    (row, "f64[n,m] i64[m]", "returns_view"),
    (slice_to, "f64[n]", "returns_view"),
    (try_block, "f64[n]", "unsupported_syntax"),
    (with_block, "f64[n]", "unsupported_syntax"),
    (prints, "f64[n]", "unsupported_call"),
    (uses_random, "f64[n]", "unsupported_call"),
    (uses_generator, "f64[n]", "unsupported_call"),
    (uses_stdlib_random, "f64[n]", "unsupported_call"),
    (uses_time, "f64[n]", "unsupported_call"),
    (reads_file, "f64[n]", "unsupported_call"),
    (appends_outside, "f64[n]", "unsupported_call"),
    (writes_outside, "f64[n]", "in_place_write"),
    (uses_global, "f64[n]", "unsupported_syntax"),
    (generator, "f64[n]", "generator"),
    (class_inside, "f64[n]", "unsupported_syntax"),
    (unknown_library, "f64[n]", "unsupported_call"),
    (in_place_library, "f64[n,n]", "unsupported_call"),
    (copyto, "f64[n]", "unsupported_call"),
    (calls_back, "f64[n,m]", "unsupported_call"),
    (rounded_to_digits, "f64[n]", "unsupported_call"),
    (flat, "f64[n]", "unsupported_call"),
    (no_name, "f64[n]", "numpy_raises"),
    (unbound_local, "f64[n]", "numpy_raises"),
    (shape_mismatch, "f64[n] f64[m]", "numpy_raises"),
    (bad_axis, "f64[n]", "numpy_raises"),
    (bad_index, "f64[n]", "numpy_raises"),
    (bad_reshape, "f64[n]", "numpy_raises"),
    (bad_matmul, "f64[n,m] f64[n,m]", "numpy_raises"),
    (empty_max, "f64[n]", "numpy_raises"),
    (int_overflow, "i8[n]", "numpy_raises"),
    (negative_power, "i32[n]", "numpy_raises"),
    (integer_powers, "i32[n] i32[n]", "promotion"),
    (bool_minus, "b1[n]", "numpy_raises"),
    (user_raises, "f64[n]", "numpy_raises"),
    (assertion_fails, "f64[n]", "numpy_raises"),
    (zero_division, "f64[n]", "numpy_raises"),
    (half, "f64[n]", "unsupported_dtype"),
    (to_half, "i8[n]", "unsupported_dtype"),
    (returns_function, "f64[n]", "unsupported_type"),
    (deep, "f64[n]", "budget"),
    (many_nodes, "f64[n]", "budget"),
    (roots, "f64[n]", "unsupported_call"),
]


@pytest.mark.parametrize(("function", "spec", "code"), ROWS, ids=[r[0].__name__ for r in ROWS])
def test_refused_with_its_reason(function, spec, code):
    assert refused(function, spec) == code
    if code == "numpy_raises":
        with pytest.raises(Exception):  # noqa: B017 - each raises its own kind
            plain(function, make_arguments(spec, SIZES[0], 0))


def test_the_function_with_an_effect_is_named():
    with pytest.raises(Refused, match=r"print\(\) is not understood"):
        capture(prints, {"x": np.ones(3)})


ARGUMENTS = [
    (np.ones(3, np.float16), "unsupported_dtype"),
    (np.array(["2020-01-01"], "M8[D]"), "unsupported_dtype"),
    (np.array([1, "a"], object), "object_array"),
    (np.ones(3, ">f8"), "unsupported_dtype"),
    (np.zeros(3, [("a", "f8")]), "unsupported_dtype"),
    (np.ma.masked_array([1.0, 2.0]), "subclass"),
    (np.float16(1), "unsupported_dtype"),
    (10**30, "unsupported_type"),
    (np.frombuffer(bytes(33), "u1")[1:].view("f8"), "misaligned"),
    ([1, 2, {3: np.float16(1)}], "unsupported_dtype"),
]


@pytest.mark.parametrize(("x", "code"), ARGUMENTS, ids=lambda v: v if isinstance(v, str) else "")
def test_arguments_that_are_refused(x, code):
    with pytest.raises(Refused) as caught:
        captured(lambda x: x, [x])
    assert caught.value.why.code == code


def test_the_reason_names_the_users_line():
    args = make_arguments("f64[n]", SIZES[0], 0)
    with pytest.raises(Refused) as caught:
        captured(branch_on_data, args)
    reason = caught.value.why
    assert reason.file.endswith("test_capture_refused.py")
    assert reason.line == branch_on_data.__code__.co_firstlineno + 1
    assert "returned" in str(reason)


def test_no_side_effect_happened():
    before = list(COUNTER)
    for function in (appends_outside, writes_outside, prints):
        assert refused(function, "f64[n]")
    assert before == COUNTER


def test_random_numbers_are_not_drawn():
    state = np.random.get_state()[1].copy()
    assert refused(uses_random, "f64[n]")
    assert np.array_equal(state, np.random.get_state()[1])


def test_functions_without_source():
    space = {}
    exec("def f(x):\n    return x + 1", space)
    for function in (space["f"], len, np.sum):
        with pytest.raises(Refused) as caught:
            capture(function, {"x": np.ones(3)})
        assert caught.value.why.code == "no_source"


def test_a_bug_of_ours_is_a_reason(monkeypatch):
    from tailorbird.capture import registry

    def broken(t, x):
        raise ZeroDivisionError("ours")

    monkeypatch.setitem(registry.FUNCTIONS, np.trace, broken)

    def uses(x):
        return np.trace(x)

    with pytest.raises(Refused) as caught:
        capture(uses, {"x": np.ones((2, 2))})
    assert caught.value.why.code == "capture_bug"
    with pytest.raises(ZeroDivisionError), knobs.scope(strict=True):
        capture(uses, {"x": np.ones((2, 2))})


def test_a_list_of_traced_values_stays_in_the_interpreter():
    def collects(x):
        found = []
        for k in range(3):
            found.append(x * k)
        return found

    args = make_arguments("f64[n]", SIZES[0], 0)
    first = show(captured(collects, args).graph)
    assert first == show(captured(collects, args).graph)
    assert len(captured(collects, args).graph.results) == 3


def deep_loops(x, y):
    for a in range(x.shape[0]):
        for b in range(x.shape[0]):
            for c in range(x.shape[0]):
                for d in range(x.shape[0]):
                    for e in range(x.shape[0]):
                        for f in range(x.shape[0]):
                            for g in range(x.shape[0]):
                                for h in range(x.shape[0]):
                                    y = y * x[a] + x[b + c - d] * x[e + f - g]
                                    x[h] += float(str(y[0]))


def test_a_refusal_in_deep_loops_keeps_its_reason():
    assert refused(deep_loops, "f64[n] f64[k]") not in ("budget", "capture_bug")


def test_loops_of_too_many_operations_are_refused():
    lines = "".join(f"        x[i] = x[i] * {k} + 1\n" for k in range(2, 300))
    function = function_of(f"def f(x):\n    for i in range(len(x)):\n{lines}", "long_body")
    assert refused(function, "f64[n]") == "too_large"
