"""Whether two answers of one graph are the same, as far as rounding lets them be.

Native code may round an elementary function or a sum otherwise than NumPy. How far that may show at
the end depends on the graph; `noisy_runs` finds out, by the interpreter with every such result
moved by a few units in the last place. An element may differ by a few times what the noise does to
it, or in any way where the noise changes its kind (nan, infinite, another integer or truth).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailorbird.ir import interp
from tailorbird.ir.node import Graph, Node, leaves, type_of
from tailorbird.ir.ops import OPS
from tests.backend_values import INEXACT

ULPS = 4.0
SLACK = 4.0
RUNS = 4
ADDING = frozenset({"sum", "mean", "cumsum", "matmul", "dot", "einsum", "prod", "cumprod"})
SPREAD = frozenset({"var", "std"})


class _Noisy(interp._Run):
    """An interpreter whose inexact results are off by a little."""

    def __init__(self, graph: Graph, arguments: Sequence[Any], seed: int) -> None:
        super().__init__(graph, arguments)
        self.rng = np.random.default_rng(seed)

    def define(self, value: Any, x: Any, node: Node) -> None:
        array = np.asarray(x)
        if array.dtype.kind in "fc" and not _is_exact(node):
            x = self.moved(array, node)
            x = x[()] if x.ndim == 0 else x
        super().define(value, x, node)

    def moved(self, array: np.ndarray, node: Node) -> np.ndarray:
        eps = np.finfo(array.dtype).eps
        size = np.abs(array)
        if node.op in ADDING or node.op in SPREAD:
            operands = [np.abs(v) for v in self.operands(node.inputs)]
            attrs = {name: self.concrete(x) for name, x in node.attrs.items()}
            with np.errstate(all="ignore"):
                op = "sum" if node.op in SPREAD else node.op
                if node.op in SPREAD:
                    attrs = {k: v for k, v in attrs.items() if k in ("axis", "keepdims")}
                whole = OPS[op].meaning(*operands, **attrs)
            size = np.maximum(size, np.abs(np.asarray(whole)).astype(size.dtype))
        noise = self.rng.uniform(-1, 1, array.shape) * ULPS * eps
        if array.dtype.kind == "c":
            noise = noise + 1j * self.rng.uniform(-1, 1, array.shape) * ULPS * eps
        with np.errstate(all="ignore"):
            return np.asarray(array + noise * size).astype(array.dtype)


def _is_exact(node: Node) -> bool:
    if OPS[node.op].kind != "map":
        return node.op not in ADDING and node.op not in SPREAD and node.op != "linspace"
    complex_ = any(type_of(x).dtype.kind == "c" for x in node.inputs)
    return node.op not in INEXACT and not complex_


def noisy_runs(graph: Graph, arguments: Callable[[], Sequence[Any]]) -> list[list[np.ndarray]]:
    """The leaves and final arguments of several noisy runs."""
    out = []
    for seed in range(RUNS):
        given = list(arguments())
        with np.errstate(all="ignore"):
            try:
                results = _Noisy(graph, given, seed).finish()
            except (ValueError, IndexError, ArithmeticError, interp.GuardMissed):
                continue
        out.append([np.asarray(x) for x in [*leaves(results), *given]])
    return out


def difference(
    got: Sequence[Any], wanted: Sequence[Any], noise: Callable[[], list[list[np.ndarray]]]
) -> str:
    """The first leaf that is not the same, or nothing."""
    assert len(got) == len(wanted), f"{len(got)} leaves, not {len(wanted)}"
    runs: list[list[np.ndarray]] | None = None
    for k, (a, b) in enumerate(zip(got, wanted)):
        if type(a) is not type(b):
            return f"leaf {k}: a {type(a).__name__}, not a {type(b).__name__}"
        if not isinstance(b, np.ndarray | np.generic | float | complex):
            if a != b and a is not b:
                return f"leaf {k}: {a!r}, not {b!r}"
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"leaf {k}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        bad = ~same(a, b)
        if bad.any():
            runs = noise() if runs is None else runs
            bad &= ~explained(a, b, [run[k] for run in runs])
            if bad.any():
                where = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))
                return (
                    f"leaf {k}: {bad.sum()} of {bad.size} differ, first at {where}: "
                    f"{np.atleast_1d(a)[where]!r}, not {np.atleast_1d(b)[where]!r}"
                )
    return ""


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal element by element; nan equals nan."""
    if a.dtype.kind == "c":
        return same(a.real, b.real) & same(a.imag, b.imag)
    if a.dtype.kind == "f":
        return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
    return np.asarray(a == b)


def explained(a: np.ndarray, b: np.ndarray, runs: list[np.ndarray]) -> np.ndarray:
    """Where noise could have made the difference."""
    if a.dtype.kind == "c":
        real = explained(a.real, b.real, [r.real for r in runs])
        return real & explained(a.imag, b.imag, [r.imag for r in runs])
    flips = np.zeros(a.shape, bool)
    reach = np.zeros(a.shape)
    for run in runs:
        if a.dtype.kind != "f":
            flips |= run != b
            continue
        flips |= np.isfinite(run) != np.isfinite(b)
        with np.errstate(all="ignore"):
            moved = np.abs(run.astype("f8") - b.astype("f8"))
        reach = np.fmax(reach, moved)
    if a.dtype.kind != "f":
        return flips
    with np.errstate(all="ignore"):
        least = ULPS * np.finfo(a.dtype).eps * np.abs(b.astype("f8")) * (reach > 0).any()
        close = np.abs(a.astype("f8") - b.astype("f8")) <= SLACK * reach + least
    return flips | close | same(a, b)
