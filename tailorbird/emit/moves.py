"""A pack: what a mask picks, stored one after another.

With AVX-512 a vector of elements is compressed in a register and stored under a mask of as many
lanes as were picked. Without it, every lane is stored where the next picked one goes, and what was
not picked is overwritten. A vector from which nothing is picked is not even loaded.
"""

from __future__ import annotations

from tailorbird.emit.builder import LLVM_TYPES
from tailorbird.emit.masked import skipping_loop
from tailorbird.emit.nest import NestEmitter
from tailorbird.emit.sweep import SweptEmitter
from tailorbird.lower.kernel import PART, SIZES, Axis, Nest, Store

WIDE = {"b1": "i32", "i8": "i32", "u8": "i32", "i16": "i32", "u16": "i32"}
COMPRESS = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64"}


class PackEmitter(NestEmitter):
    """Emits the function of a pack."""

    def emit(self) -> None:
        self.pack_all()
        self.b.do("ret void")
        self.finish(self.nest.name)

    def pack_all(self) -> None:
        stores = self.nest.stages[0].stores
        self.place = self.b.cell("i64", "0")
        self.total = self.frame.size(self.b, stores[0].buffer.shape[0])
        self.points_of(list(self.nest.inner))

    def points_of(self, axes: list[Axis]) -> None:
        axis, *rest = axes
        low, high = "0", self.frame.size(self.b, axis.extent)
        if not rest:
            skipping_loop(self, self.nest.stages[0], axis, low, high, self.pack)
            return
        with self.b.loop(low, high) as i, self.axis(axis, i):
            self.points_of(rest)

    def pack(self, lanes: list[int]) -> None:
        stores = self.nest.stages[0].stores
        mask = stores[0].mask
        assert mask is not None
        kept = self.widened(mask, 0, "b1", self.s.width)
        self.pack_lanes(stores, kept)

    def store_each(self, stores: list[Store], values: list[list[str]], bits: str, at: str) -> None:
        """Without AVX-512, lane by lane. While there is room for all lanes each is stored where
        the next picked one goes; at the end of the memory only those that are picked.
        """
        b, w = self.b, self.s.width
        places = []
        for k in range(w):
            below = b.here(f"and i{w} {bits}, {(1 << k) - 1}")
            count = b.here(b.intrinsic(f"llvm.ctpop.i{w}", f"i{w}", (f"i{w}", below)))
            places.append(b.here(f"add nsw i64 {at}, {b.here(f'zext i{w} {count} to i64')}"))
        last = b.here(f"add nsw i64 {at}, {w}")
        roomy = b.here(f"icmp sle i64 {last}, {self.total}")
        with b.when(roomy):
            for k in range(w):
                self.store_lane(stores, values, k, places[k])
        with b.when(b.here(f"xor i1 {roomy}, true")):
            for k in range(w):
                bit = b.here(f"and i{w} {bits}, {1 << k}")
                with b.when(b.here(f"icmp ne i{w} {bit}, 0")):
                    self.store_lane(stores, values, k, places[k])

    def store_lane(self, stores: list[Store], values: list[list[str]], lane: int, at: str) -> None:
        b, w = self.b, self.s.width
        for store, parts in zip(stores, values, strict=True):
            ty = PART.get(store.buffer.ty, store.buffer.ty)
            one = [
                b.here(f"extractelement <{w} x {LLVM_TYPES[ty]}> {x}, i64 {lane}") for x in parts
            ]
            where = self.memory.place(store.buffer, store.at, 0, [(at, 1, 1)], None)
            self.memory.store(store.buffer, where, one, 1)

    def pack_lanes(self, stores: list[Store], kept: str) -> None:
        b, w = self.b, self.s.width
        tail = self.masks.get(0)
        if tail is not None:
            kept = b.here(f"and <{w} x i1> {kept}, {tail}")
        bits = b.here(f"bitcast <{w} x i1> {kept} to i{w}")
        with b.when(b.here(f"icmp ne i{w} {bits}, 0")):
            memo, self.memo = self.memo, {}
            wide = b.here(f"zext i{w} {bits} to i64")
            picked = b.here(b.intrinsic("llvm.ctpop.i64", "i64", ("i64", wide)))
            at = b.here(f"load i64, ptr {self.place}")
            values = [[self.widened(x, 0, x.ty, w) for x in store.value] for store in stores]
            if b.avx512:
                for store, parts in zip(stores, values, strict=True):
                    self.store_picked(store, parts, kept, picked, at)
            else:
                self.store_each(stores, values, bits, at)
            b.do(f"store i64 {b.here(f'add nsw i64 {at}, {picked}')}, ptr {self.place}")
            self.memo = memo

    def store_picked(
        self, store: Store, values: list[str], kept: str, picked: str, at: str
    ) -> None:
        """The picked lanes, together, at the next place."""
        b, w = self.b, self.s.width
        ty = PART.get(store.buffer.ty, store.buffer.ty)
        scalar = LLVM_TYPES[ty]
        value = values[0]
        if len(values) == 2:
            mixed = ", ".join(f"i32 {k // 2 + (w if k % 2 else 0)}" for k in range(2 * w))
            value = b.here(
                f"shufflevector <{w} x {scalar}> {values[0]}, <{w} x {scalar}> {values[1]},"
                f" <{2 * w} x i32> <{mixed}>"
            )
            kept, w = self.memory.doubled(kept), 2 * w
            picked = b.here(f"shl i64 {picked}, 1")
        lanes = WIDE.get(ty)
        if lanes:
            value = b.here(f"zext <{w} x {scalar}> {value} to <{w} x {lanes}>")
        lane = lanes or scalar
        value, total = self.compressed(value, kept, lane, w)
        where = self.memory.place(store.buffer, store.at, 0, [(at, 1, 1)], None)
        target = "i8" if ty == "b1" else scalar
        if lanes:
            value = b.here(f"trunc <{total} x {lanes}> {value} to <{total} x {target}>")
        self.store_first(where.pointer, value, target, total, picked, SIZES[ty])

    def compressed(self, value: str, kept: str, lane: str, w: int) -> tuple[str, int]:
        """The kept lanes first, in a whole register of this many lanes."""
        b = self.b
        full = 16 if lane in ("i32", "float") else 8
        if w < full:
            picks = ", ".join(f"i32 {min(k, w)}" for k in range(full))
            blank = f"<{w} x i1> zeroinitializer"
            value = b.here(
                f"shufflevector <{w} x {lane}> {value}, <{w} x {lane}> poison, "
                f"<{full} x i32> <{picks}>"
            )
            kept = b.here(f"shufflevector <{w} x i1> {kept}, {blank}, <{full} x i32> <{picks}>")
        vt = f"<{full} x {lane}>"
        call = b.intrinsic(
            f"llvm.x86.avx512.mask.compress.v{full}{COMPRESS[lane]}",
            vt,
            (vt, value),
            (vt, "zeroinitializer"),
            (f"<{full} x i1>", kept),
        )
        return b.here(call), full

    def store_first(
        self, pointer: str, value: str, scalar: str, w: int, picked: str, align: int
    ) -> None:
        """The first `picked` lanes to memory."""
        b = self.b
        all_ones = ("i64", "-1")
        ones = b.here(b.intrinsic("llvm.x86.bmi.bzhi.64", "i64", all_ones, ("i64", picked)))
        mask = b.here(f"bitcast i{w} {b.here(f'trunc i64 {ones} to i{w}')} to <{w} x i1>")
        name = {"float": "f32", "double": "f64"}.get(scalar, scalar)
        call = b.intrinsic(
            f"llvm.masked.store.v{w}{name}.p0",
            "void",
            (f"<{w} x {scalar}>", value),
            ("ptr", pointer),
            ("i32", str(align)),
            (f"<{w} x i1>", mask),
        )
        b.do(call)


def emitter_of(nest: Nest) -> type[NestEmitter]:
    """What emits a nest."""
    if nest.swept:
        return SweptEmitter
    return PackEmitter if nest.packs else NestEmitter
