"""The demonstration: real array functions, plain and tailored, side by side on this machine.

In: nothing but the public API (`tb.tailor`, `warm`, `variants`). Out: a progress display and a
table with plain time, tailored time, ratio, what was fused, first-call cost and whether the results
agree.

Invariants:
- The functions are ordinary NumPy code, as somebody would have written them before Tailorbird.
- Plain and tailored calls alternate, so that both meet the same machine; the median is shown.
- Nothing is hidden: a case that stays plain or loses is shown with its ratio, and an answer that
  does not agree is shown as such.
`EXAMPLES` gives `tailorbird explain tailorbird.demo:softmax` its arguments.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tailorbird.dataclass import dataclass

Arguments = tuple[Any, ...]


def activation(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """A chain of elementwise operations such as neural networks use."""
    return np.tanh(a * x + b) * np.exp(-x * x) + np.where(x > 0, x, 0.01 * x)


def softmax(x: np.ndarray) -> np.ndarray:
    """Rows that sum to one."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Each row brought to mean 0 and variance 1, then scaled and shifted."""
    mean = x.mean(axis=1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The distance of every point in `a` from every point in `b`, by broadcasting."""
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))


def black_scholes(price: np.ndarray, strike: np.ndarray, years: np.ndarray) -> np.ndarray:
    """The value of a call option; the normal distribution by its tanh approximation."""
    rate, volatility = 0.02, 0.3
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    n1 = 0.5 * (1 + np.tanh(0.7978845608 * (d1 + 0.044715 * d1**3)))
    n2 = 0.5 * (1 + np.tanh(0.7978845608 * (d2 + 0.044715 * d2**3)))
    return price * n1 - strike * np.exp(-rate * years) * n2


def hillshade(z: np.ndarray) -> np.ndarray:
    """Light on a terrain from the north-west: a stencil written with slices."""
    altitude, azimuth, cell = np.pi / 4, 3 * np.pi / 4, 30.0
    dx = (z[1:-1, 2:] - z[1:-1, :-2]) / (2 * cell)
    dy = (z[2:, 1:-1] - z[:-2, 1:-1]) / (2 * cell)
    slope = np.arctan(np.sqrt(dx * dx + dy * dy))
    aspect = np.arctan2(dy, -dx)
    flat = np.sin(altitude) * np.cos(slope)
    tilted = np.cos(altitude) * np.sin(slope) * np.cos(azimuth - aspect)
    return np.clip(flat + tilted, 0, 1)


def zscore(x: np.ndarray) -> np.ndarray:
    """How many standard deviations each value lies from its column's mean."""
    return (x - x.mean(axis=0)) / x.std(axis=0)


def _normal(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _market(n: int) -> Arguments:
    rng = np.random.default_rng(1)
    return (rng.uniform(10, 200, n), rng.uniform(10, 200, n), rng.uniform(0.1, 3, n))


CASES: Mapping[Callable[..., np.ndarray], Callable[[], Arguments]] = {
    activation: lambda: (_normal(1_000_000), 1.5, 0.2),
    softmax: lambda: (_normal(1000, 1000),),
    layernorm: lambda: (_normal(1000, 1000), _normal(1000), _normal(1000, seed=2)),
    distances: lambda: (_normal(600, 8), _normal(500, 8, seed=3)),
    black_scholes: lambda: _market(500_000),
    hillshade: lambda: (_normal(1000, 1000, dtype="float64") * 20,),
    zscore: lambda: (_normal(20_000, 50, dtype="float64"),),
}
EXAMPLES = {function.__name__: make for function, make in CASES.items()}


@dataclass(frozen=True)
class Row:
    """What the table shows of one function; times in seconds."""

    name: str
    plain: float
    tailored: float
    first: float
    fused: str
    agrees: str

    @property
    def ratio(self) -> float:
        """How many times faster the tailored function is."""
        return self.plain / self.tailored


def run_case(function: Callable[..., np.ndarray], seconds: float = 0.8) -> Row:
    """Tailor one function, check it, and time it against itself for about `seconds`."""
    import tailorbird as tb

    arguments = CASES[function]()
    expected = function(*arguments)
    started = time.perf_counter()
    tailored = tb.tailor(function, background=False)
    tailored.warm(*arguments)
    result = tailored(*arguments)
    first = time.perf_counter() - started
    plain_time, tailored_time = _race(function, tailored, arguments, seconds)
    fused, agrees = describe_variants(tailored), describe_error(result, expected)
    return Row(function.__name__, plain_time, tailored_time, first, fused, agrees)


def _race(
    plain: Callable[..., Any], tailored: Callable[..., Any], arguments: Arguments, seconds: float
) -> tuple[float, float]:
    """The best time of each, calls alternating, after three unmeasured rounds: what others do on
    the machine only adds to a time."""
    times: tuple[list[float], list[float]] = ([], [])
    deadline = time.perf_counter() + seconds
    gc.disable()
    try:
        while time.perf_counter() < deadline or len(times[0]) < 7:
            for function, kept in zip((plain, tailored), times, strict=True):
                started = time.perf_counter()
                function(*arguments)
                kept.append(time.perf_counter() - started)
    finally:
        gc.enable()
    return min(times[0][3:]), min(times[1][3:])


def describe_variants(tailored: Any) -> str:
    """What was fused, from the first variant: `12 ops in 3 kernels`, or that it is plain."""
    variants = getattr(tailored, "variants", None) or []
    if not variants:
        return "stays plain"
    groups = getattr(variants[0], "groups", None) or []
    counts = [_count(group) for group in groups]
    if not counts:
        return "compiled"
    kernels = f"{len(counts)} kernel{'s' if len(counts) > 1 else ''}"
    return f"{sum(counts)} ops in {kernels}" if all(counts) else kernels


def _count(group: Any) -> int:
    """How many operations a group holds, whatever it is made of; 0 if it does not say."""
    nodes = getattr(group, "nodes", group)
    return len(nodes) if hasattr(nodes, "__len__") and not isinstance(nodes, str) else 0


def describe_error(result: np.ndarray, expected: np.ndarray) -> str:
    """How closely the results agree: same dtype and shape, and the largest difference, relative to
    the largest value (near a zero both have rounding errors of their own)."""
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return f"NO: {result.dtype}{result.shape} for {expected.dtype}{expected.shape}"
    if np.array_equal(result, expected, equal_nan=True):
        return "exactly"
    error = float(np.nanmax(np.abs(result - expected)) / np.nanmax(np.abs(expected)))
    ok = error <= 64 * np.finfo(expected.dtype).eps
    return f"{'to' if ok else 'NO:'} {error:.0e}"


def demo(seconds: float = 0.8) -> list[Row]:
    """Show the machine, race every case with a progress display, and print the table."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    import tailorbird as tb

    tb.hardware()
    console = Console()
    rows: list[Row] = []
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(CASES))
        for function in CASES:
            progress.update(task, description=f"{function.__name__}: compile, check, race")
            rows.append(run_case(function, seconds))
            progress.advance(task)
    console.print(table(rows))
    best = max(rows, key=lambda row: row.ratio)
    console.print("Why it is so, stage by stage:")
    command = f"    {_command()} explain tailorbird.demo:{best.name}"
    console.print(command, style="bold", soft_wrap=True, highlight=False)
    return rows


def _command() -> str:
    """How this user types the command: by its name where the shell finds it, else by its path."""
    if shutil.which("tailorbird"):
        return "tailorbird"
    python = os.path.relpath(sys.executable)
    return f"{sys.executable if python.startswith('..') else python} -m tailorbird"


def table(rows: list[Row]) -> Any:
    """The rows as a table for rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    grid = Table(title="plain NumPy against tailored", title_justify="left", box=SIMPLE_HEAD)
    grid.show_edge, grid.padding = False, (0, 1, 0, 0)
    grid.add_column("function", style="cyan", no_wrap=True)
    for heading in ("plain", "tailored", "ratio", "first\ncall"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("fused")
    grid.add_column("agrees", no_wrap=True)
    for row in rows:
        times = (_ms(row.plain), _ms(row.tailored), f"{row.ratio:.1f}x", _ms(row.first))
        grid.add_row(row.name, *times, row.fused, row.agrees)
    return grid


def _ms(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{seconds * 1e3:.3g} ms"
