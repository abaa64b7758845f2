"""Programs as people write them: plain NumPy, loops, masks and helpers, nothing made for us.

In: nothing. Out: `names()`, the programs of this folder, and `load(name)`, one of them. A program
is a module with `main`, the function to tailor, and `make_arguments(scale)`, its arguments at a
size; `CHAOTIC` says that rounding grows so fast that answers can be compared at the smallest size
only.

Invariants: a program imports NumPy and nothing else, `main` may write its arguments, arguments of
one scale are the same each time, and nothing random happens inside `main`.

`python -m examples` says which programs are compiled, how fast they are, and why the others are
left to Python.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """One program."""

    name: str
    about: str
    main: Callable[..., Any]
    make_arguments: Callable[[int], tuple[Any, ...]]
    chaotic: bool


def names() -> list[str]:
    """The programs of this folder."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if not name.startswith("_"))


def load(name: str) -> Example:
    """One program."""
    module = importlib.import_module(f"{__name__}.{name}")
    about = (module.__doc__ or "").splitlines()[0]
    chaotic = bool(getattr(module, "CHAOTIC", False))
    return Example(name, about, module.main, module.make_arguments, chaotic)
