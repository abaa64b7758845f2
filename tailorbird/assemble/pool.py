"""Threads for generated code.

In: nothing; the pool is built when a kernel first names `tb_parfor`, and its threads start when a
kernel first calls it. Out: addresses of `tb_parfor` and `tb_threads`, of what runs the steps of a
variant (`steps_ir.py`, `divide_ir.py`), and how many threads may work.

Invariants: see `pool_ir.py` for the pool itself. Here: the limit follows the knob `threads` and
the cores this process may use; a forked child starts afresh; the code is never unloaded, since
workers live in it.
"""

from __future__ import annotations

import ctypes
import functools
import os

from tailorbird import knobs
from tailorbird.assemble import build, divide_ir, jit, pool_ir, steps_ir

MOST_THREADS = 256


def symbols() -> dict[str, int]:
    """Addresses for generated code, with the limit set from the knobs."""
    library = _library()
    refresh()
    wanted = ("tb_parfor", "tb_threads", *steps_ir.EXPORTS, *divide_ir.EXPORTS)
    return {name: library.address(name) for name in wanted}


def threads() -> int:
    """How many threads a kernel may use now, the calling one included."""
    wanted = knobs.get("threads") or len(os.sched_getaffinity(0))
    return max(1, min(int(wanted), MOST_THREADS))


def refresh() -> int:
    """Let the running pool follow the knob `threads`; the limit that holds from now on."""
    limit = threads()
    _word("tb_parallel").value = max(1, knobs.get("parallel"))  # no work: in one piece
    _word("tb_threads").value = limit
    return limit


def started() -> int:
    """How many workers have been started in this process."""
    return int(_word("tb_pool_started").value)


def _word(name: str) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(_library().address(name))


def _ir() -> str:
    return pool_ir.IR + steps_ir.ir() + divide_ir.ir()


@functools.cache
def _library() -> jit.Library:
    exports = (*pool_ir.EXPORTS, *steps_ir.EXPORTS, *divide_ir.EXPORTS)
    library = build.build_runtime("pool", _ir, (), exports, level=jit.QUICK)
    reset = ctypes.CFUNCTYPE(None)(library.address("tb_pool_reset"))
    os.register_at_fork(after_in_child=reset)
    return library
