"""What native code takes, and the words that it shares with the dispatcher.

In: nothing; kept apart from the emitters, so that a variant from the disk needs none of them.
"""

from __future__ import annotations

from tailorbird.dataclass import dataclass

ARRAY, ZERO_D, WEAK, SCALAR, INTEGER = "array", "zero_d", "weak", "scalar", "int"
HITS, ASK, COUNTDOWN, LOST, OBJECTS = 0, 1, 2, 3, 4  # words of the context


@dataclass(frozen=True)
class Leaf:
    """One argument of the native entry: what kind it is, and how an array lies in memory."""

    kind: str
    name: str
    layout: str = ""
    written: bool = False
