"""Small programs with one trap each: equal to NumPy, or refused with a reason; never wrong."""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import check, refused
from test_capture_loops import SIZES


def phi_alias_read(a, b):
    if a[0] > 0:
        x = a + 0
    else:
        x = b * 1
        x[0] = 1
    return x * 2


def int_then_f32(a):
    s = 0
    for i in range(len(a)):
        s += a[i]
    return a * s


def array_dtype_changes(a):
    x = a
    for _ in range(len(a)):
        x = x // 2 + 0.5
    return x


def loop_var_as_data(a):
    for i in range(len(a)):
        a[i] = i
        a[i] += i / 3
        a[i] *= i**2


def big_int(n):
    r = 1
    for i in range(1, n):
        r *= i
    return r


def unrolled_break(n):
    for x in [1, 2, 3]:
        if x * n > 15:
            break
    return x


def unrolled_data_break(a):
    s = 0.0
    for w in [0.5, 1.0, 2.0]:
        if a[0] * w > 1:
            break
        s = s + w
    return a * s


def none_then_array(a):
    prev = None
    for i in range(len(a)):
        if prev is not None:
            a[i] += prev[0]
        prev = a * 2


def modulo_index(a):
    n = len(a)
    b = np.zeros(n)
    for i in range(n):
        b[i] = a[(i + 1) % n] - a[i - 1]
    return b


def many_returns(a):
    for i in range(a.shape[0]):
        if a[i, 0] > 100:
            return 1
        if a[i, 1] > 1.5:
            if a[i, 0] > 1.0:
                return 2
            continue
        if a[i, 0] < -50:
            break
        a[i] *= 2
    return 4


def rotates(a, steps):
    for _ in range(steps):
        x = a[0]
        y = a.copy()
        a[:-1] = y[1:]
        a[-1] = x


def swap_through_temp(a, b, steps):
    for _ in range(steps):
        t = a.copy()
        a[:] = b
        b[:] = t * 0.5


def caller_keeps_what_helper_rebinds(a, steps):
    def twice(x):
        for _ in range(steps):
            x[0] += 1
            x = x * 2
        return x

    return a + twice(a)


def operand_is_written_after_it_is_read(a):
    def bump(x):
        for i in range(len(x)):
            x[i] += 1
        return x

    v = a[:]
    return v + bump(a) * 1


def reshaped_in_loop(a, steps):
    b = (a * 1).copy()
    flat = b.reshape(-1)
    for k in range(steps):
        flat[k] = k
        b[0] += 1
    return b


def two_buffers_one_value(d, steps):
    a = d * 0.5
    b = d * 0.5
    for k in range(steps):
        a[k] = 7
        b[k] += a[k]
    return a, b


def zero_trips(a, k):
    x = 3
    s = 0.0
    for i in range(len(a), k):
        x = x + 1
        s += a[i]
    return x, s


def three_rotate(a, steps):
    x, y, z = a.copy(), a * 2, a * 3
    for _ in range(steps):
        x[0] += 1
        x, y, z = y, z, x
    return x, y, z


def conditional_swap_of_values(a):
    for i in range(len(a) - 1):
        if a[i] > a[i + 1]:
            a[i], a[i + 1] = a[i + 1], a[i]


def nested_while(a):
    n = len(a)
    i = 1
    while i < n:
        j = i
        while j > 0 and a[j - 1] > a[j]:
            t = a[j]
            a[j] = a[j - 1]
            a[j - 1] = t
            j -= 1
        i += 1


def closure_in_loop(a, s):
    scale = s
    f = lambda v: v * scale
    for i in range(len(a)):
        a[i] = f(a[i]) + i


def views_of_two_rows(m):
    for i in range(1, m.shape[0]):
        above, here = m[i - 1], m[i]
        here += above * 0.5
        above[0] = here[0]


def written_after_a_loop_may_have_replaced_it(a, b):
    v = a[::-1]
    for _ in range(len(b)):
        if b[0] > 1:
            a = v.copy()
    v[0] = 7
    return a + 0


def rebinds_what_it_goes_over(a, b):
    s = 0.0
    c, d = a * 1, b * 2
    for i, v in enumerate(c):
        c = c + 1
        s += v * i
    for v, w in zip(c, d):
        c, d = d * 0.5, c
        s += v - w
    return s


def writes_what_it_goes_over(a):
    s = 0.0
    for v in a[:4]:
        a[2] = 7
        s = s * 0.5 + v
    for i, v in enumerate(a[:3]):
        a[i + 1] = v + i
    return s


RIGHT = [
    (phi_alias_read, "f64[n] f64[n]"),
    (int_then_f32, "f32[n]"),
    (loop_var_as_data, "f64[n]"),
    (big_int, "int"),
    (unrolled_break, "int"),
    (unrolled_data_break, "f64[n]"),
    (none_then_array, "f64[n]"),
    (modulo_index, "f64[n]"),
    (many_returns, "f64[n,m]"),
    (rotates, "f64[n] int"),
    (swap_through_temp, "f64[n] f64[n] int"),
    (caller_keeps_what_helper_rebinds, "f64[n] int"),
    (operand_is_written_after_it_is_read, "f64[n]"),
    (reshaped_in_loop, "f64[n,m] int"),
    (two_buffers_one_value, "f64[n] int"),
    (zero_trips, "f64[n] int"),
    (three_rotate, "f64[n] int"),
    (conditional_swap_of_values, "f64[n]"),
    (nested_while, "f64[n]"),
    (closure_in_loop, "f64[n] float"),
    (views_of_two_rows, "f64[n,m]"),
    (array_dtype_changes, "i64[n]"),
    (rebinds_what_it_goes_over, "f64[n] f64[n]"),
    (writes_what_it_goes_over, "f64[n]"),
    (written_after_a_loop_may_have_replaced_it, "f64[n] f64[n]"),
]


@pytest.mark.parametrize(("function", "spec"), RIGHT, ids=[f.__name__ for f, _ in RIGHT])
def test_traps(function, spec):
    check(function, spec, SIZES)


def moving_view(m):
    v = m[0]
    s = 0.0
    for i in range(1, m.shape[0]):
        m[i - 1] = 5.0
        s += v.sum()
        v = m[i]
    return s


def list_in_loop(a):
    found = []
    for i in range(len(a)):
        found.append(a[i])
    return found


def opaque_in_loop(a):
    for i in range(len(a)):
        a[i] = np.trim_zeros(a).sum()


def integer_or_float(a):
    k = 1
    for i in range(len(a)):
        if a[i] > 0:
            k = 0.5
    return a * k + (k // 2)


def functions_in_a_list(a):
    steps = [lambda v: v + 1, lambda v: v * 2]
    for i in range(len(a)):
        a[i] = steps[i % 2](a[i])


LONG = ({"n": 40, "m": 33},)
REFUSED = [
    (moving_view, "f64[n,m]", "loop_shape"),
    (list_in_loop, "f64[n]", "loop_shape"),
    (opaque_in_loop, "f64[n]", "call_in_loop"),
    (integer_or_float, "f64[n]", "promotion"),
    (functions_in_a_list, "f64[n]", "data_dependent_value"),
]


@pytest.mark.parametrize(("function", "spec", "code"), REFUSED)
def test_traps_that_are_refused(function, spec, code):
    assert refused(function, spec, LONG) == code
