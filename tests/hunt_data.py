"""Calls on data that has a property, or has it but for one element: `python -m tests.hunt_data`.

In: `--calls N --seed S`. Out: how many calls native code answered, and every wrong answer with the
numbers that repeat it. Each function is compiled once for data with the property; each call then
keeps it, or breaks it in one place (the last one often), or in many.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from tailorbird import knobs
from tests.api_kit import hits, is_same, native, plainly

# What overflows or is lost in one order need not in another: no numbers at either end of a range.
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)
COUNT = 8192


def _broken(rng, x, values):
    """A copy with other values at a few places: the last, the first, or anywhere."""
    y = x.copy()
    for _ in range(int(rng.choice([0, 1, 1, 1, 3]))):
        at = int(rng.choice([-1, 0, rng.integers(y.size)]))
        y.flat[at] = rng.choice(values)
    return y


def _integers(rng):
    dtype = np.dtype(rng.choice(["i2", "i4", "i8", "u2", "u8"]))
    ends = np.iinfo(dtype)
    span = int(rng.choice([1, 9, 200, 4095, 4096, 4097]))
    low = int(rng.choice([0, max(-5, ends.min), ends.max - span + 1]))
    numbers = rng.integers(0, span, COUNT + int(rng.integers(9))).astype("u8")
    x = (numbers + np.uint64(low % 2**64)).astype(dtype)
    return (_broken(rng, x, np.array([ends.min, ends.max], dtype)),)


def _sparse(rng):
    x = np.where(
        rng.random((130, 260)) < rng.choice([0, 0.01, 0.2]), rng.integers(-4, 5, (130, 260)), 0.0
    )
    w = rng.integers(-4, 5, (260, 260)).astype("f8")
    if rng.random() < 0.1:
        x[int(rng.integers(130)) :] = 1
    return _broken(rng, x, SPECIAL), _broken(rng, w, (*SPECIAL, 0, 0, 0))


def _bytes(rng):
    image = rng.integers(0, 256, (96, 97), dtype="u1")
    return (image.T if rng.random() < 0.2 else image,)


def _chain(rng):
    a, b, v = (rng.integers(-3, 4, shape).astype("f8") for shape in ((40, 50), (50, 60), (60,)))
    return (
        _broken(rng, a, SPECIAL),
        _broken(rng, b, SPECIAL),
        _broken(rng, v, SPECIAL),
    )


def _square(rng):
    return tuple(_broken(rng, rng.integers(-3, 4, (40, 40)).astype("f8"), SPECIAL) for _ in "ab")


def sorted_(x):
    return np.sort(x)


def unique(x):
    return np.unique(x, return_counts=True)


def median(x):
    return np.median(x)


def places(x):
    return np.argsort(x, kind="stable")


def product(x, w):
    return x @ w


def looked_up(x):
    return np.exp(np.sin(x / 9.0)) + np.sqrt(x / 7.0)


def chain(a, b, v):
    return a @ b @ v


def total(a, b, v):
    return np.sum(a @ b, axis=1) + v[0]


def scaled(a, b):
    return np.diag(a[0]) @ b


def traced(a, b):
    return np.trace(a @ b), (a @ b)[3]


FUNCTIONS = {
    sorted_: (_integers, 4),
    unique: (_integers, 4),
    median: (_integers, 3),
    places: (_integers, 3),
    product: (_sparse, 6),
    looked_up: (_bytes, 1),
    chain: (_chain, 6),
    total: (_chain, 4),
    scaled: (_square, 3),
    traced: (_square, 3),
}


def hunt(calls: int, seed: int) -> int:
    """Runs so many calls; how many were wrong."""
    rng = np.random.default_rng(seed)
    made = {}
    names = list(FUNCTIONS)
    weights = np.array([weight for _, weight in FUNCTIONS.values()], float)
    wrong = 0
    start = time.perf_counter()
    for k in range(calls):
        function = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        args = FUNCTIONS[function][0](rng)
        key = function, *((x.dtype, x.flags.c_contiguous) for x in args)
        if key not in made:
            made[key] = native(function)
        with np.errstate(all="ignore"):
            if not is_same(made[key](*args), plainly(function, *args)):
                wrong += 1
                print(f"wrong: call {k} of seed {seed}, {function.__name__}", flush=True)
        if (k + 1) % 10_000 == 0:
            print(f"{k + 1} calls, {wrong} wrong, {time.perf_counter() - start:.0f} s", flush=True)
    answered = sum(map(hits, made.values()))
    print(f"{calls} calls, {answered} answered by native code, {wrong} wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt_data")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with knobs.scope(threads=1):
        return int(hunt(asked.calls, asked.seed) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
