"""Whether two runs of a program gave the same, and how far two right answers may be apart.

In: what the plain function did and what the tailored one did (`Outcome`: result or exception, and
the arguments afterwards), and runs of the noisy program. Out: a sentence about the first
difference, or the empty text.

Structure, types, dtypes, shapes, exceptions, aliasing and bits must be the same. An element may
differ only where the noisy runs differ as well: by no more than eight times as much, or in any way
where the noise flips it between classes (nan, infinite, another integer or truth).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SLACK = 8.0
NOISE_ULPS = 4.0
WIDER = {"f": "d", "d": "g", "F": "D", "D": "G"}


@dataclass
class Outcome:
    """What a call did."""

    result: Any
    error: BaseException | None
    arguments: dict[str, Any]


def run(function: Callable[..., Any], arguments: dict[str, Any]) -> Outcome:
    """Calls with these arguments, which may be written."""
    try:
        return Outcome(function(**arguments), None, arguments)
    except Exception as error:  # noqa: BLE001
        return Outcome(None, error, arguments)


def difference(plain: Outcome, found: Outcome, noise: Callable[[], Sequence[Outcome]]) -> str:
    """The first thing that is not the same, or nothing."""
    if (plain.error is None) != (found.error is None) or type(plain.error) is not type(found.error):
        return f"error: {_error(plain)} in plain Python, {_error(found)} tailored"
    pairs: list[tuple[str, Any, Any]] = []
    text = _structure("result", plain.result, found.result, pairs)
    text = text or _structure("argument", plain.arguments, found.arguments, pairs)
    text = text or _aliases(plain, found)
    if ": shape " in text and any(_sizes(o) != _sizes(plain) for o in noise() if o.error is None):
        return ""  # what is picked depends on the noise
    if text:
        return text
    for name, x in plain.arguments.items():
        memory = _memory(x)
        if memory is not None:
            pairs.append((f"memory {name}", memory, _memory(found.arguments[name])))
    for place, a, b in pairs:
        bad = ~_same(a, b)
        if bad.any():
            return _explained(place, a, b, bad, noise())
    return ""


def _memory(x: Any) -> np.ndarray | None:
    """All that an argument is a view of; what lies around the view must stay."""
    base = x.base if isinstance(x, np.ndarray) else None
    return base if isinstance(base, np.ndarray) else None


def _error(outcome: Outcome) -> str:
    return "no error" if outcome.error is None else repr(outcome.error)


def _sizes(outcome: Outcome) -> list[tuple[int, ...]]:
    return [x.shape for x in _arrays(outcome)]


def _structure(place: str, a: Any, b: Any, pairs: list[tuple[str, Any, Any]]) -> str:
    """Compares all but the values of arrays, which are collected."""
    if type(a) is not type(b):
        return f"{place}: {type(a).__name__} became {type(b).__name__}"
    if isinstance(a, (tuple, list)):
        if len(a) != len(b):
            return f"{place}: length {len(a)} became {len(b)}"
        items = [(f"{place}[{k}]", x, y) for k, (x, y) in enumerate(zip(a, b))]
    elif isinstance(a, dict):
        if list(a) != list(b):
            return f"{place}: keys {list(a)} became {list(b)}"
        items = [(f"{place} {k}", a[k], b[k]) for k in a]
    else:
        return _leaf(place, a, b, pairs)
    for item in items:
        text = _structure(*item, pairs)
        if text:
            return text
    return ""


def _leaf(place: str, a: Any, b: Any, pairs: list[tuple[str, Any, Any]]) -> str:
    if isinstance(a, (np.ndarray, np.generic)):
        if a.dtype != b.dtype:
            return f"{place}: dtype {a.dtype} became {b.dtype}"
        if a.shape != b.shape:
            return f"{place}: shape {a.shape} became {b.shape}"
        if isinstance(a, np.ndarray) and a.flags.writeable and not b.flags.writeable:
            return f"{place}: became read-only"
    elif not isinstance(a, (bool, int, float, complex)):
        return "" if a == b else f"{place}: {a!r} became {b!r}"
    pairs.append((place, np.asarray(a), np.asarray(b)))
    return ""


def _arrays(outcome: Outcome) -> list[np.ndarray]:
    result = outcome.result
    items = list(result) if isinstance(result, (tuple, list)) else [result]
    return [x for x in [*items, *outcome.arguments.values()] if isinstance(x, np.ndarray)]


def _aliases(plain: Outcome, found: Outcome) -> str:
    """Which arrays are the same object or share memory."""
    a, b = _arrays(plain), _arrays(found)
    for i in range(len(a)):
        for j in range(i):
            if (a[i] is a[j]) != (b[i] is b[j]):
                return f"arrays {j} and {i} of result and arguments: one object in one run only"
            if np.may_share_memory(a[i], a[j]) != np.may_share_memory(b[i], b[j]):
                return f"arrays {j} and {i} of result and arguments share memory in one run only"
    return ""


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elements with equal bits; any nan is as good as another."""
    if a.dtype.kind == "c":
        return _same(a.real, b.real) & _same(a.imag, b.imag)
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        equal = (a == b) & (np.signbit(a) == np.signbit(b))
        return np.asarray(equal | (np.isnan(a) & np.isnan(b)))


def _explained(
    place: str, a: np.ndarray, b: np.ndarray, bad: np.ndarray, runs: Sequence[Outcome]
) -> str:
    samples = [_at(place, outcome) for outcome in runs]
    near = [s for s in samples if s is not None and s.shape == a.shape and s.dtype == a.dtype]
    errors = [repr(outcome.error) for outcome in runs if outcome.error is not None]
    if near:
        bad = bad & ~_excused(a, b, near)
    if not bad.any():
        return ""
    where = tuple(int(k) for k in np.argwhere(bad)[0])
    moves = f"; the noise gives {[s[where].item() for s in near[:2]]}" if near else ""
    moves += f"; the noisy program raises {errors[0]}" if errors else ""
    seen = f"{a[where]!r} became {b[where]!r}{moves}"
    return f"value: {place} at {where}: {seen} ({int(bad.sum())} of {bad.size})"


def _at(place: str, outcome: Outcome) -> np.ndarray | None:
    """The array at a place such as `result[1]` or `argument x` of a run."""
    if place.startswith("argument"):
        return np.asarray(outcome.arguments[place.split()[1]])
    if place.startswith("memory"):
        return _memory(outcome.arguments[place.split()[1]])
    x = outcome.result
    for part in place.split("[")[1:]:
        if not isinstance(x, (tuple, list)):
            return None
        x = x[int(part[:-1])]
    return None if x is None else np.asarray(x)


def _excused(a: np.ndarray, b: np.ndarray, samples: list[np.ndarray]) -> np.ndarray:
    """Elements that the noise moves at least as far as they differ, or from class to class."""
    with np.errstate(all="ignore"):
        moved = np.zeros(a.shape, bool)
        for s in samples:
            moved |= _class(s) != _class(a)
        if a.dtype.kind == "c":
            moved |= ~np.isfinite(a) & ~np.isfinite(b)
        if a.dtype.kind not in "fc":
            return moved
        spread = np.max([np.abs(s - a) for s in samples], axis=0)
        tiny = 16 * np.finfo(a.dtype).smallest_subnormal
        differs = np.any([~_same(s, a) for s in samples], axis=0)
        loose = differs | (np.abs(a) < 1e-30)
        apart = np.abs(b - a)
        close = differs & (apart <= SLACK * spread)
        return np.asarray(moved | close | (loose & (apart <= tiny) & (apart > 0)))


def _class(x: np.ndarray) -> np.ndarray:
    """Elements of one class can be compared by distance; all others are classes of their own."""
    if x.dtype.kind == "c":
        return _class(x.real) * 16 + _class(x.imag)
    if x.dtype.kind != "f":
        return x
    return np.isnan(x) * 1 + (x == np.inf) * 2 + (x == -np.inf) * 3


class Noise:
    """The functions of a noisy program, which move values by a few ulp.

    Every second run adds in a wider type instead: `W` widens what is summed and `S` narrows the
    result again, so that NumPy's own error counts as noise. In every fourth run sums are exact, as
    they are for small numbers, so that what is compared with them is not moved to and fro.

    A nan has any sign. Where a complex number is not finite, which of its parts are nan is nobody's
    promise; nor is a product that overflows in one order and vanishes in another.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.wide = seed % 2 == 1
        self.exact = seed % 4 == 2
        self.widened: set[str] = set()
        self.names = {
            "N": self.moved,
            "S": self.narrowed,
            "W": self.summed,
            "WF": self.summed_as_floats,
        }
        self.names |= {"M": self.move, "Q": self.product, "CLIP": self.clipped, "Z": self.extreme}
        self.names |= {"LOGS": self.added_logs, "C": self.product_moved, "F": self.special}
        self.names["TRAPEZOID"] = self.trapezoid

    def narrowed(self, x: Any) -> Any:
        """A sum, moved, and narrowed if what it was made from was widened."""
        if self.exact:
            return x
        if self.widened and isinstance(x, (np.ndarray, np.generic)):
            double = "d" if "d" in self.widened or "D" in self.widened else ""
            narrow = {"g": "d", "G": "D", **({} if double else {"d": "f", "D": "F"})}
            x = x.astype(narrow.get(x.dtype.char, x.dtype.char))
        self.widened = set()
        return self.moved(x)

    def moved(self, x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return type(x)(map(self.moved, x))
        if not isinstance(x, (float, complex, np.ndarray, np.generic)):
            return x
        array = np.asarray(x)
        if array.dtype.kind not in "fc":
            return x
        with np.errstate(all="ignore"):
            found = array + self._step(array)
            found = np.where(np.isfinite(array) & (array != 0), found, array)
            if self.rng.random() < 0.5:
                found = np.where(np.isnan(array), -array, found)
            if array.dtype.kind == "c" and self.rng.random() < 0.7:
                parts = self.rng.permutation([np.nan, self.rng.choice([np.nan, np.inf, -np.inf])])
                found = np.where(np.isfinite(array), found, complex(*parts))
        if isinstance(x, np.ndarray):
            return found.astype(x.dtype)
        return array.dtype.type(found[()]) if isinstance(x, np.generic) else found.item()

    def summed(self, x: Any, dtype: Any = None) -> Any:
        """What will be summed, moved or in a wider type; moved in the type it is summed in."""
        if self.exact:
            return x
        if dtype is not None and np.dtype(dtype).kind in "fc" and isinstance(x, np.ndarray):
            return self.moved(x.astype(dtype))
        if not self.wide or not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
            return self.moved(x)
        self.widened.add(x.dtype.char)
        return x.astype(WIDER[x.dtype.char])

    def summed_as_floats(self, x: Any, dtype: Any = None) -> Any:
        """The same for means and norms, which take integers as floats."""
        whole = isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biu"
        return self.summed(np.asarray(x, np.float64) if whole else x, dtype)

    def _step(self, x: np.ndarray) -> np.ndarray:
        """Up to a few ulp of the magnitude, either way, in both parts of complex numbers."""
        size = np.abs(x)
        unit = NOISE_ULPS * np.finfo(x.dtype).eps * size + 4 * np.finfo(x.dtype).smallest_subnormal
        step = unit * self.rng.uniform(-1, 1, x.shape).astype(size.dtype)
        if x.dtype.kind == "c":
            step = step + 1j * (unit * self.rng.uniform(-1, 1, x.shape).astype(size.dtype))
        return step.astype(x.dtype)

    def product(self, result: Any, factors: Any) -> Any:
        """The product of factors; nan in some runs if a part of the factors over- or underflows."""
        x = np.asarray(factors)
        if not isinstance(result, (np.ndarray, np.generic)) or result.dtype.kind not in "fc":
            return result
        with np.errstate(all="ignore"):
            logs = np.log2(np.abs(x[x != 0].astype(complex)))
        limit = float(np.finfo(result.dtype).maxexp) / 2
        extreme = max(logs[logs > 0].sum(), -logs[logs < 0].sum()) > limit
        if not extreme or self.rng.random() < 0.5:
            return result
        return np.full(result.shape, np.nan, result.dtype)[()]

    def clipped(self, x: Any, low: Any, high: Any) -> Any:
        """np.clip, which of two equal zeros takes its own where arrays bound it: it is the bound's,
        or the array's where its innermost loop meets one bound only, by how they lie in memory.
        """
        found = np.clip(x, low, high)
        if (np.ndim(low) or np.ndim(high)) and found.dtype.kind == "f" and self.rng.random() < 0.5:
            found = np.where((found == 0) & (np.asarray(x) == 0), -found, found)
        return found

    def added_logs(self, function: Any, x: Any, y: Any) -> Any:
        """np.logaddexp: the larger number and a logarithm, each some ulp off, which may cancel."""
        found = function(x, y)
        with np.errstate(all="ignore"):
            larger = np.maximum(np.asarray(x, found.dtype), np.asarray(y, found.dtype))
            moved = found + (np.asarray(self.moved(larger)) - larger)
        return np.where(np.isfinite(moved), moved, found).astype(found.dtype)[()]

    def product_moved(self, x: Any) -> Any:
        """A product inside a statement: complex ones NumPy rounds in ways of its own."""
        number = isinstance(x, (complex, np.ndarray, np.generic))
        return self.moved(x) if number and np.iscomplexobj(x) else x

    def special(self, function: Any, x: Any) -> Any:
        """A function of SciPy's; every second run in a wider type, so that what goes wrong inside
        of its own (an exponential that overflows) counts as noise.
        """
        found = function(x)
        wider = WIDER.get(np.asarray(found).dtype.char, "")
        if not self.wide or f"{wider}->{wider}" not in function.types:
            return found
        return function(np.asarray(x).astype(wider)).astype(found.dtype)[()]

    def trapezoid(self, y: Any, dx: Any = 1.0, axis: int = -1) -> Any:
        """np.trapezoid: of integers, too, it is floats that are summed, in each run in an order of
        its own (which may cancel to an exact zero, as no other noise does).
        """
        y = np.moveaxis(np.asarray(y), axis, -1)
        return self.rng.permuted(dx * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1).sum(-1)

    def extreme(self, result: Any, x: Any) -> Any:
        """The least or the largest of x; where that holds zeros of both signs, either may be it,
        since they are equal and met in an order of NumPy's own.
        """
        if np.asarray(x).dtype.kind != "f" or self.rng.random() < 0.5:
            return result
        zeros = np.signbit(np.asarray(x)[np.asarray(x) == 0])
        if len(set(zeros.tolist())) < 2:
            return result
        return np.where(result == 0, -result, result)[()]

    def move(self, x: Any, *inputs: Any) -> None:
        """In place; numbers and arrays that cannot be written stay as they are. Small integers
        among the inputs may have made NumPy compute in a narrower type than x has.
        """
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc" and x.flags.writeable:
            loops = [np.exp(np.ones((), np.asarray(y).dtype)).dtype for y in inputs]
            coarse = max((np.finfo(d).eps for d in loops), default=0)
            times = max(1.0, float(coarse / np.finfo(x.dtype).eps))
            with np.errstate(all="ignore"):
                step = self.moved(x) - x
                x[...] = np.where(np.isfinite(step), x + times * step, self.moved(x))
        self.widened = set()
