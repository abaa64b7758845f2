"""What the switches promise: a pass that is left out is left out, and the answers stay; what is not
understood is said.
"""

from __future__ import annotations

import numpy as np
import pytest

import tailorbird as tb
from tailorbird import events, knobs, pipeline
from tailorbird.reasons import why

X = np.linspace(-1.0, 1.0, 12 * 16).reshape(12, 16)


def chosen(x):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            z = x[i, j]
            if z > 0.25:
                z = z + 1.0
                z = z * 3.0
            else:
                z = z * 2.0
            y[i, j] = z
    return y


def smoothed(x):
    return x[2:, 1:-1] + x[1:-1, 2:] - 4.0 * x[1:-1, 1:-1] + x[1:-1, :-2] + x[:-2, 1:-1]


def both_ways(x):
    return x @ x[0], x[:, 0] @ x


def settled(x):
    y = x.copy()
    for _ in range(x.shape[1]):
        z = (y[2:] + y[:-2]) * 0.5
        y[1:-1] = np.tanh(z)
    return y


def scattered(x):
    return x @ np.ones((x.shape[1], 64))


def of_bytes(x):
    return np.exp(np.sin(x.astype(np.uint8) / 3.0))


def chained(x):
    return x @ x.T @ x[:, 0]


PROGRAMS = {
    "select": chosen,
    "jam": smoothed,
    "sweeps": both_ways,
    "divide": settled,
    "sparse": scattered,
    "tables": of_bytes,
    "algebra": chained,
}
LARGE = np.where(np.arange(300 * 400).reshape(300, 400) % 99, 0.0, 7.0)
ARGUMENTS = dict.fromkeys(PROGRAMS, X) | dict.fromkeys(("sparse", "tables", "algebra"), LARGE)


def lowered(function, x):
    texts: dict[str, str] = {}
    pipeline.run_stages(function, {"x": x}, ["x"], "lower", texts)
    return texts["lower"]


def test_every_pass_that_can_be_left_out_has_a_program():
    assert set(PROGRAMS) == set(knobs.OPTIONAL)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_that_is_left_out_changes_code_and_no_answer(name):
    function, x = PROGRAMS[name], ARGUMENTS[name]
    with knobs.scope(parallel=0, race=False, cache=False):
        usual = lowered(function, x)
        with knobs.scope(off=name):
            assert lowered(function, x) != usual
            f = tb.tailor(function, background=False)
            found, wanted = f(x), function(x)
            assert f.variants
        assert lowered(function, x) == usual
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("variable", "value"), [("TAILOR_OFF", "nosuch"), ("TAILOR_PLANS", "maybe")]
)
def test_a_setting_that_cannot_be_read_is_the_reason(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    f = tb.tailor(chosen, background=False)
    assert np.array_equal(f(X), chosen(X))
    said = str(f.explain(X))
    assert f"{variable}={value!r}" in said and "bug" not in said


def test_a_stage_that_is_not_there_is_said(monkeypatch, capsys):
    monkeypatch.setenv("TAILOR_SHOW", "fuse,nosuch")
    tb.tailor(lambda x: x * 3.0 + 1.0, background=False)(X)
    assert "there is no stage nosuch to show; the stages are capture" in capsys.readouterr().err


def test_variables_that_are_no_switch_are_known(monkeypatch):
    monkeypatch.setenv("TAILOR_SHWO", "emit")
    assert "TAILOR_SHWO" in knobs.unknown()
    assert not {knob.variable for knob in knobs.KNOBS.values()} & set(knobs.unknown())


def test_a_call_that_does_not_fit_names_the_function():
    f = tb.tailor(chosen, background=False)
    for ask in (f.warm, f.explain, f):
        with pytest.raises(TypeError, match=r"^chosen\(\) "):
            ask(X, X)


def test_a_folder_or_a_file_that_cannot_be_used_is_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with knobs.scope(dump=tmp_path / "file"):
        assert "cannot be written" in str(tb.tailor(both_ways).explain(X))
    (tmp_path / "both_ways").mkdir()
    (tmp_path / "both_ways" / "03_rewrite.graph").write_text("graph f(garbage")
    with knobs.scope(override=tmp_path):
        said = str(tb.tailor(both_ways).explain(X))
    assert "03_rewrite.graph is no output of rewrite: line 1" in said and "bug" not in said


def test_events_read_well():
    reason = why("object_array", name="x")
    said = str(events.record("refused", "step", seconds=0.0123456, why=reason))
    assert said == f"refused step seconds=0.01235: {reason}"
