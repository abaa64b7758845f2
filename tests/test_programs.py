"""A few hundred random programs, plain against tailored; `python -m tests.hunt` runs many more.

Each test runs programs of one seed in a row and shrinks the first one that fails. The seeds are
fixed, so that CI sees the same programs each time.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from random import Random

import numpy as np
import pytest

from tailorbird.capture import capture
from tailorbird.capture.registry import FUNCTIONS, METHODS
from tailorbird.errors import Refused
from tailorbird.ir.node import Region
from tailorbird.ir.ops import OPS
from tailorbird.ir.promote import LEGACY
from tests.hunt import check, draw, minimal
from tests.hunt_compare import difference, run
from tests.hunt_programs import Builder, Program, Statement, load
from tests.hunt_rows import GROUPS, Row
from tests.hunt_values import Spec, make_arguments

EACH = 40


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    tiers: Counter = Counter()
    for index in range(EACH):
        program, calls = draw(1000 + seed, index)
        report = check(program, calls)
        tiers[report.tier] += 1
        if report.failure:
            pytest.fail(minimal(program, calls, report.failure))
    # NumPy 1.26 promotes by value in more of them, which stay plain.
    assert tiers["native"] + tiers["opaque"] > EACH // (3 if LEGACY else 2), tiers


def test_programs_are_the_same_for_the_same_seed():
    assert draw(1, 2)[0].source == draw(1, 2)[0].source
    assert draw(1, 2)[0].source != draw(1, 3)[0].source


ROWS = [row for _, group in GROUPS.values() for row in group]
TRIES, ENOUGH = 8, 3
NEVER_CAPTURED = {"transfer"}  # between devices


def ops_of(region: Region) -> set[str]:
    """The ops of a region and of those inside it."""
    inner = [ops_of(x) for node in region.nodes for x in node.regions]
    return {node.op for node in region.nodes}.union(*inner)


def ops_drawn(row: Row) -> set[str]:
    """The ops of a few programs of one statement each."""
    found: list[set[str]] = []
    for k in range(TRIES):
        builder = Builder(Random(f"{row.text}/{k}"))
        if len(found) < ENOUGH and builder.add(row):
            program = builder.finish()
            arguments = make_arguments(program.specs, {"n": 3, "m": 4, "k": 2}, k)
            with contextlib.suppress(Refused):
                graph = capture(load(program.source), arguments).graph
                found.append(ops_of(graph.body) if graph is not None else set())
    return set().union(*found)


@pytest.mark.skipif(LEGACY, reason="NumPy 1.26 has fewer ufuncs, and more is left to it")
def test_every_op_is_drawn():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = set().union(*map(ops_drawn, ROWS))
    assert set(OPS) - found == NEVER_CAPTURED


def test_every_function_of_numpy_that_is_compiled_is_drawn():
    text = "\n".join(row.text for row in ROWS)
    names = {f.__name__ for f in FUNCTIONS if getattr(np, getattr(f, "__name__", ""), None) is f}
    assert [name for name in sorted(names | set(METHODS)) if f".{name}(" not in text] == []


def test_a_wrong_answer_is_seen():
    right = Program((Spec("x", "f8", (3,)),), (Statement("v = x + 1", "v = x + 1", ""),), "v")
    wrong = Program(right.specs, (Statement("v = x + 1.5", "v = x + 1.5", ""),), "v")
    outcomes = []
    for program in (right, wrong):
        arguments = make_arguments(right.specs, {}, Random(0).randrange(100))
        outcomes.append(run(load(program.source), arguments))
    assert difference(*outcomes, list).startswith("value: result at (0,)")
    assert not difference(outcomes[0], outcomes[0], list)
