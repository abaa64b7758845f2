"""Writes, views and identity: what NumPy's memory model makes of straight-line programs."""

from __future__ import annotations

import numpy as np
import pytest
from capture_kit import SIZES, captured, check, make_arguments, refused, run_captured

from tailorbird.ir.node import Argument


def slice_write(a, b):
    a[1:-1] = b[2:] + b[:-2]
    return a


def write_then_read_view(a):
    v = a[1:]
    a += 1
    return v * 2


def view_of_view(a):
    v = a[::2][1:]
    v *= 3
    return a.sum()


def overlapping(a):
    a[1:] = a[:-1]


def reversed_overlap(a):
    a[::-1] = a


def element(a, i):
    a[i] = a[0] + a[-1]
    a[-1] += 5


def row_and_column(a):
    a[0] = a[:, 0].sum()
    a[:, 1] -= a[1, 0]
    return a.T.copy()


def scalar_is_a_copy(a):
    x = a[0]
    a[0] = 7
    return x


def item_view_is_not(a):
    x = a[0:1]
    a[0] = 7
    return x * 1


def rebinding(a):
    b = a
    b = b + 1
    b += 1
    return a.sum(), b


def alias_of_argument(a):
    b = a
    b += 1
    return b


def fresh_writes(a):
    y = np.zeros(a.shape)
    y[1:] = a[1:]
    y[0] = 3
    return y


def helper_writes(a):
    def add_one(x):
        x += 1

    add_one(a)
    add_one(a[2:])
    return a * 2


def swap(a, b):
    t = a.copy()
    a[:] = b
    b[:] = t


def out_keyword(a, b):
    np.add(a, b, out=a)
    np.multiply(a, 2, a)
    np.exp(b, out=b)
    return a


def out_and_where(a, b):
    return np.sqrt(np.abs(a), out=b, where=a > 0)


def out_of_a_reduction(a, b):
    np.sum(a, axis=1, out=b)


def augmented_kinds(a):
    a -= 1
    a *= a
    a /= 2
    a **= 2
    a //= 1
    a %= 3


def integer_augmented(a):
    a += np.int64(3)
    a <<= 1
    a |= 1


def assign_casts(a):
    a[0] = 2.9
    a[1:] = a[1:] * 1.5


def float_from_int(a, k):
    a[...] = k
    a[1] = True


def broadcast_write(a, b):
    a[:] = b
    a[0:2] = b[np.newaxis]


def write_through_reshape(a):
    y = np.zeros((a.shape[0], 2))
    flat = y.reshape(-1)
    flat[::2] = a
    flat[0] = 5
    return y


def write_base_after_reshape(a):
    y = np.ones((a.shape[0], 2))
    flat = y.reshape(-1)
    y[:, 1] = a
    return flat * 2


def write_through_transpose(a):
    v = a.T
    v[0] = 9
    return a


def ravel_diagonal(a):
    y = np.zeros((a.shape[0], a.shape[0]))
    y.ravel()[:: a.shape[0] + 1] = a
    return y


def fill_method(a):
    a.fill(3)
    b = a.copy()
    b.fill(4)
    return b


def operand_order(a):
    def bump(x):
        x += 10
        return x[0]

    return a[1:] + bump(a)


def copies_do_not_share(a):
    b = a.copy()
    c = np.array(a)
    a += 1
    return b, c


def asarray_shares(a):
    b = np.asarray(a)
    b += 1
    return a.sum()


def same_value_twice(a):
    return a + 1, a + 1


def returned_after_write(a):
    y = a * 2
    z = y[1:]
    z += 1
    return y


def diagonal_then_write(a):
    d = np.diagonal(a)
    a[0, 0] = 100
    return d * 2


def masked_by_where(a):
    a[:] = np.where(a > 0, a, 0)
    return np.maximum(a, 1, out=a)


def list_of_arrays(a):
    parts = [a, a * 2]
    parts[0] += 1
    parts.append(a * 3)
    return parts[1:]


def zero_d_argument(a):
    a += 1
    a[...] = a * 2
    return a


ROWS = [
    (slice_write, "f64[n] f64[n]"),
    (write_then_read_view, "f64[n]"),
    (view_of_view, "f64[n]"),
    (overlapping, "f64[n]"),
    (reversed_overlap, "f64[n]"),
    (element, "f64[n] int"),
    (row_and_column, "f64[n,m]"),
    (scalar_is_a_copy, "f64[n]"),
    (item_view_is_not, "f64[n]"),
    (rebinding, "f64[n]"),
    (alias_of_argument, "f32[n]"),
    (fresh_writes, "f32[n]"),
    (helper_writes, "f64[n]"),
    (swap, "f64[n] f64[n]"),
    (out_keyword, "f64[n] f64[n]"),
    (out_and_where, "f64[n] f64[n]"),
    (out_of_a_reduction, "f64[n,m] f64[n]"),
    (augmented_kinds, "f64[n]"),
    (integer_augmented, "i32[n]"),
    (assign_casts, "i64[n]"),
    (float_from_int, "f32[n] int"),
    (broadcast_write, "f64[n,m] f64[m]"),
    (write_through_reshape, "f64[n]"),
    (write_base_after_reshape, "f64[n]"),
    (write_through_transpose, "f64[n,m]"),
    (ravel_diagonal, "f64[n]"),
    (fill_method, "f64[n]"),
    (operand_order, "f64[n]"),
    (copies_do_not_share, "f64[n]"),
    (asarray_shares, "f64[n]"),
    (same_value_twice, "f64[n]"),
    (returned_after_write, "f64[n]"),
    (diagonal_then_write, "f64[n,n]"),
    (masked_by_where, "f64[n]"),
    (list_of_arrays, "f64[n]"),
    (zero_d_argument, "f64[]"),
]


@pytest.mark.parametrize(("function", "spec"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_memory_is_as_numpy_has_it(function, spec):
    check(function, spec)


def test_the_argument_object_itself_is_returned():
    def same_object(a, b):
        a += 1
        return a, [b]

    args = make_arguments("f64[n] f64[n]", SIZES[0], 0)
    c = captured(same_object, args)
    first, (second,) = run_captured(c, same_object, args)
    assert first is args[0]
    assert second is args[1]
    assert isinstance(c.graph.results[0], Argument)


def test_two_equal_results_do_not_share_memory():
    args = make_arguments("f64[n]", SIZES[0], 0)
    a, b = run_captured(captured(same_value_twice, args), same_value_twice, args)
    assert not np.shares_memory(a, b)


REFUSED = [
    (lambda a: a[1:], "f64[n]", "returns_view"),
    (lambda a: a[:], "f64[n]", "returns_view"),
    (lambda a: a.T, "f64[n,m]", "returns_view"),
    (lambda a: a.reshape(-1), "f64[n,m]", "returns_view"),
    (lambda a: (a, a[0:]), "f64[n]", "returns_view"),
    (lambda a: [x := a + 1, x], "f64[n]", "returns_view"),
    (lambda a: np.where(1.5, 2.5, a[0]), "f64[n]", "returns_zero_d"),
    (lambda a: np.add(a, 1.5, out=a), "i32[n]", "numpy_raises"),
    (lambda a, b: np.add(a, b, out=a), "f64[n] f64[m,n]", "numpy_raises"),
    (lambda a: np.broadcast_to(a, (3, 5)).fill(2), "f64[n]", "numpy_raises"),
]


@pytest.mark.parametrize(("function", "spec", "code"), REFUSED)
def test_what_cannot_be_returned_or_written_is_refused(function, spec, code):
    assert refused(function, spec) == code


def grow_in_place(a, b):
    a += b


def divide_integers(a):
    a /= 2


# Shapes that are assigned


def shapes_in_a_chain(n, m):
    rows, columns = np.mgrid[0:n, 0:m]
    both = rows + columns * 1j
    rows.shape = columns.shape = both.shape = n * m
    columns[0] = 7
    return rows * 1, columns * 1, both * 2


def shape_for_all_names(a):
    x = np.zeros((a.shape[0], 2))
    y = x
    rows = x[1:]
    x.shape = -1
    y[1] = a[0]
    rows[0] = 5
    return x * 1, y + 0, rows * 1


def shape_of_a_view(a):
    x = np.zeros((4, a.shape[0]))
    top = x[:2]
    top.shape = (a.shape[0], 2)
    top += 1
    return x


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (shapes_in_a_chain, "int int"),
        (shape_for_all_names, "f64[n]"),
        (shape_of_a_view, "f64[n]"),
    ],
)
def test_a_shape_may_be_assigned(function, spec):
    check(function, spec)


def write_float_into_int(a, s):
    a[0] = s


def write_through_unknown_reshape(a):
    v = a.reshape(-1)
    v[0] = 1


def read_unknown_reshape_after_write(a):
    v = a.reshape(-1)
    a += 1
    return v * 2


def shape_of_an_argument(a):
    a.shape = (1, -1)


def shape_of_what_a_tuple_holds(a):
    x = a + 1
    pair = (x, a)
    x.shape = (1, -1)
    return pair[0] * 2


def _flatten(x):
    x.shape = -1
    return x


def shape_of_the_callers_array(a):
    x = a + 1
    y = _flatten(x)
    return x * y


def shape_of_a_transpose(a):
    x = (a + 1).T
    x.shape = -1
    return x * 2


@pytest.mark.parametrize(
    ("function", "spec", "code"),
    [
        (grow_in_place, "f64[n] f64[m,n]", "numpy_raises"),
        (divide_integers, "i32[n]", "numpy_raises"),
        (write_float_into_int, "i32[n] float", "data_dependent_value"),
        (write_through_unknown_reshape, "f64[n,m]", "reshape_alias"),
        (read_unknown_reshape_after_write, "f64[n,m]", "reshape_alias"),
        (shape_of_an_argument, "f64[n]", "attribute_write"),
        (shape_of_what_a_tuple_holds, "f64[n]", "attribute_write"),
        (shape_of_the_callers_array, "f64[n]", "attribute_write"),
        (shape_of_a_transpose, "f64[n,m]", "attribute_write"),
    ],
)
def test_writes_that_are_refused(function, spec, code):
    assert refused(function, spec) == code


def test_a_read_only_argument_is_left_to_numpy():
    x = np.ones(3)
    x.flags.writeable = False
    from tailorbird.errors import Refused

    with pytest.raises(Refused) as caught:
        captured(alias_of_argument, [x])
    assert caught.value.why.code == "numpy_raises"


def test_overlapping_arguments_that_are_written_are_refused():
    from tailorbird.errors import Refused

    x = np.ones(8)
    with pytest.raises(Refused) as caught:
        captured(swap, [x[:5], x[3:]])
    assert caught.value.why.code == "overlap"
