"""Library routines that native code has Python call, inside of loops and branches."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tailorbird as tb
from tailorbird.lower.steps import PythonCall, inner_steps

RNG = np.random.default_rng(5)
A = RNG.normal(size=(9, 6, 6))
X = RNG.normal(size=(9, 6))


def calls_in(tailored):
    steps = inner_steps(tailored.variants[0].program.steps)
    return [s.node.attrs.get("function", s.node.op) for s in steps if isinstance(s, PythonCall)]


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def agrees(function, *calls, routine="", native=True):
    """Results, arguments and exceptions are the plain function's."""
    tailored = tb.tailor(function, deterministic=True, background=False)
    for arguments in calls:
        mine, yours = copies(arguments), copies(arguments)
        wanted = outcome(function, mine)
        tailored.warm(*copies(arguments))
        found = outcome(tailored, yours)
        assert type(wanted) is type(found), (wanted, found)
        if isinstance(wanted, Exception):
            continue
        for w, f in zip([*flat(wanted), *mine], [*flat(found), *yours], strict=True):
            assert np.asarray(w).dtype == np.asarray(f).dtype
            np.testing.assert_allclose(f, w, rtol=1e-10, atol=1e-12)
    assert tailored.variants, tailored.explain(*calls[0])
    if routine:
        assert routine in calls_in(tailored)
    if native:
        assert sum(v.hits for v in tailored.variants)
    return tailored


def outcome(function, arguments):
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return error


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, (tuple, list)) else [x]


EACH = {
    "sort": lambda x, a: np.sort(x),
    "argsort": lambda x, a: np.argsort(x)[::-1] * 2,
    "partition": lambda x, a: np.partition(x, 3),
    "sort of columns": lambda x, a: np.sort(a, axis=0)[1],
    "unique": lambda x, a: np.unique(np.round(x)).sum() + x,
    "unique counts": lambda x, a: np.unique(np.round(x), return_counts=True)[1].max() / 2 + x,
    "union1d": lambda x, a: np.union1d(np.round(x), a[0])[1:].sum() + x,
    "median": lambda x, a: np.median(a, axis=0) + np.median(x),
    "percentile": lambda x, a: np.percentile(a, [20, 70], axis=1)[1],
    "fft": lambda x, a: np.fft.ifft(np.fft.fft(x) * 2).real,
    "rfft": lambda x, a: np.abs(np.fft.rfft(a))[:, 1],
    "fft of length": lambda x, a: np.abs(np.fft.fft(x, 6)),
    "svd": lambda x, a: np.linalg.svd(a)[1],
    "svd thin": lambda x, a: np.abs(np.linalg.svd(a[:4], full_matrices=False)[2]).sum(axis=0),
    "eigh": lambda x, a: np.linalg.eigh(a + a.T)[0] + np.linalg.eigh(a + a.T).eigenvalues,
    "qr": lambda x, a: np.abs(np.linalg.qr(a)[1]).sum(axis=1),
    "lstsq": lambda x, a: np.linalg.lstsq(a, x, rcond=None)[0],
    "pinv": lambda x, a: np.linalg.pinv(a) @ x,
    "norm 2": lambda x, a: x * np.linalg.norm(a, 2),
    "isin": lambda x, a: np.isin(np.round(x), [0, 1]) * 1.0,
    "nanmedian": lambda x, a: x + np.nanmedian(a),
    "multi_dot": lambda x, a: np.linalg.multi_dot([a, a, a])[2],
}


@pytest.mark.parametrize("name", EACH)
def test_routines_in_a_loop(name):
    routine = EACH[name]

    def program(x, a):
        out = np.zeros((len(x), 6))
        for i in range(len(x)):
            out[i] = routine(x[i] * 2, a[i] + 1) + i
        return out

    tailored = agrees(program, (X, A), (X[:1], A[:1]), (X[:0], A[:0]), (X[::2], A[::2]))
    assert calls_in(tailored)
    assert "numpy" in str(tailored.explain(X, A))


def test_a_routine_under_a_branch():
    def program(x, k):
        y = x * 2
        if x.sum() > k:
            y = np.sort(y)
        return y + 1

    agrees(program, (X[0], -99.0), (X[0], 99.0), routine="numpy:sort")


def test_a_routine_in_a_while():
    def program(x):
        x, turns = x * 1, 0
        while np.median(x) < 3 and turns < 50:
            x = -np.sort(-x - 0.25)
            turns += 1
        return x, turns

    agrees(program, (X[0],), (X[1] + 4,), routine="numpy:median")


def test_what_a_routine_gives_is_carried_and_written():
    def program(x, n):
        order = np.argsort(x)
        for _ in range(n):
            x = np.sort(x)
            x[0] = x[-1] + 1
            order = np.argsort(x[order])
            order[0], order[-1] = order[-1], order[0]
        return x, order

    agrees(program, (X[0], 0), (X[0], 1), (X[0], 7))


def test_an_argument_is_written_as_numpy_writes_it():
    def program(x, a):
        for i in range(len(a)):
            x[i] = np.sort(x[i] + a[i].sum())
            a[i] = np.linalg.svd(a[i], compute_uv=False)
        return x.sum()

    agrees(program, (X, A))


def test_an_exception_in_a_loop_leaves_arguments_as_numpy_does():
    def program(x, a):
        for i in range(len(a)):
            x[i] = 7
            x[i] = np.linalg.eigvalsh(a[i])

    broken = A.copy()
    broken[4] = np.nan
    with np.errstate(all="ignore"):
        mine, yours = copies((X, broken)), copies((X, broken))
        wanted = outcome(program, mine)
        tailored = tb.tailor(program, deterministic=True, background=False)
        tailored.warm(*copies((X, A)))
        found = outcome(tailored, yours)
    assert type(wanted) is type(found)
    np.testing.assert_array_equal(mine[0], yours[0])


def test_a_result_unlike_the_trials_is_numpys():
    """Where rows are few, or of low rank, lstsq gives no residuals."""

    def program(a, b):
        total = 0.0
        for i in range(len(a)):
            total += np.linalg.lstsq(a[i], b[i], rcond=None)[1].sum()
        return total

    thin, low = RNG.normal(size=(5, 9, 3)), np.ones((5, 9, 3))
    agrees(program, (thin, RNG.normal(size=(5, 9))), (low, RNG.normal(size=(5, 9))))


def test_sizes_that_data_decides():
    def program(x):
        total = np.zeros(len(x))
        for i in range(len(x)):
            some = x[i][x[i] > 0]
            once = np.unique(np.round(some * 3))
            both = np.concatenate((once, np.sort(some)))
            total[i] = both.sum() + len(once) * 100 + len(some)
        return total

    agrees(program, (RNG.normal(size=(40, 33)),), (np.zeros((3, 5)),), (np.ones((2, 1)),))


def test_a_routine_in_nested_loops_with_bounds_of_its_own():
    def program(a):
        n = len(a)
        out = np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1, n):
                out[i, j] = np.median(a[i, i:j]) + np.sort(a[: j + 1, i])[0]
        return out

    agrees(program, (RNG.normal(size=(11, 11)),), (RNG.normal(size=(1, 1)),))


def test_operands_of_all_kinds():
    def program(x, k, c, z):
        out = np.zeros(len(x))
        for i in range(len(x)):
            part = np.partition(x[i], k % 3)
            out[i] = part[0] + np.percentile(x[i], c * 10.0) + np.fft.fft(x[i] * z)[0].real
            out[i] += np.sort(x[i].astype(np.float32))[i % 3] + np.sort(x[i] > 0)[0]
        return out

    agrees(program, (X, 4, 3.5, 2 + 1j), (X[:, ::-1], 2, 0.0, 0j), (X.astype("f4"), 2, 1.0, 1j))


def test_the_gil_is_released_and_taken_back():
    def program(x, n):
        total = 0.0
        for i in range(n):
            total += np.sqrt(x + i).sum()
            if i % 64 == 0:
                total += np.median(x)
        return total

    big = np.abs(RNG.normal(size=50_000))
    tailored = agrees(program, (big, 200), routine="numpy:median")
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(tailored(big, 200))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1


def test_an_interrupt_ends_a_loop_with_a_routine():
    import _thread

    def program(x):
        n = 1
        while n > 0:
            n = int(np.sort(x)[0]) + 1
        return n

    x = np.ones(100)
    tailored = tb.tailor(program, deterministic=True, background=False)
    tailored.warm(-x)
    assert tailored.variants
    done = threading.Event()

    def interrupt():
        """Again, for one that comes while Python collects garbage is lost."""
        while not done.wait(0.5):
            _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tailored(x)
    finally:
        done.set()
    thread.join()


def test_another_process_finds_the_calls(tmp_path):
    """What the context holds comes back from the disk."""
    import os
    import subprocess
    import sys

    script = tmp_path / "program.py"
    script.write_text(
        "import numpy as np, tailorbird as tb\n"
        "@tb.tailor(background=False, deterministic=True)\n"
        "def f(x):\n"
        "    t = np.zeros(x.shape[1])\n"
        "    for i in range(len(x)):\n"
        "        t += np.sort(x[i])\n"
        "    return t\n"
        "x = np.arange(12.0).reshape(4, 3)[:, ::-1].copy()\n"
        "f(x)\n"
        "print(f(x).tolist(), f.variants[0].hits > 0)\n"
    )
    env = {**os.environ, "TAILOR_CACHE_DIR": str(tmp_path / "cache")}
    outputs = [
        subprocess.run(
            [sys.executable, str(script)], env=env, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0] == outputs[1] == "[18.0, 22.0, 26.0] True\n"
