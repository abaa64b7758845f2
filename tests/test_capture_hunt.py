"""Some hundred random programs with loops and branches: captured rightly, or refused."""

from __future__ import annotations

import pytest
from capture_kit import captured
from hunt_loops import KINDS, function_of, hunt, inputs, outcome

from tailorbird.ir.show import show

SEEDS = {"narrow": range(150), "wide": range(100), "rich": range(100)}


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind):
    counts, _ = hunt(kind, SEEDS[kind])
    assert not counts["WRONG"] and not counts["CRASH"], counts
    assert counts["right"] > len(SEEDS[kind]) / 2, counts


@pytest.mark.parametrize("seed", (1099, 1437))
def test_a_value_that_is_yielded_twice_and_taken_out_once(seed):
    assert outcome("wide", seed)[0] == "right"


def test_capturing_twice_gives_the_same_text():
    import random

    for seed in range(12):
        function = function_of(KINDS["wide"](random.Random(seed)), f"twice{seed}")
        try:
            first = show(captured(function, inputs(0)).graph)
        except Exception:  # noqa: BLE001 - refused: there is no text
            continue
        assert show(captured(function, inputs(0)).graph) == first
