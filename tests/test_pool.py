"""assemble/pool.py: every chunk once, from anywhere, and no trouble at fork or exit."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from tailorbird import knobs
from tailorbird.assemble import build, pool, symbols

IR = """
declare void @tb_parfor(ptr, ptr, i64)
declare i32 @usleep(i32)
define void @chunk(ptr %arg, i64 %i) {
  %p = getelementptr i64, ptr %arg, i64 %i
  %r = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
define void @slow(ptr %arg, i64 %i) {
  %z = call i32 @usleep(i32 20000)
  call void @chunk(ptr %arg, i64 %i)
  ret void
}
define void @outer(ptr %arg, i64 %i) {
  call void @tb_parfor(ptr @chunk, ptr %arg, i64 8)
  ret void
}
define void @run(ptr %arg, i64 %n) {
  call void @tb_parfor(ptr @chunk, ptr %arg, i64 %n)
  ret void
}
define void @run_slow(ptr %arg, i64 %n) {
  call void @tb_parfor(ptr @slow, ptr %arg, i64 %n)
  ret void
}
define void @nest(ptr %arg, i64 %n) {
  call void @tb_parfor(ptr @outer, ptr %arg, i64 %n)
  ret void
}
"""
JOB = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@pytest.fixture(scope="module")
def jobs():
    with knobs.scope(threads=2):
        library = build.build(IR, ["run", "run_slow", "nest"], symbols.resolve)
    yield {name: JOB(library.address(name)) for name in ("run", "run_slow", "nest")}
    del library


@pytest.fixture(autouse=True)
def two_threads():
    with knobs.scope(threads=2):
        pool.refresh()
        yield
    pool.refresh()


def counts(job, n, size=64):
    buffer = (ctypes.c_int64 * size)()
    job(ctypes.addressof(buffer), n)
    return list(buffer)


def fork():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def test_each_chunk_runs_once(jobs):
    for n in (0, 1, 2, 3, 17, 64):
        assert counts(jobs["run"], n) == [1] * n + [0] * (64 - n)
    for _ in range(2000):
        assert counts(jobs["run"], 5, 5) == [1] * 5


def test_workers_start_when_first_needed():
    code = (
        "import tailorbird.assemble.pool as p; before = p.symbols() and p.started();"
        "import sys; sys.exit(before)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_nested_job_runs_inline(jobs):
    assert counts(jobs["nest"], 6, 8) == [6] * 8


def test_two_threads_really_work_at_once(jobs):
    start = time.perf_counter()
    assert counts(jobs["run_slow"], 8, 8) == [1] * 8
    assert time.perf_counter() - start < 0.15  # 8 * 20 ms, shared by two


def test_the_limit_follows_the_knob(jobs):
    with knobs.scope(threads=1):
        assert pool.threads() == pool.refresh() == 1
        start = time.perf_counter()
        assert counts(jobs["run_slow"], 3, 3) == [1] * 3
        assert time.perf_counter() - start > 0.059
    with knobs.scope(threads=0):
        assert pool.threads() == len(os.sched_getaffinity(0))


def test_more_workers_than_cores(jobs):
    with knobs.scope(threads=5):
        pool.refresh()
        for _ in range(50):
            assert counts(jobs["run"], 64) == [1] * 64
    assert pool.started() >= 4


def test_many_python_threads_share_the_pool(jobs):
    wrong = []

    def hammer() -> None:
        for _ in range(300):
            if counts(jobs["run"], 16, 16) != [1] * 16:
                wrong.append(1)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_workers_block_signals(jobs):
    counts(jobs["run"], 8)
    masks = []
    for task in Path("/proc/self/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        masks += [int(line.split()[1], 16) for line in lines if line.startswith("SigBlk")]
    interrupt = 1 << (signal.SIGINT - 1)
    assert sum(bool(mask & interrupt) for mask in masks) >= pool.started() >= 1
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_child_starts_its_own_workers(jobs):
    counts(jobs["run"], 8)
    child = fork()
    if child == 0:
        good = pool.started() == 0 and counts(jobs["run"], 64) == [1] * 64
        os._exit(0 if good and pool.started() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert counts(jobs["run"], 64) == [1] * 64


def test_a_fork_in_the_middle_of_a_job(jobs):
    done = []
    thread = threading.Thread(target=lambda: done.append(counts(jobs["run_slow"], 8, 8)))
    thread.start()
    time.sleep(0.03)
    child = fork()
    if child == 0:
        good = all(counts(jobs["run"], 32) == [1] * 32 + [0] * 32 for _ in range(100))
        os._exit(0 if good else 1)
    thread.join()
    assert done == [[1] * 8]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_workers_do_not_hold_up_the_exit():
    code = f"""
import ctypes
from tailorbird import knobs
from tailorbird.assemble import build, symbols
with knobs.scope(threads=3):
    library = build.build('''{IR}''', ["run"], symbols.resolve)
buffer = (ctypes.c_int64 * 8)()
ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address("run"))(
    ctypes.addressof(buffer), 8)
assert list(buffer) == [1] * 8
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], check=False, timeout=20)
        assert done.returncode == 0
