"""The harness of the benchmarks; no benchmark runs here."""

from __future__ import annotations

import numpy as np
import pytest

from bench import processes, race, targets, timing
from bench.__main__ import _known, parse
from bench.peers import LOADERS
from bench.suites import SUITES, products
from bench.versions.numpy_ import FUNCTIONS

MADE_UP = {"tailorbird": 1.0, "numpy": 9.0, "numba": 5.0, "jax": 1.2}


def case(function="chain", dtype="float32", shape=(10_000,), wrong=(), **times):
    rows = {
        name: {"median": time, "agrees": name not in wrong}
        for name, time in {**MADE_UP, **times}.items()
    }
    made = race.Case(function, dtype, shape)
    return {**race._identity(made), "times": rows}


def fallen_short(suite, *cases):
    return [row["what"] for row in targets.check(suite, {"cases": cases}) if not row["holds"]]


def test_figures_hold_and_fall_short():
    assert fallen_short("chain", case()) == []
    assert len(fallen_short("chain", case(tailorbird=1.3))) == 1
    assert len(fallen_short("chain", case(numpy=3.9))) == 1
    assert len(fallen_short("chain", case(tailorbird=9.5))) == 3
    assert fallen_short("overhead", case("three_ops", "float64", (10,), numba=3.0)) == [
        "three_ops float64 10: time over numba's"
    ]


def test_within_five_percent_of_the_best_is_enough_for_reductions():
    assert fallen_short("reductions", case("softmax", shape=(1000, 1000), jax=0.96)) == []
    assert len(fallen_short("reductions", case("softmax", shape=(1000, 1000), jax=0.9))) == 1


def test_a_wrong_answer_is_not_the_best():
    assert fallen_short("chain", case(jax=0.1, wrong=("jax",))) == []


def test_nothing_holds_by_absence():
    alone = case()
    del alone["times"]["tailorbird"]
    assert targets.check("chain", {"cases": [alone]}) == []
    assert targets.check("cold", {"probes": {"compile": {}}}) == []


def test_every_suite_has_figures_and_every_function_arguments():
    assert set(targets.CHECKS) == set(SUITES)
    for name, function in FUNCTIONS.items():
        shape = (4, 5, 6) if name in products.FUNCTIONS else (4, 5)
        made = race.Case(name, "float32", shape)
        assert np.isfinite(function(*race.make_arguments(made))).all()


def test_race_orders_fast_and_slow():
    small, large = np.ones(10), np.ones(100_000)
    entries = [timing.Entry("slow", np.exp, (large,)), timing.Entry("fast", np.exp, (small,))]
    times = timing.race(entries, seconds=0.02, clock="cpu")
    assert times["fast"].median < times["slow"].median
    assert times["fast"].rounds == times["slow"].rounds >= timing.MIN_ROUNDS
    assert times["fast"].calls > times["slow"].calls


def test_a_sample_begins_with_a_call_that_is_not_timed():
    calls: list[int] = []
    entry = timing.Entry("counted", lambda: calls.append(1), ())
    found = timing._sample(entry, 3, lambda: len(calls))
    assert len(calls) == 4
    assert found == pytest.approx(1e-9)


@pytest.mark.parametrize("arity", range(4))
def test_timing_loops_pass_the_arguments(arity):
    seen = []
    timing._loop(arity)(lambda *values: seen.append(values), tuple(range(arity)), 3, lambda: 0)
    assert seen == [tuple(range(arity))] * 3


def test_names_of_peers():
    assert _known(["numba"], list(LOADERS)) == ["numba", "numba fastmath"]
    assert _known(["torch"], list(LOADERS)) == ["torch.compile"]
    with pytest.raises(SystemExit, match="nonsense"):
        _known(["nonsense"], list(LOADERS))
    assert parse(["chain", "--threads", "2"]).threads == 2


def test_a_probe_runs_in_a_fresh_process():
    found = processes.measure("memory", "plain", "chain", "float64", "1000000", repeats=1)
    assert found[0]["growth_mib"] > 10
