"""Reads the hardware profile from the operating system.

In: files below a root directory (`/` unless a test says otherwise). Out: a `HardwareProfile`.

Invariants:
- Every field has a value on every platform; 0 or an empty text means that it could not be read.
- Sizes are bytes. `cores` is what this process may use (affinity and container quota), not what the
  machine has; `memory` likewise is bounded by the container's limit.
- The profile of the running machine is read once per process.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tailorbird.dataclass import dataclass

# SIMD level -> (flags of /proc/cpuinfo that it takes, bytes in a vector); the first that fits wins.
SIMD_LEVELS: Mapping[str, tuple[frozenset[str], int]] = {
    "avx512": (frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "fma"}), 64),
    "avx2": (frozenset({"avx2", "fma"}), 32),
    "sse2": (frozenset({"sse2"}), 16),
    "none": (frozenset(), 0),
}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Cache:
    """One cache as core 0 sees it; `shared_by` is the number of cores that share it."""

    level: int
    kind: str
    size: int
    line: int
    shared_by: int


@dataclass(frozen=True)
class HardwareProfile:
    """What is known about a machine without measuring anything on it."""

    cpu: str
    architecture: str
    system: str
    cores: int
    machine_cores: int
    simd: str
    vector_bytes: int
    caches: tuple[Cache, ...]
    memory: int
    page: int
    huge_page: int
    huge_pages: str

    def cache(self, level: int) -> int:
        """The size in bytes of the data cache of a level, or 0 if there is none."""
        sizes = [c.size for c in self.caches if c.level == level and c.kind != "instruction"]
        return max(sizes, default=0)

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain values, for JSON."""
        return {**vars(self), "caches": tuple(vars(each).copy() for each in self.caches)}


def profile(root: str | Path = "/") -> HardwareProfile:
    """The hardware profile of this machine.

    >>> profile().cores >= 1
    True
    """
    return _read(Path(root))


@cache
def _read(root: Path) -> HardwareProfile:
    info = _cpu_info(root)
    simd = _simd_level(frozenset(info.get("flags", "").split()))
    machine_cores = os.cpu_count() or 1
    return HardwareProfile(
        cpu=info.get("model name", "") or platform.processor(),
        architecture=platform.machine(),
        system=f"{platform.system()} {platform.release()}",
        cores=_usable_cores(root, machine_cores),
        machine_cores=machine_cores,
        simd=simd,
        vector_bytes=SIMD_LEVELS[simd][1],
        caches=_caches(root),
        memory=_memory(root),
        page=_page_size(),
        huge_page=_huge_page_size(root),
        huge_pages=_chosen(_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
    )


def _text(path: Path) -> str:
    """The text of a file, or nothing where it does not exist or may not be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _cpu_info(root: Path) -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo."""
    first = _text(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _simd_level(flags: frozenset[str]) -> str:
    return next(name for name, (needed, _) in SIMD_LEVELS.items() if needed <= flags)


def _usable_cores(root: Path, machine_cores: int) -> int:
    """Cores in this process's affinity, no more than the container's quota rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else machine_cores
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def _caches(root: Path) -> tuple[Cache, ...]:
    """The caches of core 0, smallest level first."""
    folder = root / "sys/devices/system/cpu/cpu0/cache"
    found = (_one_cache(index) for index in folder.glob("index*"))
    return tuple(sorted((c for c in found if c.size), key=lambda c: (c.level, c.kind)))


def _one_cache(index: Path) -> Cache:
    return Cache(
        level=_number(_text(index / "level")),
        kind=_text(index / "type").lower(),
        size=_bytes(_text(index / "size")),
        line=_number(_text(index / "coherency_line_size")),
        shared_by=_count_listed(_text(index / "shared_cpu_list")),
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _bytes(text: str) -> int:
    """`32K` as a number of bytes."""
    unit = UNITS.get(text[-1:], 1)
    return _number(text.rstrip("KMG")) * unit


def _count_listed(text: str) -> int:
    """How many cores a list such as `0-3,8` names."""
    total = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        total += _number(last or first) - _number(first) + 1
    return total


def _memory(root: Path) -> int:
    """Memory of the machine, or the container's limit where that is less."""
    machine = _meminfo(root, "MemTotal")
    limit = _number(_text(root / "sys/fs/cgroup/memory.max"))
    return min(machine, limit) if limit else machine


def _meminfo(root: Path, field: str) -> int:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return _number(value.split()[0]) * 1024
    return 0


def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


def _huge_page_size(root: Path) -> int:
    size = _number(_text(root / "sys/kernel/mm/transparent_hugepage/hpage_pmd_size"))
    return size or _meminfo(root, "Hugepagesize")


def _chosen(text: str) -> str:
    """The word in brackets of `always [madvise] never`."""
    return text.partition("[")[2].partition("]")[0]
