"""Whether a peer's answers are NumPy's.

In: what a call returned and its arguments afterwards, of NumPy and of a peer. Out: `Verdict`: right
or not under the suite's tolerance, the largest error, and a note on what was not compared.

Invariants:
- Everything counts: all returned values and all arguments that NumPy or the peer wrote.
- A peer whose functions give new arrays instead of writing (JAX) may return what NumPy writes, in
  any order. Where it leaves some of that out, the answer is partial: what is missing may not even
  have been computed.
- Where rounding alone moves NumPy's answer further than the suite allows (NumPy run again with
  float arguments an ulp away), as much again is allowed, and a note says so.
- The error is the largest difference relative to the largest magnitude of NumPy's answer; where
  either is nan or infinite, both must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.npbench.checkout import Tolerance


@dataclass
class Answers:
    """What a call gave: the new values it returned, the positions of arguments it returned as they
    are, and by position the arguments it wrote.
    """

    returned: list[np.ndarray]
    handed_back: list[int]
    written: dict[int, np.ndarray]

    def apart(self, other: Answers, names: Sequence[str]) -> dict[str, float]:
        """How far each value is from another run's, relative to its norm, by its place."""
        pairs = [
            (f"result {k}", *both) for k, both in enumerate(zip(self.returned, other.returned))
        ]
        common = self.written.keys() & other.written.keys()
        pairs += [(names[at], self.written[at], other.written[at]) for at in sorted(common)]
        floats = [(place, a, b) for place, a, b in pairs if a.dtype.kind in "fc"]
        return {place: gap(a, b) for place, a, b in floats if a.shape == b.shape}


@dataclass
class Verdict:
    """Whether answers agree, and by how much they do not."""

    right: bool = True
    error: float = 0.0
    notes: list[str] = field(default_factory=list)
    strict: bool = False
    partial: bool = False  # what there is agrees, and some of it is missing
    moves: dict[str, float] = field(default_factory=dict)  # what rounding does to NumPy's answers

    @property
    def status(self) -> str:
        """In one word."""
        return "wrong" if not self.right else "partial" if self.partial else "right"

    def add(self, place: str, wanted: np.ndarray, found: np.ndarray, allowed: Tolerance) -> None:
        """Compares one more pair."""
        if self.strict and (wanted.dtype, wanted.shape) != (found.dtype, found.shape):
            self.right = False
            kinds = f"{found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
            self.notes.append(f"{place} is {kinds}")
        if wanted.shape != found.shape and wanted.size == found.size:
            self.notes.append(f"{place} has shape {found.shape}, not {wanted.shape}")
            found = found.reshape(wanted.shape)
        error = largest_error(wanted, found)
        self.error = max(self.error, error)
        moves = self.moves.get(place, 0.0)
        if is_close(wanted, found, allowed):
            return
        if is_close(wanted, found, replace(allowed, norm=max(allowed.norm, 2 * moves))):
            self.notes.append(
                f"{place} is chaotic: one ulp in the arguments moves it by {moves:.1e}"
            )
            return
        self.right = False
        self.notes.append(f"{place} is off by {error:.1e}")


def flatten(result: Any) -> list[Any]:
    """The values in a returned value, however it is nested."""
    if result is None:
        return []
    if isinstance(result, (tuple, list)):
        return [value for item in result for value in flatten(item)]
    return [result]


def answers_of(
    before: Sequence[Any], after: Sequence[Any], result: Any, outputs: Sequence[int] = ()
) -> Answers:
    """What a call gave that had these arguments; `outputs` are those that count as written where
    nothing changed and nothing came back, as with a stencil on a field that it leaves as it is.
    """
    written = {
        at: np.array(new)
        for at, (old, new) in enumerate(zip(before, after))
        if isinstance(old, np.ndarray) and not same(old, new)
    }
    arrays = {_place(x): at for at, x in enumerate(after) if isinstance(x, np.ndarray) and x.size}
    values = [(x, _place(x)) for x in flatten(result)]
    handed_back = [arrays[place] for _, place in values if place in arrays]
    new = [np.array(x) for x, place in values if place not in arrays]
    if not new and not handed_back and not written:
        written = {at: np.array(after[at]) for at in outputs}
    return Answers(new, handed_back, written)


def _place(x: Any) -> tuple[Any, ...]:
    """Where an array lies; Numba makes a new object for an argument that it hands back."""
    if not isinstance(x, np.ndarray):
        return ()
    return x.__array_interface__["data"][0], x.shape, x.strides


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal, nan included."""
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def compare(
    wanted: Answers,
    found: Answers,
    before: Sequence[Any],
    names: Sequence[str],
    allowed: Tolerance,
    strict: bool = False,
    moves: dict[str, float] | None = None,
) -> Verdict:
    """A peer that writes its arguments as NumPy does; `strict` asks for its dtypes and shapes."""
    verdict = Verdict(strict=strict, moves=moves or {})
    everything = len(wanted.returned) + len(wanted.written)
    if not strict and not found.written and len(found.returned) == everything:
        return compare_functional(wanted, found, names, allowed, moves)
    if strict and found.handed_back != wanted.handed_back:
        verdict.right = False
        back = [[names[at] for at in given.handed_back] for given in (found, wanted)]
        verdict.notes.append(f"hands back {back[0]}, not {back[1]}")
    if len(found.returned) != len(wanted.returned) and (strict or not found.returned):
        verdict.right = False
        verdict.notes.append(f"{len(found.returned)} of {len(wanted.returned)} results")
    for k, (a, b) in enumerate(zip(wanted.returned, found.returned)):
        verdict.add(f"result {k}", a, b, allowed)
    for at in sorted(wanted.written.keys() | found.written.keys()):
        a, b = (given.written.get(at, before[at]) for given in (wanted, found))
        verdict.add(names[at], a, b, allowed)
    return verdict


def compare_functional(
    wanted: Answers,
    found: Answers,
    names: Sequence[str],
    allowed: Tolerance,
    moves: dict[str, float] | None = None,
) -> Verdict:
    """A peer that returns new arrays for what NumPy writes, in whatever order."""
    verdict = Verdict(moves=moves or {})
    pool = list(found.returned)
    places = [(f"result {k}", a) for k, a in enumerate(wanted.returned)]
    places += [(names[at], a) for at, a in sorted(wanted.written.items())]
    short = len(pool) < len(places)
    matched = 0
    for place, a in places:
        near = sorted(range(len(pool)), key=lambda k: largest_error(a, pool[k]))
        room = replace(allowed, norm=max(allowed.norm, 2 * verdict.moves.get(place, 0.0)))
        if near and is_close(a, pool[near[0]], room):
            verdict.add(place, a, pool.pop(near[0]), allowed)
            matched += 1
        elif short and place in names:
            verdict.partial = True
            verdict.notes.append(f"{place} is not returned")
        else:
            verdict.right = False
            verdict.notes.append(f"{place} differs" if near else f"{place} is not returned")
    verdict.right = verdict.right and (matched > 0 or not places)
    return verdict


def is_close(wanted: np.ndarray, found: np.ndarray, allowed: Tolerance) -> bool:
    """The suite's test; nan and infinite where NumPy is."""
    if wanted.shape != found.shape:
        return False
    try:
        with np.errstate(all="ignore"):
            if np.allclose(wanted, found, allowed.relative, allowed.absolute, equal_nan=True):
                return True
            return gap(wanted, found) < allowed.norm
    except TypeError:
        return False


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """The norm of the difference over the norm of the first; infinite where that says nothing."""
    with np.errstate(all="ignore"):
        found = np.linalg.norm((a - b).ravel()) / np.linalg.norm(a.ravel())
    return float(found) if np.isfinite(found) else float("inf")


def largest_error(wanted: np.ndarray, found: np.ndarray) -> float:
    """The largest difference over the largest magnitude; infinite where there is no difference to
    speak of.
    """
    if wanted.shape != found.shape or wanted.dtype.kind not in "biufc":
        return 0.0 if same(wanted, found) else float("inf")
    if not wanted.size:
        return 0.0
    kind = np.complex128 if "c" in wanted.dtype.kind + found.dtype.kind else np.float64
    a, b = wanted.astype(kind), found.astype(kind)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        odd = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if odd.any():
        return float("inf")
    gap = np.max(np.abs(a[finite] - b[finite]), initial=0.0)
    scale = np.max(np.abs(a[finite]), initial=0.0)
    return float(gap / scale) if scale else float(gap)
