"""A few hundred random programs, plain against tailored; `python -m tests.hunt` runs many more.

Each test runs programs of one seed in a row and shrinks the first one that fails. The seeds are
fixed, so that CI sees the same programs each time.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tailorbird.ir.promote import LEGACY
from tests.hunt import check, draw, minimal
from tests.hunt_compare import difference, run
from tests.hunt_programs import Program, Statement, load
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


def test_a_wrong_answer_is_seen():
    right = Program((Spec("x", "f8", (3,)),), (Statement("v = x + 1", "v = x + 1", ""),), "v")
    wrong = Program(right.specs, (Statement("v = x + 1.5", "v = x + 1.5", ""),), "v")
    outcomes = []
    for program in (right, wrong):
        arguments = make_arguments(right.specs, {}, Random(0).randrange(100))
        outcomes.append(run(load(program.source), arguments))
    assert difference(*outcomes, list).startswith("value: result at (0,)")
    assert not difference(outcomes[0], outcomes[0], list)
