"""Programs at one thread and at two, and what their nests touch."""

from __future__ import annotations

import copy
import inspect
import signal
import time
import warnings

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import knobs
from tailorbird.assemble import pool
from tailorbird.ir.expr import evaluate
from tailorbird.ir.scope import sizes_of
from tailorbird.lower.kernel import Nest
from tailorbird.lower.steps import Loop, bodies
from tailorbird.pipeline import run_stages

R = np.random.default_rng(5)
N = 13


@pytest.fixture(autouse=True)
def everything_is_divided():
    with knobs.scope(parallel=0, race=False, cache=False, strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    pool.refresh()


def at_threads(count, f, arguments):
    """What a call returns or raises, and its arguments afterwards, with so many threads."""
    with knobs.scope(threads=count):
        pool.refresh()
        mine = copy.deepcopy(arguments)
        try:
            return f(*mine), mine
        except (IndexError, ValueError, ZeroDivisionError, OverflowError) as error:
            return type(error), mine


def same(f, arguments, plain, close):
    """One thread and two agree to the bit, and with the plain function up to rounding."""
    with np.errstate(all="ignore"):
        one, *others = (at_threads(count, f, arguments) for count in (1, 2, 2))
        for other in others:
            assert equal(one, other)
        assert close(at_threads(1, plain, arguments), one)


def equal(a, b):
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and (a == b or (a != a and b != b))


def square():
    return R.random((N, N))


def program_of(function, arguments):
    """A lowered program, and the sizes of the call by symbol."""
    names = list(inspect.signature(function).parameters)
    work = run_stages(function, dict(zip(names, arguments)), names, "lower")
    return work.program, sizes_of(work.graph, work.values)


def turns(steps, known):
    """Every nest with values of the variables around it: at the first, a middle and the last."""
    for step in steps:
        if isinstance(step, Nest):
            yield step, known
        elif isinstance(step, Loop):
            ends = (evaluate(x, known) for x in (step.start, step.stop))
            values = range(*ends, step.step)
            picked = {values[k] for k in (0, len(values) // 2, -1)} if values else ()
            for value in picked:
                yield from turns(step.body, known | {step.var: value})
        else:
            for inside in bodies(step):
                yield from turns(inside, known)


def places(position, nest, axis, part, known):
    """The elements at a position, over the points of a nest with one axis cut to a part of it."""
    found = np.array([evaluate(position.offset, known)])
    for a in (*nest.rows, *nest.inner):
        if a is not axis and position.stride(a.name) == 0:
            continue
        points = np.arange(evaluate(a.extent, known))
        points = points[part] if a is axis else points
        found = np.add.outer(found, points * evaluate(position.stride(a.name), known)).ravel()
    return set(found.tolist())


def is_interrupted(function, first, call):
    """A call that takes for ever, on two threads, ends with an interrupt."""
    f = tb.tailor(function, background=False)
    f.warm(*first)
    with knobs.scope(threads=2):
        pool.refresh()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            f(*call)
        assert time.perf_counter() - start < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
