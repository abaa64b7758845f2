"""Shows the hardware profile to people.

In: a `HardwareProfile`. Out: a table on the console. Invariant: shows what `machine.py` read and
the versions that matter for compiled code, and computes nothing else.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import tailorbird
from tailorbird.hardware.machine import Cache, HardwareProfile, profile

if TYPE_CHECKING:
    from rich.table import Table

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def show() -> HardwareProfile:
    """Print this machine's hardware profile and return it."""
    from rich.console import Console

    found = profile()
    Console().print(table(found))
    return found


def table(found: HardwareProfile) -> Table:
    """The profile as a table for rich."""
    from rich.table import Table

    grid = Table(title="hardware", show_header=False, title_justify="left")
    grid.add_column(style="cyan")
    grid.add_column()
    for name, value in rows(found):
        grid.add_row(name, value)
    return grid


def rows(found: HardwareProfile) -> list[tuple[str, str]]:
    """Name and value of everything worth showing, in reading order."""
    return [
        ("cpu", found.cpu or "unknown"),
        ("system", f"{found.system}, {found.architecture}"),
        ("cores", f"{found.cores} usable of {found.machine_cores}"),
        ("vectors", f"{found.simd}, {found.vector_bytes} bytes"),
        *((f"L{c.level} {c.kind}", _describe(c)) for c in found.caches),
        ("memory", size(found.memory)),
        ("pages", f"{size(found.page)}; huge {size(found.huge_page)} ({_policy(found)})"),
        ("python", f"{platform.python_version()} {platform.python_implementation()}"),
        ("tailorbird", tailorbird.__version__),
        *((name, _version(name)) for name in ("numpy", "llvmlite")),
    ]


def size(count: int) -> str:
    """A number of bytes for people: `32 KiB`, `1.5 GiB`.

    >>> size(32768), size(3 << 29), size(0)
    ('32 KiB', '1.5 GiB', 'unknown')
    """
    if not count:
        return "unknown"
    for unit, name in UNITS:
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} B"


def _describe(cache: Cache) -> str:
    shared = f", shared by {cache.shared_by} cores" if cache.shared_by > 1 else ""
    return f"{size(cache.size)}, lines of {cache.line} bytes{shared}"


def _policy(found: HardwareProfile) -> str:
    return found.huge_pages or "policy unknown"


def _version(name: str) -> str:
    from importlib import metadata  # slow to import, and only people read versions

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
