"""Turns of a loop inside of a map: lanes are points, and turns follow each other in registers.

In: a stage with `turns`, at a vector of points. Out: a loop over blocks of as many
turns as there are lanes. What lies along the turns is loaded as a square, a vector for each point,
and turned over into a vector for each turn; what is stored along them the other way round. What
later turns need of earlier ones is in cells when a block begins.

Invariants: the last block is masked: what it loads beyond the last turn is not read from memory,
and what it stores there is not stored. A place that every turn stores is stored after the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailorbird.dataclass import replace
from tailorbird.emit.builder import MEMORY_TYPES, vector_type
from tailorbird.emit.memory import Place
from tailorbird.lower.interchange import Stream, streams
from tailorbird.lower.kernel import SIZES, Axis, Load, Stage, Store

if TYPE_CHECKING:
    from tailorbird.emit.builder import Builder
    from tailorbird.emit.values import Values

Key = tuple[int, int]  # a stream, and the lane offset of a vector of points


class TurnedEmitter:
    """Emits all turns for the points at some lane offsets."""

    def __init__(self, values: Values, stage: Stage, turns: Axis, lanes: list[int]) -> None:
        self.e = values
        self.b: Builder = values.b
        self.stage = stage
        self.lanes = lanes
        self.axis = turns
        self.width = values.s.width
        self.streams = streams(stage, turns, values.s.vector)
        self.keys = [(k, lane) for k in range(len(self.streams)) for lane in lanes]
        self.cells: dict[Key, list[str]] = {}  # what passed last, one turn ago first
        self.columns: dict[Key, list[str]] = {}  # what passes in this block, turn by turn
        self.passed: dict[Key, list[str]] = {}

    def emit(self) -> None:
        """All turns, if there are any."""
        high = self.e.frame.size(self.b, self.axis.extent)
        with self.b.when(self.b.pure(f"icmp sgt i64 {high}, 0")):
            self.turns(high)

    def turns(self, high: str) -> None:
        self.begin()
        middle = "0"
        if not self.e.masks:
            middle = self.b.pure(f"and i64 {high}, {-self.width}")
            self.blocks("0", middle, high, masked=False)
        self.blocks(middle, high, high, masked=True)
        self.finish()

    def stream(self, key: Key) -> Stream:
        return self.streams[key[0]]

    def vector(self, key: Key) -> str:
        return vector_type(self.stream(key).source.buffer.ty, self.width)

    def depth(self, stream: Stream) -> int:
        return max(stream.depth, 1) if self.step(stream) == 0 else stream.depth

    def step(self, stream: Stream) -> object:
        return stream.source.at.stride(self.axis.name)

    # -- before the first turn, and after the last

    def begin(self) -> None:
        """What the turns before the first would have left, out of memory."""
        with self.e.axis(self.axis, "0"):
            for key in self.keys:
                stream, lane = self.stream(key), key[1]
                at = stream.source.at
                self.cells[key] = []
                for back in range(1, self.depth(stream) + 1):
                    before = replace(at, offset=at.offset - at.stride(self.axis.name) * back)
                    place = self.e.memory.place(
                        stream.source.buffer, before, lane, [], self.e.masks.get(lane)
                    )
                    found, _ = self.e.memory.load(stream.source.buffer, place, -1)
                    self.cells[key].append(self.b.cell(self.vector(key), None))
                    self.put(key, back, found)

    def put(self, key: Key, back: int, value: str) -> None:
        self.b.do(f"store {self.vector(key)} {value}, ptr {self.cells[key][back - 1]}")

    def finish(self) -> None:
        """Stores what every turn stored at one place."""
        with self.e.axis(self.axis, "0"):
            for key in self.keys:
                source, lane = self.stream(key).source, key[1]
                if isinstance(source, Store) and self.step(self.stream(key)) == 0:
                    value = self.b.here(f"load {self.vector(key)}, ptr {self.cells[key][0]}")
                    self.store(source, lane, value, self.e.masks.get(lane))

    def store(self, store: Store, lane: int, value: str, mask: str | None) -> None:
        place = self.e.memory.place(store.buffer, store.at, lane, [], mask)
        self.e.memory.store(store.buffer, place, [value], self.width)

    # -- turns

    def blocks(self, low: str, end: str, high: str, masked: bool) -> None:
        """Blocks of turns from low to end, of which those from high on do not come."""
        with self.b.loop(low, end, self.width) as first:
            mask = self.e.lane_mask(first, 0, high) if masked else ""
            for key in self.keys:
                cells = self.cells[key]
                kind = self.vector(key)
                self.passed[key] = [self.b.here(f"load {kind}, ptr {cell}") for cell in cells]
                source = self.stream(key).source
                self.columns[key] = []
                if isinstance(source, Load):
                    self.columns[key] = self.load_square(key, source, first, mask)
            if not masked:
                self.ask_for_next(first)
            comes = [self.turn(k, first, high, masked) for k in range(self.width)]
            for key in self.keys:
                source = self.stream(key).source
                if isinstance(source, Store) and self.stream(key).square:
                    self.store_square(key, source, first, mask)
                self.leave(key, comes)

    def leave(self, key: Key, comes: list[str]) -> None:
        """What the next block needs of this one."""
        columns = self.columns[key]
        if self.step(self.stream(key)) != 0:
            for back in range(1, self.depth(self.stream(key)) + 1):
                self.put(key, back, columns[-back])
            return
        last, kind = self.passed[key][0], self.vector(key)
        for comes_too, value in zip(comes, columns, strict=True):
            choice = f"select i1 {comes_too}, {kind} {value}, {kind} {last}"
            last = self.b.here(choice) if comes_too else value
        self.put(key, 1, last)

    def turn(self, k: int, first: str, high: str, masked: bool) -> str:
        """One turn for all points; whether it comes, where that is not sure."""
        b, e = self.b, self.e
        counter = b.pure(f"add nsw i64 {first}, {k}") if k else first
        comes = ""
        if masked:
            comes = b.pure(f"icmp slt i64 {counter}, {high}")
            last = b.pure(f"sub nsw i64 {high}, 1")
            counter = b.pure(f"select i1 {comes}, i64 {counter}, i64 {last}")
        with e.axis(self.axis, counter):
            e.together = self.lanes
            for key in self.keys:
                for x, age in self.stream(key).behind.items():
                    lane = key[1] if e.s.unroll > 1 else 0
                    e.memo[x, lane] = self.seen(key, k - age), self.width
            for lane in self.lanes:
                self.point(lane, self.store_mask(lane, comes))
        return comes

    def seen(self, key: Key, turn: int) -> str:
        """What passed at a turn of this block, or before it."""
        return self.columns[key][turn] if turn >= 0 else self.passed[key][-turn - 1]

    def store_mask(self, lane: int, comes: str) -> str | None:
        """The points that a turn which may not come stores at."""
        points = self.e.masks.get(lane)
        if not comes:
            return points
        w = self.width
        every = points or "splat (i1 true)"
        return self.b.pure(f"select i1 {comes}, <{w} x i1> {every}, <{w} x i1> zeroinitializer")

    def point(self, lane: int, mask: str | None) -> None:
        """All values of one turn, then the stores that do not wait for the end of the block."""
        e = self.e
        values = [
            e.widened(store.value[0], lane, store.value[0].ty, self.width)
            for store in self.stage.stores
        ]
        for k, (store, value) in enumerate(zip(self.stage.stores, values, strict=True)):
            assert self.streams[k].source is store, "stores are the first streams"
            self.columns[k, lane].append(value)
            if not self.streams[k].square and self.step(self.streams[k]) != 0:
                self.store(store, lane, value, mask)

    # -- squares

    def ask_for_next(self, first: str) -> None:
        """The caches fetch the squares of the next points meanwhile: there are too many lines of
        memory at once for the hardware to follow.
        """
        e, b = self.e, self.b
        kind = "ptr", "i32", "i32", "i32"
        on = self.width * e.s.unroll
        with e.axis(self.axis, first):
            for key in self.keys:
                source = self.stream(key).source
                for k in range(self.width if self.stream(key).square else 0):
                    place = e.memory.place(source.buffer, source.at, key[1] + k + on, [], None)
                    how = place.pointer, "1" if isinstance(source, Store) else "0", "3", "1"
                    args = zip(kind, how, strict=True)
                    b.do(b.intrinsic("llvm.prefetch.p0", "void", *args))

    def rows(self, key: Key, first: str, mask: str) -> list[tuple[str, str]]:
        """For every point of a square its address and mask; backward ones from their end."""
        e, b, w = self.e, self.b, self.width
        source, lane = self.stream(key).source, key[1]
        back = self.step(self.stream(key)) == -1
        points = e.masks.get(lane)
        kind = f"<{w} x i1>"
        if mask and back:
            order = ", ".join(f"i32 {w - 1 - k}" for k in range(w))
            mask = b.pure(f"shufflevector {kind} {mask}, {kind} poison, <{w} x i32> <{order}>")
        out = []
        with e.axis(self.axis, first):
            for k in range(w):
                place: Place = e.memory.place(source.buffer, source.at, lane + k, [], None)
                p, own = place.pointer, mask
                if back:
                    unit = MEMORY_TYPES[source.buffer.ty]
                    p = b.pure(f"getelementptr {unit}, ptr {p}, i64 {1 - w}")
                if points is not None:
                    is_one = b.pure(f"extractelement {kind} {points}, i64 {k}")
                    own = b.pure(f"select i1 {is_one}, {kind} {mask}, {kind} zeroinitializer")
                out.append((p, own))
        return out

    def load_square(self, key: Key, x: Load, first: str, mask: str) -> list[str]:
        """A vector of points for every turn of a block."""
        memory, w = self.e.memory, self.width
        scalar = MEMORY_TYPES[x.ty]
        rows = [
            self.b.here(memory.contiguous(p, f"<{w} x {scalar}>", scalar, SIZES[x.ty], own or None))
            for p, own in self.rows(key, first, mask)
        ]
        turned = transposed(self.b, rows, scalar)
        found = [memory.from_memory(v, x.ty, w) for v in turned]
        return found[::-1] if self.step(self.stream(key)) == -1 else found

    def store_square(self, key: Key, store: Store, first: str, mask: str) -> None:
        memory, w = self.e.memory, self.width
        ty = store.buffer.ty
        scalar = MEMORY_TYPES[ty]
        columns = self.columns[key]
        if ty == "b1":
            columns = [memory.to_byte(v, w) for v in columns]
        if self.step(self.stream(key)) == -1:
            columns = columns[::-1]
        values = transposed(self.b, columns, scalar)
        for value, (p, own) in zip(values, self.rows(key, first, mask), strict=True):
            place = Place(p, 1, None, own or None)
            memory.store_lanes(place, [value], scalar, SIZES[ty])


def transposed(b: Builder, rows: list[str], scalar: str) -> list[str]:
    """The columns of a square of vectors: one bit of the two indices changes place at a time."""
    w = len(rows)
    kind = f"<{w} x {scalar}>"
    bit = 1
    while bit < w:
        out = list(rows)
        for i in (i for i in range(w) if not i & bit):
            low = [w + k - bit if k & bit else k for k in range(w)]
            high = [w + k if k & bit else k + bit for k in range(w)]
            for row, picks in ((i, low), (i + bit, high)):
                lanes = ", ".join(f"i32 {k}" for k in picks)
                pair = f"{kind} {rows[i]}, {kind} {rows[i + bit]}"
                out[row] = b.pure(f"shufflevector {pair}, <{w} x i32> <{lanes}>")
        rows = out
        bit *= 2
    return rows
