"""The race between native code and the plain function, one for each size class of a variant.

In: times of real calls, each answered by one of the two. Out: who answers such calls, and for how
long that stands.

Invariants:
- The first run of each is not counted, for its caches and pages are cold, unless it was long.
- A clear lead settles the race after one counted run each if it is large, after one more of the
  other side if it is not, for a first run may take twice as long as those that find its memory
  mapped; after a few where calls of either are short. Otherwise the better of a few runs wins, and
  the plain function wins only if it is faster by more than noise. Short calls come in a row, for
  taking turns keeps both cold.
- What a run waited for other programs to leave its core is taken off, as far as the system tells.
- A verdict is looked at again, so that a disturbed measurement does not last; the calls in between
  are so many that looking costs less than a hundredth of the time, and twice as many each time.
"""

from __future__ import annotations

import os
import time

from tailorbird.dataclass import dataclass, field

NATIVE, PLAIN = "native", "plain"
RUNS = 3  # counted runs each that always settle it
CLEAR = 1.3  # a lead by this factor settles it once the other has two counted runs
FAR = 3.0  # a lead by this factor does after one counted run each
NOISE = 0.97  # plain must be this much faster to win
LONG = 0.02  # seconds of a first run from which it counts
SHORT = 1e-2  # seconds of a run up to which one is not enough: a pause of the thread is as long
PAUSED = 0.1  # seconds of a run up to which most of it may have been pauses
VISIT = 30e-6  # seconds that one call through the dispatcher costs
SHARE = 0.01  # of the time, at most, goes into looking again
FOREVER = 1 << 40


def waited() -> float:
    """Seconds that this thread could have run so far and did not, for its core was another's."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(file, 64).split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
    finally:
        os.close(file)


class Watch:
    """Seconds from here on, without those of other programs on this core."""

    def __init__(self) -> None:
        self.waited, self.spent = waited(), time.thread_time()
        self.start = time.perf_counter()

    def seconds(self) -> float:
        """What this thread computed is the least that can be left."""
        found = time.perf_counter() - self.start
        spent = time.thread_time() - self.spent
        return min(found, max(found - (waited() - self.waited), spent))


@dataclass
class Heat:
    """The times seen for one size class, in seconds."""

    native: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    warmed: set[str] = field(default_factory=set)
    winner: str = ""
    looks: int = 0

    def next_runner(self) -> str:
        """Who answers the next call."""
        if self.winner:
            return self.winner
        done = self._enough(self.native)
        return NATIVE if len(self.native) < done or len(self.native) <= len(self.plain) else PLAIN

    def _enough(self, times: list[float]) -> int:
        """The runs that one side makes before the other has a turn."""
        shortest = min([*self.native, *self.plain], default=SHORT)
        return RUNS if shortest < SHORT and times and min(times) < PAUSED else 1

    def note(self, runner: str, seconds: float) -> bool:
        """Takes a time; whether it settled the race."""
        if self.winner:
            return False
        if runner not in self.warmed:
            self.warmed.add(runner)
            if seconds < LONG:
                return False
        getattr(self, runner).append(seconds)
        self.winner = self._verdict()
        return bool(self.winner)

    def reopen(self) -> None:
        """Lets both run again; the verdict so far was right or is about to change."""
        self.native.clear()
        self.plain.clear()
        self.winner = ""
        self.looks += 1

    def pause(self) -> int:
        """The calls after which a settled race is looked at again."""
        faster, slower = sorted((min(self.native), min(self.plain)))
        look = 2 * (RUNS + 1) * (VISIT + slower)
        calls = look / (SHARE * max(faster, 1e-8))
        return min(int(calls) << min(self.looks, 20), FOREVER)

    def _verdict(self) -> str:
        both = (self.native, self.plain)
        if any(len(times) < self._enough(times) for times in both):
            return ""
        native, plain = min(self.native), min(self.plain)
        if native * (CLEAR if len(self.plain) > 1 else FAR) < plain:
            return NATIVE
        if plain * (CLEAR if len(self.native) > 1 else FAR) < native:
            return PLAIN
        if len(self.native) >= RUNS and len(self.plain) >= RUNS:
            return PLAIN if plain < native * NOISE else NATIVE
        return ""
