"""Threads change nothing: neither their number nor their neighbours.

Chunks of a fold depend on sizes alone, so a sum by one thread and by two has the same bits.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tailorbird import knobs
from tailorbird.assemble import pool
from tests.backend_kit import compile_graph, graph_of

LONG_VECTOR = np.random.default_rng(3).normal(size=3_000_001)
MATRIX = LONG_VECTOR[:2_000_000].reshape(2000, 1000)
GRAPHS = {
    "sum": lambda add, x: add("sum", x, axis=tuple(range(x.type.rank))),
    "product": lambda add, x: add("prod", add("add", add("multiply", x, 1e-9), 1.0), axis=(0,)),
    "largest": lambda add, x: add("max", x, axis=tuple(range(x.type.rank))),
    "place": lambda add, x: add("argmax", x, axis=tuple(range(x.type.rank))),
    "map": lambda add, x: add("exp", add("negative", x)),
    "scan": lambda add, x: add("cumsum", x, axis=0, dtype=np.dtype("f8")),
    "spread": lambda add, x: add("var", x, axis=(0,)),
}
ROWS = {
    "rows": lambda add, x: add("sum", x, axis=(1,)),
    "columns": lambda add, x: add("sum", x, axis=(0,)),
    "softmax": lambda add, x: _softmax(add, x),
    "transposed": lambda add, x: add("add", x, 1.0),
}


def _softmax(add, x):
    top = add("max", x, axis=(1,), keepdims=True)
    e = add("exp", add("subtract", x, top))
    return add("divide", e, add("sum", e, axis=(1,), keepdims=True))


@pytest.fixture(autouse=True)
def pool_as_it_was():
    yield
    pool.refresh()


def set_threads(count: int) -> None:
    """Lets the pool use this many threads from now on."""
    with knobs.scope(threads=count):
        pool.refresh()


def answers(make, x):
    native = compile_graph(graph_of(make, [x]), [x])
    out = []
    for count in (1, 2, 2):
        set_threads(count)
        out.append(np.asarray(native(x)))
    return out


@pytest.mark.parametrize("name", GRAPHS)
def test_one_thread_and_two_give_the_same_bits(name):
    first, *others = answers(GRAPHS[name], LONG_VECTOR)
    for other in others:
        np.testing.assert_array_equal(first.view("u8"), other.view("u8"))


@pytest.mark.parametrize("name", ROWS)
def test_rows_by_one_thread_and_two(name):
    first, *others = answers(ROWS[name], MATRIX)
    for other in others:
        np.testing.assert_array_equal(first.view("u8"), other.view("u8"))


def test_two_python_threads_at_once():
    """Both run parallel kernels of their own; each gets its own answer."""
    set_threads(2)
    x = LONG_VECTOR
    native = compile_graph(
        graph_of(lambda add, v: (add("sum", v, axis=(0,)), add("exp", v)), [x]), [x]
    )
    inputs = [x, -x]
    wanted = [native(v) for v in inputs]
    failures: list[str] = []

    def work(which: int) -> None:
        for _ in range(10):
            total, values = native(inputs[which])
            if total != wanted[which][0] or not np.array_equal(values, wanted[which][1]):
                failures.append(f"thread {which}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
