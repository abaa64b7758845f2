"""Bugs that were found, each with the smallest program that showed it.

A test is named for the bug. What single functions of NumPy got wrong is in `test_bugs_numpy.py`.
"""

from __future__ import annotations

import contextlib
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.dispatch import race
from tailorbird.dispatch.race import NATIVE, PLAIN, Heat
from tailorbird.ir.promote import LEGACY
from tests.bugs_kit import agrees


def test_linspace_of_float32_is_float32():
    def ends(x):
        return np.linspace(x[0], 2, 5), np.linspace(2, np.float32(0.5), x.size)

    agrees(ends, (np.ones(3, np.float32),), (np.ones(4, np.float32),))


def test_einsum_of_one_array_without_sums_is_a_view():
    def turned(x):
        return np.einsum("ij->ji", x)

    def diagonal(x):
        return np.einsum("ii->i", x) * 2

    def written(x):
        np.einsum("ii->i", x)[...] = 0
        return x + 1

    square = np.arange(9.0).reshape(3, 3)
    agrees(turned, (square,), native=False)
    agrees(diagonal, (square,))
    agrees(written, (square,), native=False)


def test_divmod_of_arrays_is_compiled():
    def parts(x, y):
        return divmod(x, y)

    agrees(parts, (np.arange(-5.0, 5.0), np.float64(3)), (np.arange(4.0), np.float64(-0.75)))


def test_a_written_reshape_keeps_its_shape():
    def doubled(y):
        out = np.repeat(y, 2)
        out[::-2] = 1
        return out

    agrees(doubled, (np.array([4, 9, 3]),))


def test_the_norm_of_an_array_of_rank_0():
    agrees(lambda x: np.linalg.norm(x), (np.array(-3),), (np.array(2.5),))


def test_a_written_argument_of_rank_0_stays_plain():
    def doubled(x, y):
        x *= 2
        return y + x

    agrees(doubled, (np.array(2.5), np.ones(3)), native=False)


def test_python_complex_takes_a_float64_literal_for_a_float():
    agrees(lambda s: s / np.float64(0.25), (1 - 0.75j,))


def test_the_reciprocal_of_small_complex_numbers():
    tiny = np.array([1e-40j, 1e-40, 0, -0.0, 1 + 1j, -0.0 - 2j, np.inf, complex(0, np.nan)])

    agrees(lambda x: x**-1, (tiny,), (tiny.astype(np.complex64),))


def test_an_empty_axis_does_not_make_strides_of_0():
    def centred(y):
        e = np.exp(y - y.max(axis=0, keepdims=True))
        e = e / e.sum(axis=0, keepdims=True)
        p = e[::-1, 2::3]
        return p - p.sum(axis=1, keepdims=True)

    agrees(centred, (np.array([[9.0]]),), (np.array([[9.0, 2.0]]),))


def test_column_stack_of_arrays_of_rank_0():
    agrees(lambda x: np.column_stack((x, x)) + 3, (np.array(2.5),))


def test_ascontiguousarray_has_an_axis():
    agrees(lambda x: np.square(np.ascontiguousarray(x)), (np.array(2.5),), (np.array(-1.0),))


def test_shapes_are_compared_item_by_item():
    def by_shape(x, y):
        assert x.shape == y.shape or x.shape != [*y.shape]
        if x.shape == y.shape:
            return x + y
        return x - 1 if x.shape < (4, 9) else x - 2

    def by_constant(x):
        return x + 1 if (x.shape, 2) == ((5,), 2) else x - 1

    five, six = np.ones(5), np.ones(6)
    agrees(by_shape, (five, five), (six, six), (five, np.ones(1)), (np.ones(3), np.ones(1)))
    agrees(by_constant, (five,), (six,), (np.ones((5, 1)),))


def test_sizes_that_are_equal_because_something_divides():
    def pooled(x):
        h, w = x.shape
        return x.reshape(h // 2, 2, w // 2, 2).max(axis=(1, 3))

    def interleaved(a, b):
        out = np.empty(a.size + b.size)
        out[::2], out[1::2] = a, b
        return out

    def haar(x):
        even, odd = x[::2], x[1::2]
        return np.concatenate([even + odd, even - odd])

    def butterfly(x):
        half = len(x) // 2
        return np.concatenate([x[:half] + x[half:], x[:half] - x[half:]])

    def heads(x, w, n=2):
        size, depth = x.shape
        parts = [p.reshape(size, n, depth // n) for p in np.split(x @ w, 3, axis=-1)]
        return parts[0] + parts[1] * parts[2]

    def rows(*shape):
        return np.arange(float(np.prod(shape))).reshape(shape)

    agrees(pooled, (rows(4, 6),), (rows(2, 8),), (rows(3, 8),), (rows(0, 2),))
    agrees(interleaved, (rows(4), rows(4)), (rows(3), rows(3)), (rows(3), rows(2)))
    agrees(interleaved, (rows(6), rows(5)), (rows(1), rows(0)), (rows(0), rows(0)))
    for function in (haar, butterfly):
        agrees(function, (rows(6),), (rows(8),), (rows(7),), (rows(2),))
    agrees(heads, (rows(4, 6), rows(6, 18)), (rows(5, 4), rows(4, 12)), (rows(5, 3), rows(3, 9)))


def test_masked_stores_of_bytes_stay_inside():
    """LLVM keeps the bits of a mask above its lanes, and takes them for lanes after a call."""

    def compared(x, out):
        np.less_equal(0.5, (x * x) // (x / x), out=out)

    with knobs.scope(race=False, cache=False):
        tailored = tb.tailor(compared, background=False)
        for n in range(1, 40):
            memory = np.full(n + 8, 7, np.uint8)
            tailored(np.ones(n), memory[:n].view(bool))
            assert memory.tolist() == [1] * n + [7] * 8
    assert tailored.variants


def test_padding_an_array_of_rank_0_is_a_copy():
    def padded(x, y):
        return np.pad(x, 1, mode="edge") + 1, np.pad(y, 2, mode="wrap")

    agrees(padded, (np.array(9), np.ones((1, 2))))


def test_one_run_that_was_interrupted_does_not_settle_a_race():
    for slow in (NATIVE, PLAIN):
        heat = Heat()
        times = {NATIVE: [4e-4] * 9, PLAIN: [2e-4] * 9}
        times[slow][1] = 5e-3
        while not heat.winner:
            runner = heat.next_runner()
            heat.note(runner, times[runner].pop(0))
        assert heat.winner == PLAIN


def test_a_first_run_that_maps_its_memory_does_not_settle_a_race():
    heat = Heat()
    times = {NATIVE: [16e-3, 14e-3, 23e-3, 23e-3], PLAIN: [25e-3] + [10e-3] * 3}
    while not heat.winner:
        runner = heat.next_runner()
        heat.note(runner, times[runner].pop(0))
    assert heat.winner == PLAIN


def test_one_long_pause_against_short_plain_runs_does_not_settle_a_race():
    heat = Heat()
    times = {NATIVE: [16e-3, 35e-3, 1e-3, 1e-3], PLAIN: [8e-3, 4e-3, 4e-3, 4e-3]}
    while not heat.winner:
        runner = heat.next_runner()
        heat.note(runner, times[runner].pop(0))
    assert heat.winner == NATIVE


def test_a_race_does_not_count_the_time_of_others_on_the_core(monkeypatch):
    def seen(wall, waited, computed):
        clock = SimpleNamespace(
            perf_counter=iter([5.0, 5.0 + wall]).__next__,
            thread_time=iter([1.0, 1.0 + computed]).__next__,
        )
        monkeypatch.setattr(race, "time", clock)
        monkeypatch.setattr(race, "waited", iter([2.0, 2.0 + waited]).__next__)
        return race.Watch().seconds()

    assert seen(wall=6e-3, waited=4e-3, computed=2e-3) == pytest.approx(2e-3)
    assert seen(wall=6e-3, waited=0.0, computed=1e-3) == pytest.approx(6e-3), "it slept"
    assert seen(wall=6e-3, waited=9e-3, computed=5e-3) == pytest.approx(5e-3), "before it began"
    monkeypatch.undo()
    assert 0 <= race.waited() <= race.waited()


def test_results_of_library_functions_have_sizes_that_are_known():
    def spectrum(x):
        return np.abs(np.fft.rfft(x * np.hanning(len(x)))) * np.arange(len(x) // 2 + 1)

    def smoothed(x, k, mode):
        kernel = np.ones(k) / k
        up, down = (np.convolve(y, kernel, mode) for y in (np.maximum(x, 0), np.minimum(x, 0)))
        return np.round(up / (1 - down), 10)

    def normals(a, b):
        n = np.cross(a, b)
        return n / np.linalg.norm(n, axis=1)[:, np.newaxis] + a

    def scaled(x):
        low, middle, high = np.percentile(x, [25, 50, 75], axis=0)
        return np.round((x - middle) / (high - low) @ np.cov(x, rowvar=False), 10)

    def running(x, k=2):
        total = np.cumsum(np.insert(x, 0, 0.0))
        return (total[k:] - total[:-k]) / k

    rows = np.random.default_rng(0).standard_normal
    agrees(spectrum, (rows(8),), (rows(9),), (rows(1),))
    for mode in ("full", "same", "valid"):
        agrees(smoothed, (rows(9), 3, mode), (rows(2), 5, mode), (rows(5), 5, mode))
    agrees(normals, (rows((5, 3)), rows((5, 3))), (rows((4, 3)), rows((1, 3))))
    agrees(normals, (rows((1, 3)), rows((1, 3))), (rows((1, 3)), rows((4, 3))))
    agrees(scaled, (rows((6, 3)),), (rows((5, 2)),), (rows((5, 1)),))
    agrees(running, (rows(7),), (rows(2),), (rows(1),), (rows(0),))


def test_a_scalar_that_an_integer_array_cannot_hold_raises():
    def stored(x, y):
        x[1:] = y.sum()
        return x + 1

    whole = np.zeros(3, np.int8)
    calls = [np.array([1.5, 2.25]), np.array([np.nan]), np.array([300.0]), np.array([127.9])]
    agrees(stored, *((whole, y) for y in calls))
    agrees(stored, *((whole, y) for y in (np.array([3, 4]), np.array([128]), np.array([-128]))))


def test_einsum_of_a_diagonal_takes_no_broadcasting():
    agrees(lambda x: np.einsum("ii->i", x * 2), (np.ones((3, 3)),), (np.ones((3, 1)),))
    agrees(lambda x: np.einsum("ii->i", x * 2), (np.ones((3, 1)),), native=False)


def test_a_reduction_into_an_array_of_another_shape_raises():
    def summed(x, out):
        np.sum(x, axis=0, out=out)
        return out

    wide, narrow = (np.ones((2, 2)), np.zeros(2)), (np.ones((2, 1)), np.zeros(2))
    agrees(summed, wide, narrow)
    agrees(summed, narrow, wide, native=False)


def test_a_list_of_variants_is_short():
    tailored = agrees(lambda x: x + 1, (np.ones(3),))
    assert repr(tailored.variants).endswith("<lambda>(x: f64[n0] C), 1 hits, 0 misses>]")


def test_einsum_with_an_ellipsis_is_compiled():
    def matrices(x, m):
        return np.einsum("...c,dc->...d", x, m), np.einsum("...ij,...jk->...ik", x, m)

    def inner(x, y):
        return np.einsum("...i,...i->...", x, y) + 1

    def rows(*shape):
        return np.arange(float(np.prod(shape))).reshape(shape)

    agrees(
        matrices, (rows(4, 5, 3), rows(3, 3)), (rows(2, 2, 4), rows(4, 4)), (rows(4), rows(4, 4))
    )
    agrees(matrices, (rows(2, 6, 3, 3), rows(6, 3, 3)), native=False)
    agrees(inner, (rows(4, 3), rows(3)), (rows(5, 2), rows(2)), (rows(3), rows(3)))
    agrees(
        inner, (rows(4, 1, 3), rows(2, 3)), (rows(4, 3), rows(4, 2)), (rows(5, 1, 2), rows(3, 2))
    )
    agrees(lambda x: np.einsum("...ij->...ji", x) * 2, (rows(2, 3, 4),), (rows(3, 4),))
    agrees(lambda x: np.einsum("...ij", x) * 2, (rows(2, 3, 4),), native=False)
    agrees(lambda x: np.einsum("..ij->ij", x), (rows(3, 4),), native=False)
    agrees(lambda x: np.einsum("...ij->i", x), (rows(3, 4),), (rows(2, 3, 4),), native=False)


def test_a_multiple_of_a_size_is_compared_with_a_number():
    def doubled(x, y):
        return np.concatenate([x, x]) * y

    agrees(
        doubled,
        (np.ones(3), np.arange(6.0)),
        (np.ones(4), np.arange(8.0)),
        (np.ones(4), np.ones(5)),
    )
    agrees(lambda x: np.concatenate([x, x]) * np.arange(6), (np.ones(3),), (np.ones(4),))


def test_a_power_of_one_half_is_a_square_root_where_numpy_says_so():
    x = np.array([-np.inf, -0.0, 4.0, np.nan, -1.0])
    agrees(lambda x: x ** np.float32(0.5), (x,), native=not LEGACY)
    agrees(lambda x: np.power(x, 0.5), (x,), (x.astype(np.float32),))


def test_an_index_above_63_bits_is_not_a_negative_one():
    calls = [(np.arange(5.0), np.array([v], np.uint64)) for v in (2, 2**64 - 1, 2**63)]
    agrees(lambda x, y: x[y[0]] + x[y][0], *calls)


def test_a_size_that_is_known_late_beside_one_that_is_zero():
    x = np.array([[0, 9]])
    agrees(lambda y: (y * 1)[1:, np.einsum("ij,jk->ik", y, y) % 2], (x,), native=False)


def test_where_must_be_bool():
    def doubled(x):
        y = x.copy()
        np.multiply(y, 2, out=y, where=y)
        return y

    agrees(doubled, (np.array([1, 0, 3]),), native=False)


def test_clip_of_complex_numbers_is_numpys():
    x = np.array([1.5 - 1.75j, complex(0.5, np.nan), 2j])
    agrees(lambda x, low: np.clip(x, low, 30497996.0), (x, 0.25 + 2j), (x, complex(0, np.nan)))


def test_an_exponent_of_rank_0_that_is_one_half_by_chance():
    x = np.array([-np.inf, -0.0, 4.0, np.nan, -1.0])
    calls = [(x, np.float64(by)) for by in (0.5, 1.5, -0.5)]
    agrees(lambda x, by: np.power(x, by), *calls)
    agrees(lambda x, by: x ** by[()], *[(x, np.array(by)) for _, by in calls])


def test_the_norm_of_complex_numbers_that_are_infinite_and_nan():
    x = np.array([[complex(np.inf, 0.5), 1 + 2j, complex(np.inf, np.nan)], [3j, 4, 1 - 1j]])
    agrees(lambda x: (np.linalg.norm(x, axis=1), np.linalg.norm(x)), (x,), (x.astype("F"),))


def test_what_a_mask_picks_in_a_loop_is_there_for_what_reads_it():
    def looked_up(places, table):
        total = np.zeros(20)
        for turn in range(20):
            found = places[places > turn]
            total[turn] = np.sum(table[found % 7] * 2)
        return total

    agrees(looked_up, (np.arange(-9, 50), np.arange(9.0)))


def test_the_sign_of_a_zero_that_is_clipped_at_zero():
    def clipped(x, low, high):
        return (
            np.clip(x, low, high),
            x.clip(-1, 0),
            x.clip(0, 1.5),
            x.clip(0),
            np.clip(x, None, -0.0),
        )

    x = np.array([-0.0, 0.0, -2.0, 3.0, np.nan, -0.0])
    for dtype in (np.float32, np.float64):
        zero = dtype(0)
        calls = [(zero, dtype(1)), (-zero, dtype(1)), (dtype(-1), -zero), (zero, -zero)]
        calls += [(np.full(6, zero), np.ones(6, dtype)), (np.full(6, -zero), np.ones(6, dtype))]
        agrees(clipped, *[(x.astype(dtype), *bounds) for bounds in calls])


def test_a_result_of_a_late_size_that_a_branch_makes():
    def moved(x):
        found = x[x > 0]
        return found + 1 if found.shape[0] > 3 else found - 1

    agrees(moved, *((np.arange(-2.0, n),) for n in (3, 6, 0, 4, 5)))


def test_averages_of_arrays_of_rank_0():
    def averages(x):
        return np.average(x, weights=abs(x) + 1), np.nansum(x)

    agrees(averages, (np.array(3.0),), (np.array(np.nan),))


def test_numbers_do_not_widen_what_select_chooses():
    def chosen(x, y):
        return np.select([x > 2, x == x], [x, 0.5]), np.select([x > 1, x < 0], [x, y], 2)

    x = np.array([-1.0, np.nan, 3.0, 2.0])
    agrees(chosen, *((x.astype(d), x) for d in (np.float32, np.float64)))
    agrees(chosen, (x.astype(np.complex64), np.arange(4)), native=False)
    agrees(lambda k: np.select([k > 2], [k], -1), (np.arange(4, dtype=np.uint8),), native=False)


def test_an_integer_made_of_an_array_without_loops_or_branches():
    x, i = np.arange(12.0).reshape(3, 4), np.array([2, 3, 1])
    calls = (x, i), (x[:2] * 1.5, i + 1), (-x, i[::-1])
    agrees(lambda x, i: int(x.sum()), *calls)
    agrees(lambda x, i: (int(i.max()), x[: int(i.min())] + 1), *calls)
    agrees(lambda x, i: np.arange(int(i.max())) * 2.0, *calls)
    agrees(lambda x, i: int(x.sum() * np.nan), (x, i), (x + np.inf, i))
    agrees(lambda x, i: np.repeat(x, int(i[0])) * 2, *calls)
    agrees(lambda x, i: int((x.astype("u8") + np.uint64(1 << 63)).max()), *calls)


def test_an_integer_of_more_than_64_bits_is_another_kind_of_call():
    f = agrees(lambda x, k: x * k, (np.ones(3), 2**70), (np.ones(3), 3))
    assert "more than 64 bits" in str(f.explain(np.ones(3), 2**70))


def test_reasons_use_the_names_that_the_caller_knows():
    def scaled(x, y):
        return x * 2 + y

    x = np.ones(3)
    for y, name in (({1}, "a set"), (Fraction(1, 2), "a Fraction")):
        with contextlib.suppress(TypeError):
            f = tb.tailor(scaled, background=False)
            f(x, y)
        text = str(f.explain(x, y))
        assert "plain" in text and name in text and "Borrowed" not in text, text


def test_a_map_of_a_reshaped_array_is_computed_before_that_array_is_written():
    def halves(x, out):
        for i in range(x.shape[0]):
            t = x[i] * 2.0
            m = t.reshape(2, -1) + 1.0
            t[0] = 100.0
            out[i] = m.sum(axis=0) * t[0]

    agrees(halves, (np.arange(40.0).reshape(5, 8), np.zeros((5, 4))))


def test_arrays_reshaped_otherwise_in_every_turn_do_not_change_under_each_other():
    def turned(x, n):
        y = x.copy()
        for i in range(n):
            a = y.reshape(2**i, -1)
            b = a[::-1] * 3.0
            y[0] += 1.0
            y[:] = (b + a).reshape(-1) - y
        return y

    agrees(turned, (np.arange(32.0), 6), (np.arange(64.0), 3), (np.arange(4.0), 0))
