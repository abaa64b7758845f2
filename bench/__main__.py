"""`python -m bench SUITE... [--threads N] [--peers a,b] [--seconds S] [--quick]`.

`python -m bench npbench --checkout PATH` is a command of its own: see bench/npbench.

In: the command line. Out: bench/results/SUITE.json (SUITE-2threads.json for two threads) and the
figures that hold or fall short on the console; the exit status is 0 even where a figure falls
short, since a benchmark is a measurement and not a test.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

from bench.suites import SUITES
from bench.threads import configure

RESULTS = Path(__file__).resolve().parent / "results"


def parse(words: list[str] | None) -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks with peers.")
    parser.add_argument("suites", nargs="+", choices=(*SUITES, "all"), metavar="SUITE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="", help="comma-separated; all of them if not given")
    parser.add_argument("--seconds", type=float, default=2.0, help="per case, all peers together")
    parser.add_argument("--quick", action="store_true", help="few sizes, to see that it works")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Run the suites that were asked for."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["npbench"]:
        from bench.npbench.command import main as npbench

        return npbench(words[1:])
    asked = parse(words)
    suites = SUITES if "all" in asked.suites else asked.suites
    configure(asked.threads)
    from bench import peers, timing

    cores = timing.pin(asked.threads)
    names = [name.strip() for name in asked.peers.split(",") if name.strip()] or list(peers.LOADERS)
    found, missing = peers.load(_known(names, list(peers.LOADERS)), asked.threads)
    for name, reason in missing.items():
        print(f"missing: {name} ({reason})")
    for suite in suites:
        print(f"== {suite}, {asked.threads} thread(s), cores {cores}")
        header = _header(asked, suite, found, missing, cores)
        _run_suite(suite, asked, header, found)
    return 0


def _run_suite(suite: str, asked: argparse.Namespace, header: dict[str, Any], found: list) -> None:
    from bench.race import Options
    from bench.targets import check

    names = tuple(peer.name for peer in found)
    options = Options(asked.threads, names, asked.seconds, asked.quick)
    body = importlib.import_module(f"bench.suites.{suite}").run(found, options)
    targets = check(suite, body)
    suffix = "" if asked.threads == 1 else f"-{asked.threads}threads"
    path = asked.out / f"{suite}{suffix}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**header, "targets": targets, **body}, indent=1) + "\n")
    short = [row for row in targets if not row["holds"]]
    print(f"{len(targets) - len(short)} of {len(targets)} figures hold; written to {path}")
    for row in short:
        print(f"  short: {row['what']}: {row['measured']:.3g}, limit {row['limit']:.3g}")


def _known(names: list[str], all_names: list[str]) -> list[str]:
    """The names as typed, with `numba` meaning both of its rows and `torch` torch.compile."""
    wanted = [known for known in all_names if known in names or known.split(" ")[0] in names]
    wanted += ["torch.compile"] if "torch" in names else []
    unknown = set(names) - set(all_names) - {"torch"}
    if unknown:
        raise SystemExit(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(all_names)}")
    return wanted


def _header(
    asked: argparse.Namespace, suite: str, found: list, missing: dict[str, str], cores: list[int]
) -> dict[str, Any]:
    """What one must know to repeat and to believe the figures."""
    from tailorbird.hardware import profile

    options = [f"--threads {asked.threads}", f"--seconds {asked.seconds:g}"]
    options += [f"--peers {asked.peers!r}"] if asked.peers else []
    options += ["--quick"] if asked.quick else []
    return {
        "suite": suite,
        "command": f"python -m bench {suite} {' '.join(options)}",
        "clock": "process CPU time" if asked.threads == 1 else "wall time",
        "threads": asked.threads,
        "cores": cores,
        "date": time.strftime("%Y-%m-%d"),
        "machine": profile().to_dict(),
        "versions": {"python": platform.python_version(), **{p.name: p.version for p in found}},
        "missing": missing,
    }


if __name__ == "__main__":
    raise SystemExit(main())
