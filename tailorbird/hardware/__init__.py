"""The machine this process runs on.

In: /proc and /sys. Out: `profile()`, a frozen `HardwareProfile` that schedules, models and cache
keys read, and `show()`, the same for people. `tb.hardware()` is `show()`: the package can be
called, since the public name of the room and of the function are the same word.

Promised: reading takes about a millisecond, happens on first use and is kept; nothing is measured
here, and nothing fails on another platform: what cannot be read is zero or empty. Start reading at
`machine.py`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from tailorbird.hardware.display import show
from tailorbird.hardware.machine import Cache, HardwareProfile, profile

__all__ = ["Cache", "HardwareProfile", "profile", "show"]


class _Callable(ModuleType):
    """A module that can be called, so that both `hardware.profile()` and `hardware()` read well."""

    def __call__(self) -> HardwareProfile:
        return show()


sys.modules[__name__].__class__ = _Callable
