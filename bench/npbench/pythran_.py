"""Compiles the suite's Pythran files ahead of time.

In: a program and a folder to keep what was compiled. Out: the compiled file or the reason why there
is none, and the seconds it took.

Invariants: the flags are the suite's (OpenMP only where there are threads to use it); a result,
failures and time-outs included, is kept under a digest of source, flags and Pythran's version, so
that it is paid for once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.npbench.checkout import Program

FLAGS = ("-DUSE_XSIMD", "-march=native", "-ffast-math")


def available() -> str:
    """Why Pythran cannot be used; empty when it can."""
    if importlib.util.find_spec("pythran") is None:
        return "No module named 'pythran'"
    return ""


def compiled(program: Program, folder: Path, threads: int, limit: float) -> dict[str, Any]:
    """`library`, `error` and `seconds` of a program, compiled now or before."""
    if not program.has("pythran"):
        return {"library": "", "error": "the suite ships no file for Pythran", "seconds": 0.0}
    flags = [*FLAGS, *(("-fopenmp",) if threads > 1 else ()), *_blas()]
    source = program.path("pythran")
    facts = [source.read_text(), *flags, metadata.version("pythran"), sys.version]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    home = folder / f"{program.name}-{digest}"
    home.mkdir(parents=True, exist_ok=True)
    note = home / "outcome.json"
    library = home / f"{program.info['module_name']}_pythran.so"
    if not note.exists():
        note.write_text(json.dumps(_compile(source, library, flags, home, limit)))
    kept = json.loads(note.read_text())
    return {**kept, "library": str(library) if library.exists() else ""}


def _blas() -> list[str]:
    """SciPy's OpenBLAS where it is installed as a package; else what Pythran's settings say."""
    if importlib.util.find_spec("scipy_openblas64") is None:
        return []
    return ["--config=compiler.blas=scipy-openblas"]


def _compile(
    source: Path, library: Path, flags: list[str], home: Path, limit: float
) -> dict[str, Any]:
    command = [sys.executable, "-m", "pythran.run", *flags, str(source), "-o", str(library)]
    log = home / "log.txt"
    start = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=home, start_new_session=True
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return {"error": f"compiling took over {limit:g} s", "seconds": limit}
    seconds = time.perf_counter() - start
    error = "" if library.exists() else _reason(log.read_text())
    return {"error": error, "seconds": seconds}


def _reason(text: str) -> str:
    """The line that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "CRITICAL" in line]
    return (telling or lines or ["compiling failed"])[0][:200]
