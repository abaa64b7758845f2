"""One case of a race suite: prepare every peer, compare the answers, time them together.

In: `Case`s and the options of the run. Out: one plain dict per case for the JSON file, and a line
on the console as soon as it is measured.

Invariants: the error of an answer is its largest difference from the same function computed by
NumPy in float64, relative to the largest magnitude of that; a peer whose error is above `TOLERANCE`
is measured but marked, and does not count as best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.peers import Arguments, Peer
from bench.timing import Entry, race
from bench.versions.numpy_ import FUNCTIONS

TOLERANCE = {"float32": 1e-3, "float64": 1e-11}


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    threads: int = 1
    peers: tuple[str, ...] = ()
    seconds: float = 2.0
    quick: bool = False

    @property
    def clock(self) -> str:
        """CPU time for one thread, wall time for more."""
        return "cpu" if self.threads == 1 else "wall"


@dataclass(frozen=True)
class Case:
    """A function at one dtype and shape."""

    function: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements of the first argument."""
        return int(np.prod(self.shape))

    def __str__(self) -> str:
        return f"{self.function} {self.dtype} {'x'.join(map(str, self.shape))}"


def _normal(case: Case, *shapes: tuple[int, ...]) -> Arguments:
    rng = np.random.default_rng(7)
    return tuple(rng.standard_normal(shape).astype(case.dtype) for shape in shapes)


def _matrices(case: Case, *letters: str) -> Arguments:
    """Matrices whose sides are named by letters: the shape is (m, k, n), M is twice m."""
    m, k, n = case.shape
    sides = {"m": m, "k": k, "n": n, "M": 2 * m}
    return _normal(case, *(tuple(sides[x] for x in pair) for pair in letters))


# Arguments by function; one array of the case's shape unless a row says otherwise.
ARGUMENTS: dict[str, Callable[[Case], Arguments]] = {
    "three_ops": lambda case: _normal(case, case.shape, case.shape),
    "ten_ops": lambda case: _normal(case, case.shape, case.shape),
    "chain": lambda case: (*_normal(case, case.shape), 1.5, 0.2),
    "product": lambda case: _matrices(case, "mk", "kn"),
    "turned": lambda case: _matrices(case, "mk", "nk"),
    "turned_left": lambda case: _matrices(case, "km", "kn"),
    "every_other_row": lambda case: _matrices(case, "Mk", "kn"),
    "gram": lambda case: _matrices(case, "kn"),
    "layernorm": lambda case: _normal(case, case.shape, case.shape[1:], case.shape[1:]),
}


def make_arguments(case: Case) -> Arguments:
    """The arguments of a case, the same in every run."""
    make = ARGUMENTS.get(case.function)
    return make(case) if make else _normal(case, case.shape)


def run_cases(cases: Iterable[Case], peers: list[Peer], options: Options) -> list[dict[str, Any]]:
    """Every case in turn, with a line on the console each."""
    results = []
    for case in cases:
        result = run_case(case, peers, options)
        print(line(result), flush=True)
        results.append(result)
    return results


def run_case(case: Case, peers: list[Peer], options: Options) -> dict[str, Any]:
    """Measure all peers on one case."""
    arguments = make_arguments(case)
    exact = FUNCTIONS[case.function](*(_widen(value) for value in arguments))
    entries: list[Entry] = []
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for peer in peers:
        try:
            ready = peer.ready(case.function, arguments)
        except Exception as error:  # noqa: BLE001 - a peer that cannot do this case is named
            failed[peer.name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        if ready is not None:
            errors[peer.name] = _error(ready[0](*ready[1]), exact)
            entries.append(Entry(peer.name, *ready))
    times = race(entries, options.seconds, options.clock)
    measured = {
        label: {**asdict(timing), "error": errors[label], "agrees": errors[label] <= _limit(case)}
        for label, timing in times.items()
    }
    return {**_identity(case), "times": measured, "failed": failed, "ratios": ratios(measured)}


def ratios(measured: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Time of each peer over Tailorbird's; over NumPy's where Tailorbird was not measured."""
    base = measured.get("tailorbird") or measured.get("numpy")
    if base is None:
        return {}
    return {label: row["median"] / base["median"] for label, row in measured.items()}


def line(result: dict[str, Any]) -> str:
    """A case for people: microseconds of every peer, with its ratio."""
    parts = [
        f"{label} {row['median'] * 1e6:.4g} ({result['ratios'].get(label, 0):.2f})"
        + ("" if row["agrees"] else f" WRONG {row['error']:.0e}")
        for label, row in result["times"].items()
    ]
    failures = [f"{label} failed" for label in result["failed"]]
    return f"{result['case']:32} us: " + ", ".join(parts + failures)


def _identity(case: Case) -> dict[str, Any]:
    return {"case": str(case), **asdict(case), "size": case.size}


def _widen(value: Any) -> Any:
    return value.astype("float64") if isinstance(value, np.ndarray) else value


def _limit(case: Case) -> float:
    return TOLERANCE[case.dtype]


def _error(result: Any, exact: Any) -> float:
    """The largest difference, relative to the largest magnitude."""
    got = np.asarray(result, dtype="float64")
    if got.shape != np.shape(exact):
        return float("inf")
    scale = float(np.max(np.abs(exact), initial=1e-300))
    return float(np.max(np.abs(got - exact), initial=0.0)) / scale
