"""Who answers a call: the plain function while code is built, then whoever is faster."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest
from api_kit import answers, hits, is_same, native, settle, slower, until, wait

import tailorbird as tb
from tailorbird import api, events, knobs
from tailorbird.dispatch import race
from tailorbird.dispatch import tiers as tiers_module
from tailorbird.dispatch.race import LONG, NATIVE, PLAIN, Heat

X = np.linspace(-1.0, 1.0, 40)


def chain(x):
    return np.tanh(x) * 2 - x * x


def runs_of(function, action):
    """How often a Python function's own code ran while something was done."""
    runs = 0

    def profiler(frame, event, arg):
        nonlocal runs
        runs += event == "call" and frame.f_code is function.__code__

    sys.setprofile(profiler)
    try:
        action()
    finally:
        sys.setprofile(None)
    return runs


# Background and foreground


def slow_build(seconds):
    def build(*args):
        time.sleep(seconds)
        return real_build(*args)

    real_build = api._build
    return build


def test_the_first_call_does_not_wait_for_the_compiler(monkeypatch):
    monkeypatch.setattr(api, "_build", slow_build(0.5))
    tailored = tb.tailor(chain)
    start = time.perf_counter()
    for _ in range(3):
        assert is_same(tailored(X), chain(X))
    assert is_same(tailored(X.astype("f")), chain(X.astype("f"))), "another key, while one builds"
    assert time.perf_counter() - start < 0.4
    assert tailored.variants == []
    wait()
    until(lambda: len(tailored.variants) == 2)
    for _ in range(12):
        assert is_same(tailored(X), chain(X))
    assert hits(tailored)


def test_in_the_foreground_the_first_call_is_native():
    tailored = native(chain)
    assert runs_of(chain, lambda: tailored(X)) == 0
    assert hits(tailored) == 1
    with knobs.scope(background=False, race=False):
        other = tb.tailor(chain)
        other(X)
    assert hits(other) == 1


def test_warm_compiles_and_does_not_call():
    tailored = tb.tailor(chain)
    assert runs_of(chain, lambda: tailored.warm(X)) == 0
    assert len(tailored.variants) == 1
    assert tailored.warm(X) is tailored
    tailored.warm(X[:3])
    assert len(tailored.variants) == 1
    tailored.warm(X.astype("f"))
    assert len(tailored.variants) == 2
    assert hits(tailored) == 0


def test_two_threads_ask_and_one_build_happens(monkeypatch):
    def asked_by_many(x):
        return x * 3 + 1

    monkeypatch.setattr(api, "_build", slow_build(0.1))
    tailored = native(asked_by_many)
    found = []
    threads = [threading.Thread(target=lambda: found.append(tailored(X))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(is_same(x, asked_by_many(X)) for x in found)
    assert len(tailored.variants) == 1
    assert hits(tailored) == 6, "in the foreground every thread waits for native code"


def test_deterministic_gives_equal_bits_from_the_first_call():
    tailored = tb.tailor(lambda x: np.exp(x).sum() * np.sin(x), deterministic=True)
    rng = np.random.default_rng(1)
    x = rng.normal(size=100_003).astype("f")
    first = tailored(x)
    for threads in (1, 2, 1):
        with knobs.scope(threads=threads):
            assert tailored(x).tobytes() == first.tobytes()
    assert tailored(x[:100]).shape == (100,)
    tailored(x.reshape(1, -1))
    assert tailored(x).tobytes() == first.tobytes()
    assert hits(tailored) == 7


# The race


def test_a_race_runs_plain_a_few_times():
    tailored = tb.tailor(chain, background=False)
    assert runs_of(chain, lambda: settle(tailored, X)) <= 8
    (variant,) = tailored.variants
    (heat,) = variant.heats.values()
    assert heat.winner == NATIVE
    assert variant.hits >= 190
    assert min(heat.native) < min(heat.plain)


def test_a_long_call_runs_plain_once(monkeypatch):
    monkeypatch.setattr(race, "LONG", 1e-6)  # of these calls all are long, on any machine
    monkeypatch.setattr(race, "SHORT", 1e-6)
    x = np.ones(3_000_000)
    tailored = tb.tailor(chain, background=False)
    assert runs_of(chain, lambda: settle(tailored, x, calls=8)) <= 2


def test_a_variant_that_is_slower_is_not_used(monkeypatch):
    tailored = tb.tailor(chain).warm(X)
    slower(monkeypatch, tailored, 0.002)
    assert runs_of(chain, lambda: settle(tailored, X)) >= 190
    (variant,) = tailored.variants
    assert variant.hits <= 5
    told = tailored.explain(X)
    assert told.tier == "plain, which is faster here"
    assert "was not faster" in str(told)
    assert events.recent("not_faster", "chain")


def test_sizes_race_apart(monkeypatch):
    tailored = tb.tailor(chain).warm(X)
    settle(tailored, X)
    slower(monkeypatch, tailored, 0.02)
    large = np.ones(10_000)
    settle(tailored, large)
    (variant,) = tailored.variants
    assert [h.winner for _, h in sorted(variant.heats.items())] == [NATIVE, PLAIN]
    before = variant.hits
    settle(tailored, X, calls=100)
    assert variant.hits == before + 100
    assert runs_of(chain, lambda: settle(tailored, large, calls=50)) == 50
    assert tailored.explain(X).tier == "native, generic code"


def test_a_verdict_is_looked_at_again(monkeypatch):
    tailored = tb.tailor(chain).warm(X)
    with monkeypatch.context() as patched:
        slower(patched, tailored, 0.01)
        settle(tailored, X, calls=20)
    (variant,) = tailored.variants
    (heat,) = variant.heats.values()
    assert heat.winner == PLAIN
    pause = heat.pause()
    assert 1000 < pause
    variant.settle(next(iter(variant.heats)), PLAIN, 30)  # as if most of it had passed
    settle(tailored, X, calls=60)
    assert heat.winner == NATIVE
    assert heat.looks == 1
    assert variant.hits >= 20


def test_without_a_race_native_code_always_answers(monkeypatch):
    tailored = native(chain)
    tailored(X)
    assert runs_of(chain, lambda: settle(tailored, X)) == 0


def test_heat_ignores_the_first_run_and_noise():
    heat = Heat()
    times = {NATIVE: iter([9e-6, 3e-6, 2.0e-6, 2.2e-6]), PLAIN: iter([9e-6, 2.0e-6, 2.1e-6, 3e-6])}
    order = []
    while not heat.winner:
        runner = heat.next_runner()
        order.append(runner)
        heat.note(runner, next(times[runner]))
    assert order == [NATIVE] * 4 + [PLAIN] * 4
    assert heat.winner == NATIVE, "plain has to be faster by more than noise"
    heat.reopen()
    assert heat.next_runner() == NATIVE
    assert not heat.winner


def test_heat_of_long_calls_settles_at_once():
    heat = Heat()
    heat.note(NATIVE, 2 * LONG)
    assert heat.next_runner() == PLAIN
    assert heat.note(PLAIN, 9 * LONG)
    assert heat.winner == NATIVE
    other = Heat()
    other.note(PLAIN, LONG)
    other.note(NATIVE, 9 * LONG)
    assert other.winner == PLAIN


# One run for one call


def effects(x, seen):
    seen.append(x.sum())
    x += 1
    return x * 2


def writes(x, y):
    x[1:-1] += y[2:] - y[:-2]
    y *= 0.5
    return x.sum()


def test_every_call_is_one_run():
    tailored = tb.tailor(writes)
    mine, theirs = [X.copy(), X.copy()], [X.copy(), X.copy()]
    for k in range(60):
        assert is_same(tailored(*mine), writes(*theirs))
        assert is_same(mine, theirs)
        if k == 5:
            wait()
    assert hits(tailored)


def test_side_effects_happen_once():
    tailored = tb.tailor(effects, background=False)
    seen, expected = [], []
    mine, theirs = X.copy(), X.copy()
    for _ in range(40):
        assert is_same(tailored(mine, seen), effects(theirs, expected))
    assert is_same(seen, expected)
    assert is_same(mine, theirs)


def test_exceptions_of_the_plain_function_are_its_own():
    def picky(x):
        if x.shape[0] == 3:
            raise ZeroDivisionError("three")
        return x + 1

    tailored = tb.tailor(picky, background=False)
    for _ in range(30):
        assert is_same(tailored(X), X + 1)
        with pytest.raises(ZeroDivisionError, match="three"):
            tailored(X[:3])
    with pytest.raises(ZeroDivisionError) as caught:
        tailored(X[:3])
    assert caught.traceback[-1].name == "picky"


def test_the_race_and_errstate():
    tailored = tb.tailor(lambda x, y: x / y, background=False)
    zeros = np.zeros(40)
    with np.errstate(divide="raise", invalid="raise"):
        for _ in range(20):
            with pytest.raises(FloatingPointError):
                tailored(X, zeros)
    with np.errstate(all="ignore"):
        settle(tailored, X, zeros)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        tailored(X, zeros)
    assert hits(tailored)


# Limits


def test_many_kinds_of_call_end_in_plain(monkeypatch):
    monkeypatch.setattr(tiers_module, "MOST_KEYS", 3)
    tailored = native(lambda x, name: x + len(name))
    for k in range(8):
        answers(tailored, X, "n" * k)
    assert len(tailored.variants) == 3
    assert "called in more than" in str(tailored.explain(X, "other"))
    assert answers(tailored, X, "nn")


def test_variants_of_one_key_are_limited_and_earned(monkeypatch):
    monkeypatch.setattr(tiers_module, "MOST_VARIANTS", 3)
    monkeypatch.setattr(tiers_module, "EARN", 50)

    class Box:
        def __init__(self, kind):
            self.kind = kind

    tailored = native(lambda box, x: x + len(box.kind))
    boxes = [Box("k" * n) for n in range(6)]
    for box in boxes:
        answers(tailored, box, X)
    assert len(tailored.variants) == 3
    assert not answers(tailored, boxes[5], X)
    assert "none fits" in str(tailored.explain(boxes[5], X))
    for _ in range(60):
        tailored(boxes[2], X)
    answers(tailored, boxes[5], X)
    assert answers(tailored, boxes[5], X), "native answers earn another attempt"
    assert len(tailored.variants) == 3


def test_what_cannot_be_started_stays_plain(monkeypatch):
    monkeypatch.setattr(tiers_module.WORKER, "thread", None)

    def no_thread(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    tailored = tb.tailor(chain)
    for _ in range(3):
        assert is_same(tailored(X), chain(X))
    monkeypatch.undo()
    tailored(X)
    wait()
    until(lambda: tailored.variants)


def test_a_bug_inside_is_a_reason_and_not_an_exception(monkeypatch):
    def broken(*args):
        raise TypeError("a bug of ours")

    monkeypatch.setattr(api, "_build", broken)
    tailored = tb.tailor(chain, background=False)
    for _ in range(40):
        assert is_same(tailored(X), chain(X))
    assert "a bug of ours" in str(tailored.explain(X))
    strict = tb.tailor(chain, background=False)
    with knobs.scope(strict=True), pytest.raises(TypeError, match="a bug of ours"):
        strict(X)


def test_an_interrupted_build_is_tried_again(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(api, "_build", interrupted)
        tailored = native(chain)
        with pytest.raises(KeyboardInterrupt):
            tailored(X)
    tailored._tiers.build = api._build
    assert answers(tailored, X)


def test_a_refusal_that_passes_is_tried_again():
    tailored = native(lambda x, y: x + y)
    for _ in range(5):
        with pytest.raises(ValueError, match="broadcast"):
            tailored(X, X[:7])
    assert "broadcast" in str(tailored.explain(X, X[:7]))
    for _ in range(8):
        answers(tailored, X, X)
    assert answers(tailored, X, X)
    assert tailored.explain(X, X).tier == "native, generic code"


def picked_twice(x, y):
    return x[x > 0.0] + y[y > 0.0]


def test_code_that_keeps_leaving_half_way_loses_the_race():
    """The two lengths agree in the first calls; later one of them is 1, which NumPy repeats."""
    x = np.linspace(-1.0, 1.0, 200_000)
    tailored = tb.tailor(picked_twice, background=False)
    for _ in range(20):
        is_same(tailored(x, x), picked_twice(x, x))
    y = np.where(x == x.max(), x, -1.0)
    for _ in range(40):
        is_same(tailored(x, y), picked_twice(x, y))
    (variant,) = tailored.variants
    assert [heat.winner for heat in variant.heats.values()] == [PLAIN]
