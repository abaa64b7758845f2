"""What a checkout of the suite says about its programs.

In: the folder of a checkout. Out: `Program`s: names, files, functions, arguments, tolerances.

Invariants: the suite's files are read and imported, never written; the arguments of a preset are
the same in every process.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

INFO = "bench_info"
PACKAGE = "npbench.benchmarks"


@dataclass(frozen=True)
class Tolerance:
    """The suite's own: close element by element, or close in norm."""

    relative: float = 1e-5
    absolute: float = 1e-8
    norm: float = 1e-5


@dataclass(frozen=True)
class Program:
    """One program of a checkout."""

    checkout: Path
    name: str
    info: dict[str, Any]

    @property
    def tolerance(self) -> Tolerance:
        """What the suite accepts of this program."""
        default = Tolerance()
        return Tolerance(
            self.info.get("rtol", default.relative),
            self.info.get("atol", default.absolute),
            self.info.get("norm_error", default.norm),
        )

    @property
    def argument_names(self) -> list[str]:
        """In the order of the call."""
        return list(self.info["input_args"])

    @property
    def output_places(self) -> list[int]:
        """Which arguments the suite takes for outputs."""
        listed = set(self.info.get("output_args", [])) & set(self.info.get("array_args", []))
        return [at for at, name in enumerate(self.argument_names) if name in listed]

    def path(self, ending: str) -> Path:
        """The file of one peer's version, which need not exist."""
        parts = Path(*PACKAGE.split("."), self.info["relative_path"])
        return self.checkout / parts / f"{self.info['module_name']}_{ending}.py"

    def has(self, ending: str) -> bool:
        """Whether the suite ships this version."""
        return self.path(ending).exists()

    def function(self, ending: str) -> Callable[..., Any]:
        """A version's function, from `MODULE_ending.py`."""
        return getattr(self._module(f"_{ending}"), self.info["func_name"])

    def arguments(self, preset: str) -> list[Any]:
        """The arguments of a preset, made by the suite's own initialiser."""
        np.random.seed(0)
        values = dict(self.info["parameters"][preset])
        init = self.info.get("init")
        if init:
            make = getattr(self._module(""), init["func_name"])
            made = make(*(values[name] for name in init["input_args"]))
            names = init["output_args"]
            values.update(zip(names, made if isinstance(made, tuple) else (made,)))
        return [values[name] for name in self.argument_names]

    def _module(self, ending: str) -> Any:
        if str(self.checkout) not in sys.path:
            sys.path.insert(0, str(self.checkout))
        folder = self.info["relative_path"].replace("/", ".")
        return importlib.import_module(f"{PACKAGE}.{folder}.{self.info['module_name']}{ending}")


def find_program(checkout: Path, name: str) -> Program:
    """One program by the name of its file in bench_info."""
    path = checkout / INFO / f"{name}.json"
    return Program(checkout, name, json.loads(path.read_text())["benchmark"])


def all_programs(checkout: Path) -> list[Program]:
    """Every program, by name."""
    names = sorted(path.stem for path in (checkout / INFO).glob("*.json"))
    if not names:
        raise SystemExit(f"{checkout} has no {INFO}/*.json: it is no checkout of spcl/npbench")
    return [find_program(checkout, name) for name in names]


def choose(checkout: Path, words: list[str]) -> list[Program]:
    """The programs that are meant: by file name or by the suite's short name; all if none."""
    programs = all_programs(checkout)
    if not words:
        return programs
    chosen = [p for p in programs if p.name in words or p.info["short_name"] in words]
    known = {p.name for p in chosen} | {p.info["short_name"] for p in chosen}
    if set(words) - known:
        raise SystemExit(f"no program {', '.join(sorted(set(words) - known))} in {INFO}")
    return chosen


def commit_of(checkout: Path) -> str:
    """Which state of the suite this is; empty where git cannot say."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
