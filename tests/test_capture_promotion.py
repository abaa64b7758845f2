"""Promotion: random operators and functions over every dtype, NumPy scalars and Python scalars.

One expression a program. What plain NumPy computes must be captured with the same dtype and value,
or refused; what plain NumPy rejects must be refused.
"""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest
from capture_kit import captured, draw, plain, run_captured, same

from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir.types import LONG

BINARY = "+ - * / // % ** < <= == != > & | ^ <<"
FUNCTIONS = "add multiply maximum minimum fmax arctan2 hypot copysign power remainder"
UNARY = "negative absolute sqrt exp tanh floor sign square isnan conjugate logical_not"
REDUCTIONS = "sum prod mean var std min max any all argmax cumsum"
LITERALS = "2 -3 1.5 True 200 2j np.float32(1.5) np.int8(3) np.bool_(True)"
COUNT = 60


def word(rng: random.Random, words: str) -> str:
    return rng.choice(words.split())


def expression(rng: random.Random) -> str:
    first = rng.choice(("a", "b", "c", "s", "k"))
    second = rng.choice(("a", "b", "c", "s", "k", word(rng, LITERALS)))
    form = rng.randrange(6)
    if form <= 1:
        return f"{first} {word(rng, BINARY)} {second}"
    if form == 2:
        return f"np.{word(rng, FUNCTIONS)}({first}, {second})"
    if form == 3:
        return f"np.{word(rng, UNARY)}({first})"
    if form == 4:
        return f"np.{word(rng, REDUCTIONS)}({rng.choice('ab')}, axis={rng.choice((0, 1, -1))})"
    return f"np.where(a == a, {first}, {second})"


def program(seed: int) -> str:
    rng = random.Random(seed)
    rows = ["import numpy as np", ""]
    for k in range(COUNT):
        rows += [f"def f{k}(a, b, c, s, k):", f"    return {expression(rng)}", ""]
    return "\n".join(rows)


def arguments(seed: int):
    rng = np.random.default_rng(seed)
    a, b, c = (LONG[rng.choice(list(LONG))] for _ in range(3))
    scalar = draw(c, (), rng)[()]
    weak = complex(1.5, 2.0) if seed % 5 == 0 else float(rng.uniform(0.5, 2.0))
    return [draw(a, (3, 4), rng), draw(b, (4,), rng), scalar, weak, int(rng.integers(0, 5))]


def compare(function, args) -> str:
    try:
        expected = plain(function, args)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        with pytest.raises((Refused, GuardMissed)):
            run_captured(captured(function, args), function, args)
        return type(error).__name__
    try:
        c = captured(function, args)
        found = run_captured(c, function, args)
    except (Refused, GuardMissed) as error:
        return getattr(getattr(error, "why", None), "code", "guard")
    assert same(expected, found), (expected, found)
    return "right"


def run_block(seed: int, folder) -> dict[str, int]:
    path = folder / f"promotion_{seed}.py"
    path.write_text(program(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counts: dict[str, int] = {}
    for k in range(COUNT):
        function = getattr(module, f"f{k}")
        args = arguments(seed * COUNT + k)
        try:
            code = compare(function, args)
        except Exception as error:
            line = path.read_text().splitlines()[function.__code__.co_firstlineno]
            kinds = [getattr(x, "dtype", type(x).__name__) for x in args]
            raise AssertionError(f"{line} with {kinds}") from error
        counts[code] = counts.get(code, 0) + 1
    return counts


@pytest.mark.parametrize("seed", range(6))
def test_random_expressions_over_all_dtypes(seed, tmp_path):
    counts = run_block(seed, tmp_path)
    assert counts["right"] >= COUNT // 4, counts
