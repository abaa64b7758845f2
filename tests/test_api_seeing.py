"""What can be read back: explanations, stages shown, dumped and replaced."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from api_kit import answers, in_process, is_same, native, wait

import tailorbird as tb
from tailorbird import events, knobs
from tailorbird.pipeline import STAGES

X = np.linspace(-1.0, 1.0, 24).reshape(4, 6)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sorted_step(x, w):
    return np.sort(x @ w, axis=1) * 2


# explain


def test_explaining_native_code():
    tailored = tb.tailor(softmax)
    told = str(tailored.explain(X))
    assert told.startswith("softmax: native")
    assert "max + subtract + exp + sum + divide" in told
    assert "guard     x: f64[n0,n1] C" in told
    assert re.search(r"built +[\d.]+ ms \(capture .*assemble", told)
    assert "graph softmax(%x: f64[n0,n1])" in told
    assert "test_api_seeing.py:" in told
    for _ in range(40):
        tailored(X)
    told = tailored.explain(X)
    assert re.search(r"native [\d.]+ us, plain [\d.]+ us; native answers", str(told))
    assert str(tailored.explain()) == str(told), "without arguments: the newest variant"
    assert repr(told) == str(told)


def test_explaining_what_stays_plain():
    def told_plain(x):
        return x.tolist()

    told = tb.tailor(told_plain).explain(X)
    assert told.tier == "plain"
    assert re.search(r"test_api_seeing.py:\d+: ", str(told))
    assert told.graph == ""
    assert "because" in str(told)


def test_explaining_opaque_calls():
    told = str(native(sorted_step).explain(X, np.ones((6, 3))))
    assert "numpy:sort, left to Python" in told
    assert re.search(r"product +n0 x n1 @ n1 x ", told)
    assert "runs as plain Python between compiled pieces" in told


def test_explaining_a_guard_that_misses(monkeypatch):
    from tailorbird.dispatch import tiers

    monkeypatch.setattr(tiers, "MOST_VARIANTS", 1)
    tailored = native(lambda x, y: x + y)
    assert answers(tailored, X, X[0])
    told = str(tailored.explain(X, X[0, :1]))
    assert "no compiled variant fits this call" in told
    assert "shape" in told or "hold" in told


def test_html():
    found = tb.tailor(softmax).explain(X)._repr_html_()
    assert found.startswith("<div><b>softmax</b>: native")
    assert html.escape("guard") in found
    assert "<pre>graph softmax" in found
    assert "%x: f64[n0,n1]" in found
    plain = tb.tailor(lambda x: x.tolist()).explain(X)._repr_html_()
    assert "&lt;lambda&gt;" in plain
    assert "<pre>" not in plain


def test_explaining_does_not_call():
    def explodes(x):
        assert x.shape[0] != 4, "called"
        return x * 2

    told = tb.tailor(explodes).explain(X)
    assert told.tier == "plain"
    with pytest.raises(AssertionError, match="called"):
        tb.tailor(explodes)(X)


def test_variants_can_be_read():
    tailored = native(softmax)
    tailored(X)
    (variant,) = tailored.variants
    assert variant.name.endswith("softmax")
    assert variant.groups == [["max", "subtract", "exp", "sum", "divide"]]
    assert variant.guards[0] == "x: f64[n0,n1] C"
    assert list(variant.milliseconds) == [stage.name for stage in STAGES]
    assert (variant.hits, variant.misses, variant.time) == (1, 0, {})


def test_events_tell_what_was_built():
    def built_once(x):
        return x + 1

    tailored = native(built_once)
    tailored(X)
    (event,) = events.recent("compiled", tailored.__qualname__)
    assert event.data["steps"] == 1
    assert event.data["milliseconds"] > 0


# stages


def test_show_prints_stages(capsys):
    with knobs.scope(show="capture,lower"):
        native(softmax)(X)
    shown = capsys.readouterr().err
    assert "-- capture of softmax\ngraph softmax(" in shown
    assert "-- lower of softmax\nprogram softmax" in shown
    assert "-- emit" not in shown


def test_show_reaches_builds_behind_the_caller(capsys):
    with knobs.scope(show="fuse"):
        tailored = tb.tailor(softmax)
        tailored(X)
    wait()
    assert "-- fuse of softmax" in capsys.readouterr().err


def test_dump_writes_every_stage(tmp_path):
    with knobs.scope(dump=tmp_path):
        native(softmax)(X)
    names = sorted(path.name for path in (tmp_path / "softmax").iterdir())
    assert names == [
        "01_capture.graph",
        "02_profile.facts",
        "03_rewrite.graph",
        "04_fuse.plan",
        "05_lower.kernels",
        "06_emit.ll",
        "07_assemble.s",
    ]
    assert "define ptr @entry" in (tmp_path / "softmax" / "06_emit.ll").read_text()
    assert ".globl" in (tmp_path / "softmax" / "07_assemble.s").read_text()


def scaled(x):
    return x * 2.0 + 1.0


def dumped(tmp_path, name):
    with knobs.scope(dump=tmp_path):
        native(scaled)(X)
    path = tmp_path / "scaled" / name
    text = path.read_text()
    for other in path.parent.iterdir():
        other.unlink()
    return path, text


@pytest.mark.parametrize("stage", ["01_capture.graph", "03_rewrite.graph"])
def test_an_edited_graph_replaces_the_stage(tmp_path, stage):
    path, text = dumped(tmp_path, stage)
    path.write_text(text.replace("1.0", "5.0"))
    tailored = native(scaled)
    with knobs.scope(override=tmp_path):
        assert is_same(tailored(X), X * 2.0 + 5.0)
        assert is_same(native(softmax)(X), softmax(X)), "other functions are left alone"
    assert events.recent("overridden", "scaled")


def test_edited_llvm_ir_replaces_the_stage(tmp_path):
    path, text = dumped(tmp_path, "06_emit.ll")
    two, three = "0x4000000000000000", "0x4008000000000000"
    assert two in text or "2.0" in text
    path.write_text(text.replace(two, three).replace("double 2.0", "double 3.0"))
    with knobs.scope(override=tmp_path):
        assert is_same(native(scaled)(X), X * 3.0 + 1.0)


def test_an_edit_that_does_not_parse_is_a_reason(tmp_path):
    path, text = dumped(tmp_path, "03_rewrite.graph")
    path.write_text(text.replace("multiply", "multiplicate"))
    with knobs.scope(override=tmp_path):
        tailored = native(scaled)
        assert is_same(tailored(X), scaled(X))
        assert "multiplicate" in str(tailored.explain(X))


def test_the_switches_work_from_the_environment(tmp_path):
    program = """
        import numpy as np
        import tailorbird as tb

        @tb.tailor(background=False)
        def f(x):
            return x * 2.0

        f(np.ones(3))
    """
    out = in_process(tmp_path, program, TAILOR_SHOW="capture", TAILOR_DUMP=str(tmp_path / "d"))
    assert "-- capture of f" in out
    assert (tmp_path / "d" / "f" / "06_emit.ll").exists()
    assert "-- capture" not in in_process(
        tmp_path, program, TAILOR_PLAIN="1", TAILOR_SHOW="capture"
    )
