"""How a nest runs: fewer loops where memory allows it, the axis that lanes follow, how many vectors
are in flight.

Adjacent axes become one when every access steps through them as through one (`stride(p) ==
stride(q) * extent(q)`): the outer one is dropped and the inner one runs over both. The vector axis
is the one along which most accesses are contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tailorbird.fuse.flow import Position
from tailorbird.fuse.groups import COSTS
from tailorbird.ir.expr import Sym, evaluate, product
from tailorbird.lower.kernel import (
    PART,
    SIZES,
    Axis,
    Cell,
    Ex,
    Index,
    Load,
    Nest,
    Op,
    Schedule,
    Stage,
)
from tailorbird.lower.moves import schedule_pack


def expressions_of(roots: Iterable[Ex]) -> list[Ex]:
    """Every distinct expression below some, operands before users."""
    seen: set[int] = set()
    order: list[Ex] = []

    pending = list(roots)[::-1]
    while pending:
        x = pending.pop()
        if id(x) in seen:
            continue
        below: Sequence[Ex] = ()
        if isinstance(x, Op):
            below = x.args
        elif isinstance(x, Load) and x.computed:
            below = [term for term, _ in x.computed]
        first = [y for y in below if id(y) not in seen] if below else below
        if first:
            pending.append(x)
            pending += first[::-1]
        else:
            seen.add(id(x))
            order.append(x)
    return order


FEW, MANY = 4, 64  # elements of a short row; rows that make it worth while to run across them,
# and elements of a row for which that code may still be used
SHORT, MIDDLING = 512, 4096  # elements of rows of which four, or two, run together
FAR = 1 << 20  # bytes that all rows read and that come from far: so more rows run together
LAST, PAST = 1 << 25, 16  # bytes of the last cache; of the least store that can go past it
FETCHED = 1 << 14  # bytes of rows that are read while others are still in the nearest cache
DEAR = 12  # cost of an op, an exp say, of which two vectors fill the registers
LIGHT = 8  # cost below which a map waits for memory
FULL = 32  # cost of a turn of which one vector of points has enough to do, and fills the registers
MOST_TURNS = 8  # of a loop that are written out where it runs inside of a map
HALF = 32  # bytes: such maps run better on half vectors, which seldom straddle two cache lines


def expressions(nest: Nest) -> list[Ex]:
    """Every distinct expression of a nest, operands before users."""
    roots: list[Ex] = []
    for stage in nest.stages:
        roots += stage.first
        for store in [*stage.head, *stage.stores]:
            roots += store.roots
        for fold in stage.folds:
            roots += fold.roots
    return expressions_of(roots)


def dear_maps(stage: Stage) -> list[Ex]:
    """Functions that take long, of which vectors run side by side: each is a chain of dependent
    instructions.
    """
    if any(store.mask for store in stage.stores):
        return []
    roots = [*(f.value for f in stage.folds), *(x for s in stage.stores for x in s.roots)]
    maps = expressions_of([*stage.first, *roots])
    return [x for x in maps if isinstance(x, Op) and COSTS.get(x.op, 1) >= DEAR]


def _positions(nest: Nest, order: list[Ex]) -> Iterator[tuple[Position, bool]]:
    """Every access with whether it also has computed terms."""
    for x in order:
        if isinstance(x, Load):
            yield x.at, bool(x.computed)
    for stage in nest.stages:
        for store in [*stage.head, *stage.stores]:
            yield store.at, False


def schedule(nest: Nest, width_bytes: int, sizes: Mapping[Sym, int] | None = None) -> Nest:
    """Chooses how the nest runs; changes only its axes and schedule.

    `sizes` are those of the call it is compiled for; they decide what is fast, never what is right.
    """
    order = expressions(nest)
    folding = any(stage.folds for stage in nest.stages)
    if not nest.scan:
        _simplify(nest, order, folding)
    if nest.packs:
        accesses = [p for p, _ in _positions(nest, order)]
        named = {x.axis for x in order if isinstance(x, Index)}
        nest.inner = (
            _collapse([a for a in nest.inner if a.extent != 1], accesses, named)
            or (nest.inner[-1:])
        )
        return schedule_pack(nest, width_bytes, len(order), _widest(nest, order, ""))
    costs = [COSTS.get(x.op, 1) for x in order if isinstance(x, Op)]
    cost = sum(costs) + 1
    if nest.turns:
        return _schedule_turns(nest, order, cost, width_bytes)
    vector = _short_rows(nest, sizes or {})
    owes = MANY - product(a.extent for a in nest.inner) if vector else None
    vector = vector or _vector_axis(nest, order)
    if not vector:
        nest.schedule = Schedule(cost=cost)
        return nest
    if not folding and _only_gathers(order, vector, cost):
        nest.schedule = Schedule(vector, 1, 4, cost)
        return nest
    if not folding and _mostly_apart(nest, order, vector):
        nest.schedule = Schedule(cost=cost)
        return nest
    if not folding:
        _rotate(nest, vector)
    if cost < LIGHT and not any(stage.folds for stage in nest.stages):
        width_bytes = min(width_bytes, HALF)
    width = max(1, width_bytes // _widest(nest, order, vector))
    unroll = _unroll(nest, vector, cost, max(costs, default=0))
    while unroll > 4 and nest.rows and _extent(nest, vector, sizes or {}) < unroll * width:
        unroll //= 2
    together, unroll = _together(nest, vector, order, unroll, sizes or {})
    ahead = _reads_ahead(nest, vector, together * _widest(nest, order, vector), sizes or {})
    past = not folding and _goes_past_caches(nest, order, width, sizes or {})
    nest.schedule = Schedule(vector, width, unroll, cost, owes, together, ahead, past)
    return nest


def _schedule_turns(nest: Nest, order: list[Ex], cost: int, width_bytes: int) -> Nest:
    """Lanes are points of the map, in half vectors: the squares that are turned over stay small."""
    named = {x.axis for x in order if isinstance(x, Index)}
    rows = [a for a in nest.rows if a.extent != 1]
    nest.rows = _collapse(rows, [p for p, _ in _positions(nest, order)], named)
    places = [p for p, _ in _positions(nest, order)]
    beside = [sum(p.stride(a.name) == 1 for p in places) for a in nest.rows]
    vector = max(zip(beside, range(len(beside)), strict=True))[1]
    name = nest.rows[vector].name
    width = min(MOST_TURNS, min(width_bytes, HALF) // _widest(nest, order, name))
    nest.schedule = Schedule(name, width, 1 if _dearest_turn(nest) > FULL else 2, cost)
    return nest


def _dearest_turn(nest: Nest) -> int:
    """The cost of a turn of the dearest loop inside of a nest."""
    roots = ([x for s in g.stores for x in s.roots] for g in nest.stages if g.turns is not None)
    ops = ([x for x in expressions_of(r) if isinstance(x, Op)] for r in roots)
    return max(sum(COSTS.get(x.op, 1) for x in some) for some in ops)


def _together(
    nest: Nest, vector: str, order: list[Ex], unroll: int, sizes: Mapping[Sym, int]
) -> tuple[int, int]:
    """How many rows run at once, and how many vectors of each: short rows hide the latency of each
    other's folds, and rows that read the same elements share the loads.
    """
    folding = any(stage.folds for stage in nest.stages)
    if not folding or nest.scan or not nest.rows or all(a.name != vector for a in nest.inner):
        return 1, unroll
    row = nest.rows[-1].name
    moving = [x for x in order if isinstance(x, Load) and x.at.stride(vector) != 0]
    shared = all(x.at.stride(row) == 0 and not x.computed for x in moving)
    length = math.prod(_extent(nest, a.name, sizes) for a in nest.inner)
    if length == math.inf and nest.rows[-1].extent == 4:  # so many turns of a loop
        return 4, min(unroll, 2)
    if length <= SHORT or (moving and shared):
        column = sum(SIZES[PART.get(x.ty, x.ty)] for x in moving)
        far = shared and FAR < length * column < math.inf
        many = far and unroll > 2 and 8 * MANY <= _extent(nest, row, sizes) < math.inf
        return (8, 1) if many else (4, min(unroll, 2))
    return (2 if length <= MIDDLING else 1), unroll


def _reads_ahead(nest: Nest, vector: str, column: int, sizes: Mapping[Sym, int]) -> bool:
    """Whether rows of several stages should ask for the next ones: their memory is idle while the
    later stages run, and the caches have room for both, or nothing else comes into them. A column
    is one element of all rows that run together, in bytes.
    """
    looping = [stage for stage in nest.stages if stage.loops]
    along = len(nest.inner) == 1 and nest.inner[0].name == vector
    if len(looping) < 2 or nest.scan or not nest.rows or not along:
        return False
    return not looping[-1].stores or column * _extent(nest, vector, sizes) <= FETCHED


def _goes_past_caches(nest: Nest, order: list[Ex], width: int, sizes: Mapping[Sym, int]) -> bool:
    """Whether a map along memory moves more than the last cache keeps: what it stores need not be
    fetched before it is overwritten. What it also reads is there already.
    """
    if nest.rows or nest.scan or len(nest.stages) > 1:
        return False
    (stage,), (axis,) = nest.stages, nest.inner
    if stage.first or stage.head or not stage.stores:
        return False
    if any(s.mask or s.computed or s.at.stride(axis.name) != 1 for s in stage.stores):
        return False
    if any(s.buffer.ty in PART or width * SIZES[s.buffer.ty] < PAST for s in stage.stores):
        return False
    moving = [x for x in order if isinstance(x, Load) and x.at.stride(axis.name) != 0]
    loads = {x.buffer.name: SIZES[x.ty] for x in moving}
    stores = {s.buffer.name: SIZES[s.buffer.ty] for s in stage.stores}
    moved = sum((loads | stores).values()) * _extent(nest, axis.name, sizes)
    return loads.keys().isdisjoint(stores) and LAST < moved < math.inf


def _only_gathers(order: list[Ex], vector: str, cost: int) -> bool:
    """Whether a nest does little but load from a place of its own for each lane: lanes do that no
    faster than scalars.
    """
    gathers = 0
    for x in order:
        if isinstance(x, Load) and x.computed:
            moving = (y for y in expressions_of(t for t, _ in x.computed) if isinstance(y, Load))
            gathers += any(y.at.stride(vector) != 0 for y in moving)
    return gathers > 0 and cost < LIGHT * gathers


def _mostly_apart(nest: Nest, order: list[Ex], vector: str) -> bool:
    """Whether most accesses step from place to place along the lanes and the work between them is
    light: gathering and scattering lanes costs more than lanes save.
    """
    strides = [p.stride(vector) for p, _ in _positions(nest, order)]
    apart = sum(s not in (-1, 0, 1) for s in strides)
    together = sum(s in (-1, 1) for s in strides)
    costs = sum(COSTS.get(x.op, 1) for x in order if isinstance(x, Op))
    return apart > together and costs < LIGHT * apart


def _extent(nest: Nest, axis: str, sizes: Mapping[Sym, int]) -> float:
    """How long an axis is in the call at hand; infinite where that is not known."""
    (found,) = (a for a in [*nest.rows, *nest.inner] if a.name == axis)
    return extent_of(found, sizes)


def extent_of(axis: Axis, sizes: Mapping[Sym, int]) -> float:
    """The same of an axis itself."""
    try:
        return evaluate(axis.extent, sizes)
    except KeyError:
        return math.inf


def _simplify(nest: Nest, order: list[Ex], folding: bool) -> None:
    """Drops axes of one element and joins neighbours. A nest of maps may run in any order: the one
    that joins most.
    """
    named = {x.axis for x in order if isinstance(x, Index)}
    accesses = [p for p, _ in _positions(nest, order)]
    rows = [a for a in nest.rows if a.extent != 1]
    inner = [a for a in nest.inner if a.extent != 1]
    if folding:
        nest.rows = _collapse(rows, accesses, named)
        nest.inner = _collapse(inner, accesses, named) or nest.inner[-1:]
        return
    axes = [*rows, *inner]
    forward, backward = (_collapse(x, accesses, named) for x in (axes, axes[::-1]))
    joined = backward if len(backward) < len(forward) else forward
    nest.rows, nest.inner = joined[:-1], joined[-1:]


def _collapse(axes: list[Axis], accesses: list[Position], named: set[str]) -> list[Axis]:
    out = list(axes)
    k = len(out) - 2
    while k >= 0:
        p, q = out[k], out[k + 1]
        plain = p.name not in named and q.name not in named
        if plain and all(a.stride(p.name) == a.stride(q.name) * q.extent for a in accesses):
            out[k : k + 2] = [Axis(q.name, p.extent * q.extent)]
        k -= 1
    return out


def _short_rows(nest: Nest, sizes: Mapping[Sym, int]) -> str:
    """The row axis that lanes follow when there are many rows of a few elements each."""
    if nest.scan or not nest.rows or not any(stage.folds for stage in nest.stages):
        return ""
    last = nest.rows[-1].name
    inner = math.prod(_extent(nest, a.name, sizes) for a in nest.inner)
    return last if inner <= FEW and MANY <= _extent(nest, last, sizes) < math.inf else ""


def _vector_axis(nest: Nest, order: list[Ex]) -> str:
    """The axis with the most contiguous accesses; the last one when there is a tie."""
    allowed = nest.rows if nest.scan else [*nest.rows, *nest.inner]
    best, chosen = -1, ""
    for axis in allowed:
        score = 0
        for position, computed in _positions(nest, order):
            stride = position.stride(axis.name)
            score += (
                4
                if stride == 1
                else 2
                if stride == 0 and not computed
                else 1
                if stride == -1
                else 0
            )
        if axis.extent == 1:
            score = 0
        if score >= best:
            best, chosen = score, axis.name
    if nest.scan and all(p.stride(chosen) != 1 for p, _ in _positions(nest, order)):
        return ""
    return chosen


def _rotate(nest: Nest, vector: str) -> None:
    """A nest of maps has no rows of its own: the vector axis goes innermost."""
    axes = [*nest.rows, *nest.inner]
    nest.inner = [a for a in axes if a.name == vector]
    nest.rows = [a for a in axes if a.name != vector]


def _widest(nest: Nest, order: list[Ex], vector: str) -> int:
    """Bytes of the widest scalar that differs from lane to lane."""
    lanes: set[int] = set()
    rows = any(a.name == vector for a in nest.rows)
    sizes = [1]
    for x in order:
        if isinstance(x, Op):
            varies = any(id(a) in lanes for a in x.args)
        elif isinstance(x, Load):
            varies = x.at.stride(vector) != 0 or any(id(t) in lanes for t, _ in x.computed)
        else:
            varies = (isinstance(x, Index) and x.axis == vector) or (isinstance(x, Cell) and rows)
        if varies:
            lanes.add(id(x))
            sizes.append(SIZES[x.ty])
    for stage in nest.stages:
        for store in [*stage.head, *stage.stores]:
            if store.at.stride(vector) != 0:
                sizes.append(SIZES[PART.get(store.buffer.ty, store.buffer.ty)])
        sizes += [SIZES[fold.value.ty] for fold in stage.folds]
    return max(sizes)


def _unroll(nest: Nest, vector: str, cost: int, dearest: int) -> int:
    """Vectors in flight: enough chains to hide latency, few enough to stay in registers."""
    if nest.scan:
        return 2
    if any(stage.folds for stage in nest.stages):
        if any(a.name == vector for a in nest.rows):
            return 4 if cost < 60 else 2
        if cost <= 4:
            return 8
        return 4 if cost < 40 and not (nest.rows and dearest >= DEAR) else 2
    few = cost < 80 * len(nest.stages) or dearest >= DEAR
    return 4 if cost < LIGHT else 2 if few else 1
