"""Starts the cells, keeps what they found, and goes on where it was interrupted.

In: a `Plan`. Out: the rows of every cell, from processes of their own or from the JSON lines file
of an earlier run.

Invariants:
- A row is kept as soon as its cell has ended. It is used again only while what it depends on is the
  same: the suite, the peer, the code that measures, the threads and seconds asked for (`_stamp`).
- A cell that takes too long is killed with all that it started; its last version is a time-out, and
  the versions it finished count.
- No path of this machine gets into a row.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import threads
from bench.npbench import pythran_
from bench.npbench.cell import Job, command
from bench.npbench.checkout import Program, commit_of
from bench.npbench.versions import PACKAGES

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+")
OWN = "tailorbird"
LATER = 3  # processes that find what the first one compiled
MEASURING = ("cell.py", "answers.py", "versions.py", "checkout.py")
LONGEST_REASON = 240
Say = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured, and where what was found is kept."""

    checkout: Path
    programs: list[Program]
    presets: list[str]
    peers: list[str]
    scratch: Path
    threads: int = 1
    seconds: float = 2.0
    timeout: float = 300.0
    all_variants: bool = False
    fresh: bool = False
    stamps: dict[str, str] = field(default_factory=dict)

    def cells(self) -> Iterator[tuple[Program, Job]]:
        """All peers of one program and preset after each other, NumPy first."""
        for program in self.programs:
            for preset in self.presets:
                if preset in program.info["parameters"]:
                    for peer in self.peers:
                        yield program, self.job(program, preset, peer)

    def job(self, program: Program, preset: str, peer: str) -> Job:
        """What one cell is told."""
        where = str(self.checkout)
        return Job(
            where, program.name, preset, peer, "", self.threads, self.seconds, self.all_variants
        )


def run(plan: Plan, say: Say = print) -> list[Row]:
    """Every cell, measured now or before."""
    plan.scratch.mkdir(parents=True, exist_ok=True)
    kept = plan.scratch / f"cells-{plan.threads}.jsonl"
    if plan.fresh:
        kept.unlink(missing_ok=True)
    known = _read(kept)
    suite = commit_of(plan.checkout)
    found: list[Row] = []
    for program, job in plan.cells():
        key = f"{job.program} {job.preset} {job.peer}"
        stamp = _stamp(plan, suite, job.peer)
        rows = known.get((key, stamp))
        if rows is None:
            start = time.perf_counter()
            rows = _measure(plan, program, job)
            spent = time.perf_counter() - start
            with kept.open("a") as file:
                file.write(json.dumps({"key": key, "stamp": stamp, "rows": rows}) + "\n")
            say(f"{key:36} {spent:6.1f} s  {_line(rows)}")
        found += rows
    return found


def missing(names: list[str]) -> dict[str, str]:
    """The peers that are not installed, and the reason."""
    found = {}
    for peer in names:
        if peer == "pythran" and pythran_.available():
            found[peer] = pythran_.available()
        elif peer != OWN and not version_of(peer):
            found[peer] = f"No module named {PACKAGES.get(peer, peer)!r}"
    return found


def version_of(peer: str) -> str:
    """What is installed of a peer; empty when nothing is."""
    try:
        return metadata.version(PACKAGES.get(peer, peer))
    except metadata.PackageNotFoundError:
        return ""


def _measure(plan: Plan, program: Program, job: Job) -> list[Row]:
    """The rows of one cell."""
    fixed: Row = {"program": job.program, "preset": job.preset, "peer": job.peer}
    if job.peer == "pythran":
        made = pythran_.compiled(program, plan.scratch / "pythran", plan.threads, plan.timeout)
        fixed["compile_s"] = made["seconds"]
        if not made["library"]:
            row = {"version": "compiled", "status": "failed", "reason": made["error"]}
            return [_scrubbed({**fixed, **row}, plan)]
        job = replace(job, library=made["library"])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **threads.environment(plan.threads)}
        environment["TAILOR_CACHE_DIR"] = str(Path(folder) / "objects")
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        for name in ("TAILOR_BACKGROUND", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(name, None)
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        )
        rows = _start(job, Path(folder) / "rows", plan, environment)
        if job.peer == OWN and rows and rows[0]["status"] == "right":
            rows[0] |= _later(job, Path(folder), plan, environment)
    if not rows:
        rows = [{"version": "-", "status": "absent", "reason": "the suite ships no version"}]
    return [_scrubbed({**fixed, **row}, plan) for row in rows]


def _later(job: Job, folder: Path, plan: Plan, environment: dict[str, str]) -> Row:
    """The first and the steady call of the middle one of a few later processes: memory that the
    machine hands out for the first time may cost one of them ten times what it costs another.
    """
    again = replace(job, second=True)
    starts = [_start(again, folder / f"later{k}", plan, environment) for k in range(LATER)]
    found = [rows[0] for rows in starts if rows and rows[0]["status"] == "right"]
    if not found:
        return {}
    found.sort(key=lambda row: row["first_ms"] - row["steady_ms"])
    middle = found[len(found) // 2]
    return {"second_first_ms": middle["first_ms"], "second_steady_ms": middle["steady_ms"]}


def _start(job: Job, out: Path, plan: Plan, environment: dict[str, str]) -> list[Row]:
    """Runs a cell in a process of its own; a version that did not end is a row as well."""
    log = plan.scratch / "log.txt"
    ended = ""
    with log.open("a") as output:
        output.write(f"== {json.dumps(asdict(job))}\n")
        output.flush()
        at = output.tell()
        process = subprocess.Popen(
            command(replace(job, out=str(out))),
            cwd=plan.scratch,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(plan.timeout)
        except subprocess.TimeoutExpired:
            ended = "timeout"
        finally:
            _end(process)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = [row for row in rows if row["status"] != "start"]
    unfinished = rows[-1] if rows and rows[-1]["status"] == "start" else None
    if ended or process.returncode:
        said = log.read_text()[at:].strip().splitlines()
        reason = f"over {plan.timeout:g} s" if ended else _exit(process.returncode, said)
        row = {"version": unfinished["version"] if unfinished else "-", "reason": reason}
        if unfinished or not done:
            done.append({**row, "status": ended or "crashed"})
    return done


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _exit(code: int, said: list[str]) -> str:
    name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return f"{name}: {said[-1]}" if said else name


def _read(path: Path) -> dict[tuple[str, str], list[Row]]:
    """The cells of earlier runs; a line that was cut short is no cell."""
    known = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            cell = json.loads(line)
        except json.JSONDecodeError:
            continue
        known[cell["key"], cell["stamp"]] = cell["rows"]
    return known


def _stamp(plan: Plan, suite: str, peer: str) -> str:
    """What a cell depends on; Tailorbird by its source."""
    if peer not in plan.stamps:
        plan.stamps[peer] = _digest(ROOT / OWN, "**/*.py") if peer == OWN else version_of(peer)
    plan.stamps.setdefault("", _digest(ROOT / "bench" / "npbench", *MEASURING))
    words = [suite, plan.stamps[""], plan.stamps[peer], version_of("numpy")]
    words += [f"{plan.threads} {plan.seconds:g}"]
    return " ".join([*words, *(["all"] if plan.all_variants else [])])


def _digest(folder: Path, *patterns: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(found for pattern in patterns for found in folder.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _scrubbed(row: Row, plan: Plan) -> Row:
    """Without folders of this machine, infinities, and texts of many lines."""
    clean: Row = {}
    for name, value in row.items():
        if isinstance(value, str):
            value = _short(value)
        elif isinstance(value, list):
            value = [_short(item) if isinstance(item, str) else item for item in value]
        elif isinstance(value, float) and value == float("inf"):
            value = None
        clean[name] = value
    return clean


def _short(text: str) -> str:
    return FOLDERS.sub("", " ".join(text.split()))[:LONGEST_REASON]


def _line(rows: list[Row]) -> str:
    """A cell for people."""
    parts = []
    for row in rows:
        if "median_ms" in row:
            mark = "" if row["status"] == "right" else f" {row['status'].upper()}"
            parts.append(f"{row['version']} {row['median_ms']:.4g} ms {row['speedup']:.3g}x{mark}")
        else:
            parts.append(f"{row['version']} {row['status']}")
    return ", ".join(parts)
