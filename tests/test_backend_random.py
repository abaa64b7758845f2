"""Random graphs through the whole backend, against the reference interpreter.

Each graph is compiled once and run on arguments of several sizes and of one layout each; sizes are
symbols, so one compilation answers them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailorbird import knobs
from tailorbird.dispatch.signature import layout
from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir import interp
from tailorbird.ir.node import Graph
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.show import show
from tests.backend_kit import MISS, compile_graph, expected_leaves, native_leaves
from tests.graph_compare import difference, noisy_runs
from tests.layouts import LAYOUTS, laid_out
from tests.strategies import REJECT_EMPTY, STRAIGHT, draw_arguments, programs

MOST = ((4, 4), (40, 7), (5, 70))
MOVING = {"read", "reshape", "concatenate", "write", "pad", "take", "write_mask", "compress"}
FOLDING = {"sum", "prod", "any", "all", "mean", "var", "std", "count_nonzero", "cumsum", "cumprod"}
SIMPLE = {"add", "multiply", "subtract", "maximum", "where", "less", "negative", "cast"}
PRODUCTS = {"matmul", "dot", "einsum"}  # how inf times 0 comes out depends on the BLAS
MIXES: dict[str, Collection[str]] = {
    "everything": STRAIGHT - REJECT_EMPTY - PRODUCTS,
    "moves": MOVING | SIMPLE,
    "folds": FOLDING | SIMPLE | {"exp", "divide", "sqrt", "read"},
    "extremes": REJECT_EMPTY | SIMPLE | {"exp", "divide", "sum", "read", "reshape"},
    "folds and moves": FOLDING | MOVING | SIMPLE,
    "writes": {"write", "read", "add", "reshape", "sum", "multiply", "write_mask", "scatter"},
    "products": PRODUCTS | {"read", "reshape", "add", "sum", "concatenate"},
}
# What NumPy rejects, and views that leave their base at some sizes (drawn graphs have no guards).
NO_ANSWER = (
    *(ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError),
    AssertionError,
)
RELAXED = settings(
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def laid_out_arguments(names: Sequence[str], arguments: Sequence[Any]) -> list[Any]:
    """Arrays in the layouts of these names."""
    out = []
    for name, x in zip(names, arguments):
        array = isinstance(x, np.ndarray) and x.ndim
        out.append(laid_out(x, name) if array else x)
    return out


def lay_like(arguments: Sequence[Any], layouts: Sequence[str]) -> list[Any] | None:
    """Arguments of these layouts, or None where a size does not allow it."""
    out = []
    for x, wanted in zip(arguments, layouts):
        if isinstance(x, np.ndarray) and x.ndim:
            choices = (laid_out(x, name) for name in LAYOUTS if name != "repeated")
            found = next((c for c in choices if layout(c) == wanted), None)
            if found is None:
                return None
            x = found
        out.append(x)
    return out


def copies(arguments: Sequence[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]


def compare(graph: Graph, native: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Runs both on equal arguments and holds results and written arguments against each other."""
    before = copies(arguments)
    theirs = copies(before)
    try:
        wanted = interp.run(graph, theirs)
    except GuardMissed:
        assert native(*arguments) is MISS, "native code answers where a guard does not hold"
        return
    except NO_ANSWER:
        return
    got = native(*arguments)
    assert got is not MISS, "native code misses"
    text = difference(
        [*native_leaves(graph, got), *arguments],
        [*expected_leaves(wanted), *theirs],
        lambda: noisy_runs(graph, lambda: copies(before)),
    )
    assert not text, text


def check_program(graph: Graph, first: Sequence[Any], seed: int, special: bool) -> None:
    """One graph: compiled for the first arguments, run on more of them."""
    try:
        interp.run(graph, copies(first))
    except (GuardMissed, *NO_ANSWER):
        return
    rng = random.Random(seed)
    names = [rng.choice([n for n in LAYOUTS if n != "repeated"]) for _ in first]
    if rng.random() < 0.5:
        names = ["C"] * len(first)
    arguments = laid_out_arguments(names, first)
    try:
        native = compile_graph(graph, arguments)
    except Refused:  # NumPy 1.26 promotes some scalars by their values
        assert LEGACY
        return
    layouts = [layout_of(x) for x in arguments]
    try:
        compare(graph, native, arguments)
        for k, most in enumerate(MOST):
            more = lay_like(draw_arguments(graph, seed + k, special, most), layouts)
            if more is not None:
                compare(graph, native, more)
    except AssertionError as error:
        shapes = [getattr(x, "shape", x) for x in first]
        raise AssertionError(f"{error}\n{show(graph)}{shapes} {names}") from error


def layout_of(x: Any) -> str:
    return layout(x) if isinstance(x, np.ndarray) and x.ndim else ""


def property_of(mix: str, count: int = 60, most_nodes: int = 10) -> Callable[[], None]:
    """The property test of a mix of ops. BLAS may skip products with 0, also those of inf."""
    special = mix != "products"

    @settings(RELAXED, max_examples=count)
    @given(programs(MIXES[mix], most_nodes=most_nodes, special=special), st.integers(0, 2**31))
    def run(program, seed):
        check_program(*program, seed, special)

    return run


@pytest.mark.parametrize("mix", MIXES)
def test_random_graphs(mix):
    property_of(mix)()


def test_random_graphs_for_avx2():
    with knobs.scope(target="haswell"):
        property_of("everything")()
