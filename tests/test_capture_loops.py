"""Loops: one graph for all sizes that computes what the function does."""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import captured_or_skipped, check, make_arguments
from linear import late_reads

from tailorbird.ir.show import show

SIZES = (
    {"n": 9, "m": 5, "k": 3},
    {"n": 12, "m": 7, "k": 2},
    {"n": 10, "m": 6, "k": 5},
    {"n": 23, "m": 4, "k": 1},
    {"n": 1, "m": 1, "k": 1},
    {"n": 2, "m": 3, "k": 3},
    {"n": 0, "m": 2, "k": 0},
)


# Elements and slices


def running_sum(x):
    for i in range(1, len(x)):
        x[i] = x[i] + x[i - 1]


def triangular(x):
    for i in range(x.shape[0]):
        x[i, :i] = x[i, :i] * 2
        x[i, i + 1 :] = x[i, i + 1 :] - 1


def descending(x):
    out = np.zeros_like(x)
    for i in range(len(x) - 2, -1, -1):
        out[i] = out[i + 1] * 0.5 + x[i]
    return out


def last_first(x):
    total = 0.0
    for i, v in enumerate(reversed(x)):
        total = total * 0.5 + v
        x[i] = total
    return total


def every_second(x):
    for i in range(0, len(x), 2):
        x[i] += 1


def clamped_slices(x, k):
    total = 0.0
    for i in range(len(x)):
        total += x[i - 1 : i].sum() + x[i : i + k].sum() + x[-i:].sum() + x[::-1][i:].sum()
    return total


def negative_index(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[-i] + x[i - 1]
    return out


def matmul_by_hand(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for p in range(a.shape[1]):
                c[i, j] += a[i, p] * b[p, j]
    return c


def stencil(a, b, steps):
    for _ in range(steps):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        a[1:-1] = 0.5 * (b[:-2] + b[2:])


# Names


def rebinds(x, steps):
    y = x
    for _ in range(steps):
        y = y * 0.5 + x
    return y


def swaps(x, steps):
    a, b = x.copy(), np.zeros_like(x)
    for _ in range(steps):
        b[1:-1] = a[2:] + a[:-2]
        a, b = b, a
    return a


def swaps_arguments(a, b, steps):
    for _ in range(steps):
        a[1:-1] = b[2:] + b[:-2]
        a, b = b, a
    return a * 1


def starts_as_the_argument(x, steps):
    y = x
    for _ in range(steps):
        y = y + 1
        y[0] = 7
    return y


def keeps_the_last(x):
    for i in range(len(x)):
        last = x[i] * 2
    return last, i


def view_across_writes(x):
    v = x[1:]
    for i in range(len(v)):
        x[i] = v[i] + 1
    return v * 2


def row_views(x):
    for i in range(x.shape[0]):
        row = x[i]
        row[0] = i
        row += 2


def grows(x, steps):
    y = x[:1]
    for _ in range(steps):
        y = np.concatenate((y, y * 2))
    return y


def helper(x, scale):
    for i in range(len(x)):
        x[i] *= scale
    return x


def inlines(x, steps):
    for k in range(steps):
        x[:] = helper(x, 0.5) + k
    return helper(x, 2.0) * 1


# Scalars


def int_then_float(x):
    total = 0
    for i in range(len(x)):
        total += x[i]
    return total * 2


def inner_int_then_float(x):
    out = np.empty(len(x))
    for i in range(len(x)):
        total = 0
        for j in range(i):
            total += x[j]
        out[i] = total / (i + 1)
    return out


def weak_float(x, s):
    total = 0.5
    for i in range(len(x)):
        total = total * s + i
    return x * total


def counts(x, steps):
    k = 0
    for i in range(steps):
        k += i * 2 + 1
    return x * k


def flags(x):
    found = False
    for i in range(len(x)):
        found = found or x[i] > 1
    return x + 1 if len(x) else x * found


def all_kinds(x):
    a, b, c = 0, 1.5, 1j
    for i in range(len(x)):
        a, b, c = a + 1, b + x[i], c * x[i]
    return x * a + b, c


# Over arrays


def over_rows(x):
    total = 0.0
    for row in x:
        total += row.sum()
    return total


def over_enumerate(x):
    out = np.zeros(len(x))
    for i, value in enumerate(x):
        out[i] = value * i
    return out


def over_zip(x, y):
    total = 0.0
    for a, b in zip(x, y):
        total += a * b
    for i, (a, b) in enumerate(zip(x, y), 1):
        total += a * b * i
    return total


def backwards(x):
    total = 1.0
    for i in reversed(range(len(x))):
        total = total * 0.5 + x[i]
    return total


# Positions that data decides


def histogram(b, x):
    h = np.zeros(10)
    for i in range(min(len(b), len(x))):
        h[b[i]] += x[i]
    return h


def counts_bytes(b):
    h = np.zeros(256, dtype=np.int64)
    for i in range(len(b)):
        h[b[i]] += 1
    return h


def sparse_product(start, column, value, x):
    y = np.zeros(len(start) - 1)
    for i in range(len(start) - 1):
        total = 0.0
        for j in range(start[i] % 4, start[i + 1] % 4):
            total += value[j] * x[column[j] % 3]
        y[i] = total
    return y


def data_slice(x, b):
    lo = b[0] % 3
    return x[lo : lo + 2].sum() + x[b[1] :].sum()


def crc(data):
    crc = 0xFFFF
    for b in data:
        crc ^= int(b)
        for _ in range(8):
            if crc & 1:
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
    return crc


def scalar_index(x, i):
    return x[i[0] % 3]


def int_of_data(x):
    return x[int(abs(x[0]))] + int(x[1])


def polygon(x):
    k = np.argmax(x)
    return x[k] + x[np.argmin(x)] + k


ROWS = [
    (running_sum, "f64[n]"),
    (triangular, "f64[n,n]"),
    (descending, "f64[n]"),
    (last_first, "f64[n]"),
    (every_second, "f64[n]"),
    (clamped_slices, "f64[n] int"),
    (negative_index, "f64[n]"),
    (matmul_by_hand, "f64[n,m] f64[m,k]"),
    (stencil, "f64[n] f64[n] int"),
    (rebinds, "f32[n] int"),
    (swaps, "f64[n] int"),
    (swaps_arguments, "f64[n] f64[n] int"),
    (starts_as_the_argument, "f64[n] int"),
    (keeps_the_last, "f64[n]"),
    (view_across_writes, "f64[n]"),
    (row_views, "f64[n,m]"),
    (grows, "f64[n] int"),
    (inlines, "f64[n] int"),
    (int_then_float, "f32[n]"),
    (inner_int_then_float, "f64[n]"),
    (weak_float, "f32[n] float"),
    (counts, "f64[n] int"),
    (flags, "f64[n]"),
    (all_kinds, "f64[n]"),
    (over_rows, "f64[n,m]"),
    (over_enumerate, "f64[n]"),
    (over_zip, "f64[n] f64[n]"),
    (backwards, "f64[n]"),
    (histogram, "i64[n] f64[n]"),
    (counts_bytes, "u8[n]"),
    (sparse_product, "u32[n] u32[n] f64[n] f64[n]"),
    (data_slice, "f64[n] i64[n]"),
    (crc, "u8[n]"),
    (scalar_index, "f64[n] i64[n]"),
    (int_of_data, "f64[n]"),
    (polygon, "f64[n]"),
]


@pytest.mark.parametrize(("function", "spec"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_control_flow_means_what_python_means(function, spec):
    check(function, spec, SIZES)


COPIES = {"swaps", "all_kinds", "starts_as_the_argument"}
LINEAR = [row for row in ROWS if row[0].__name__ not in COPIES]


@pytest.mark.parametrize(("function", "spec"), LINEAR, ids=[f.__name__ for f, _ in LINEAR])
def test_a_version_is_read_before_the_next_is_made(function, spec):
    graph = captured_or_skipped(function, make_arguments(spec, SIZES[0], 0)).graph
    assert not late_reads(graph), show(graph)
