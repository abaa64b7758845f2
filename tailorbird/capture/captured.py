"""What a capture gives.

In: nothing; kept apart from the interpreter, so that what comes from the disk needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tailorbird.capture.source import Source
from tailorbird.dataclass import dataclass, field
from tailorbird.reasons import Why

if TYPE_CHECKING:
    from tailorbird.ir.node import Graph


@dataclass
class Captured:
    """A function as a graph, with everything a caller needs to use it again.

    `sources` has one path for each parameter of the graph, then one for each of its ints. `statics`
    are the values the graph relies on, by identity or equality. `constants` are arrays that the
    function itself spells out, found by the root ("static", index).

    `looked` are the parts of libraries that were looked at, as (module, name, value), and `absent`
    the paths where nothing was found and a builtin was taken: both stay as they are while a process
    lives, and another process has to look again. `unkept` says why none can.
    """

    graph: Graph | None
    sources: list[Source]
    statics: list[tuple[Source, Any]]
    reasons: list[Why] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    looked: list[tuple[str, str, Any]] = field(default_factory=list)
    absent: list[Source] = field(default_factory=list)
    unkept: str = ""

    @property
    def restored(self) -> bool:
        """Whether this came from the disk, without a graph."""
        return self.graph is None
