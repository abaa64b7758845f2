"""Expressions of a nest made fewer and cheaper, before it is scheduled.

What is spelt twice becomes one expression. A comparison of the length of a complex number that
nobody else asks for becomes a comparison of squares (`emit/lengths.py`). Then masks decide what is
stored and folded (`masked.py`).

Invariant: within a stage every value of a point is computed before anything is stored there, so
two loads of one place give the same; a scan, which sees what it stores, is left as it is.
"""

from __future__ import annotations

from typing import Any

from tailorbird.lower.kernel import Const, Ex, Load, Nest, Op
from tailorbird.lower.masked import mask_folds, mask_stores
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.schedule import expressions

MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


def tidy(nest: Nest) -> None:
    """Changes the expressions of a nest in place."""
    if nest.scan:
        return
    _unify(nest)
    mask_stores(nest)
    mask_folds(nest)


def _unify(nest: Nest) -> None:
    for k, stage in enumerate(nest.stages):
        nest.stages[k] = Rebuilt(_Unified()).stage(stage)
    users: dict[int, list[Ex]] = {}
    for x in expressions(nest):
        for y in x.args if isinstance(x, Op) else ():
            users.setdefault(id(y), []).append(x)
    lonely = {k for k, found in users.items() if all(_compares(x, k) for x in found)}
    lonely -= {id(root) for root in _roots(nest)}
    lengths = [x for x in expressions(nest) if isinstance(x, Op) and x.op == "hypot"]
    if any(id(x) in lonely for x in lengths):
        rebuilt = Rebuilt(lambda x: _by_squares(x, lonely))
        nest.stages[:] = [rebuilt.stage(stage) for stage in nest.stages]


class _Unified:
    """The first of all expressions that mean the same, in place of each of them."""

    def __init__(self) -> None:
        self.known: dict[Any, Ex] = {}

    def __call__(self, x: Ex) -> Ex:
        return self.known.setdefault(_meaning(x), x)


def _meaning(x: Ex) -> Any:
    """A key that expressions share which mean the same, their operands being unified."""
    if isinstance(x, Op):
        return x.op, x.ty, *map(id, x.args)
    if isinstance(x, Load):
        computed = tuple((id(t), stride) for t, stride in x.computed)
        return x.buffer.name, x.buffer.ty, x.at, x.ty, x.part, computed, x.index
    return x


def _roots(nest: Nest) -> list[Ex]:
    stores = [s for stage in nest.stages for s in (*stage.head, *stage.stores)]
    folds = [x for stage in nest.stages for f in stage.folds for x in f.roots]
    return [*(root for s in stores for root in s.roots), *folds]


def _compares(x: Ex, length: int) -> bool:
    """Whether an expression compares an operand with another one."""
    if not isinstance(x, Op) or x.op not in MIRRORED:
        return False
    return (id(x.args[0]) == length) != (id(x.args[1]) == length)


def _by_squares(x: Ex, lonely: set[int]) -> Ex:
    if not isinstance(x, Op) or x.op not in MIRRORED:
        return x
    left, right = x.args
    for op, length, limit in ((x.op, left, right), (MIRRORED[x.op], right, left)):
        if not isinstance(length, Op) or length.op != "hypot" or id(length) not in lonely:
            continue
        if not isinstance(limit, Const) or limit.value > 0:
            return Op(f"length_{op}", (*length.args, limit), "b1")
    return x
