"""What a library routine gives, learnt from trials: it is called on small arrays made up for it.

In: a routine and the template of its call, where operands are known by their types alone. Out: its
results' types, and one result as it came, for its structure.

Invariants: the user's data is not looked at. Sizes of results are expressions that held in every
trial, for sizes that were drawn apart; the call itself is checked against them, and plain Python
runs where it gives something else. A size that follows no rule is one of its own if the routine
gives parts of what it is given, which bounds it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tailorbird.capture.tracer import Tracer
from tailorbird.ir.expr import Dim, Expr, Sym, apply, evaluate, product
from tailorbird.ir.node import Operand, Slot, Value, type_of
from tailorbird.ir.types import PYTHON_TYPES, SUPPORTED, Type

TRIALS = ((6, 9, 11, 8), (9, 7, 8, 10), (8, 10, 7, 13))  # sizes, in the order they are met
INTEGERS = (2, 1, 3)  # what stands for all other integers
PARTS = frozenset(["unique", "intersect1d", "union1d", "setdiff1d", "setxor1d", "trim_zeros"])


def results_of(
    t: Tracer, function: Any, template: Any, operands: Sequence[Operand]
) -> tuple[Any, list[Type]] | None:
    """One trial's result, and the types of what the call gives; None if that cannot be told."""
    for alike in (False, True):
        count = range(len(TRIALS))
        trials = [_trial(t, function, template, operands, k, alike) for k in count]
        if not any(trial is None for trial in trials):
            break
    else:
        return None
    results = [_several(result) for result, _ in trials]  # type: ignore[misc]
    if len({len(parts) for parts in results}) != 1:
        return None
    parts = getattr(function, "__name__", "") in PARTS
    candidates = list(_candidates(t, operands))
    types = []
    for versions in zip(*results):
        first = versions[0]
        if any(x.dtype != first.dtype or x.ndim != first.ndim for x in versions):
            return None
        if first.dtype not in SUPPORTED or not first.dtype.isnative:
            return None
        shape: list[Dim] = []
        for sizes in zip(*(x.shape for x in versions)):
            found = _size(candidates, sizes, [values for _, values in trials])  # type: ignore[misc]
            if found is None and not parts:
                return None
            shape.append(t.new_fresh() if found is None or parts else found)
        types.append(Type(first.dtype, tuple(shape)))
    return trials[0][0], types  # type: ignore[index]


def _several(result: Any) -> list[np.ndarray]:
    many = isinstance(result, (tuple, list))
    return [np.asarray(x) for x in (result if many else [result])]


def _trial(
    t: Tracer, function: Any, template: Any, operands: Sequence[Operand], k: int, alike: bool
) -> tuple[Any, dict[Sym, int]] | None:
    """A result, and the sizes it came from; `alike`: what is equal in this call is equal here."""
    values = _drawn(t, operands, k, alike)
    given = [_made_up(t, x, values) for x in operands]
    if any(x is None for x in given):
        return None

    def fill(x: Any) -> Any:
        if isinstance(x, Slot):
            return given[x.index]
        return tuple(map(fill, x)) if isinstance(x, tuple) else x

    args, keywords = template
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*fill(args), **{key: fill(x) for key, x in keywords})
    except Exception:  # noqa: BLE001 - made-up arrays may be ones it does not take
        return None
    for x in result if isinstance(result, (tuple, list)) else [result]:
        if type(x) is not np.ndarray and not isinstance(x, np.generic):
            return None
        if any(isinstance(y, np.ndarray) and np.may_share_memory(x, y) for y in given):
            return None
    return result, values


def _drawn(t: Tracer, operands: Sequence[Operand], k: int, alike: bool) -> dict[Sym, int]:
    """A number for every symbol."""
    found: dict[Sym, int] = {}
    same: dict[int, int] = {}
    sizes = iter(TRIALS[k] * len(operands) * 4)
    dims = [t.assume.canon(d) for x in operands for d in type_of(x).shape]
    for d in dims:
        for sym in d.symbols() if isinstance(d, Expr) else ():
            if sym in found:
                continue
            found[sym] = next(sizes) if sym.kind in ("size", "fresh") else INTEGERS[k]
            hint = t.assume.hints.get(sym)
            if alike and hint is not None:
                found[sym] = same.setdefault(hint, found[sym])
    for x in operands:
        number = t.assume.canon(x) if isinstance(x, Expr) else 0
        for sym in number.symbols() if isinstance(number, Expr) else ():
            found.setdefault(sym, INTEGERS[k])
    return found


def _made_up(t: Tracer, x: Operand, values: dict[Sym, int]) -> Any:
    """Numbers of an operand's type; a square matrix is positive definite."""
    if isinstance(x, Expr):
        return evaluate(t.assume.canon(x), values)
    if not isinstance(x, Value):
        return x
    kind = x.type
    if not kind.shape:
        number = kind.dtype.type(1)
        return PYTHON_TYPES[kind.dtype.kind](number) if kind.weak else number
    shape = tuple(evaluate(t.assume.canon(d), values) for d in kind.shape)
    if min(shape) < 0:
        return None
    count = int(np.prod(shape))
    flat = 1 / (2 + np.arange(count)) if kind.dtype.kind in "fc" else np.arange(count) % 7
    made: Any = np.asarray(flat).reshape(shape)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        made = np.eye(shape[-1]) * 9 + (made + np.swapaxes(made, -1, -2)) / 2
    return made.astype(kind.dtype)


def _candidates(t: Tracer, operands: Sequence[Operand]) -> Iterator[Dim]:
    """What the size of a result may be."""
    given: list[Dim] = []
    for x in operands:
        given += [t.assume.canon(d) for d in type_of(x).shape]
        given += [t.assume.canon(x)] if isinstance(x, Expr) else []
    given = list(dict.fromkeys(d for d in given if isinstance(d, Expr)))
    yield from given
    for d in given:
        yield d - 1
        yield d + 1
        yield apply("floordiv", d, 2) + 1
        yield 2 * (d - 1)
        yield apply("floordiv", d + 7, 8)
    for a, b in combinations(given, 2):
        yield apply("min", a, b)
        yield apply("max", a, b)
        yield a + b - 1
        yield a + b
        yield a * b
    for x in operands:
        yield product(map(t.assume.canon, type_of(x).shape))


def _size(
    candidates: Sequence[Dim], sizes: Sequence[int], values: Sequence[dict[Sym, int]]
) -> Dim | None:
    """The size that a result has in all trials: a number, or as an expression. (An expression that
    is one number in all of them, as an eighth of what is small, says nothing.)
    """
    if len(set(sizes)) == 1:
        return sizes[0]
    for d in candidates:
        if all(evaluate(d, known) == size for known, size in zip(values, sizes)):
            return d
    return None
