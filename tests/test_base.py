"""The four files that everything else stands on: errors, knobs, reasons, events."""

from __future__ import annotations

import string
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tailorbird
from tailorbird import errors, events, knobs
from tailorbird.reasons import REASONS, why


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for knob in knobs.KNOBS.values():
        monkeypatch.delenv(knob.variable, raising=False)


def test_defaults():
    assert knobs.get("threads") == 0
    assert knobs.get("cache") is True
    assert knobs.get("plain") is False
    assert knobs.get("show") == ()
    assert knobs.get("dump") is None
    assert knobs.get("target") == ""


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("threads", "2", 2),
        ("cache", "off", False),
        ("plain", "1", True),
        ("show", "rewrite, emit,", ("rewrite", "emit")),
        ("dump", "/tmp/x", Path("/tmp/x")),
        ("dump", "", None),
        ("target", " haswell", "haswell"),
    ],
)
def test_environment_and_scope_read_alike(monkeypatch, name, text, value):
    with knobs.scope(**{name: text}):
        assert knobs.get(name) == value
    monkeypatch.setenv("TAILOR_" + name.upper(), text)
    assert knobs.get(name) == value


def test_scopes_nest_and_end(monkeypatch):
    monkeypatch.setenv("TAILOR_THREADS", "5")
    with knobs.scope(threads=1, race=False):
        with knobs.scope(threads=3):
            assert knobs.get("threads") == 3
            assert knobs.get("race") is False
        assert knobs.get("threads") == 1
    assert knobs.get("threads") == 5


def test_scope_is_per_thread():
    seen = []
    with knobs.scope(threads=7):
        thread = threading.Thread(target=lambda: seen.append(knobs.get("threads")))
        thread.start()
        thread.join()
    assert seen == [0]


def test_scope_ends_after_an_exception():
    with pytest.raises(ZeroDivisionError), knobs.scope(threads=9):
        _ = 1 // 0
    assert knobs.get("threads") == 0


@pytest.mark.parametrize("values", [{"thread": 1}, {"threads": -1}, {"cache": "maybe"}])
def test_bad_knobs_are_named(values):
    with pytest.raises(errors.UnknownKnob, match=next(iter(values))), knobs.scope(**values):
        pass


def test_bad_environment_is_named(monkeypatch):
    monkeypatch.setenv("TAILOR_THREADS", "many")
    with pytest.raises(errors.UnknownKnob, match="TAILOR_THREADS='many'"):
        knobs.get("threads")


def test_key_holds_what_changes_code():
    with knobs.scope(target="haswell", threads=3, off=["jam"], parallel=9):
        assert knobs.key() == "off=('jam',) target='haswell' parallel=9"


def test_every_knob_is_described():
    rows = knobs.describe()
    assert len(rows) == len(knobs.KNOBS)
    assert all(doc.endswith(".") for *_, doc in rows)


@pytest.mark.parametrize("code", REASONS)
def test_every_reason_reads_as_a_sentence(code):
    names = {field for part in REASONS[code] for _, field, _, _ in string.Formatter().parse(part)}
    details = {name: f"<{name}>" for name in names if name}
    reason = why(code, file="step.py", line=4, **details)
    assert str(reason).startswith("step.py:4: ")
    assert all(f"<{name}>" in str(reason) for name in details)
    assert "?" not in str(reason)
    assert reason == why(code, file="step.py", line=4, **details)


def test_a_reason_survives_missing_details():
    assert str(why("no_source")).startswith("the source of ? cannot be read; ")


def test_unknown_reason_is_our_bug():
    with pytest.raises(AssertionError, match="nonsense"):
        why("nonsense")


def test_refused_carries_its_reason():
    reason = why("generator", name="f")
    error = errors.Refused(reason)
    assert error.why is reason
    assert str(error) == str(reason)
    assert isinstance(error, errors.TailorbirdError)


def test_every_exception_is_drawn_in_the_tree():
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert name in (errors.__doc__ or ""), name


def test_parse_error_shows_the_line_with_a_caret():
    error = errors.ParseError("no such op", "%0 = a\n%1 = frob %0", 2, 6)
    assert str(error) == "line 2: no such op\n    %1 = frob %0\n         ^"


def test_events_are_kept_and_heard():
    events.clear()
    heard: list[events.Event] = []
    with events.listening(heard.append):
        events.record("compiled", "step", ms=7)
        events.record("fused", "other")
    events.record("compiled", "later")
    assert [event.function for event in events.recent("compiled")] == ["step", "later"]
    assert [event.kind for event in heard] == ["compiled", "fused"]
    assert events.recent(function="step")[0].data == {"ms": 7}


def test_the_ring_is_bounded():
    events.clear()
    for number in range(events.CAPACITY + 10):
        events.record("tick", n=number)
    assert len(events.recent()) == events.CAPACITY
    assert events.recent()[0].data["n"] == 10


def test_a_failing_listener_is_dropped():
    events.clear()
    calls = []

    def fail(event):
        calls.append(event)
        raise RuntimeError("no")

    with events.listening(fail):
        events.record("one")
        events.record("two")
    assert len(calls) == 1
    assert [event.kind for event in events.recent()] == ["one", "listener_failed", "two"]


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = tailorbird.nonsense


def test_import_loads_nothing_heavy():
    heavy = "llvmlite scipy rich typer torch numba"
    code = f"import sys, tailorbird; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
