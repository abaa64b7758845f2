"""The race between native code and the plain function, one for each size class of a variant.

Both are timed on real calls, each call answered by one of them. The first native run is not counted (cold caches, first pages). A clear lead
settles it early; otherwise the better of a few runs each wins, and the plain function wins only if it is faster by more than noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RUNS = 3
CLEAR = 1.3  # a lead by this factor settles after one counted run each
NOISE = 0.97  # plain must be this much faster to win


@dataclass
class Heat:
    """The times seen for one size class, in seconds."""

    native: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    warmed: bool = False
    winner: str = ""

    def next_runner(self) -> str:
        """Who answers the next call."""
        if self.winner:
            return self.winner
        if not self.plain and self.native:
            return "plain"
        return "native" if len(self.native) <= len(self.plain) else "plain"

    def note(self, runner: str, seconds: float) -> None:
        """Takes a time, and settles the race when it is decided."""
        if runner == "native" and not self.warmed:
            self.warmed = True
            if seconds < 0.1:
                return
        getattr(self, runner).append(seconds)
        if not self.native or not self.plain:
            return
        native, plain = min(self.native), min(self.plain)
        if native * CLEAR < plain:
            self.winner = "native"
        elif plain * CLEAR < native and len(self.native) > 1:
            self.winner = "plain"
        elif len(self.native) >= RUNS and len(self.plain) >= RUNS:
            self.winner = "plain" if plain < native * NOISE else "native"
