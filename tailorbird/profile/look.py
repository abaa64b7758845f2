"""Facts of live arrays, from a sample.

In: an array, or all arguments of a call. Out: `Facts`; for a call, the line that keys variants.

Invariants: at most `SAMPLE` elements are read. The places are spread without a pattern, so that
rows, columns and blocks of zeros are met as often as they fill the array. Small arrays have no
facts, for nothing could be gained from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

SAMPLE = 256
SMALLEST = 1 << 12  # elements
MOST_NOT_ZERO = SAMPLE // 4
CONTAINERS = (tuple, list, dict)
LONGEST = 256  # containers that are longer, or lie deeper, are not looked into
DEEPEST = 8
_SPREAD = np.random.default_rng(20).integers(0, 1 << 32, SAMPLE, np.uint64)


class Facts(NamedTuple):
    """What seems true of an array: `zeros` says that three in four elements are 0."""

    zeros: bool = False

    def __str__(self) -> str:
        return "mostly zeros" if self.zeros else "nothing special"


NOTHING = Facts()


def look(x: Any) -> Facts:
    """The facts of one argument."""
    if type(x) is not np.ndarray or x.size < SMALLEST or x.dtype.kind != "f":
        return NOTHING
    sample = x[np.unravel_index(_SPREAD * np.uint64(x.size) >> np.uint64(32), x.shape)]
    return Facts(int(np.count_nonzero(sample)) <= MOST_NOT_ZERO)


def profile_of(x: Any) -> str:
    """The input profile of arguments: which of their arrays, in order, have a fact, and which."""
    facts = enumerate(map(look, arrays(x)))
    return ", ".join(f"{k} {found}" for k, found in facts if found != NOTHING)


def arrays(x: Any, depth: int = 0) -> Iterator[np.ndarray]:
    """The arrays of an argument, those in containers too."""
    kind = type(x)
    if kind is np.ndarray:
        yield x
    elif kind in CONTAINERS and len(x) <= LONGEST and depth <= DEEPEST:
        for item in x.values() if kind is dict else x:
            yield from arrays(item, depth + 1)
