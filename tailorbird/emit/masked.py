"""Folds under a mask: where no lane of it is set, nothing is computed or even loaded.

Where all of a stage is under a mask that lies in memory, blocks of `BLOCK` elements are looked at
first, as the words they lie in: what picks little or nothing is passed over as fast as it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailorbird.emit.builder import vector_type
from tailorbird.emit.folds import Accumulator
from tailorbird.emit.values import Values
from tailorbird.lower.kernel import SIZES, Axis, Const, Ex, Fold, Load, Op, Stage, const

if TYPE_CHECKING:
    from tailorbird.emit.nest import NestEmitter

BLOCK = 64  # elements of a mask, one byte each
ONES = {ty: const(1, ty) for ty in SIZES}  # registers are remembered by the expression itself


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


def summand(view: Values, fold: Fold, lane: int, mask: str | None) -> tuple[Ex, str | None]:
    """What a fold takes, and the lanes it takes it in: `where(m, x, 0)` and `cast(m)` are summed as
    x and 1 in the lanes of m, where the machine adds under a mask.
    """
    x = fold.value
    picked = _picked(x) if fold.op == "sum" and not view.nest.scan else None
    if picked is None or not view.b.avx512 or not view.follows_lanes(picked[0]):
        return x, mask
    found = view.widened(picked[0], lane, "b1", view.s.width)
    if mask is not None:
        found = view.b.here(f"and {vector_type('b1', view.s.width)} {found}, {mask}")
    return picked[1], found


def _picked(x: Ex) -> tuple[Ex, Ex] | None:
    """A mask, and what a summand is under it, if it is nothing elsewhere."""
    if not isinstance(x, Op):
        return None
    if x.op == "where" and isinstance(x.args[2], Const) and x.args[2].value == 0:
        return x.args[0], x.args[1]
    return (x.args[0], ONES[x.ty]) if x.op == "cast" and x.args[0].ty == "b1" else None


def _any_lane(view: Values, kept: list[str]) -> str:
    b, w = view.b, view.s.width
    some, *more = kept
    for other in more:
        some = b.here(f"or {vector_type('b1', w)} {some}, {other}")
    if w == 1:
        return some
    return b.here(f"icmp ne i{w} {b.here(f'bitcast <{w} x i1> {some} to i{w}')}, 0")


def skipping_loop(
    view: NestEmitter,
    stage: Stage,
    axis: Axis,
    low: str,
    high: str,
    body: Callable[[list[int]], None],
) -> None:
    """The vectors of a stage, but for blocks that its mask leaves out."""
    b, width, unroll = view.b, view.s.width, view.s.unroll
    mask = _mask_in_memory(view, stage)
    if mask is None or BLOCK % (width * unroll):
        view.vector_loop(axis, low, high, body)
        return
    count = high if low == "0" else b.pure(f"sub nsw i64 {high}, {low}")
    whole = b.pure(f"and i64 {count}, {-BLOCK}")
    middle = whole if low == "0" else b.pure(f"add nsw i64 {low}, {whole}")
    with b.loop(low, middle, BLOCK) as start:
        with view.axis(axis, start):
            place = view.memory.place(mask.buffer, mask.at, 0, [], None)
        words = b.here(f"load <8 x i64>, ptr {place.pointer}, align 1")
        some = b.here(f"icmp ne <8 x i64> {words}, zeroinitializer")
        with b.when(b.here(f"icmp ne i8 {b.here(f'bitcast <8 x i1> {some} to i8')}, 0")):
            end = b.here(f"add nsw i64 {start}, {BLOCK}")
            with b.loop(start, end, width * unroll) as i, view.axis(axis, i):
                body([k * width for k in range(unroll)])
    view.vector_loop(axis, middle, high, body)


def _mask_in_memory(view: NestEmitter, stage: Stage) -> Load | None:
    """The mask that all of a stage is under, if it lies in memory one byte after another."""
    masks = [*(store.mask for store in stage.stores), *(fold.mask for fold in stage.folds)]
    if not masks or stage.first or len(view.views) > 1 or view.s.width == 1:
        return None
    mask = masks[0]
    if not isinstance(mask, Load) or any(m is not mask for m in masks):
        return None
    stored = {store.buffer.name for store in stage.stores}
    plain = mask.at.stride(view.s.vector) == 1 and not mask.computed and not mask.at.terms
    return mask if plain and mask.buffer.name not in stored else None
