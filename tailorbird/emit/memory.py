"""Loads and stores: scalar, contiguous, reversed, masked, gathered; complex ones as interleaved
pairs.

An address is the buffer's base plus one step for each axis, outermost first, so that the builder
hoists what does not change.
"""

from __future__ import annotations

from tailorbird.dataclass import dataclass
from tailorbird.emit.builder import LLVM_TYPES, MEMORY_TYPES, Builder
from tailorbird.emit.frame import Frame
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim, Expr
from tailorbird.lower.kernel import PART, SIZES, Buffer


@dataclass
class Place:
    """An address at lane 0, the lane stride (a literal or a register), and the lane mask if any."""

    pointer: str
    stride: Dim
    offsets: str | None  # <W x i64> element offsets when the index is computed lane by lane
    mask: str | None
    looked_up: bool = False  # whether the values of arrays decide where it lies


class Memory:
    """Emits accesses for one kernel. `env` maps axes to counters; `vector` is the axis that
    lanes follow.
    """

    def __init__(self, b: Builder, frame: Frame, written: set[str]) -> None:
        self.b = b
        self.frame = frame
        self.written = written
        self.own = written  # what the nest at hand writes itself
        self.base = 0  # the depth at which its own loops begin
        self.past = False  # whether whole vectors are stored past the caches
        self.checks = False  # whether checks stand between the accesses
        self.env: dict[str, str] = {}
        self.order: list[str] = []
        self.vector = ""
        self.width = 1

    def place(
        self,
        buffer: Buffer,
        at: Position,
        lane: int,
        computed: list[tuple[str, int, Dim]],
        mask: str | None,
    ) -> Place:
        """Where an access lies; `computed` terms are (register, width, stride)."""
        b = self.b
        unit = self.unit(buffer)
        p = self.frame.pointer(b, buffer.name)
        if at.offset != 0:
            p = self.step(p, unit, self.frame.size(b, at.offset))
        strides = dict(at.axes)
        for axis in self.order:
            if axis in strides:
                p = self.step(p, unit, self.scaled(self.env[axis], strides[axis]))
        stride = at.stride(self.vector) if self.vector in self.env else 0
        if lane and stride != 0:
            p = self.step(p, unit, self.scaled(str(lane), stride))
        if self.width == 1:  # one element after the other: the address is all there is
            stride = 0
        offsets = None
        for register, width, step in computed:
            if width == 1:
                p = self.step(p, unit, self.scaled(register, step))
                continue
            wide = self.scaled_lanes(register, step)
            offsets = (
                wide if offsets is None else b.pure(f"add nsw {self.lanes()} {offsets}, {wide}")
            )
        if offsets is not None and stride != 0:
            along = self.scaled_lanes(b.iota(self.width), stride)
            offsets = b.pure(f"add nsw {self.lanes()} {offsets}, {along}")
        dims = (at.offset, *strides.values())
        known = {s.kind for d in dims if isinstance(d, Expr) for s in d.symbols()}
        return Place(p, stride, offsets, mask, bool(computed) or "value" in known)

    def unit(self, buffer: Buffer) -> str:
        """The LLVM type of one element in memory."""
        part = PART.get(buffer.ty)
        return f"[2 x {LLVM_TYPES[part]}]" if part else MEMORY_TYPES[buffer.ty]

    def lanes(self) -> str:
        return f"<{self.width} x i64>"

    def step(self, p: str, unit: str, count: str) -> str:
        return p if count == "0" else self.b.pure(f"getelementptr {unit}, ptr {p}, i64 {count}")

    def scaled(self, register: str, stride: Dim) -> str:
        if stride == 1:
            return register
        factor = self.frame.size(self.b, stride)
        if not register.startswith("%") and not factor.startswith("%"):
            return str(int(register) * int(factor))
        return self.b.pure(f"mul nsw i64 {register}, {factor}")

    def scaled_lanes(self, register: str, stride: Dim) -> str:
        if stride == 1:
            return register
        factor = self.b.splat(self.frame.size(self.b, stride), "i64", self.width)
        return self.b.pure(f"mul nsw {self.lanes()} {register}, {factor}")

    # -- loads

    def inside(self, text: str) -> str:
        """A load of what others write: made once within the loops of this nest, not around them."""
        return self.b.pure(text) if self.b.depth_of(text) >= self.base else self.b.here(text)

    def load(self, buffer: Buffer, place: Place, part: int) -> tuple[str, int]:
        """The element or lanes at a place: (register, width)."""
        # A position that arrays decide is in bounds only behind the check of it.
        pinned = buffer.name in self.own or (self.checks and place.looked_up)
        changes = buffer.name in self.written
        emit = self.b.here if pinned else self.inside if changes else self.b.pure
        ty = PART.get(buffer.ty, buffer.ty)
        scalar = MEMORY_TYPES[ty]
        align = SIZES[ty]
        if place.offsets is None and place.stride == 0:
            p = self.half(place.pointer, scalar, part)
            return self.from_memory(emit(f"load {scalar}, ptr {p}, align {align}"), ty, 1), 1
        w = self.width
        vt = f"<{w} x {scalar}>"
        if part >= 0 and place.offsets is None and place.stride == 1:
            return self.load_pair(place, scalar, part, align, emit), w
        if place.offsets is None and place.stride == 1:
            return self.from_memory(
                emit(self.contiguous(place.pointer, vt, scalar, align, place.mask)), ty, w
            ), w
        if place.offsets is None and place.stride == -1 and part < 0:
            raw = emit(self.contiguous(*self.from_the_end(place, vt, scalar, align)))
            return self.from_memory(self.backward(raw, vt), ty, w), w
        return self.from_memory(emit(self.gather(buffer, place, part, vt, scalar, align)), ty, w), w

    def from_the_end(
        self, place: Place, vt: str, scalar: str, align: int
    ) -> tuple[str, str, str, int, str | None]:
        """Lanes that lie backwards, from the last one on: pointer, types, alignment, mask."""
        w = self.width
        first = self.b.pure(f"getelementptr {scalar}, ptr {place.pointer}, i64 {1 - w}")
        mask = None if place.mask is None else self.backward(place.mask, f"<{w} x i1>")
        return first, vt, scalar, align, mask

    def backward(self, register: str, vt: str) -> str:
        """Lanes in the other order."""
        order = ", ".join(f"i32 {k}" for k in reversed(range(self.width)))
        order = f"<{self.width} x i32> <{order}>"
        return self.b.pure(f"shufflevector {vt} {register}, {vt} poison, {order}")

    def contiguous(self, pointer: str, vt: str, scalar: str, align: int, mask: str | None) -> str:
        if mask is None:
            return f"load {vt}, ptr {pointer}, align {align}"
        return self.masked_load(vt, scalar, self.width, pointer, mask, align)

    def masked_load(
        self, vt: str, scalar: str, width: int, pointer: str, mask: str, align: int
    ) -> str:
        return self.b.intrinsic(
            f"llvm.masked.load.{_suffix(scalar, width)}.p0",
            vt,
            ("ptr", pointer),
            ("i32", str(align)),
            (f"<{width} x i1>", mask),
            (vt, "zeroinitializer"),
        )

    def load_pair(self, place: Place, scalar: str, part: int, align: int, emit: object) -> str:
        """One half of interleaved complex lanes."""
        w = self.width
        wide = f"<{2 * w} x {scalar}>"
        if place.mask is None:
            text = f"load {wide}, ptr {place.pointer}, align {align}"
        else:
            text = self.masked_load(
                wide, scalar, 2 * w, place.pointer, self.doubled(place.mask), align
            )
        raw = emit(text)  # type: ignore[operator]
        picks = ", ".join(f"i32 {2 * k + part}" for k in range(w))
        return self.b.pure(f"shufflevector {wide} {raw}, {wide} poison, <{w} x i32> <{picks}>")

    def doubled(self, mask: str) -> str:
        w = self.width
        picks = ", ".join(f"i32 {k // 2}" for k in range(2 * w))
        return self.b.pure(
            f"shufflevector <{w} x i1> {mask}, <{w} x i1> poison, <{2 * w} x i32> <{picks}>"
        )

    def pointers(self, buffer: Buffer, place: Place, part: int, scalar: str) -> str:
        offsets = place.offsets
        if offsets is None:
            offsets = self.scaled_lanes(self.b.iota(self.width), place.stride)
        unit = self.unit(buffer)
        p = self.b.pure(f"getelementptr {unit}, ptr {place.pointer}, {self.lanes()} {offsets}")
        if part > 0:
            p = self.b.pure(f"getelementptr {scalar}, <{self.width} x ptr> {p}, i64 {part}")
        return p

    def gather(
        self, buffer: Buffer, place: Place, part: int, vt: str, scalar: str, align: int
    ) -> str:
        w = self.width
        return self.b.intrinsic(
            f"llvm.masked.gather.{_suffix(scalar, w)}.v{w}p0",
            vt,
            (f"<{w} x ptr>", self.pointers(buffer, place, part, scalar)),
            ("i32", str(align)),
            (f"<{w} x i1>", place.mask or "splat (i1 true)"),
            (vt, "zeroinitializer"),
        )

    def half(self, pointer: str, scalar: str, part: int) -> str:
        return (
            self.b.pure(f"getelementptr {scalar}, ptr {pointer}, i64 1") if part == 1 else pointer
        )

    def from_memory(self, register: str, ty: str, width: int) -> str:
        if ty != "b1":
            return register
        vt = "i8" if width == 1 else f"<{width} x i8>"
        return self.b.pure(f"icmp ne {vt} {register}, {'0' if width == 1 else 'zeroinitializer'}")

    # -- stores

    def store(self, buffer: Buffer, place: Place, values: list[str], width: int) -> None:
        ty = PART.get(buffer.ty, buffer.ty)
        scalar, align = MEMORY_TYPES[ty], SIZES[ty]
        if ty == "b1":
            values = [self.to_byte(v, width) for v in values]
        if width == 1:
            for part, v in enumerate(values):
                p = self.half(place.pointer, scalar, part)
                self.b.do(f"store {scalar} {v}, ptr {p}, align {align}")
            return
        if place.stride == 1 and place.offsets is None:
            self.store_lanes(place, values, scalar, align)
            return
        vt = f"<{width} x {scalar}>"
        if place.stride == -1 and place.offsets is None and len(values) == 1:
            first, *_, mask = self.from_the_end(place, vt, scalar, align)
            turned = Place(first, 1, None, mask)
            self.store_lanes(turned, [self.backward(values[0], vt)], scalar, align)
            return
        for part, v in enumerate(values):
            call = self.b.intrinsic(
                f"llvm.masked.scatter.{_suffix(scalar, width)}.v{width}p0",
                "void",
                (vt, v),
                (f"<{width} x ptr>", self.pointers(buffer, place, part, scalar)),
                ("i32", str(align)),
                (f"<{width} x i1>", place.mask or "splat (i1 true)"),
            )
            self.b.do(call)

    def store_lanes(self, place: Place, values: list[str], scalar: str, align: int) -> None:
        w = self.width
        vt = f"<{w} x {scalar}>"
        value, mask, count = values[0], place.mask, w
        if len(values) == 2:
            mixed = ", ".join(f"i32 {k // 2 + (w if k % 2 else 0)}" for k in range(2 * w))
            value = self.b.pure(
                f"shufflevector {vt} {values[0]}, {vt} {values[1]}, <{2 * w} x i32> <{mixed}>"
            )
            vt, count = f"<{2 * w} x {scalar}>", 2 * w
            mask = self.doubled(mask) if mask else None
        if mask is None:
            how = f"align {align}"
            if self.past:
                self.b.module.declarations["!0 = !{i32 1}"] = None
                how = f"align {align * count}, !nontemporal !0"
            self.b.do(f"store {vt} {value}, ptr {place.pointer}, {how}")
            return
        call = self.b.intrinsic(
            f"llvm.masked.store.{_suffix(scalar, count)}.p0",
            "void",
            (vt, value),
            ("ptr", place.pointer),
            ("i32", str(align)),
            (f"<{count} x i1>", mask),
        )
        self.b.do(call)

    def to_byte(self, register: str, width: int) -> str:
        source = "i1" if width == 1 else f"<{width} x i1>"
        target = "i8" if width == 1 else f"<{width} x i8>"
        return self.b.pure(f"zext {source} {register} to {target}")


def _suffix(scalar: str, width: int) -> str:
    name = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    return f"v{width}{name}"
