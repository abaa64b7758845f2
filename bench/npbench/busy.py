"""How busy other processes keep the machine while something is measured.

In: nothing. Out: the number of cores that others had on average since an `Others` was made, or None
where the kernel does not say.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")


class Others:
    """Counts from now on."""

    def __init__(self) -> None:
        self.start = _now()

    def cores(self) -> float | None:
        """Busy cores of others on average; None after a moment too short to tell."""
        if self.start is None:
            return None
        now = _now()
        if now is None or now[0] - self.start[0] < 0.05:
            return None
        wall, busy, own = (new - old for new, old in zip(now, self.start))
        return round(max(0.0, busy - own) / wall, 2)


def _now() -> tuple[float, float, float] | None:
    """Wall seconds, busy seconds of all cores, seconds of this process and its children."""
    try:
        fields = [int(word) for word in STAT.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    busy = sum(fields) - fields[3] - fields[4]
    return time.perf_counter(), busy / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])
