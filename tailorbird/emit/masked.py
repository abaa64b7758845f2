"""Folds under a mask: where no lane of it is set, nothing is computed or even loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailorbird.emit.builder import vector_type
from tailorbird.emit.folds import Accumulator
from tailorbird.emit.values import Values
from tailorbird.lower.kernel import Ex, Stage

if TYPE_CHECKING:
    from tailorbird.emit.nest import NestEmitter


def take_masked(
    views: Sequence[NestEmitter],
    stage: Stage,
    lanes: list[int],
    sums: Sequence[dict[str, list[Accumulator]]],
) -> None:
    """One value a lane into the accumulators of each fold under a mask, for all rows and vectors
    that run together.
    """
    masks = {id(fold.mask): fold.mask for fold in stage.folds if fold.mask is not None}
    for mask in masks.values():
        folds = [fold for fold in stage.folds if fold.mask is mask]
        kept = [[kept_lanes(view, mask, lane) for lane in lanes] for view in views]
        b = views[0].b
        with b.when(_any_lane(views[0], [x for row in kept for x in row])):
            for view, own, row in zip(views, sums, kept, strict=True):
                outside, view.memo = view.memo, dict(view.memo)
                for k, lane in enumerate(lanes):
                    for fold in folds:
                        view.take(fold, own[fold.cell.name][k], lane, row[k])
                view.memo = outside


def kept_lanes(view: Values, mask: Ex, lane: int) -> str:
    """The lanes of a mask that are set and no further than the end."""
    flags = vector_type("b1", view.s.width)
    found = view.widened(mask, lane, "b1", view.s.width)
    end = view.masks.get(lane)
    return found if end is None else view.b.here(f"and {flags} {found}, {end}")


def _any_lane(view: Values, kept: list[str]) -> str:
    b, w = view.b, view.s.width
    some, *more = kept
    for other in more:
        some = b.here(f"or {vector_type('b1', w)} {some}, {other}")
    if w == 1:
        return some
    return b.here(f"icmp ne i{w} {b.here(f'bitcast <{w} x i1> {some} to i{w}')}, 0")
