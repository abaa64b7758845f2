"""Loops that run inside of the map in them: the points outside, the turns inside, in order."""

from __future__ import annotations

import inspect
import linecache
import zlib

import numpy as np
import pytest
from api_kit import answers, hits, native

from tailorbird import knobs
from tailorbird.assemble import pool
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import Loop, inner_steps
from tailorbird.pipeline import run_stages

R = np.random.default_rng(7)


def filtered(x, y):
    for j in range(2, x.shape[1]):
        y[:, j] = 0.3 * x[:, j] + 0.2 * x[:, j - 1] + 0.5 * y[:, j - 1] - 0.25 * y[:, j - 2]


def filtered_backward(x, y):
    for j in range(x.shape[1] - 3, -1, -1):
        y[:, j] = 0.3 * x[:, j + 1] + 0.2 * x[:, j + 2] + 0.5 * y[:, j + 1] - 0.25 * y[:, j + 2]


def thomas(a, b, c, d, x):
    n = a.shape[1]
    for k in range(1, n):
        w = a[:, k] / b[:, k - 1]
        b[:, k] -= w * c[:, k - 1]
        d[:, k] -= w * d[:, k - 1]
    x[:, -1] = d[:, -1] / b[:, -1]
    for k in range(n - 2, -1, -1):
        x[:, k] = (d[:, k] - c[:, k] * x[:, k + 1]) / b[:, k]


def planes(u, v, keep):
    for k in range(1, u.shape[2]):
        keep[:] = u[:, :, k] - 0.5 * v[:, :, k - 1]
        v[:, :, k] = keep * 0.5 + u[:, :, k - 1]


def carried_in_one_place(x, last):
    for k in range(x.shape[1]):
        last[:] = x[:, k] - 0.5 * last
        x[:, k] = last * 2.0


def inner_planes(u, v):
    for k in range(1, u.shape[2] - 1):
        v[1:-1, 1:, k] = v[1:-1, 1:, k - 1] + u[2:, :-1, k] - u[:-2, 1:, k + 1]


def with_a_row(x, weights, y):
    for j in range(1, x.shape[1]):
        y[:, j] = y[:, j - 1] * weights[j] + x[:, j] * j


def mixed(x, y):
    n = x.shape[0]
    for j in range(1, n):
        y[:, j] = x[j, :] - 0.5 * y[:, j - 1] + x[:, j]


def mixed_back(x, y, z):
    for j in range(x.shape[0] - 2, -1, -1):
        y[j, :] = x[:, j] * y[j + 1, :] + z[:, j]


def replaced_ahead(x):
    for j in range(x.shape[1] - 2):
        x[:, j] = x[:, j + 1] * 0.5 + x[:, j + 2] - x[:, j]


def four_back(x):
    for j in range(4, x.shape[1]):
        x[:, j] = x[:, j] - x[:, j - 4] + 0.5 * x[:, j - 3]


def running_or(flags, out):
    for j in range(1, flags.shape[1]):
        out[:, j] = flags[:, j] ^ out[:, j - 1]


def running_whole(x, out):
    for j in range(1, x.shape[1]):
        out[:, j] = np.maximum(x[:, j] // 3, out[:, j - 1] - 1)


def narrow(x, out):
    for j in range(1, x.shape[1]):
        out[:, j] = x[:, j] + out[:, j - 1] * np.float32(0.5)


def five_back(x):
    for j in range(5, x.shape[1]):
        x[:, j] = x[:, j] - x[:, j - 5]


def forty_back(x):
    for j in range(40, 80):
        x[:, j] = x[:, j - 40] * 2.0 + x[:, j - 1]


def neighbours_too(x):
    for j in range(1, x.shape[1]):
        x[1:, j] = x[1:, j] + x[:-1, j - 1]


def turned_over(x):
    for j in range(1, x.shape[1]):
        x[:, j] = x[::-1, j - 1] * 0.5


def one_for_all(x, s):
    for j in range(x.shape[1]):
        s[0] = s[0] * 0.5 + 1.0
        x[:, j] = x[:, j] * s[0]


def from_the_first(x):
    for j in range(x.shape[1]):
        x[:, j] = x[:, j] + x[:, 0]


def strided_turns(x, y):
    for j in range(2, x.shape[1], 2):
        y[:, j] = x[:, j] + y[:, j - 2]


def along_rows(x):
    for i in range(1, x.shape[0]):
        x[i] = x[i] + x[i - 1]


def until(x, y):
    for j in range(1, x.shape[1]):
        y[:, j] = y[:, j - 1] + x[:, j]
        if y[0, j] > 3.0:
            break


def matrix(n, m):
    return R.standard_normal((n, m))


def two(n, m):
    return matrix(n, m), matrix(n, m)


def cubes(n, m):
    return R.standard_normal((n, 5, m)), R.standard_normal((n, 5, m))


def diagonal(n, m):
    return matrix(n, m), matrix(n, m) + 9.0, matrix(n, m), matrix(n, m), matrix(n, m)


def bools(n, m):
    return R.random((n, m)) < 0.5, R.random((n, m)) < 0.5


def whole(ty):
    return lambda n, m: tuple(R.integers(-99, 99, (n, m)).astype(ty) for _ in range(2))


# function, its arguments for points and turns, stages with turns, loops that are left
CASES = [
    (filtered, two, 1, 0),
    (filtered_backward, two, 1, 0),
    (thomas, diagonal, 2, 0),
    (planes, lambda n, m: (*cubes(n, m), matrix(n, 5)), 1, 0),
    (carried_in_one_place, lambda n, m: (matrix(n, m), R.random(n)), 1, 0),
    (inner_planes, cubes, 1, 0),
    (with_a_row, lambda n, m: (matrix(n, m), R.random(m), matrix(n, m)), 1, 0),
    (mixed, lambda n, m: two(n, n), 1, 0),
    (mixed_back, lambda n, m: (*two(n, n), matrix(n, n)), 1, 0),
    (replaced_ahead, lambda n, m: (matrix(n, m),), 1, 0),
    (four_back, lambda n, m: (matrix(n, m),), 1, 0),
    (running_or, bools, 1, 0),
    (running_whole, whole("i4"), 1, 0),
    (running_whole, whole("i2"), 1, 0),
    (narrow, lambda n, m: tuple(x.astype("f4") for x in two(n, m)), 1, 0),
    (forty_back, lambda n, m: (matrix(n, 80 + m),), 1, 0),
    (five_back, lambda n, m: (matrix(n, m),), 0, 1),
    (neighbours_too, lambda n, m: (matrix(n, m),), 0, 1),
    (turned_over, lambda n, m: (matrix(n, m),), 0, 1),
    (one_for_all, lambda n, m: (matrix(n, m), R.random(1)), 0, 1),
    (from_the_first, lambda n, m: (matrix(n, m),), 0, 1),
    (strided_turns, two, 0, 1),
    (along_rows, lambda n, m: (matrix(n, m),), 0, 1),
    (until, two, 0, 1),
]
NAMES = [f"{f.__name__}{k}" for k, (f, *_) in enumerate(CASES)]
POINTS = (13, 1, 3, 4, 9, 16, 31)
TURNS = (17, 3, 4, 5, 6, 8, 10, 33)


@pytest.mark.parametrize("function, make, turned, left", CASES, ids=NAMES)
def test_points_outside_and_turns_inside(function, make, turned, left):
    f = native(function)
    for n in POINTS:
        for m in TURNS:
            answers(f, *make(n, m))
    assert hits(f) > len(POINTS) * len(TURNS) // 2
    assert shape(function, make(13, 17)) == (turned, left)


@pytest.mark.parametrize("function, make, turned, left", CASES, ids=NAMES)
def test_no_point_no_turn_and_numbers_that_are_none(function, make, turned, left):
    f = native(function)
    answers(f, *make(13, 17))
    for n, m in ((0, 17), (13, 0), (13, 1), (13, 2), (0, 0), (1, 1)):
        try:
            answers(f, *make(n, m))
        except IndexError:
            with pytest.raises(IndexError):
                f(*make(n, m))
    arguments = make(13, 17)
    for x in arguments:
        if x.dtype.kind == "f":
            x.flat[3 % x.size], x.flat[x.size // 2], x.flat[-1] = np.nan, np.inf, -0.0
    answers(f, *arguments)


def test_arguments_that_overlap():
    f, base = native(filtered), matrix(14, 20)
    answers(f, *two(13, 17))
    for x, y in ((base, base), (base[1:], base[:-1]), (base[:, 1:], base[:, :-1])):
        mine = base.copy()
        views = [mine[tuple(slice(*s) for s in window(v, base))] for v in (x, y)]
        f(*views)
        theirs = base.copy()
        filtered(*(theirs[tuple(slice(*s) for s in window(v, base))] for v in (x, y)))
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def window(view, base):
    """The slices that make a view of a matrix."""
    offset = (view.ctypes.data - base.ctypes.data) // base.itemsize
    starts = divmod(offset, base.shape[1])
    return [(s, s + n) for s, n in zip(starts, view.shape, strict=True)]


@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (1, 2), (-1, 1), (1, -1), (-1, -1), (3, -2)])
def test_arguments_in_any_layout(steps):
    for function in (filtered, filtered_backward, mixed):
        f = native(function)
        for order in "CF":
            x, y = (np.asarray(matrix(60, 60), order=order)[:: steps[0], :: steps[1]] for _ in "ab")
            n = min(x.shape)
            answers(f, x[:n, :n], y[:n, :n])
            answers(f, x[:n, :n], matrix(n, n))
            answers(f, matrix(n, n), y[:n, :n])
        assert hits(f)


def shape(function, arguments):
    """How many nests have turns, and how many loops are left."""
    names = list(inspect.signature(function).parameters)
    program = run_stages(function, dict(zip(names, arguments)), names, "lower").program
    steps = list(inner_steps(program.steps))
    stages = [stage for s in steps if isinstance(s, Nest) for stage in s.stages]
    loops = sum(isinstance(s, Loop) for s in steps)
    return sum(stage.turns is not None for stage in stages), loops


TERMS = (
    "x[1:-1, {j}]",
    "x[:-2, {j}]",
    "y[1:-1, {j}]",
    "z[{j}, 1:-1]",
    "c[{j}]",
    "keep[1:-1]",
    "{j}",
)


def drawn(seed):
    """The source of a random program: loops over columns, and statements between them."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.4:
            lines.append("    " + statement(rng, ["0", "1", "n - 2", "n - 1"]))
        back = rng.random() < 0.5
        near = ["j", "j + 1", "j + 2", "j - 1"] if back else ["j", "j - 1", "j - 2", "j + 1"]
        turns = "range(n - 3, 1, -1)" if back else "range(2, n - 2)"
        lines.append(f"    for j in {turns}:")
        lines += ["        " + statement(rng, near) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.5:
        lines.append("    " + statement(rng, ["0", "n - 2"]))
    return "def f(x, y, z, c, keep):\n    n = c.shape[0]\n" + "\n".join(lines) + "\n"


def statement(rng, near):
    """What is stored at one column, out of columns near it; the first of them is its own."""
    terms = []
    for _ in range(rng.integers(2, 6)):
        term = TERMS[rng.choice(len(TERMS), p=(0.2, 0.1, 0.35, 0.1, 0.1, 0.1, 0.05))]
        terms.append(f"{rng.choice((0.5, 0.25, -0.5))} * {term.format(j=rng.choice(near))}")
    target = rng.choice(("y[1:-1, {j}]", "y[1:-1, {j}]", "keep[1:-1]", "z[{j}, 1:-1]"))
    return target.format(j=near[0]) + " = " + " + ".join(terms)


@pytest.mark.parametrize("seed", range(32))
def test_random_loops(seed):
    f = native(compiled(drawn(seed)))
    for n in (21, 6, 5, 4, 12, 16, 33):
        for ty in ("f8", "f4"):
            x, y, z = (R.random((n, n)).astype(ty) for _ in "xyz")
            answers(f, x, y, z, R.random(n).astype(ty), R.random(n).astype(ty))
    assert hits(f)


def test_most_random_loops_are_turned_inside_out():
    squares, rows = [matrix(9, 9) for _ in "xyz"], [R.random(9), R.random(9)]
    assert sum(shape(compiled(drawn(seed)), [*squares, *rows])[0] for seed in range(32)) > 20


def compiled(source):
    name = f"<loop {zlib.crc32(source.encode())}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {}
    exec(compile(source, name, "exec"), space)
    return space["f"]


def sweeps(x, y, last):
    y[:, 0] = x[:, 0]
    last[:] = 0.5
    for j in range(1, x.shape[1]):
        last[:] = last * 0.5 + x[:, j]
        y[:, j] = y[:, j - 1] + last
    last[:] = last * 2.0
    for j in range(x.shape[1] - 2, -1, -1):
        last[:] = last - y[:, j]
        y[:, j] = y[:, j + 1] * 0.5 + last
    x[:, 0] = last


def shifted_sweeps(x, y):
    for j in range(1, x.shape[1]):
        y[:, j] = y[:, j - 1] * 0.5 + x[:, j]
    for j in range(1, x.shape[1]):
        x[1:, j] = x[1:, j - 1] * 0.5 + y[:-1, j]


def test_loops_over_the_same_points_are_stages_of_one_nest():
    for function, make, nests in (
        (sweeps, lambda n, m: (*two(n, m), R.random(n)), 1),
        (shifted_sweeps, two, 2),
    ):
        names = list(inspect.signature(function).parameters)
        program = run_stages(function, dict(zip(names, make(13, 17))), names, "lower").program
        assert [isinstance(s, Nest) and s.turns for s in program.steps] == [True] * nests
        f = native(function)
        for n in POINTS:
            for m in TURNS:
                answers(f, *make(n, m))
        answers(f, *make(5, 1))
        answers(f, *make(0, 9))
        assert hits(f)


def test_threads_share_the_points():
    arguments = two(400, 200)
    names = list(inspect.signature(filtered).parameters)
    program = run_stages(filtered, dict(zip(names, arguments)), names, "lower").program
    (nest,) = program.steps
    assert nest.turns and nest.schedule.vector == nest.rows[0].name
    with knobs.scope(parallel=0, threads=4):
        pool.refresh()
        f = native(filtered)
        for n, m in ((400, 200), (3, 50), (9, 9), (65, 7)):
            answers(f, *two(n, m))
        assert hits(f)
    pool.refresh()
