"""Kernels never touch what is not theirs: arrays end, or begin, at a page that cannot be read.

Runs in a child process, which dies of a fault if anything is read or written beyond an array.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = mmap.PAGESIZE
LENGTHS = (1, 7, 15, 16, 17, 31, 33, 63, 64, 65, 129, 1000)
_libc = ctypes.CDLL(None, use_errno=True)
_kept: list[Any] = []


def fenced(x: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy with an unreadable page right after its last byte, or right before its first."""
    pages = -(-x.nbytes // PAGE) + 2
    block = mmap.mmap(-1, pages * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for fence in (start, start + (pages - 1) * PAGE):
        assert _libc.mprotect(ctypes.c_void_p(fence), PAGE, 0) == 0
    offset = (pages - 1) * PAGE - x.nbytes if at_end else PAGE
    _kept.append(block)
    inside = np.frombuffer(block, x.dtype, x.size, offset).reshape(x.shape)
    inside[...] = x
    return inside


def programs() -> dict[str, Any]:
    """Graphs by hand over one vector."""
    from tailorbird.ir.expr import symbol
    from tailorbird.ir.node import View

    n = symbol("n")

    def back(add, x):
        return add("read", x, view=View(((n - 1, -1, 0),), (n,)))

    def strided(add, x):
        return add("read", x, view=View(((0, 2, 0),), (_half(n),)))

    def taken(add, x):
        index = add("arange", n - 1, -1, shape=(n,), dtype=np.dtype("i8"))
        return add("take", x, index, axis=0)

    return {
        "map": lambda add, x: add("add", x, x),
        "back": lambda add, x: add("add", back(add, x), x),
        "strided": lambda add, x: add("add", strided(add, x), strided(add, x)),
        "taken": taken,
        "sum": lambda add, x: add("sum", x, axis=(0,)),
        "scan": lambda add, x: add("cumsum", x, axis=0, dtype=np.dtype("f8")),
        "joined": lambda add, x: add("concatenate", x, back(add, x), axis=0),
        "padded": lambda add, x: add("pad", x, width=((2, 3),), mode="edge"),
        "final": None,
    }


def _half(n):
    from tailorbird.ir.expr import apply

    return apply("floordiv", n + 1, 2)


def compile_program(make: Any, x: np.ndarray) -> Any:
    from tailorbird.ir.expr import symbol
    from tailorbird.ir.node import Graph, Value
    from tailorbird.ir.shapes import infer
    from tailorbird.ir.types import Type
    from tests.backend_kit import compile_graph

    value = Value(Type(x.dtype, (symbol("n"),)), name="x")
    graph = Graph("fenced", [value])

    def add(op, *operands, **attrs):
        return graph.body.add(op, operands, attrs, infer(op, operands, attrs))

    if make is None:
        graph.finals = {value: add("add", value, value)}
        graph.results = None
    else:
        graph.results = make(add, value)
    return graph, compile_graph(graph, [x])


def run_all() -> None:
    """The child: every program, dtype, length, and both ends."""
    from tailorbird.ir.interp import run

    for name, make in programs().items():
        for dtype in ("f4", "f8", "c8", "c16", "i1", "i2", "?"):
            if name == "scan" and dtype != "f8":
                continue
            first = np.ones(3, dtype)
            graph, native = compile_program(make, first)
            for length in LENGTHS:
                x = (np.arange(length) % 5).astype(dtype)
                for at_end in (True, False):
                    ours, theirs = fenced(x, at_end), x.copy()
                    got, wanted = native(ours), run(graph, [theirs])
                    np.testing.assert_array_equal(ours, theirs, err_msg=name)
                    if wanted is not None:
                        np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=name)
    print("untouched")


@pytest.mark.parametrize("target", ("", "haswell"))
def test_nothing_beyond_an_array_is_touched(target):
    code = "from tests.test_backend_memory import run_all; run_all()"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"TAILOR_TARGET": target, "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.stdout == "untouched\n", f"exit {result.returncode}: {result.stderr[-2000:]}"
