"""Running captured graphs against the functions they came from.

A program is a function and a line that says its arguments: `f64[n,m] f32[m] float int`. It is
captured once, at the first sizes; the graph is then run at those and at other sizes and values, and
must give what the plain function gives: values, dtypes, shapes, Python types, written arguments.
"""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from functools import partial

import numpy as np
import pytest

from tailorbird import knobs
from tailorbird.capture import capture
from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir.interp import run
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.show import show
from tailorbird.ir.types import LONG

SIZES = (
    {"n": 5, "m": 4, "k": 3},
    {"n": 7, "m": 6, "k": 2},
    {"n": 4, "m": 3, "k": 5},
    {"n": 12, "m": 9, "k": 1},
    {"n": 1, "m": 1, "k": 1},
    {"n": 2, "m": 0, "k": 3},
    {"n": 0, "m": 2, "k": 0},
)
TOKEN = re.compile(r"([a-z]+[0-9]*)(?:\[([^\]]*)\])?")


def draw(dtype, shape, rng):
    """Ordinary values of a dtype: small, of both signs, never zero for floats."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    values = rng.uniform(0.1, 2.0, shape) * np.where(rng.random(shape) < 0.5, -1, 1)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-2.0, 2.0, shape)
    return np.asarray(values).astype(dtype)


def one_argument(token, sizes, rng):
    name, dims = TOKEN.fullmatch(token).groups()
    if name in ("float", "complex"):
        x = float(rng.uniform(0.5, 2.0))
        return x if name == "float" else complex(x, 0.5)
    if name == "int":
        return int(rng.integers(2, 4))
    if dims is None:
        return draw(LONG[name], (), rng)[()]
    shape = tuple(int(d) if d.isdigit() else sizes[d] for d in dims.split(",") if d)
    return draw(LONG[name], shape, rng)


def make_arguments(spec, sizes, seed):
    rng = np.random.default_rng(seed)
    return [one_argument(token, sizes, rng) for token in spec.split()]


def named(function, args):
    """Arguments by parameter name, as the dispatcher will hand them over."""
    bound = inspect.signature(function).bind(*args)
    bound.apply_defaults()
    return dict(bound.arguments)


def captured(function, args):
    with knobs.scope(strict=True):
        return capture(function, named(function, args))


def captured_or_skipped(function, args):
    """NumPy 1.26 promotes scalars by value, which is refused: those programs are skipped there."""
    try:
        return captured(function, args)
    except Refused as error:
        if LEGACY and error.why.code == "promotion":
            pytest.skip("NumPy 1.26 promotes by value here")
        raise


def run_captured(c, function, args):
    """The graph's results for arguments, found by the paths that capture recorded."""
    by_name = named(function, args)
    values = [source.find(function, by_name, c.constants) for source in c.sources]
    return run(c.graph, values)


def same(a, b, exact=False):
    """Equal as results: structure, Python type, dtype, shape and value."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if type(a) is not type(b):
        return False
    if not isinstance(a, (np.ndarray, np.generic, float, complex)):
        return a == b
    if np.shape(a) != np.shape(b) or np.asarray(a).dtype != np.asarray(b).dtype:
        return False
    if np.asarray(a).dtype.kind in "biu":
        return np.array_equal(a, b)
    tolerance = 1e-5 if np.asarray(a).dtype in (np.float32, np.complex64) else 1e-12
    return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def plain(function, args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args)


def must_leave(c, function, args):
    """Where plain Python raises, the graph leaves by a guard, or the opaque call raises."""
    with pytest.raises(Exception) as caught:
        run_captured(c, function, args)
    assert not isinstance(caught.value, AssertionError), f"{caught.value}\n{show(c.graph)}"


def check(function, spec, sizes=SIZES):
    """Captures at the first sizes and compares at all; the number of other sizes that ran."""
    args = make_arguments(spec, sizes[0], 0)
    kept = copy.deepcopy(args)
    c = captured_or_skipped(function, args)
    assert same(args, kept), "capture changed an argument"
    assert show(c.graph) == show(captured(function, args).graph)
    others = 0
    for seed, at in enumerate(sizes):
        args = make_arguments(spec, at, seed)
        mine = copy.deepcopy(args)
        try:
            expected = plain(function, args)
        except Exception:  # noqa: BLE001 - whatever plain Python raises
            must_leave(c, function, mine)
            continue
        try:
            found = plain(partial(run_captured, c, function), [mine])
        except GuardMissed:
            assert seed, f"a guard fails for the captured call\n{show(c.graph)}"
            continue
        others += seed > 0
        assert same(expected, found), f"{expected!r}\n{found!r}\n{show(c.graph)}"
        assert same(args, mine), f"written arguments differ\n{show(c.graph)}"
    return c, others


def refused(function, spec, sizes=SIZES):
    """The code of the reason why a program is not captured."""
    args = make_arguments(spec, sizes[0], 0)
    try:
        captured(function, args)
    except Refused as error:
        assert error.why.file, "a reason without a place"
        if LEGACY and error.why.code == "promotion":
            pytest.skip("NumPy 1.26 promotes by value here")
        return error.why.code
    return None
