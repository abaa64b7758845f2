"""Bugs in what single functions of NumPy come to, each with the smallest program that showed it.

A test is named for the bug.
"""

from __future__ import annotations

import math

import numpy as np

from tailorbird.capture import capture
from tailorbird.ir import interp
from tailorbird.ir.show import show
from tests.bugs_kit import agrees


def test_a_diagonal_beyond_an_array_of_a_late_size_is_empty():
    def beyond(x):
        return np.diagonal(np.isclose(x, x), -2)

    agrees(beyond, (np.ones((1, 1), np.uint8),), (np.ones((4, 3), np.uint8),), native=False)


def test_a_range_steps_in_the_types_of_its_numbers():
    def ranges(x):
        return np.arange(np.float32(1.5), 3, 0.7) * x, np.arange(0.5, 3, np.float32(0.1))[:3] * x

    agrees(ranges, (np.ones(3),))


def test_a_dot_product_makes_numbers_wide():
    def scaled(x):
        return np.dot(x, 2), np.dot(1.5, x), np.vdot(x[0], 2)

    for kind in (np.uint64, np.float32, np.uint8, np.complex64):
        agrees(scaled, (np.ones(3, kind),))


def test_real_and_imaginary_parts_of_numbers():
    def parts(x, s):
        return np.real(2) * x, np.imag(1j) * x, np.real(s) * x, np.imag(s) + np.real(x)

    agrees(parts, (np.ones(3, np.float32), 0.5), (np.ones(2, np.uint8), np.float32(3)))


def test_what_replaces_nan_does_not_widen():
    def cleaned(x):
        return np.nan_to_num(x, nan=np.float64(0.5), posinf=2, neginf=np.int64(-3))

    agrees(cleaned, (np.array([np.nan, np.inf, -np.inf, 1], np.float32),))


def test_numbers_that_select_chooses_do_not_fit_unsigned_integers():
    def chosen(x):
        return np.select([x > 1], [2], x)

    agrees(chosen, (np.ones(3, np.uint8),), native=False)
    agrees(chosen, (np.ones(3, np.int8),))


def test_one_shift_rolls_all_axes():
    def rolled(x):
        return np.roll(x, [1], (0, 1)) + 1, np.roll(x, (1, 1), 1) + 1, np.roll(x, 2, (0, 1)) + 1

    agrees(rolled, (np.arange(12.0).reshape(3, 4),))
    agrees(lambda x: np.fft.fftshift(x), (np.array(3),), native=False)


def test_library_functions_of_an_array_of_rank_0():
    def trimmed(x):
        return np.trim_zeros(x)

    agrees(trimmed, (np.array(3),), native=False)
    agrees(lambda x: np.interp(x, [0.0, 1], [1.0, 2]), (np.array(3j),), native=False)


def test_differences_of_bools_raise():
    agrees(lambda x: np.ediff1d(x), (np.ones(3, bool),), native=False)


def test_an_element_takes_no_array_with_axes():
    def stored(x, y):
        z = x * 1
        z[0, 1] = y
        z[1, 0] -= y
        return z

    agrees(stored, (np.ones((2, 2)), np.ones(1)), native=False)
    agrees(stored, (np.ones((2, 2)), np.float32(3)))


def test_the_dot_product_with_a_number_adds_to_zeros():
    def scaled(x, s):
        return np.dot(x, s), np.dot(s, x[:1]), np.dot(x.reshape(1, -1), s)

    odd = np.array([np.nan, 0.0, -0.0, np.inf, 1])
    agrees(scaled, (odd, 0.0), (odd, -3.0), (odd, 1.5), (odd[1:], -0.0))


def test_numbers_that_scalar_types_do_not_take():
    agrees(lambda s: np.int8(s), (3.7,), (-128.5,), (128.0,), (1e300,), (np.nan,))
    agrees(lambda s: np.uint64(s), (3.7,), (2.0**63,), (-0.5,), (-1.0,), (2.0**64,))
    agrees(lambda s: np.float32(s), (3j,), native=False)
    agrees(lambda s: math.trunc(s), (np.float32(3.5),), native=False)


def test_isclose_keeps_numbers_as_they_are():
    def near(x, s):
        return np.isclose(x, 1e300), np.isclose(x, s), np.isclose(x, 2), np.isclose(s, x)

    agrees(near, (np.array([1, 2, np.inf], np.float32), 1e300), (np.ones(2, np.float32), 1.0))


def test_bins_of_nothing_are_integers():
    def binned(x, y):
        return np.bincount(x, y, minlength=2)

    agrees(binned, (np.arange(3), np.ones(3)), (np.arange(0), np.ones(0)))


def test_the_dot_product_of_one_element_is_its_product():
    def products(x, y):
        return np.dot(x, y)

    for one in ((1,), (1, 1)):
        for other in ((1,), (1, 1), (1, 2)):
            for p, q in ((0.0, -3.0), (-0.0, 3.0), (0.0, np.nan), (np.inf, 0.0)):
                x, y = np.full(one, p), np.full(other, q)
                agrees(products, (x, y))
                agrees(products, (np.full(other[::-1], q), x))


def test_what_is_broadcast_to_its_own_shape_is_read_only():
    def written(x):
        y = np.broadcast_to(x * 2, x.shape)
        y[...] = 3
        return y * 1

    def followed(x):
        z = x * 2
        y = np.broadcast_to(z, z.shape)
        z += 1
        return y * 1, np.broadcast_to(z, (1, *z.shape)) - y[1:2]

    agrees(written, (np.ones(3),), native=False)
    agrees(followed, (np.arange(3.0),))
    agrees(lambda x: np.broadcast_to(x, (2, *x.shape)) + np.broadcast_to(x, (1, 3)), (np.ones(3),))


def test_what_numpy_computes_is_all_there_when_a_branch_or_a_loop_writes_a_part_of_it():
    def by_branch(z):
        v = np.log1p(z)
        if z[0, 0].real > 0:
            v[1:] += 1
        return v

    def behind_a_loop(z):
        s = 0.0
        for k in range(len(z)):
            s = s + z[k, 0].real
        v = np.log1p(z)
        w = np.log1p(z * 2)
        v[1:] += s
        return v, w

    z = np.arange(1, 10.0).reshape(3, 3) + 1j
    for function in (by_branch, behind_a_loop):
        agrees(function, (z,), (-z,), (z[:1],))


def test_at_with_a_python_number_promotes_as_if_it_were_numpys():
    def added(x):
        np.add.at(x, [0, 1, 0], 1)
        return x * 2

    agrees(added, (np.array([2**63 + 1, 5], np.uint64),), native=False)
    agrees(added, (np.array([2**62 + 1, 5]),))
    agrees(added, (np.array([127, 5], np.int8),))


def test_complex_scalars_are_ordered_by_real_parts_whatever_the_other_part_is():
    def both(z, w):
        a, b = z[0], w[0]
        return a < b, a <= b, a > b, a >= b, a == b, a != b

    def numbers(z, k):
        a = z[0]
        plain = a < 1, a <= 0.0, a > 1j, 1 > a, a < True, True < a
        strong = np.float32(1) >= a, a < np.int64(1), np.complex64(1j) > a, a >= k
        return plain, strong, a < np.True_, np.True_ < a, np.greater(a, 1), z > 1, np.array(1.0) < a

    def branch(x, y):
        return x - y if (y * 1).max() > 0 else x * y

    parts = (np.nan, np.inf, 1.0, 0.0, -1.0)
    for kind in (np.complex64, np.complex128):
        found = [np.array([complex(a, b)], kind) for a in parts for b in parts]
        agrees(both, *((z, w) for z in found for w in found))
        agrees(both, *((z, np.arange(2, dtype=d)) for z in found for d in "fdbqFD"))
        agrees(numbers, *((z, k) for z in found for k in (np.float64(0), np.int8(1), 1)))
    agrees(branch, (np.ones(2), np.array([1, complex(np.inf, 2)])))


def test_products_that_einsum_does_not_sum_are_added_to_zeros():
    def products(x, y):
        return np.einsum("i,j->ij", x, y), np.einsum("i,i->i", x, y), np.einsum("i,->i", x, y[0])

    zeros = np.array([-0.0, 1.0, -2.0, 0.0])
    agrees(products, *((zeros.astype(kind), -zeros.astype(kind)) for kind in "fdFDi"))


def test_vdot_of_one_element_is_a_sum():
    agrees(lambda x, y: np.vdot(x[:1], y[:1]), (np.array([-0.0]), np.ones(1)), (np.ones(2),) * 2)
    agrees(lambda x: np.vdot(x[:1], x[1:2]), *((np.array([-0.0, 1], kind),) for kind in "fFD"))
    agrees(lambda x: np.vdot(x, x), *((np.arange(4).astype(kind),) for kind in "?bF"))


def test_tensordot_over_more_axes_than_there_are_raises():
    for axes in (1, 2):
        agrees(
            lambda x, n=axes: np.tensordot(x, np.ones(3), axes=n), (np.array(2.0),), native=False
        )


def test_unsigned_indices_of_64_bits_are_not_put():
    def put(x, i):
        np.put(x, i, 1)

    agrees(put, *((np.zeros(3), np.array([0, 2], kind)) for kind in ("u8", "u4", "i8")))


def test_what_goes_where_a_mask_of_all_axes_is_alone_has_one_axis_at_most():
    def alone(x, mask, y):
        x[mask] = y

    def beside(x, mask, y):
        x[mask, ...] = y

    for shape, kind in (((1, 1), (1, 1)), ((3,), (1, 3)), ((2, 2), (1, 4)), ((2, 2), (4,))):
        call = np.zeros(shape), np.ones(shape, bool), np.ones(kind)
        agrees(alone, call, native=False)
        agrees(beside, call)
    agrees(alone, (np.zeros((2, 3)), np.ones(2, bool), np.ones((1, 2, 3))))


def test_numbers_that_an_integer_array_cannot_hold_are_not_written():
    def doubled(x):
        t = x * 1
        for j in range(1, len(t)):
            t[j] += t[j - 1] * 2.0
        return t

    def first(x):
        x[0] = x[0] + x[1] * 2.0

    for kind, large in (("i4", 2**30), ("i8", 2**62), ("u4", 2**31), ("u1", 100), ("i1", -100)):
        agrees(doubled, (np.ones(5, kind),), (np.full(5, large, kind),))
        agrees(first, (np.ones(5, kind),), (np.full(5, large, kind),))


def test_floats_made_of_integers_that_cannot_hold_them_are_not_what_they_were():
    def back(x):
        i, j = x.astype(np.int32), x.astype(np.int64)
        return i.astype(np.float64) == x, j.astype(np.float64) == x, i, j

    agrees(back, (np.array([1.5, 2.0, 5e9, -3e9, 1e300, -1e30, 7.0, 8.0, 9.0]),))


def test_a_size_of_one_that_a_routine_keeps_is_not_an_eighth_of_another():
    def ranks(x):
        y = x.max(axis=1, keepdims=True)
        t = y * 0
        for j in range(len(t)):
            t[j] = np.lexsort((y[j:],))[0]
        return t

    calls = (np.arange(24).reshape(12, 2),), (np.arange(60)[::-1].reshape(30, 2),)
    agrees(ranks, *calls)
    found = capture(ranks, {"x": calls[0][0]})
    assert "floordiv" not in show(found.graph)
    for (x,) in calls:
        assert np.array_equal(interp.run(found.graph, [x]), ranks(x))


def test_a_python_bool_beside_what_may_be_a_python_number_is_none_of_numpys():
    def numbers(a, n):
        s, u = 0.5, n < 9
        if a[0] > 0:
            s = a[1]
        return s * u, u - s, a * 1

    def bools(a, n):
        s, u = False, n < 9
        if a[0] > 0:
            s = a[1] > 3
        return s * u, a * 1

    def both(a, n):
        s, u = False, n < 9
        if a[0] > 0:
            s = a[1] > 3
        return s & u, a * 1

    calls = [(np.array([x, y, 3.0]), 8) for x in (-1.0, 1.0) for y in (2.0, 4.0)]
    agrees(numbers, *calls)
    agrees(numbers, *calls[::-1])
    for function in (bools, both):
        agrees(function, *calls, native=False)


def test_complex_columns_by_rows_are_added_to_zeros():
    def outer(x, y):
        return x @ y, x @ x.swapaxes(-1, -2)

    def numbers(*shape):
        parts = np.array([0.0, -0.0, 1.0, -1.0])
        return np.random.default_rng(shape).choice(parts, (*shape, 2)).view("c16")[..., 0]

    for kind in (np.complex64, np.complex128):
        for many in ((), (2,)):
            for m, n in ((3, 4), (5, 5), (1, 4), (3, 1)):
                agrees(
                    outer, (numbers(*many, m, 1).astype(kind), numbers(*many, 1, n).astype(kind))
                )


def test_negative_powers_of_complex_numbers_have_the_zeros_of_a_quotient():
    parts = (0.0, -0.0, 1.0, -2.5, np.inf, np.nan, 1e-30)
    z = np.array([complex(a, b) for a in parts for b in parts])
    for kind in (np.complex64, np.complex128):
        calls = [(z.astype(kind), np.full(z.shape, k, kind)) for k in (-1, -2, -3, -50, 2, 5)]
        agrees(lambda x, y: np.power(x, y), *calls)


def test_a_complex_matrix_times_its_own_transpose_is_exactly_symmetric():
    def squares(x):
        return x @ x.T, x.T @ x, np.dot(x, x.T)

    parts = np.array([0.0, -0.0, 1.0, -1.0, 0.3])
    for kind in (np.complex64, np.complex128):
        for shape in ((4, 4), (3, 5), (5, 3), (40, 30)):
            x = np.random.default_rng(shape).choice(parts, (*shape, 2)).view("c16")[..., 0]
            agrees(squares, (x.astype(kind),))


def test_sums_are_taken_in_the_dtype_of_a_wider_out():
    def sums(x, y, z):
        np.sum(x, axis=0, out=y)
        np.cumsum(x, axis=0, out=z)
        return np.prod(x, axis=0, out=np.empty_like(y)), np.nansum(x, axis=0, out=np.empty_like(y))

    x = (np.arange(12.0).reshape(3, 4) / 10).astype(np.float32)
    for kind in (np.float64, np.float32, np.complex128):
        agrees(sums, (x, np.zeros(4, kind), np.zeros((3, 4), kind)))
    agrees(sums, (np.full((3, 4), 2**62), np.zeros(4), np.zeros((3, 4))))


def test_what_out_is_for_means_and_ranges_is_part_of_the_computation():
    def means(x, y):
        np.mean(x, axis=0, out=y)
        return y, np.var(x, axis=0, out=np.empty_like(y)), np.ptp(x, axis=0, out=np.empty_like(y))

    x = (np.arange(12.0).reshape(3, 4) / 10).astype(np.float32)
    agrees(means, (x, np.zeros(4)), native=False)
    agrees(lambda x, y: np.mean(x * 1, axis=0, out=y), (x[:2], np.zeros(4, np.float32)))


def test_an_out_of_another_dtype_is_refused_where_numpy_refuses_it():
    x = np.ones((3, 3))
    agrees(lambda x, y: np.dot(x, x, out=y), (x, x.astype("f4")), native=False)
    agrees(lambda x, y: np.dot(x, x, out=y), (x, np.zeros((3, 3))))
    agrees(lambda x, y: np.argmax(x, axis=0, out=y), (x, x[0] * 1), native=False)
    agrees(lambda x, y: np.argmax(x, axis=0, out=y), (x, np.zeros(3, np.int64)))
    agrees(lambda x, y: np.take(x, [0, 1], out=y), (x.astype("f4"), np.ones(2)), native=False)


def test_a_range_of_bools_has_at_most_two():
    def some(x):
        return np.arange(x.size, dtype=np.bool_), x * 2

    agrees(some, *((np.ones(n),) for n in (2, 1, 0, 3, 2)))
