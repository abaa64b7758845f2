"""Probes: measurements that need a fresh process, such as compiling, importing and peak memory.

In: `measure(probe, arguments, repeats)` starts `python -m bench.processes PROBE ...` that often,
each with the environment given. Out: what the probe printed as JSON, one dict per repeat. Every
probe is a function of `PROBES` below that returns a dict of plain numbers.

Invariants: a probe imports only what it measures (this module imports nothing heavy); peak memory
is VmHWM, reset before the measured calls, since `ru_maxrss` would carry the parent's peak over.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.threads import configure

ROOT = Path(__file__).resolve().parent.parent
SIZE = 1000
SHAPES = 100


def measure(
    probe: str, *arguments: str, repeats: int, environment: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run a probe in fresh processes, one after the other."""
    command = [sys.executable, "-m", "bench.processes", probe, *arguments]
    variables = {**os.environ, **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    found = []
    for _ in range(repeats):
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


class Stopwatch:
    """Wall and CPU milliseconds since it was made; CPU of children that have ended included."""

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.cpu = _cpu_seconds()

    def read(self) -> dict[str, float]:
        """What has passed so far."""
        wall = time.perf_counter() - self.wall
        cpu = _cpu_seconds() - self.cpu
        return {"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3}


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _arguments(shape: tuple[int, ...] = (SIZE,)) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.standard_normal(shape), rng.standard_normal(shape)


def probe_compile(name: str) -> dict[str, float]:
    """First call of the ten-operation function by a peer, after its import."""
    configure(1)
    from bench import peers

    os.environ |= {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    peer = peers.LOADERS[name](1)
    arguments = _arguments()
    watch = Stopwatch()
    peer.ready("ten_ops", arguments)
    return watch.read()


def probe_tailor() -> dict[str, float]:
    """Compile the ten-operation function: first in the process, then once all is loaded."""
    from bench.versions.numpy_ import ten_ops, three_ops
    from tailorbird import api

    arguments = _arguments()
    first = Stopwatch()
    api.tailor(three_ops, background=False).warm(*arguments)
    loading = first.read()
    second = Stopwatch()
    api.tailor(ten_ops, background=False).warm(*arguments)
    compiling = second.read()
    return {"first_cpu_ms": loading["cpu_ms"], **compiling}


def probe_start() -> dict[str, float]:
    """Import and first call of the ten-operation function, beyond importing NumPy."""
    from bench.versions.numpy_ import ten_ops

    arguments = _arguments()
    watch = Stopwatch()
    from tailorbird import api

    api.tailor(ten_ops, background=False)(*arguments)
    return watch.read()


def probe_shapes() -> dict[str, float]:
    """How often a hundred shapes of one function compile."""
    from bench.versions.numpy_ import ten_ops
    from tailorbird import api, events

    compiled: list[str] = []

    def note(event: Any) -> None:
        if event.kind == "compiled":
            compiled.append(event.function)

    tailored = api.tailor(ten_ops, background=False)
    with events.listening(note):
        for rows in range(2, 2 + SHAPES):
            tailored(*_arguments((rows, 3 * rows + 1)))
    return {"shapes": SHAPES, "compilations": len(compiled), "variants": len(tailored.variants)}


def probe_memory(kind: str, function: str, dtype: str, shape: str) -> dict[str, float]:
    """Peak memory of three calls, plain or tailored, above what was held before them."""
    from bench.race import Case, make_arguments
    from bench.versions.numpy_ import FUNCTIONS

    case = Case(function, dtype, tuple(int(part) for part in shape.split("x")))
    call: Callable[..., Any] = FUNCTIONS[function]
    arguments = make_arguments(case)
    if kind == "tailored":
        from tailorbird import api

        call = api.tailor(call, background=False)
        call.warm(*arguments)  # type: ignore[attr-defined]
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(3):
        result = call(*arguments)
    del result
    peak = _status("VmHWM")
    return {"growth_mib": (peak - before) / 1024, "peak_mib": peak / 1024}


def _status(field: str) -> int:
    """A size in KiB from /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0


PROBES: dict[str, Callable[..., dict[str, float]]] = {
    "compile": probe_compile,
    "tailor": probe_tailor,
    "start": probe_start,
    "shapes": probe_shapes,
    "memory": probe_memory,
}

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]](*sys.argv[2:])))
