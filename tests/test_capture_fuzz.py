"""Random straight-line programs with views, aliases, writes and helpers, against plain NumPy.

Every program is written to a file, imported, captured at one size and run at several; results, who
shares memory with whom among them, and the arguments afterwards must be as plain NumPy has them.
"""

from __future__ import annotations

import copy
import importlib.util
import random

import numpy as np
import pytest
from capture_kit import captured, plain, run_captured, same

from tailorbird.errors import GuardMissed, Refused

HEADER = """import numpy as np

def bump(v):
    v += 1
    return v

def fresh(v, w):
    t = v * 2
    t[0] = w[0]
    return t

def pick(v):
    return v[::-1]

def both(v, w):
    w[:] = v
    return w, v + w

"""
EXPRESSIONS = (
    "{a} + {b}",
    "{a} - {b} * 2",
    "np.maximum({a}, {b})",
    "{a} * {a}.sum()",
    "np.where({a} > {b}, {a}, {b})",
    "{a}.copy()",
    "{a}",
    "{a}[::-1]",
    "np.asarray({a})",
    "pick({a})",
    "bump({a})",
    "fresh({a}, {b})",
    "np.concatenate([{a}[1:], {b}[:1]])",
    "np.roll({a}, 1)",
    "{a} + bump({b})",
    "np.cumsum({a}) / n",
    "np.stack([{a}, {b}])[k % 2]",
    "np.full(n, s) + {a}",
    "({a}[:, None] * {b}).sum(axis=0)",
    "{a}.reshape(1, -1).T[:, 0]",
)
STATEMENTS = (
    "{a} += {b}",
    "{a}[1:] = {b}[:-1]",
    "{a}[0] = {b}[-1] * s",
    "{a}[::2] *= 3",
    "{a}[:] = {b}",
    "{a}, {c} = {b}, {a}",
    "{c} = {a}[1:]; {c} -= {b}[1:]; {c} = {b}",
    "np.add({a}, {b}, out={a})",
    "_, {c} = both({a}, {b})",
    "{a}[k] = k",
    "{a} = {a} if n > 4 else {b}",
    "for i in range(2): {a} = {a} + {b} * i",
)
NAMES = ("x", "y", "p", "q", "r")


def program(seed: int) -> str:
    """The text of one function f(x, y, s, k)."""
    rng = random.Random(seed)
    lines = [
        "def f(x, y, s, k):",
        "    n = len(x)",
        "    p = x * 2",
        "    q = y",
        "    r = p[::-1]",
    ]
    for _ in range(rng.randint(2, 9)):
        names = {key: rng.choice(NAMES) for key in "abc"}
        if rng.random() < 0.5:
            target = rng.choice(NAMES[2:] if rng.random() < 0.8 else NAMES)
            lines.append(f"    {target} = " + rng.choice(EXPRESSIONS).format(**names))
        else:
            lines.append("    " + rng.choice(STATEMENTS).format(**names))
    kept = rng.sample(NAMES, rng.randint(1, 3))
    shown = [f"{n} * 1" if rng.random() < 0.5 else n for n in kept]
    lines.append(f"    return {', '.join(shown)}, {kept[0]}.sum()")
    return HEADER + "\n".join(lines) + "\n"


def load(text: str, folder, name: str):
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def arguments(size: int, seed: int):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=size), rng.normal(size=size), float(rng.normal()), int(rng.integers(3))]


def sharing(results, args):
    """Which pairs of arrays share memory."""
    arrays = [x for x in (*results, *args) if isinstance(x, np.ndarray)]
    return [np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i]]


def run_one(seed: int, folder) -> str:
    f = load(program(seed), folder, f"program_{seed}")
    try:
        c = captured(f, arguments(5, seed))
    except Refused as error:
        assert error.why.code != "capture_bug"
        return error.why.code
    for k, size in enumerate((5, 6, 9)):
        args = arguments(size, seed + k)
        mine = copy.deepcopy(args)
        expected = plain(f, args)
        try:
            found = run_captured(c, f, mine)
        except GuardMissed:
            assert k, "a guard fails for the captured call"
            continue
        assert same(expected, found), program(seed)
        assert same(args, mine), program(seed)
        assert sharing(expected, args) == sharing(found, mine), program(seed)
    return "right"


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block, tmp_path):
    found = [run_one(seed, tmp_path) for seed in range(50 * block, 50 * block + 50)]
    assert found.count("right") >= 15, found
