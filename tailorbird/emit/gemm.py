"""C = A @ B for real matrices, as one function for all sizes and layouts.

In: an element type, a vector width, sizes of caches. Out: the text of a module with

`multiply(ptr a, i64 lda, i64 ta, ptr b, i64 ldb, i64 tb, ptr c, i64 ldc, i64 m, i64 n, i64 k,
i64 gram)`: strides in elements, `ta` and `tb` 1 where a matrix lies transposed, C by rows, `gram` 1
where B is A's transpose and C is therefore symmetric. m, n and k are at least 1.

B is cut into blocks of `deep` rows by `wide` columns that stay in the second cache; rows of A pass
over a block a tile's height at a time, so that those few rows stay in the first cache. A block is
packed when it is used often enough or lies transposed; else it is read where it is. Work worth it
is cut into strips of C for the pool.

Invariants: what is summed in which order depends on the sizes alone, not on strips or packing:
strips begin at whole tiles and only the last of a row or column has a rest. A strip that cannot get
scratch memory uses smaller blocks on its stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tailorbird.dataclass import dataclass
from tailorbird.emit.builder import Module
from tailorbird.emit.gemm_kernels import Lines, Shape, emit_all

FLAT = 16  # rows of a block that is used too rarely for packing
GATHER = 8  # tiles whose rows of A are packed together
STACK = 16 << 10  # bytes of packed numbers kept on the stack
SCRATCH = 1 << 20  # bytes of a block from recycled memory
PARALLEL = 1 << 21  # products from which threads pay
FIRST, SECOND = 32 << 10, 256 << 10  # bytes of caches that nobody tells the size of
REUSE = 32  # rows from which a block that is read often is packed
JOB = (
    *("a", "ars", "acs", "b", "brs", "bcs", "c", "crs"),
    *("m", "n", "k", "gram", "packed", "high", "wide", "down", "across", "deep", "broad"),
)
TILE = "ptr, i64, i64, ptr, i64, ptr, i64, i64, i64, i1"


@dataclass(frozen=True)
class Blocks:
    """Rows and columns of a block of B, the bytes of B from which it is worth packing; the columns
    of a block that is used too rarely for packing, and the bytes of B from which that matters: then
    memory is the limit, and its order is best kept.
    """

    deep: int
    broad: int
    packed_from: int
    flat_broad: int
    flat_from: int


def blocks(shape: Shape, first: int, second: int) -> Blocks:
    """Blocks for caches of so many bytes: a tile's rows of A in a third of the first, B in half of
    the second, flat ones in an eighth.
    """
    first, second = min(first or FIRST, 2 * FIRST), min(second or SECOND, SCRATCH)
    tile = shape.vectors[0] * shape.lanes
    line = shape.rows[0] * shape.size
    deep = max(64, first // 3 // line & -64)
    broad = max(tile, second // 2 // (deep * shape.size) // tile * tile)
    flat = max(tile, second // 8 // (FLAT * shape.size) // tile * tile)
    return Blocks(deep, broad, first, flat, second)


def emit_module(ty: str, vector_bytes: int, first: int, second: int) -> str:
    """The module of a type."""
    module = Module(vector_bytes == 64)
    shape = Shape(ty, vector_bytes)
    table = emit_all(module, shape)
    sizes = blocks(shape, first, second)
    Strip(module, shape, table).emit()
    emit_entry(module, shape, sizes)
    return module.text()


@dataclass(frozen=True)
class Block:
    """Registers of one block of B: where it starts, its first column, how many columns and vectors,
    its first row, how many rows.
    """

    start: str
    at: str
    columns: str
    vectors: str
    depth: str
    deep: str


class Strip:
    """`strip(ptr job, i64 index)`: one strip of C."""

    def __init__(self, module: Module, shape: Shape, table: str) -> None:
        self.b = Lines(module, shape)
        self.shape = shape
        self.table = table
        self.tile = shape.vectors[0] * shape.lanes

    def emit(self) -> None:
        b, lanes = self.b, self.shape.lanes
        b.declare("declare i64 @llvm.smin.i64(i64, i64)")
        b.declare("declare i64 @llvm.smax.i64(i64, i64)")
        self.job = {
            name: b.pure(
                f"load {'ptr' if name in 'abc' else 'i64'}, ptr {b.at('%job', 8 * k)}", safe=True
            )
            for k, name in enumerate(JOB)
        }
        job = self.job
        row, column = (b.pure(f"{op} i64 %index, {job['across']}") for op in ("udiv", "urem"))
        top, bottom = self.range_of(row, job["high"], job["down"], job["m"])
        left, right = self.range_of(column, job["wide"], job["across"], job["n"])
        self.packed = b.pure(f"icmp ne i64 {job['packed']}, 0")
        self.gram = b.pure(f"icmp ne i64 {job['gram']}, 0")
        apart = b.pure(f"icmp ne i64 {job['acs']}, {self.shape.size}")
        several = b.pure(f"icmp sgt i64 {b.pure(f'sub i64 {right}, {left}')}, {self.tile}")
        self.gathers = b.pure(f"and i1 {apart}, {several}")
        self.room(b.pure(f"sub i64 {bottom}, {top}"), b.pure(f"sub i64 {right}, {left}"))
        across = self.pieces(left, right, self.broad, self.tile)
        with across as (at, columns), self.pieces("0", job["k"], self.deep, 8) as (depth, deep):
            start = b.at(job["b"], b.times(depth, job["brs"]))
            start = b.at(start, b.times(at, job["bcs"]))
            vectors = b.pure(f"udiv i64 {b.add(columns, lanes - 1)}, {lanes}")
            self.block(top, bottom, Block(start, at, columns, vectors, depth, deep))
        b.do(f"call void @tb_scratch_free(ptr {self.held}, i64 {SCRATCH})")
        b.finish("internal void @strip(ptr %job, i64 %index)")
        b.declare("declare void @tb_scratch_free(ptr, i64)")
        b.declare("declare ptr @tb_scratch(i64)")

    def range_of(self, index: str, size: str, count: str, total: str) -> tuple[str, str]:
        """Where a strip begins and ends; the last one takes what is left."""
        b = self.b
        low = b.times(index, size)
        is_last = b.pure(f"icmp eq i64 {b.add(index, 1)}, {count}")
        return low, b.pick(is_last, total, b.add(low, size))

    def group(self, deep: str) -> str:
        """Bytes of a group of packed rows of A."""
        s = self.shape
        return self.b.add(self.b.times(deep, s.rows[0] * s.size), 64)

    def room(self, rows: str, columns: str) -> None:
        """Scratch memory for packed numbers: the rows of A first, then the block of B."""
        b, s = self.b, self.shape
        deep = b.less(rounded(b, self.job["k"], 8), self.job["deep"])
        wide = b.less(rounded(b, columns, s.lanes), self.job["broad"])
        most = b.less(rounded(b, rows, s.rows[0]), GATHER * s.rows[0])
        groups = b.pure(f"udiv i64 {most}, {s.rows[0]}")
        rows = b.pure(f"mul i64 {groups}, {self.group(deep)}")
        area = b.times(b.add(b.pure(f"mul i64 {deep}, {wide}"), s.side * self.tile), s.size)
        rows, area = b.pick(self.gathers, rows, "0"), b.pick(self.packed, area, "0")
        large = b.pure(f"icmp ugt i64 {b.add(rows, area)}, {STACK}")
        stack, cell = b.cell(f"[{STACK} x i8]"), b.cell("ptr", "null")
        with b.when(large):
            b.do(f"store ptr {b.here(f'call ptr @tb_scratch(i64 {SCRATCH})')}, ptr {cell}")
        self.held = b.here(f"load ptr, ptr {cell}")
        none = b.pure(f"icmp eq ptr {self.held}, null")
        tight = b.pure(f"and i1 {large}, {none}")
        self.left_room = b.pick(none, stack, self.held, "ptr")
        self.right_room = b.at(self.left_room, b.pick(tight, str(STACK // 2), rows))
        self.deep = b.pick(tight, "8", self.job["deep"])
        self.broad = b.pick(tight, str(self.tile), self.job["broad"])

    @contextmanager
    def pieces(self, low: str, high: str, most: str, unit: int) -> Iterator[tuple[str, str]]:
        """A range in pieces of about the same size, whole units but for the last."""
        b = self.b
        length = b.pure(f"sub i64 {high}, {low}")
        count = b.pure(f"udiv i64 {b.add(length, b.add(most, -1))}, {most}")
        count = b.pure(f"call i64 @llvm.smax.i64(i64 {count}, i64 1)")
        share = b.pure(f"udiv i64 {b.add(length, b.add(count, -1))}, {count}")
        step = rounded(b, share, unit)
        with b.loop(low, high, step) as at:
            yield at, b.less(step, b.pure(f"sub i64 {high}, {at}"))

    @contextmanager
    def spans(self, low: str, high: str, choices: Sequence[int]) -> Iterator[tuple[str, str, str]]:
        """A range in steps of the largest choice that fits: where, how many, which choice."""
        b = self.b
        cell = b.cell("i64")
        b.do(f"store i64 {low}, ptr {cell}")
        with b.forever() as behind:
            at = b.here(f"load i64, ptr {cell}")
            rest = b.pure(f"sub i64 {high}, {at}")
            b.go_on(b.pure(f"icmp sgt i64 {rest}, 0"), behind)
            step, which = str(choices[-1]), str(len(choices) - 1)
            for k in reversed(range(len(choices) - 1)):
                fits = b.pure(f"icmp sge i64 {rest}, {choices[k]}")
                step, which = b.pick(fits, str(choices[k]), step), b.pick(fits, str(k), which)
            yield at, step, which
            b.do(f"store i64 {b.add(at, step)}, ptr {cell}")

    def block(self, top: str, bottom: str, x: Block) -> None:
        """C[top:bottom] for one block of B, a few tiles' rows at a time."""
        b, s, job = self.b, self.shape, self.job
        with b.when(self.packed):
            self.pack(x)
        many = GATHER * s.rows[0]
        with b.loop(top, bottom, many) as first:
            end = b.less(b.add(first, many), bottom)
            left = b.at(b.at(job["a"], b.times(first, job["ars"])), b.times(x.depth, job["acs"]))
            stride = self.group(x.deep)
            with b.when(self.gathers):
                b.do(
                    f"call void @pack_left(ptr {left}, i64 {job['acs']}, ptr {self.left_room},"
                    f" i64 {stride}, i64 {b.pure(f'sub i64 {end}, {first}')}, i64 {x.deep})"
                )
            with self.spans(first, end, s.rows) as (row, _, height):
                inside = b.pure(f"sub i64 {row}, {first}")
                group = b.pure(f"udiv i64 {inside}, {s.rows[0]}")
                rest = b.times(b.pure(f"urem i64 {inside}, {s.rows[0]}"), s.size)
                gathered = b.at(b.at(self.left_room, b.pure(f"mul i64 {group}, {stride}")), rest)
                lying = b.at(left, b.times(inside, job["ars"]))
                self.row(x, row, height, b.pick(self.gathers, gathered, lying, "ptr"))

    def row(self, x: Block, row: str, height: str, left: str) -> None:
        """The tiles of a few rows of C."""
        b, s, job = self.b, self.shape, self.job
        ars = b.pick(self.gathers, str(s.size), job["ars"])
        acs = b.pick(self.gathers, str(s.rows[0] * s.size), job["acs"])
        line = b.at(b.at(job["c"], b.times(row, job["crs"])), b.times(x.at, s.size))
        started = b.pure(f"icmp sgt i64 {x.depth}, 0")
        with self.spans(self.first_vector(row, x.at), x.vectors, s.vectors) as (v, count, width):
            right, brs = self.panel(x, v, count)
            last = self.lanes_of(x, b.add(b.add(v, count), -1))
            target = b.at(line, b.times(v, s.lanes * s.size))
            index = b.add(b.times(height, len(s.vectors)), width)
            entry = b.pure(f"getelementptr {self.table}, ptr @tiles, i64 0, i64 {index}")
            code = b.here(f"load ptr, ptr {entry}")
            b.do(
                f"call void {code}(ptr {left}, i64 {ars}, i64 {acs}, ptr {right}, i64 {brs},"
                f" ptr {target}, i64 {job['crs']}, i64 {x.deep}, i64 {last}, i1 {started})"
            )

    def first_vector(self, row: str, at: str) -> str:
        """The first vector that a row needs: of a symmetric result, that of the diagonal's tile."""
        b = self.b
        ahead = b.pure(f"call i64 @llvm.smax.i64(i64 {b.pure(f'sub i64 {row}, {at}')}, i64 0)")
        tiles = b.pure(f"udiv i64 {ahead}, {self.tile}")
        return b.pick(self.gram, b.times(tiles, self.shape.vectors[0]), "0")

    def lanes_of(self, x: Block, vector: str) -> str:
        """How many lanes of a vector are columns."""
        b, lanes = self.b, self.shape.lanes
        return b.less(b.pure(f"sub i64 {x.columns}, {b.times(vector, lanes)}"), lanes)

    def panel(self, x: Block, v: str, count: str) -> tuple[str, str]:
        """Where the vectors of a tile lie in a block, and how far apart their rows."""
        b, vector = self.b, self.shape.lanes * self.shape.size
        apart = b.times(v, vector)
        inside = b.at(self.right_room, b.pure(f"mul i64 {apart}, {x.deep}"))
        where = b.pick(self.packed, inside, b.at(x.start, apart), "ptr")
        return where, b.pick(self.packed, b.times(count, vector), self.job["brs"])

    def pack(self, x: Block) -> None:
        """A block of B as the tiles read it: their vectors side by side, row after row."""
        b, s, job = self.b, self.shape, self.job
        turned = b.pure(f"icmp ne i64 {job['bcs']}, {s.size}")
        code = b.pick(turned, "@pack_turned", "@pack_rows", "ptr")
        step = b.pick(turned, job["bcs"], job["brs"])
        with self.spans("0", x.vectors, s.vectors) as (v, count, _):
            panel, stride = self.panel(x, v, count)
            with b.loop("0", count) as k:
                vector = b.add(v, k)
                across = b.pure(f"mul i64 {b.times(vector, s.lanes)}, {job['bcs']}")
                target = b.at(panel, b.times(k, s.lanes * s.size))
                b.do(
                    f"call void {code}(ptr {b.at(x.start, across)}, i64 {step}, ptr {target},"
                    f" i64 {stride}, i64 {x.deep}, i64 {self.lanes_of(x, vector)})"
                )


def rounded(b: Lines, x: str, unit: int) -> str:
    """Up to whole units."""
    return b.times(b.pure(f"udiv i64 {b.add(x, unit - 1)}, {unit}"), unit)


def emit_entry(module: Module, shape: Shape, sizes: Blocks) -> None:
    """`multiply`: fills the job, and runs it in one strip or over the pool."""
    b, size = Lines(module, shape), shape.size
    job = b.cell(f"[{len(JOB)} x i64]")
    values = {name: f"%{name}" for name in ("a", "b", "c", "m", "n", "k", "gram")}
    for name in "ab":
        long = b.times(f"%ld{name}", size)
        lies = b.pure(f"icmp ne i64 %t{name}, 0")
        values[f"{name}rs"] = b.pick(lies, str(size), long)
        values[f"{name}cs"] = b.pick(lies, long, str(size))
    values["crs"] = b.times("%ldc", size)
    values |= choose(b, sizes)
    down, across = cut(b, shape)
    values["high"], values["down"] = share(b, "%m", down, shape.rows[0])
    values["wide"], values["across"] = share(b, "%n", across, shape.vectors[0] * shape.lanes)
    for k, name in enumerate(JOB):
        kind = "ptr" if name in "abc" else "i64"
        b.do(f"store {kind} {values[name]}, ptr {b.at(job, 8 * k)}")
    count = b.pure(f"mul i64 {values['down']}, {values['across']}")
    several = b.pure(f"icmp sgt i64 {count}, 1")
    with b.when(several):
        b.do(b.external("tb_parfor", "void", ("ptr", "@strip"), ("ptr", job), ("i64", count)))
    with b.when(b.pure(f"xor i1 {several}, true")):
        b.do(f"call void @strip(ptr {job}, i64 0)")
    with b.when(b.pure("icmp ne i64 %gram, 0")):
        mirror(b)
    b.finish(
        "void @multiply(ptr %a, i64 %lda, i64 %ta, ptr %b, i64 %ldb, i64 %tb, ptr %c, i64 %ldc,"
        " i64 %m, i64 %n, i64 %k, i64 %gram)"
    )


def choose(b: Lines, sizes: Blocks) -> dict[str, str]:
    """Whether B is packed, and its blocks, which are those of the whole product for every strip."""
    area = b.times(b.pure("mul i64 %n, %k"), b.shape.size)
    large = b.pure(f"icmp sgt i64 {area}, {sizes.packed_from}")
    few = b.pure(f"icmp slt i64 %m, {REUSE}")
    turned = b.pure("icmp ne i64 %tb, 0")
    packs = b.pick(turned, "true", b.pick(few, "false", large, "i1"), "i1")
    flat = b.pick(packs, "false", b.pure(f"icmp sgt i64 {area}, {sizes.flat_from}"), "i1")
    # The same for an A that lies transposed and is not packed, which one column of tiles uses.
    left = b.times(b.pure("mul i64 %m, %k"), b.shape.size)
    narrow = b.pure(f"icmp sle i64 %n, {b.shape.vectors[0] * b.shape.lanes}")
    narrow = b.pick(b.pure("icmp ne i64 %ta, 0"), narrow, "false", "i1")
    along = b.pick(narrow, b.pure(f"icmp sgt i64 {left}, {sizes.flat_from}"), "false", "i1")
    shallow = b.pure(f"or i1 {flat}, {along}")
    return {
        "packed": b.pure(f"zext i1 {packs} to i64"),
        "deep": b.pick(shallow, str(FLAT), str(sizes.deep)),
        "broad": b.pick(flat, str(sizes.flat_broad), str(sizes.broad)),
    }


def cut(b: Lines, shape: Shape) -> tuple[str, str]:
    """Into how many strips C is cut down and across: two for each thread where that pays, by
    halving what is longer.
    """
    down, across = b.cell("i64", "1"), b.cell("i64", "1")
    module = b.module
    module.declarations["@tb_threads = external global i64"] = None
    work = b.pure(f"mul i64 {b.pure('mul i64 %m, %n')}, %k")
    with b.when(b.pure(f"icmp sge i64 {work}, {PARALLEL}")):
        threads = b.here("load atomic i64, ptr @tb_threads monotonic, align 8")
        one = b.here(f"icmp sle i64 {threads}, 1")
        wanted = b.pick(one, "1", b.times(threads, 2))
        with b.forever() as behind:
            x, y = (b.here(f"load i64, ptr {cell}") for cell in (down, across))
            b.go_on(b.pure(f"icmp slt i64 {b.pure(f'mul i64 {x}, {y}')}, {wanted}"), behind)
            high, wide = b.pure(f"udiv i64 %m, {x}"), b.pure(f"udiv i64 %n, {y}")
            taller = b.pure(f"icmp sgt i64 {high}, {wide}")
            longer = b.pick(taller, high, wide)
            b.go_on(b.pure(f"icmp sgt i64 {longer}, {shape.vectors[0] * shape.lanes}"), behind)
            b.do(f"store i64 {b.pick(taller, b.times(x, 2), x)}, ptr {down}")
            b.do(f"store i64 {b.pick(taller, y, b.times(y, 2))}, ptr {across}")
    return b.here(f"load i64, ptr {down}"), b.here(f"load i64, ptr {across}")


def share(b: Lines, total: str, count: str, unit: int) -> tuple[str, str]:
    """The size of a strip in whole units, and how many there are; the last takes the rest."""
    least = b.pure(f"udiv i64 {b.pure(f'udiv i64 {total}, {count}')}, {unit}")
    size = b.times(b.pure(f"call i64 @llvm.smax.i64(i64 {least}, i64 1)"), unit)
    number = b.pure(f"udiv i64 {total}, {size}")
    return size, b.pure(f"call i64 @llvm.smax.i64(i64 {number}, i64 1)")


def mirror(b: Lines) -> None:
    """The lower triangle of C from the upper one, a square at a time."""
    s = b.shape
    side, step = 16, b.times("%ldc", s.size)
    with b.loop("0", "%n", side) as top, b.loop("0", b.add(top, side), side) as left:
        bottom = b.less(b.add(top, side), "%n")
        with b.loop(top, bottom) as i:
            row, column = b.at("%c", b.times(i, step)), b.at("%c", b.times(i, s.size))
            with b.loop(left, b.less(b.add(left, side), i)) as j:
                above = b.at(column, b.times(j, step))
                x = b.here(f"load {s.scalar}, ptr {above}")
                b.do(f"store {s.scalar} {x}, ptr {b.at(row, b.times(j, s.size))}")
