"""Loops and branches as a caller meets them: exceptions half way, integers that outgrow 64 bits,
overlapping arguments, empty arrays, and who answers.
"""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
from api_kit import in_process

import tailorbird as tb
from tailorbird import knobs


def tailored(function):
    """Native code behind a function, without a race and without waiting."""
    with knobs.scope(race=False, cache=False):
        return tb.tailor(function, background=False)


def agrees(function, *calls, native=True):
    """Results, exceptions and arguments are those of the plain function, call by call."""
    found = tailored(function)
    for arguments in calls:
        mine, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
        assert outcome(found, mine) == outcome(function, theirs)
        for x, y in zip(mine, theirs):
            np.testing.assert_array_equal(x, y)
    assert not native or found.variants, found.explain(*calls[0])
    return found


def outcome(function, arguments):
    try:
        result = function(*arguments)
    except Exception as error:  # noqa: BLE001 - the same is expected of both
        return type(error), str(error)
    if isinstance(result, np.ndarray):
        return result.dtype, result.tolist()
    return type(result), result


def shift(x, by):
    for i in range(x.shape[0]):
        x[i] = x[i + by] + 1.0


def test_an_index_out_of_range_raises_with_the_arguments_as_numpy_leaves_them():
    x = np.arange(6.0)
    agrees(shift, (x, 0), (x, 1), (x, -2), (x, 9), (x, -20))


def look_up(x, at):
    total = 0.0
    for k in at:
        total += x[k]
        x[k] = -1.0
    return total


def test_data_that_points_outside_raises_with_the_arguments_as_numpy_leaves_them():
    x = np.arange(5.0)
    agrees(look_up, *((x, np.array(at)) for at in ([0, 3, 3], [-1, -5], [2, 5, 1], [0, -6], [])))


def squares(n):
    x = 3
    for _ in range(n):
        x = x * x - 1
    return x


def test_python_integers_may_outgrow_64_bits():
    agrees(squares, (2,), (4,), (5,), (6,), (9,), (0,))


def generator(seed, n):
    out = np.empty(n)
    state = seed
    for i in range(n):
        state = (1103515245 * state + 12345) % 2147483648
        out[i] = state / 2147483648
    return out


def test_a_random_generator_in_python_integers():
    agrees(generator, (42, 100), (1 << 40, 10), (1 << 70, 3), (7, 0))


def inverse(x, least):
    total = 0.0
    for i in range(x.shape[0]):
        d = float(x[i])
        if d > least:
            total += 1.0 / d
    return total


def test_division_by_zero_of_python_floats_raises():
    agrees(
        inverse, (np.array([1.0, 2.0]), 0.0), (np.array([1.0, 0.0, 2.0]), -1.0), (np.zeros(0), 0.0)
    )


def spirals(x, y):
    z, step, turn = np.zeros(3, complex), 0j, 0.5
    for i in range(len(x)):
        z[i % 3] += complex(x[i], y[i])
        step = step * complex(turn, i) + z[1]
        step += complex(turn, 2) if x[i] > 2 else complex(i, x[i])
    z[0] = step
    return z


def test_complex_numbers_made_from_two_parts():
    odd = np.array([-0.0, 7.0, 1.0, -0.0, 3.0])
    agrees(spirals, (np.arange(5.0), np.cos(np.arange(5.0))), (odd, -odd), (odd[:0], odd[:0]))


def truths(x):
    count, u = 0, False
    for i in range(len(x)):
        u = u != (x[i] > 1)
        v = bool(x[i] > 2)
        count += v
        count = count + u * 3 - (-v) + (v << 2)
        w = v & u
        w = w | True if i > 3 else w ^ v
        if u == v or w:
            count += 100
        x[i] = x[i] * v + u + (v < 1) + 0.5 * w
    return count


def test_arithmetic_of_python_bools_that_data_decides():
    agrees(truths, (np.arange(6.0),), (np.array([3.0, 1.0, 2.5]),), (np.zeros(0),))


def rounded(x, k):
    total = 0
    for i in range(len(x)):
        total += round(x[i]) + round(float(x[i])) * 10 + round(i) + round(k[i]) + round(total / 3)
        x[i] = total
    return total


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_round_gives_python_integers(dtype):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.7, 1e9], dtype)
    agrees(rounded, (x, np.arange(7)), (np.array([1, np.nan], dtype), np.arange(2)))
    agrees(rounded, (x[::-1], np.arange(7)), (np.array([1, np.inf], dtype), np.arange(2)))


def smooth(a, b):
    for _ in range(3):
        b[1:-1] = (a[:-2] + a[2:]) / 2
        a[1:-1] = b[1:-1]
    return a


def test_overlapping_arguments_are_left_to_numpy():
    base = np.linspace(0.0, 1.0, 12)
    agrees(smooth, (base[:10].copy(), base[2:].copy()))
    found = tailored(smooth)
    for first, second in ((slice(0, 10), slice(2, 12)), (slice(0, 8), slice(0, 8))):
        mine, theirs = base.copy(), base.copy()
        got = found(mine[first], mine[second])
        np.testing.assert_array_equal(got, smooth(theirs[first], theirs[second]))
        np.testing.assert_array_equal(mine, theirs)


def test_layouts():
    square = np.arange(30.0).reshape(5, 6)

    def rows(a):
        for i in range(1, a.shape[0]):
            a[i, ::-1] += a[i - 1, :] * 0.5
        return a.sum()

    agrees(rows, (square,), (np.asfortranarray(square),), (square[::2, ::-1],), (square[:1],))


def steps(x, limit):
    count = 0
    while x > limit:
        x = x / 2 if count % 2 else x / 3
        count += 1
        if count > 50:
            break
    else:
        count = -count
    return count, x


def test_while_with_a_way_out():
    def both(x, limit):
        count, last = steps(x[0], limit)
        x[1] = last
        return count

    agrees(both, (np.array([1e6, 0.0]), 1.0), (np.array([1e300, 0.0]), 0.0), (np.zeros(2), 1.0))


def halvings(x, y):
    turns = 0
    while not np.allclose(x, y, atol=1e-3):
        x = 0.5 * (x + y)
        turns += 1
    return (turns, x) if np.array_equal(x, y) else (-turns, x)


def test_comparisons_of_whole_arrays_decide():
    def counted(x, y):
        return halvings(x, y)[0]

    x = np.arange(4.0)
    agrees(counted, (x, x + 1.0), (x, x.copy()), (np.zeros(0), np.zeros(0)), (x, np.zeros(4)))


def settled(x, keep):
    seen = x
    while x.max() > 1.0:
        x = x * 0.5
        if keep:
            seen[0] = 9.0
    return x.sum() + seen.sum()


def test_an_argument_that_a_while_replaces():
    agrees(lambda x: settled(x, False), (np.arange(4.0),), (np.zeros(3),), (np.full(2, 1e9),))
    agrees(lambda x: settled(x, True), (np.arange(4.0),), (np.zeros(3),), native=False)


def test_threads_run_one_loop_at_once():
    def relax(a):
        for _ in range(200):
            a[1:-1] = 0.5 * (a[:-2] + a[2:])
        return a

    found = tailored(relax)
    starts = [np.random.default_rng(k).random(400) for k in range(6)]
    expected = [relax(a.copy()) for a in starts]
    results = [None] * 6

    def work(k):
        results[k] = found(starts[k].copy())

    found(starts[0].copy())
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(results, expected):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("size", (1, 5, 40))
def test_one_graph_for_all_sizes(size):
    def triangle(a):
        for i in range(a.shape[0]):
            a[i, :i] = a[:i, i] * 2.0
        return a

    found = tailored(triangle)
    found(np.ones((7, 7)))
    a = np.random.default_rng(size).random((size, size))
    np.testing.assert_array_equal(found(a.copy()), triangle(a.copy()))
    assert len(found.variants) == 1


ENDLESS = """
    import os
    import signal
    import threading
    import time
    import numpy as np
    import tailorbird as tb
    from tailorbird import knobs

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it

    def settle(x, limit):
        turns = 0
        while x[0] > limit:
            for i in range(x.shape[0]):
                x[i] = x[i] * 0.5 + 1.0
            turns += 1
        return turns

    with knobs.scope(race=False):
        tailored = tb.tailor(settle, background=False)
    x = np.full(50, 100.0)
    assert tailored(x, 3.0) == settle(np.full(50, 100.0), 3.0) and tailored.variants
    beside = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            beside.append(1)
            time.sleep(0.01)

    threading.Thread(target=count, daemon=True).start()
    sent = []

    def interrupt():
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        tailored(x, 0.0)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - sent[0] < 1.0, len(beside) > 20)
    stop.set()
    print("usable", tailored(np.full(50, 100.0), 3.0) > 0)
"""


def test_a_loop_that_never_ends_is_interrupted_and_lets_other_threads_run(tmp_path):
    assert "interrupted True True\nusable True" in in_process(tmp_path, ENDLESS)
