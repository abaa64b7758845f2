"""The demonstration and the command line around it."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from tailorbird import cli, demo
from tailorbird.errors import UsageError

HAS_API = importlib.util.find_spec("tailorbird.api") is not None
needs_api = pytest.mark.skipif(not HAS_API, reason="tailorbird.api is not there")


def invoke(*words):
    return CliRunner().invoke(cli.app, list(words))


@pytest.mark.parametrize("function", demo.CASES, ids=lambda function: function.__name__)
def test_the_functions_of_the_demo_are_sound(function):
    result = function(*demo.CASES[function]())
    assert np.isfinite(result).all()
    assert demo.describe_error(result, result) == "exactly"


def test_a_wrong_answer_is_shown_as_such():
    x = np.linspace(1, 2, 100)
    assert demo.describe_error(x * 1.001, x).startswith("NO")
    assert demo.describe_error(x.astype("f4"), x).startswith("NO")
    assert demo.describe_error(x * (1 + 4e-16), x).startswith("to ")


def test_what_was_fused_is_described():
    class Variant:
        groups = (("mul", "add"), ("sum",))

    class Tailored:
        variants = (Variant(),)

    assert demo.describe_variants(Tailored()) == "3 ops in 2 kernels"
    assert demo.describe_variants(object()) == "stays plain"


def test_the_table_shows_every_row(capsys):
    rows = [demo.Row("softmax", 4e-3, 1e-3, 0.02, "5 ops in 1 kernel", "to 1e-07")]
    Console(width=120).print(demo.table(rows))
    shown = capsys.readouterr().out
    for text in ("softmax", "4 ms", "1 ms", "4.0x", "20 ms", "5 ops", "to 1e-07"):
        assert text in shown


def test_explanations_keep_their_brackets(capsys):
    cli._print("%2: f32[n,64] = exp %1")
    assert capsys.readouterr().out == "%2: f32[n,64] = exp %1\n"


def test_every_command_has_help():
    listed = invoke("--help").output
    for name in ("demo", "hardware", "explain", "run", "store", "bench", "knobs"):
        assert name in listed
        assert invoke(name, "--help").exit_code == 0


def test_hardware_and_knobs():
    assert "cores" in invoke("hardware").output
    assert "TAILOR_THREADS" in invoke("knobs").output


def test_store_lists_and_clears(tmp_path, monkeypatch):
    from tailorbird.assemble.objects import Entry, default_cache

    monkeypatch.setenv("TAILOR_CACHE_DIR", str(tmp_path / "cache"))
    default_cache().put("key", Entry(b"object"))
    assert "1 files" in invoke("store").output
    assert "removed 1 files" in invoke("store", "--clear").output
    assert "0 files" in invoke("store").output


def test_store_names_what_it_lists(tmp_path, monkeypatch):
    from tailorbird.assemble.objects import Entry, default_cache

    monkeypatch.setenv("TAILOR_CACHE_DIR", str(tmp_path / "cache"))
    cache = default_cache()
    for k in range(25):
        cache.put(f"key {k}", Entry(b"object" * (k % 2), {"name": f"step{k}"}))
    cache.path("key 24").write_bytes(b"nothing of ours")
    shown, everything = invoke("store").output, invoke("store", "--all").output
    assert "code     step23" in shown and "25 files" in shown and "20 shown" in shown
    assert shown.count("step") < 20 < everything.count("step") == 24
    assert "plan     step2\n" in everything and "refused" in everything


def test_run_passes_arguments_and_lists_events(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom tailorbird import events\n"
        "print('got', sys.argv[1:])\nevents.record('compiled', 'step')\n"
    )
    result = invoke("run", str(script), "--fast", "3")
    assert result.exit_code == 0
    assert "got ['--fast', '3']" in result.output
    assert "tailorbird: compiled step" in result.output


def test_arguments_by_type_and_by_expression():
    array = cli.make_argument("f32[3, 4]", {})
    assert (array.dtype, array.shape) == (np.dtype("f4"), (3, 4))
    assert cli.make_argument("np.arange(n)", {"n": 3}).tolist() == [0, 1, 2]


def test_functions_are_found_in_files_and_modules(tmp_path):
    path = tmp_path / "mine_for_explain.py"
    path.write_text("def f(x):\n    return x\n")
    assert cli.load_function(f"{path}:f")[1].__name__ == "f"
    module, function = cli.load_function("tailorbird.demo:softmax")
    assert cli.make_arguments(module, function.__name__, [])[0][0].shape == (1000, 1000)


@pytest.mark.parametrize("target", ["nothing", "no_such.py:f", "no_such_module:f", "math:nothing"])
def test_a_target_that_is_not_there_is_named(target):
    with pytest.raises(UsageError):
        cli.load_function(target)


@needs_api
@pytest.mark.parametrize("function", demo.CASES, ids=lambda function: function.__name__)
def test_demo_case_agrees(function):
    row = demo.run_case(function, seconds=0.0)
    assert not row.agrees.startswith("NO")


@needs_api
def test_explain_command():
    result = invoke("explain", "tailorbird.demo:softmax")
    assert result.exit_code == 0, result.output
    assert "softmax" in result.output


def test_arguments_can_be_named_and_have_numpys_dtypes():
    values, named = cli.make_arguments(demo, "zscore", ["float32[3]", "f8[2,2]", "axis=1"])
    assert [v.dtype.name for v in values] == ["float32", "float64"]
    assert named == {"axis": 1}


@pytest.mark.parametrize("words", [("f32[3",), ("nobody",), ("f99[3]",), ("f32[3]", "2"), ("y=1",)])
def test_arguments_that_make_no_sense_are_said(words):
    result = invoke("explain", "tailorbird.demo:zscore", *words)
    assert isinstance(result.exception, UsageError)


def test_a_misspelt_function_and_a_file_that_fails(tmp_path):
    with pytest.raises(UsageError, match="did you mean softmax"):
        cli.load_function("tailorbird.demo:sofmax")
    (tmp_path / "fails.py").write_text("import nothing_of_that_name")
    with pytest.raises(UsageError, match="line 1 of"):
        cli.load_function(f"{tmp_path / 'fails.py'}:f")
