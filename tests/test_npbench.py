"""The runner of NPBench on a made-up checkout; nothing about times is held."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.__main__ import main
from bench.npbench import answers, figures, runner, summary
from bench.npbench.cell import Job
from bench.npbench.checkout import Tolerance, all_programs, choose, find_program

INITIALISE = (
    "import numpy as np\n\ndef initialize(n):\n    return np.arange(float(n)), np.ones(n)\n"
)
SCALE = "import numpy as np\n\ndef kernel(n, x, y):\n    y += 2 * x\n    return (x * y).sum()\n"
WALK = """import numpy as np

def walk(x):
    if x.sum() > 0:
        x[0] = len(open(__file__).read())
    return x
"""


def add_program(root, name, source, arguments, written):
    folder = root / "npbench" / "benchmarks" / "kind" / name
    folder.mkdir(parents=True)
    info = {
        "name": name,
        "short_name": name[:3],
        "relative_path": f"kind/{name}",
        "module_name": name,
        "func_name": "walk" if name == "walk" else "kernel",
        "parameters": {"S": {"n": 20}, "M": {"n": 3000}},
        "init": {"func_name": "initialize", "input_args": ["n"], "output_args": ["x", "y"]},
        "input_args": arguments,
        "array_args": ["x", "y"],
        "output_args": written,
    }
    (root / "bench_info").mkdir(exist_ok=True)
    (root / "bench_info" / f"{name}.json").write_text(json.dumps({"benchmark": info}))
    (folder / f"{name}.py").write_text(INITIALISE)
    (folder / f"{name}_numpy.py").write_text(source)
    return folder


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "suite"
    add_program(root, "scale", SCALE, ["n", "x", "y"], ["y"])
    add_program(root, "walk", WALK, ["x"], ["x"])
    return root


def plan(checkout, tmp_path, peers=("numpy", "tailorbird"), **options):
    programs = options.pop("programs", None) or all_programs(checkout)
    options = {"seconds": 0.01, "timeout": 60.0, **options}
    return runner.Plan(checkout, programs, ["S"], list(peers), tmp_path / "kept", **options)


def test_the_command_writes_results(checkout, tmp_path, capsys):
    words = ["npbench", "--checkout", str(checkout), "--presets", "S,M", "--seconds", "0.01"]
    words += ["--peers", "numpy,tailorbird", "--scratch", str(tmp_path / "kept")]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "npbench.json").read_text()
    results = json.loads(text)
    assert str(tmp_path) not in text
    assert results["means"]["M"]["tailorbird"]["right"] == 2
    entry = {(e["program"], e["preset"]): e for e in results["programs"]}["scale", "S"]
    assert entry["own"]["whole"] and entry["own"]["second_first_ms"] > 0
    assert {"S: right answers", "M: compiled whole"} <= {row["what"] for row in results["targets"]}
    assert "| scale |" in (tmp_path / "out" / "npbench.md").read_text()
    before = capsys.readouterr().out
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert "scale S numpy" in before
    assert "scale S numpy" not in capsys.readouterr().out, "measured again"


def test_a_crash_and_a_hang_cost_one_cell(checkout, tmp_path):
    crash = "import os\n\ndef kernel(n, x, y):\n    os.abort()\n"
    hang = "import time\n\ndef kernel(n, x, y):\n    time.sleep(1000)\n"
    raising = "def kernel(n, x, y):\n    raise ValueError('no')\n"
    for name, source in (("crash", crash), ("hang", hang), ("raising", raising)):
        add_program(checkout, name, source, ["n", "x", "y"], [])
    made = plan(checkout, tmp_path, ["numpy"], timeout=5.0)
    rows = {row["program"]: row for row in runner.run(made, say=lambda text: None)}
    assert rows["crash"]["status"] == "crashed" and "SIGABRT" in rows["crash"]["reason"]
    assert rows["hang"]["status"] == "timeout"
    assert rows["raising"] == {
        "program": "raising",
        "preset": "S",
        "peer": "numpy",
        "version": "plain",
        "status": "failed",
        "reason": "ValueError: no",
    }
    assert rows["scale"]["status"] == rows["walk"]["status"] == "right"


def test_an_interrupted_run_goes_on(checkout, tmp_path):
    said = []
    runner.run(plan(checkout, tmp_path, ["numpy"]), said.append)
    kept = tmp_path / "kept" / "cells-1.jsonl"
    lines = kept.read_text().splitlines()
    kept.write_text(lines[0] + "\n" + lines[1][:40])
    runner.run(plan(checkout, tmp_path, ["numpy"]), said.append)
    assert [line.split()[0] for line in said] == ["scale", "walk", "walk"]
    runner.run(plan(checkout, tmp_path, ["numpy"], seconds=0.02), said.append)
    assert len(said) == 5, "other seconds are another measurement"


def test_what_is_written_is_set_back(checkout, tmp_path):
    rows = runner.run(plan(checkout, tmp_path), say=lambda text: None)
    own = {row["program"]: row for row in rows if row["peer"] == "tailorbird"}
    assert own["scale"]["status"] == own["walk"]["status"] == "right"
    assert own["scale"]["max_error"] <= 1e-15


def test_threads_are_limited_before_numpy_is_imported(checkout, tmp_path):
    alone = "assert len(os.listdir('/proc/self/task')) == 1"
    source = f"import os\n\ndef kernel(n, x, y):\n    y[0] = 5\n    {alone}\n"
    add_program(checkout, "threads", source, ["n", "x", "y"], ["y"])
    program = find_program(checkout, "threads")
    row = runner.run(plan(checkout, tmp_path, ["numpy"], programs=[program]), say=len)[0]
    assert row["status"] == "right", row


def test_programs_by_either_name(checkout):
    assert [p.name for p in choose(checkout, ["wal"])] == ["walk"]
    with pytest.raises(SystemExit, match="nonsense"):
        choose(checkout, ["nonsense", "walk"])
    with pytest.raises(SystemExit, match="no checkout"):
        all_programs(checkout / "npbench")
    assert find_program(checkout, "scale").tolerance == Tolerance()


X, Y = np.arange(4.0), np.ones(3)
ALLOWED = Tolerance()


def found(returned=(), written=None, handed_back=()):
    return answers.Answers(list(returned), list(handed_back), written or {})


def test_answers_of_peers_that_write():
    wanted = found([X], {1: Y})
    names = ["a", "b"]
    before = [X, np.zeros(3)]

    def status(given, strict=False):
        return answers.compare(wanted, given, before, names, ALLOWED, strict).status

    assert status(found([X], {1: Y})) == "right"
    assert status(found([X])) == "wrong", "b was not written"
    assert status(found([X], {1: Y, 0: X + 1})) == "wrong", "a was"
    assert status(found([], {1: Y})) == "wrong"
    assert status(found([X * (1 + 1e-7)], {1: Y})) == "right"
    assert status(found([X.astype("f")], {1: Y}), strict=True) == "wrong"
    assert status(found([Y, X])) == "right", "returned rather than written"
    assert status(found([Y, X]), strict=True) == "wrong"


def test_answers_of_peers_that_return():
    def status(*returned):
        wanted = found([X], {1: Y})
        return answers.compare_functional(wanted, found(returned), ["a", "b"], ALLOWED).status

    assert status(X, Y) == status(Y, X) == "right"
    assert status(X) == "partial"
    assert status(Y) == "wrong"
    assert status(X, Y + 1) == "wrong"


def test_an_argument_that_comes_back_is_one():
    given = answers.answers_of([X, 2], [X, 2], (X[:], X + 1, 5))
    assert given.handed_back == [0]
    assert [x.tolist() for x in given.returned] == [(X + 1).tolist(), 5]


def test_chaos_is_not_an_error():
    before = [np.ones(3)]
    wanted, near = found([np.array([1.0, 2.0])]), found([np.array([1.5, 2.0])])
    moves = wanted.apart(near, ["x"])
    other, wrong = found([np.array([1.0, 2.6])]), found([np.array([1.0, 5.0])])
    assert not answers.compare(wanted, other, before, ["x"], Tolerance()).right
    judged = answers.compare(wanted, other, before, ["x"], Tolerance(), moves=moves)
    assert judged.right and "chaotic" in judged.notes[0]
    assert not answers.compare(wanted, wrong, before, ["x"], Tolerance(), moves=moves).right


def test_a_field_that_stays_as_it_is_counts_as_written():
    given = answers.answers_of([X, Y], [X.copy(), Y], None, [0])
    assert list(given.written) == [0]
    assert answers.answers_of([X, Y], [X, Y + 1], None, [0]).written.keys() == {1}
    names = ["a", "b"]
    assert answers.compare(given, found(), [X, Y], names, ALLOWED).status == "right"
    assert answers.compare_functional(given, found([X]), names, ALLOWED).status == "right"
    assert answers.compare_functional(given, found([X + 1]), names, ALLOWED).status == "wrong"


def test_nan_and_infinity_must_be_where_they_are():
    wanted = np.array([1.0, np.nan, np.inf])
    assert answers.largest_error(wanted, wanted) == 0
    assert answers.largest_error(wanted, np.array([1.0, np.nan, -np.inf])) == np.inf
    assert answers.is_close(wanted, wanted, ALLOWED)
    assert not answers.is_close(np.zeros(2), np.array([0, np.nan]), ALLOWED)


def row(peer, speed, status="right", program="p", **more):
    return {
        "program": program,
        "preset": "S",
        "peer": peer,
        "version": "v",
        "status": status,
        "median_ms": 1 / speed,
        "numpy_ms": 1.0,
        "speedup": speed,
        "first_ms": 50.0,
        **more,
    }


def test_the_best_of_right_answers_counts():
    own = row("tailorbird", 4.0, tier="native", native_calls=9, whole=True, opaque_calls=0)
    rows = [row("numpy", 1.0), own, row("jax", 9.0, "partial"), row("numba", 2.0)]
    rows += [row("numba", 3.0), row("numba", 8.0, "wrong")]
    entry = summary.collect(rows)[0]
    assert entry["best_peer"] == "numba" and entry["peers"]["numba"]["speedup"] == 3.0
    assert entry["over_best"] == 3 / 4 and entry["over_best_partly"] == 9 / 4
    means = summary.means([entry])
    assert means["S"]["jax"]["geomean"] == 1.0 and means["S"]["numba"]["right"] == 1
    held = {r["what"]: r["measured"] for r in figures.check([entry], means)}
    assert held["S: fastest or within 5 %"] == 1 and held["S: compiled whole"] == 1
    assert "9*" in summary.table([entry], means)


def test_a_program_left_plain_counts_as_numpy():
    own = row("tailorbird", 0.9, tier="plain", native_calls=0, whole=False, opaque_calls=0)
    entry = summary.collect([row("numpy", 1.0), own])[0]
    means = summary.means([entry])
    assert means["S"]["tailorbird"]["geomean"] == 1.0
    slower = [r for r in figures.check([entry], means) if "slower" in r["what"]]
    assert slower[0]["measured"] == 1 and "(p)" in slower[0]["what"], "what it costs is seen"


def test_no_folder_of_this_machine_gets_out(checkout, tmp_path):
    text = f"OSError: {checkout}/npbench/x.py:3: cannot open /usr/lib/thing.so, 3/4 of it"
    assert runner._short(text) == "OSError: x.py:3: cannot open thing.so, 3/4 of it"


def test_the_plot_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from bench.npbench.plot import draw

    entries = summary.collect([row("numpy", 1.0), row("tailorbird", 4.0), row("jax", 2.0)])
    facts = {"suite": "npbench", "threads": 1, "clock": "wall time"}
    facts["machine"] = {"cpu": "a machine", "simd": "avx2"}
    draw({**facts, "programs": entries, "means": summary.means(entries)}, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_a_job_is_plain_text():
    assert Job(**json.loads(json.dumps(Job("c", "p", "S", "numpy", "o").__dict__))).peer == "numpy"
