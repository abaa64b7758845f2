"""Tailorbird: native code cut to fit your arrays and your machine, for NumPy functions you have.

    import tailorbird as tb

    @tb.tailor
    def step(x, w, b):
        return np.maximum(x @ w + b, 0)

Public means listed here in `_PUBLIC`; each name is loaded from its module when first used, so that
`import tailorbird` costs little beyond NumPy. Start reading at `pipeline.py`, then docs/hour.md.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> the module that holds it; a module's own name stands for the module itself.
_PUBLIC = {
    "tailor": "tailorbird.api",
    "hardware": "tailorbird.hardware",
    "knobs": "tailorbird.knobs",
    "events": "tailorbird.events",
    "TailorbirdError": "tailorbird.errors",
}

__all__ = ["TailorbirdError", "__version__", "events", "hardware", "knobs", "tailor"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    home = _PUBLIC.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
