"""Threads, forks, signals and memory: what a tailored function survives and leaves behind."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from api_kit import answers, hits, in_process, is_same, native, wait

import tailorbird as tb

X = np.linspace(-1.0, 1.0, 64)


def chain(x, y):
    return np.tanh(x) * y - x * x


# Threads


def in_threads(count, work):
    """Runs work(k) in several threads at once and raises what they raised."""
    errors = []
    start = threading.Barrier(count)

    def body(k):
        start.wait()
        try:
            work(k)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=body, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("background", [False, True])
def test_threads_with_different_shapes(background):
    tailored = tb.tailor(chain, background=background)

    def work(k):
        rng = np.random.default_rng(k)
        for turn in range(60):
            n = 1 + (k + turn * 7) % 50
            x, y = rng.random((n, 3 + k)), rng.random(3 + k)
            assert is_same(tailored(x, y), chain(x, y))

    in_threads(4, work)
    wait()
    assert answers(native(chain), X, X)
    assert tailored.variants


def test_threads_with_large_arrays_share_the_pool():
    tailored = native(lambda x: np.exp(-x * x).sum(axis=1))
    arrays = [np.random.default_rng(k).random((300, 1000 + k)) for k in range(4)]
    expected = [np.exp(-x * x).sum(axis=1) for x in arrays]

    def work(k):
        for _ in range(10):
            assert is_same(tailored(arrays[k]), expected[k])

    in_threads(4, work)


def test_threads_that_write_their_own_arrays():
    def update(x, y):
        x += y * 2
        return x.max()

    tailored = tb.tailor(update, background=False)

    def work(k):
        mine = np.zeros(2000 + k)
        step = np.full(2000 + k, 0.5)
        for turn in range(1, 80):
            assert tailored(mine, step) == turn
        assert np.all(mine == 79)

    in_threads(4, work)


def test_an_array_that_is_replaced_during_a_call_stays_alive():
    class Box:
        def __init__(self):
            self.w = np.ones(400_000)

        @tb.tailor(background=False)
        def total(self, x):
            return (np.exp(self.w * 0) * x).sum()

    box = Box()
    done = threading.Event()

    def replace():
        while not done.is_set():
            box.w = np.ones(400_000)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(60):
            assert box.total(2.0) == 800_000.0
    finally:
        done.set()
        thread.join()


# Forks

FORK = """
    import os
    import numpy as np
    import tailorbird as tb
    from tailorbird.dispatch.worker import WORKER

    def chain(x):
        return np.tanh(x) * 2 - x * x

    def work(x):
        return np.exp(-x * x).sum(axis=1)

    def same(a, b):
        return a.dtype == b.dtype and np.allclose(a, b, rtol=1e-6)

    known = tb.tailor(chain, background=False)
    large = tb.tailor(work, background=False)
    behind = tb.tailor(lambda x: np.sqrt(x * x + 1))
    x = np.linspace(-1, 1, 100)
    big = np.random.default_rng(0).random((400, 1000))
    for _ in range(20):
        known(x)
        large(big)
    behind(x)                                   # a build that the fork may interrupt

    def child():
        for _ in range(20):
            assert same(known(x), chain(x))
            assert same(large(big), work(big))
            assert same(known(x.astype("f")), chain(x.astype("f")))
            assert same(behind(x), np.sqrt(x * x + 1))
        fresh = tb.tailor(lambda x: x * 3 + 1, background=False)
        assert same(fresh(x), x * 3 + 1)
        assert WORKER.wait(30)
        for _ in range(20):
            behind(x)
        assert WORKER.wait(30)
        assert behind.variants, "what the parent was building is built here"
        assert len(known.variants) == 2

    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                child()
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert same(large(big), work(big))
    print("fine")
"""


def test_forked_children_call_and_compile(tmp_path):
    assert "fine" in in_process(tmp_path, FORK)


def test_a_pool_of_processes(tmp_path):
    program = """
        import multiprocessing
        import numpy as np
        import tailorbird as tb

        @tb.tailor
        def chain(x):
            return np.tanh(x) * 2 - x * x

        if __name__ == "__main__":
            x = np.linspace(-1, 1, 1000)
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    found = pool.map(chain, [x * k for k in range(20)])
                for k, y in enumerate(found):
                    assert np.allclose(y, np.tanh(x * k) * 2 - (x * k) ** 2)
            print("fine")
    """
    assert "fine" in in_process(tmp_path, program)


# Signals and the end

INTERRUPT = """
    import os
    import signal
    import threading
    import time
    import numpy as np
    import tailorbird as tb

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it

    def slow(x):
        for _ in range(40):
            x = np.sin(np.tan(np.sin(x))) + np.linalg.norm(x)
        return x

    slow = tb.tailor(slow, background=False)
    x = np.random.default_rng(0).random(3_000_000)
    small = np.ones(10)
    expected = slow.__wrapped__(small)
    for _ in range(12):
        assert np.allclose(slow(small), expected)

    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    for _ in range(2):
        thread = threading.Thread(target=interrupt)
        start = time.perf_counter()
        thread.start()
        try:
            while True:
                slow(x)
        except KeyboardInterrupt:
            print("interrupted after", time.perf_counter() - start)
        assert time.perf_counter() - start < 10
        thread.join()
        assert np.allclose(slow(small), expected)
    print("usable")
"""


def test_an_interrupt_arrives_and_the_function_goes_on(tmp_path):
    out = in_process(tmp_path, INTERRUPT)
    assert out.count("interrupted") == 2
    assert "usable" in out


def test_a_program_may_end_at_any_time(tmp_path):
    for tail in ("", "time.sleep(0.02)", "os._exit(0)", "threading.Thread(target=again).start()"):
        program = f"""
            import atexit
            import os
            import threading
            import time
            import numpy as np
            import tailorbird as tb

            f = tb.tailor(lambda x: np.tanh(x) + 1)
            x = np.ones((500, 1000))

            def again():
                for _ in range(20):
                    f(x)

            atexit.register(lambda: f(np.ones(3, "f")))
            f(x)
            {tail}
        """
        assert "Error" not in in_process(tmp_path, program, TAILOR_CACHE="0")


# Memory

NO_MEMORY = """
    import gc
    import resource
    import numpy as np
    import tailorbird as tb
    from tailorbird import knobs

    def outer(x, y):
        return np.exp(x[:, None] - y[None, :])

    with knobs.scope(race=False):
        tailored = tb.tailor(outer, background=False)
    x = np.ones(60_000)
    tailored(x[:50], x[:50])
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
    before = [np.ones(3)]
    for k in range(30):
        try:
            tailored(x, x)                      # 28 GB
        except MemoryError:
            pass
        else:
            raise AssertionError("there was memory")
        assert tailored(x[:50], x[:50]).shape == (50, 50)
    gc.collect()
    after = int(open("/proc/self/statm").read().split()[0]) * 4096
    assert after - used < 64 << 20, (used, after)
    print("fine")
"""


def test_no_memory_is_an_exception_and_leaks_nothing(tmp_path):
    assert "fine" in in_process(tmp_path, NO_MEMORY)


def resident():
    """Bytes of memory that this process has in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def leaf_cases():
    box = type("Box", (), {})()
    box.w = X.copy()

    def of_object(box, x):
        return {"a": box.w * x, "b": [x.sum()]}

    return {
        "direct": (chain, (X.copy(), X.copy())),
        "scalar result": (lambda x: x.sum(), (X.copy(),)),
        "python scalars": (lambda x, k: x * k, (X.copy(), 2.5)),
        "integers": (lambda x, k: x * k + k, (X.copy(), 12345)),
        "strings": (lambda x, mode: x + len(mode), (X.copy(), "some mode")),
        "object": (of_object, (box, X.copy())),
        "containers": (lambda p: p[0] * p[1]["k"], ((X.copy(), {"k": X.copy()}),)),
        "starred": (lambda *a, **k: a[0] + a[1] + len(k), (X.copy(), X.copy())),
        "opaque": (lambda x: np.sort(x) + 1, (X.copy(),)),
        "large": (chain, (np.ones(200_000), np.ones(200_000))),
        "writes": (lambda x, y: np.add(x, y, out=x), (X.copy(), X.copy())),
        "returns argument": (lambda x: (x, x + 1), (X.copy(),)),
        "plain": (lambda x: x.tolist(), (X.copy(),)),
        "refused dtype": (chain, (X.astype("e"), X.astype("e"))),
    }


def counts(args):
    """Reference counts of the arguments and of what every call touches."""
    objects = [*args, *(a.dtype for a in args if isinstance(a, np.ndarray)), None, True, float]
    return [sys.getrefcount(x) for x in objects]


@pytest.mark.parametrize("race", [False, True])
@pytest.mark.parametrize("name", leaf_cases())
def test_calls_leak_no_references(name, race):
    function, args = leaf_cases()[name]
    tailored = tb.tailor(function, background=False) if race else native(function)
    calls = 300 if name == "large" else 10_000

    def some(calls):
        with np.errstate(all="ignore"):
            for _ in range(calls):
                tailored(*args)

    some(200)
    gc.collect()
    before, blocks = counts(args), sys.getallocatedblocks()
    some(calls)
    gc.collect()
    spread = [abs(a - b) for a, b in zip(counts(args), before)]
    assert max(spread) < 50, spread
    assert abs(sys.getallocatedblocks() - blocks) < 200


def test_failed_calls_leak_no_references():
    tailored = native(lambda x, y: np.sort(x + y))
    assert answers(tailored, X, X)
    other = np.ones(3)
    gc.collect()
    before, blocks = counts((X, other)), sys.getallocatedblocks()
    for _ in range(3000):
        with pytest.raises(ValueError, match="broadcast"):
            tailored(X, other)
    gc.collect()
    assert max(abs(a - b) for a, b in zip(counts((X, other)), before)) < 50
    assert abs(sys.getallocatedblocks() - blocks) < 300


def test_memory_does_not_grow_with_calls():
    tailored = native(chain)
    sizes = [(1000 + 997 * k) % 300_000 for k in range(200)]
    for n in sizes:
        tailored(np.ones(n), np.ones(n))
    before = resident()
    for _ in range(5):
        for n in sizes:
            tailored(np.ones(n), np.ones(n))
    assert resident() - before < 32 << 20


def mappings():
    """How many pieces of memory are mapped."""
    with open("/proc/self/maps") as file:
        return len(file.readlines())


def make_and_drop(k):
    with np.errstate(all="ignore"):
        tailored = native(lambda x, y: x * y + k)
        tailored(X, X)
        tailored(X.astype("f"), X)
    assert hits(tailored) == 2
    return [weakref.ref(tailored), *(weakref.ref(v) for v in tailored.variants)]


def test_dropped_functions_are_freed():
    for k in range(30):
        make_and_drop(k)
    gc.collect()
    before, blocks = resident(), sys.getallocatedblocks()
    maps = mappings()
    dead = [ref for k in range(150) for ref in make_and_drop(k)]
    gc.collect()
    assert not any(ref() for ref in dead)
    assert resident() - before < 24 << 20
    assert sys.getallocatedblocks() - blocks < 60_000
    assert mappings() - maps < 100, "code that stays mapped"


def test_arguments_are_not_kept():
    tailored = tb.tailor(chain)
    x = np.ones(1000)
    dead = weakref.ref(x)
    for _ in range(20):
        tailored(x, x)
        wait()
    tailored.explain(x, x)
    del x
    gc.collect()
    assert dead() is None


def test_small_calls_allocate_only_their_result():
    tailored = native(chain)
    tailored(X, X)
    tracemalloc.start()
    kept = [tailored(X, X) for _ in range(100)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * (X.nbytes + 400)
    assert len(kept) == 100


def test_importing_is_cheap(tmp_path):
    program = """
        import sys
        import numpy
        before = set(sys.modules)
        import tailorbird
        new = {name.split(".")[0] for name in set(sys.modules) - before}
        heavy = new & {"llvmlite", "scipy", "rich", "typer", "numba", "torch", "jax"}
        assert not heavy, heavy
        assert len(set(sys.modules) - before) < 10, sorted(set(sys.modules) - before)
    """
    in_process(tmp_path, program)


def test_the_first_process_loads_the_compiler_before_anything_is_called(tmp_path):
    program = """
        import sys
        import tailorbird as tb
        tb.tailor(lambda x: x + 1)
        print({"tailorbird.capture.trace", "tailorbird.pipeline"} <= set(sys.modules))
    """
    where = str(tmp_path / "cache")
    found = [in_process(tmp_path, program, TAILOR_CACHE_DIR=where).strip() for _ in range(2)]
    assert found == ["True", "False"]


def test_the_file_descriptors_stay_few():
    native(chain)(X, X)
    before = len(os.listdir("/proc/self/fd"))
    for k in range(20):
        make_and_drop(k)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
