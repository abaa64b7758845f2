"""Some hundred random programs with loops and branches: captured rightly, or refused."""

from __future__ import annotations

import ast
import contextlib
import re

import pytest
from capture_kit import captured
from hunt_loops import KINDS, hunt, inputs, outcome, program

from tailorbird.capture import live, loops, peeling
from tailorbird.capture.attempt import Attempt
from tailorbird.errors import Refused
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


def text_of(kind, seed):
    """The text of a program's graph, or the reason why there is none. Constants are named by when
    they were met, by an attempt that was abandoned too: here they are numbered as they stand.
    """
    try:
        text = show(captured(program(kind, seed), inputs(0, kind)).graph)
    except Refused as refused:
        return refused.why.code
    names = dict.fromkeys(re.findall(r"%constant\w*", text))
    numbers = {name: f"%c{k}" for k, name in enumerate(names)}
    return re.sub(r"%constant\w*", lambda found: numbers[found.group()], text)


@pytest.mark.parametrize("kind", KINDS)
def test_capturing_twice_gives_the_same_text(kind):
    for seed in range(12):
        assert text_of(kind, seed) == text_of(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_an_abandoned_attempt_leaves_nothing(kind, monkeypatch):
    expected = [text_of(kind, seed) for seed in range(40)]
    original = loops.settled

    def second(t, *how, **more):
        before = Attempt(t)
        with contextlib.suppress(Refused):
            original(t, *how, **more)
        before.abandon()
        return original(t, *how, **more)

    monkeypatch.setattr(loops, "settled", second)
    monkeypatch.setattr(peeling, "settled", second)
    for seed, text in enumerate(expected):
        assert text_of(kind, seed) in (text, "budget"), seed


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_names_are_kept_it_is_the_same_or_refused(kind, monkeypatch):
    def everything(tree):
        names = frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
        statements = [s for s in ast.walk(tree) if isinstance(s, ast.stmt)]
        return live.Liveness(
            names, dict.fromkeys(statements, names), dict.fromkeys(statements, names)
        )

    monkeypatch.setattr(live, "_analysed", everything)
    words = [outcome(kind, seed)[0] for seed in range(60)]
    assert not {"WRONG", "CRASH"} & set(words)
    assert words.count("right") > 20
