"""The innermost parts of a matrix product: tiles of the result kept in registers, and packing.

In: an element type and a vector width. Out: functions in a module.

| function | what |
|---|---|
| `tile_RxV(a, ars, acs, b, brs, c, crs, k, last, add)` | R rows by V vectors of C = or += A @ B |
| `pack_rows(b, brs, to, stride, k, last)` | k rows of one vector, copied side by side |
| `pack_turned(b, bcs, to, stride, k, last)` | the same of a matrix that lies transposed |
| `pack_left(a, acs, to, stride, rows, k)` | `rows` numbers of each of k columns, in groups |

Invariants: strides are bytes. Of the last vector of a tile only `last` lanes are read or written,
so nothing outside the matrices is touched. What stands in its other lanes (zeros, or another column
where B was packed) is never seen. A tile sums over k in the same order whatever surrounds it; small
tiles have several partial sums, since one would wait for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailorbird.emit.builder import LLVM_TYPES, Builder, Module, vector_type
from tailorbird.lower.kernel import SIZES

GATHERED = 8  # numbers of a column that are copied at once, at least the height of a tile
MOST_SUMS = 8  # sums that must be under way to keep the multipliers busy


class Shape:
    """What the kernels of a type look like: lanes of a vector, the largest tile, side of a turn."""

    def __init__(self, ty: str, vector_bytes: int) -> None:
        self.ty = ty
        self.size = SIZES[ty]
        self.lanes = vector_bytes // self.size
        wide = vector_bytes == 64
        self.rows = (8, 4, 2, 1) if wide else (6, 4, 2, 1)  # heights of tiles
        self.vectors = (3, 1) if wide else (2, 1)  # and widths
        self.side = min(self.lanes, 8)
        self.scalar = LLVM_TYPES[ty]
        self.vector = vector_type(ty, self.lanes)


class Lines(Builder):
    """A builder with the few accesses that a product needs."""

    def __init__(self, module: Module, shape: Shape) -> None:
        super().__init__(module)
        self.shape = shape

    def at(self, base: str, offset: str | int) -> str:
        """An address so many bytes on."""
        return (
            base if offset in (0, "0") else self.pure(f"getelementptr i8, ptr {base}, i64 {offset}")
        )

    def times(self, x: str, factor: str | int) -> str:
        return x if factor == 1 else self.pure(f"mul i64 {x}, {factor}")

    def add(self, x: str, y: str | int) -> str:
        return self.pure(f"add i64 {x}, {y}")

    def less(self, x: str, y: str | int) -> str:
        return self.pure(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")

    def pick(self, condition: str, x: str, y: str, kind: str = "i64") -> str:
        return self.pure(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def lanes_below(self, count: str, lanes: int) -> str:
        """A mask of the first lanes."""
        narrow = self.pure(f"trunc i64 {count} to i32")
        wide = self.splat(narrow, "i32", lanes)
        numbers = ", ".join(f"i32 {k}" for k in range(lanes))
        return self.pure(f"icmp slt <{lanes} x i32> <{numbers}>, {wide}")

    def load(self, pointer: str, lanes: int, mask: str | None = None) -> str:
        s = self.shape
        vector = vector_type(s.ty, lanes)
        if mask is None:
            return self.here(f"load {vector}, ptr {pointer}, align {s.size}")
        suffix = f"v{lanes}f{8 * s.size}"
        kind = f"<{lanes} x i1>"
        return self.here(
            self.intrinsic(
                f"llvm.masked.load.{suffix}.p0",
                vector,
                ("ptr", pointer),
                ("i32", str(s.size)),
                (kind, mask),
                (vector, "zeroinitializer"),
            )
        )

    def store(self, value: str, pointer: str, lanes: int, mask: str | None = None) -> None:
        s = self.shape
        vector = vector_type(s.ty, lanes)
        if mask is None:
            self.do(f"store {vector} {value}, ptr {pointer}, align {s.size}")
            return
        self.do(
            self.intrinsic(
                f"llvm.masked.store.v{lanes}f{8 * s.size}.p0",
                "void",
                (vector, value),
                ("ptr", pointer),
                ("i32", str(s.size)),
                (f"<{lanes} x i1>", mask),
            )
        )

    def walk(self, cell: str, step: str | int) -> str:
        """The address in a cell, which moves on."""
        pointer = self.here(f"load ptr, ptr {cell}")
        self.do(
            f"store ptr {self.here(f'getelementptr i8, ptr {pointer}, i64 {step}')}, ptr {cell}"
        )
        return pointer

    def finish(self, signature: str) -> None:
        """The function, added to its module."""
        self.do("ret void")
        self.module.functions.append(self.function(signature, self.module.attributes()))


def tile(module: Module, shape: Shape, rows: int, vectors: int) -> None:
    """C[:rows, :vectors] = A @ B, or += where `add` is set."""
    b, lanes, vt = Lines(module, shape), shape.lanes, shape.vector
    ways = 1
    while 2 * ways * rows * vectors <= MOST_SUMS:
        ways *= 2
    mask = b.lanes_below("%last", lanes)
    left, right = b.cell("ptr", "%a"), b.cell("ptr", "%b")
    sums = [
        [[b.cell(vt, "zeroinitializer") for _ in range(vectors)] for _ in range(rows)]
        for _ in range(ways)
    ]

    def step(way: Sequence[Sequence[str]]) -> None:
        pa, pb = b.walk(left, "%acs"), b.walk(right, "%brs")
        columns = [
            b.load(b.at(pb, v * shape.size * lanes), lanes, mask if v == vectors - 1 else None)
            for v in range(vectors)
        ]
        for r in range(rows):
            address = b.at(pa, b.times("%ars", r) if r else 0)
            x = b.splat(b.here(f"load {shape.scalar}, ptr {address}"), shape.ty, lanes)
            for cell, column in zip(way[r], columns, strict=True):
                old = b.here(f"load {vt}, ptr {cell}")
                new = b.here(fma(b, x, column, old))
                b.do(f"store {vt} {new}, ptr {cell}")

    whole = b.pure(f"and i64 %k, {-ways}")
    with b.loop("0", whole, ways):
        for way in sums:
            step(way)
    if ways > 1:
        with b.loop(whole, "%k"):
            step(sums[0])
    totals = [[total(b, [way[r][v] for way in sums]) for v in range(vectors)] for r in range(rows)]
    write(b, totals, mask)
    b.finish(
        f"internal void @tile_{rows}x{vectors}(ptr %a, i64 %ars, i64 %acs, ptr %b, i64 %brs,"
        " ptr %c, i64 %crs, i64 %k, i64 %last, i1 %add)"
    )


def fma(b: Lines, x: str, y: str, z: str) -> str:
    s = b.shape
    arguments = [(s.vector, value) for value in (x, y, z)]
    return b.intrinsic(f"llvm.fma.v{s.lanes}f{8 * s.size}", s.vector, *arguments)


def total(b: Lines, cells: Sequence[str]) -> str:
    """The cell that holds the sum of some, which are added in pairs."""
    vt = b.shape.vector
    while len(cells) > 1:
        half = len(cells) // 2
        for to, other in zip(cells[:half], cells[half:], strict=True):
            x, y = (b.here(f"load {vt}, ptr {cell}") for cell in (to, other))
            b.do(f"store {vt} {b.here(f'fadd {vt} {x}, {y}')}, ptr {to}")
        cells = cells[:half]
    return cells[0]


def write(b: Lines, totals: Sequence[Sequence[str]], mask: str) -> None:
    """The sums go to C, or are added to what is there."""
    s = b.shape

    def place(r: int, v: int) -> tuple[str, str | None]:
        row = b.at("%c", b.times("%crs", r) if r else 0)
        return b.at(row, v * s.size * s.lanes), mask if v == len(totals[0]) - 1 else None

    with b.when("%add"):
        for r, row in enumerate(totals):
            for v, cell in enumerate(row):
                pointer, lanes = place(r, v)
                old = b.load(pointer, s.lanes, lanes)
                new = b.here(f"load {s.vector}, ptr {cell}")
                b.do(f"store {s.vector} {b.here(f'fadd {s.vector} {old}, {new}')}, ptr {cell}")
    for r, row in enumerate(totals):
        for v, cell in enumerate(row):
            pointer, lanes = place(r, v)
            b.store(b.here(f"load {s.vector}, ptr {cell}"), pointer, s.lanes, lanes)


def pack_rows(module: Module, shape: Shape) -> None:
    """Vectors of B's rows."""
    b = Lines(module, shape)
    mask = b.lanes_below("%last", shape.lanes)
    source, target = b.cell("ptr", "%b"), b.cell("ptr", "%to")
    with b.loop("0", "%k"):
        x = b.load(b.walk(source, "%brs"), shape.lanes, mask)
        b.store(x, b.walk(target, "%stride"), shape.lanes)
    b.finish("internal void @pack_rows(ptr %b, i64 %brs, ptr %to, i64 %stride, i64 %k, i64 %last)")


def pack_left(module: Module, shape: Shape) -> None:
    """Numbers from each column of A, which lie side by side: groups as high as the highest tile.
    Whole vectors are written, so that a group ends with room to spare.
    """
    b, high = Lines(module, shape), shape.rows[0]
    b.declare("declare i64 @llvm.smin.i64(i64, i64)")
    source, target = b.cell("ptr", "%a"), b.cell("ptr", "%to")
    with b.loop("0", "%k"):
        column, line = b.walk(source, "%acs"), b.walk(target, high * shape.size)
        group = b.cell("ptr")
        b.do(f"store ptr {line}, ptr {group}")
        with b.loop("0", "%rows", high) as row:
            mask = b.lanes_below(b.less(b.pure(f"sub i64 %rows, {row}"), high), GATHERED)
            x = b.load(b.at(column, b.times(row, shape.size)), GATHERED, mask)
            b.store(x, b.walk(group, "%stride"), GATHERED)
    b.finish("internal void @pack_left(ptr %a, i64 %acs, ptr %to, i64 %stride, i64 %rows, i64 %k)")


def pack_turned(module: Module, shape: Shape) -> None:
    """Squares of B's columns, turned in registers. Columns behind the last one repeat it; up to a
    square of rows is written behind the last, where the next vectors or room to spare follow.
    """
    b, side = Lines(module, shape), shape.side
    b.declare("declare i64 @llvm.smin.i64(i64, i64)")
    most = b.add("%last", -1)
    source, target = b.cell("ptr"), b.cell("ptr")
    with b.loop("0", str(shape.lanes), side) as first:
        columns = [b.times("%bcs", b.less(most, b.add(first, j))) for j in range(side)]
        b.do(f"store ptr %b, ptr {source}")
        b.do(f"store ptr {b.at('%to', b.times(first, shape.size))}, ptr {target}")
        with b.loop("0", "%k", side) as i:
            mask = b.lanes_below(b.pure(f"sub i64 %k, {i}"), side)
            start = b.walk(source, side * shape.size)
            rows = [b.load(b.at(start, column), side, mask) for column in columns]
            for row in turned(b, rows, side):
                b.store(row, b.walk(target, "%stride"), side)
    b.finish(
        "internal void @pack_turned(ptr %b, i64 %bcs, ptr %to, i64 %stride, i64 %k, i64 %last)"
    )


def turned(b: Lines, rows: list[str], side: int) -> list[str]:
    """The transposed square: interleaving its two halves once for each bit of the side."""
    vt = vector_type(b.shape.ty, side)
    half = side // 2
    for _ in range(side.bit_length() - 1):
        rows = [
            interleaved(b, rows[k // 2], rows[k // 2 + half], vt, side, half * (k % 2))
            for k in range(side)
        ]
    return rows


def interleaved(b: Lines, x: str, y: str, vt: str, side: int, start: int) -> str:
    picks = ", ".join(f"i32 {start + k // 2 + side * (k % 2)}" for k in range(side))
    return b.pure(f"shufflevector {vt} {x}, {vt} {y}, <{side} x i32> <{picks}>")


def emit_all(module: Module, shape: Shape) -> str:
    """Every kernel, and the table of tiles."""
    names = []
    for rows in shape.rows:
        for vectors in shape.vectors:
            tile(module, shape, rows, vectors)
            names.append(f"ptr @tile_{rows}x{vectors}")
    for pack in (pack_rows, pack_left, pack_turned):
        pack(module, shape)
    kind = f"[{len(names)} x ptr]"
    module.definitions["tiles"] = f"@tiles = internal constant {kind} [{', '.join(names)}]"
    return kind
