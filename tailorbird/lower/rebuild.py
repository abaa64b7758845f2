"""Expressions made anew, with something changed in them."""

from __future__ import annotations

from collections.abc import Callable

from tailorbird.dataclass import replace
from tailorbird.lower.kernel import Ex, Fold, Load, Op, Stage, Store
from tailorbird.lower.schedule import expressions_of


class Rebuilt:
    """What expressions become under a change, which sees each with its operands rebuilt already;
    what is one expression stays one.
    """

    def __init__(self, change: Callable[[Ex], Ex]) -> None:
        self.change = change
        self.memo: dict[int, tuple[Ex, Ex]] = {}  # the old one too, so that its id stays taken

    def __call__(self, x: Ex) -> Ex:
        for y in expressions_of([x]):
            if id(y) not in self.memo:
                self.memo[id(y)] = y, self.change(self.with_operands(y))
        return self.memo[id(x)][1]

    def with_operands(self, x: Ex) -> Ex:
        if isinstance(x, Op):
            args = tuple(self.memo[id(a)][1] for a in x.args)
            return x if all(a is b for a, b in zip(args, x.args)) else Op(x.op, args, x.ty)
        if isinstance(x, Load) and x.computed:
            return replace(x, computed=self.terms(x))
        return x

    def terms(self, x: Load | Store) -> tuple[tuple[Ex, int], ...]:
        """What is computed of a place."""
        return tuple((self(t), stride) for t, stride in x.computed)  # type: ignore[misc]

    def store(self, store: Store) -> Store:
        """A store of rebuilt values, where it was."""
        value = tuple(self(x) for x in store.value)
        mask = None if store.mask is None else self(store.mask)
        return replace(store, value=value, computed=self.terms(store), mask=mask)

    def fold(self, fold: Fold) -> Fold:
        position = None if fold.position is None else self(fold.position)
        mask = None if fold.mask is None else self(fold.mask)
        return replace(fold, value=self(fold.value), position=position, mask=mask)

    def stage(self, stage: Stage) -> Stage:
        """A stage with everything in it rebuilt."""
        return Stage(
            [self.store(s) for s in stage.head],
            [self.store(s) for s in stage.stores],
            [self.fold(f) for f in stage.folds],
            [self(x) for x in stage.first],
            stage.turns,
        )
