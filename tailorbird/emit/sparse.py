"""C = A @ B for a real A that is mostly zeros, found out while it runs.

In: an element type and a vector width. Out: the text of a module with

`i64 sparse(ptr a, i64 lda, ptr b, i64 ldb, ptr c, i64 ldc, i64 m, i64 n, i64 k)`: all by rows,
strides in elements; m, n and k are at least 1. It returns 1 when C holds the product, and 0 when
the product is left to a dense one, which may find anything in C.

    sample A -> every element of B finite? -> rows of A in batches: list what is not 0, then
               for a panel of columns after the other: a row of C is the sum of some rows of B

Invariants:
- A zero is passed over only when what it would be multiplied with is finite, for 0 * inf is nan.
- The sample is what dense data pays. Data that is sparse where the sample fell and dense elsewhere
  is given up once more numbers are listed than pay, which costs no more than a dense product.
- An element of C is summed in the order of k, whatever the batches, panels and strips.
"""

from __future__ import annotations

from tailorbird.emit.builder import LLVM_TYPES, Module
from tailorbird.emit.gemm_kernels import Lines, Shape, fma

SAMPLES = 64
MOST_SAMPLED = 16  # of them that may not be 0: one in four
MOST_LISTED = 4  # one number in so many may not be 0
PANELS = (16, 4, 1)  # vectors of a row of C that are summed at once
BATCH = 128  # rows of A listed together
ENTRIES = 1 << 15  # numbers listed together, at least
PARALLEL = 1 << 20  # products from which threads pay
SUMS = 4  # vectors of B looked at together
JOB = ("a", "ars", "b", "brs", "c", "crs", "m", "n", "k", "high", "limit", "listed", "room")


def emit_module(ty: str, vector_bytes: int) -> str:
    """The module of a type."""
    module = Module(vector_bytes == 64)
    shape = Shape(ty, vector_bytes)
    for name in ("smin", "smax"):
        module.declarations[f"declare i64 @llvm.{name}.i64(i64, i64)"] = None
    for vectors in PANELS:
        _panel(module, shape, vectors)
    _finite(module, shape)
    _listing(module, shape)
    _strip(module, shape)
    _entry(module, shape)
    return module.text()


def _bits(ty: str) -> str:
    return "i32" if ty == "f32" else "i64"


def _panel(module: Module, shape: Shape, vectors: int) -> None:
    """A few vectors of a row of C: rows of B times the numbers listed, summed."""
    b, lanes, vt = Lines(module, shape), shape.lanes, shape.vector
    mask = b.lanes_below("%last", lanes)
    sums = [b.cell(vt, "zeroinitializer") for _ in range(vectors)]
    spots = [(v * lanes * shape.size, mask if v == vectors - 1 else None) for v in range(vectors)]
    with b.loop("0", "%count") as at:
        place = b.here(f"load i32, ptr {b.at('%places', b.times(at, 4))}")
        row = b.at("%b", b.pure(f"mul i64 {b.pure(f'zext i32 {place} to i64')}, %brs"))
        number = b.here(f"load {shape.scalar}, ptr {b.at('%numbers', b.times(at, shape.size))}")
        x = b.splat(number, shape.ty, lanes)
        for cell, (offset, some) in zip(sums, spots, strict=True):
            old = b.here(f"load {vt}, ptr {cell}")
            new = b.here(fma(b, x, b.load(b.at(row, offset), lanes, some), old))
            b.do(f"store {vt} {new}, ptr {cell}")
    for cell, (offset, some) in zip(sums, spots, strict=True):
        b.store(b.here(f"load {vt}, ptr {cell}"), b.at("%c", offset), lanes, some)
    b.finish(
        f"internal void @panel_{vectors}(ptr %places, ptr %numbers, i64 %count, ptr %b, i64 %brs,"
        " ptr %c, i64 %last)"
    )


def _finite(module: Module, shape: Shape) -> None:
    """Whether every element of a matrix is finite: the largest of their bits without the sign."""
    b, lanes, bits = Lines(module, shape), shape.lanes, _bits(shape.ty)
    kind = f"<{lanes} x {bits}>"
    width = 8 * shape.size
    sign = (1 << (width - 1)) - 1
    infinite = 0x7F800000 if shape.ty == "f32" else 0x7FF0000000000000
    tops = [b.cell(kind, "zeroinitializer") for _ in range(SUMS)]

    def look(cell: str, pointer: str, mask: str | None = None) -> None:
        found = b.here(f"bitcast {shape.vector} {b.load(pointer, lanes, mask)} to {kind}")
        size = b.here(f"and {kind} {found}, splat ({bits} {sign})")
        old = b.here(f"load {kind}, ptr {cell}")
        most = b.intrinsic(f"llvm.umax.v{lanes}{bits}", kind, (kind, old), (kind, size))
        b.do(f"store {kind} {b.here(most)}, ptr {cell}")

    whole = b.pure(f"and i64 %columns, {-lanes * SUMS}")
    step = lanes * shape.size
    with b.loop("0", "%rows") as i:
        row = b.at("%x", b.pure(f"mul i64 {i}, %stride"))
        with b.loop("0", whole, lanes * SUMS) as j:
            at = b.at(row, b.times(j, shape.size))
            for v, cell in enumerate(tops):
                look(cell, b.at(at, v * step))
        with b.loop(whole, "%columns", lanes) as j:
            mask = b.lanes_below(b.less(b.pure(f"sub i64 %columns, {j}"), lanes), lanes)
            look(tops[0], b.at(row, b.times(j, shape.size)), mask)
    found = []
    for cell in tops:
        value = b.here(f"load {kind}, ptr {cell}")
        found.append(
            b.here(b.intrinsic(f"llvm.vector.reduce.umax.v{lanes}{bits}", bits, (kind, value)))
        )
    good = "true"
    for top in found:
        good = b.pure(f"and i1 {good}, {b.pure(f'icmp ult {bits} {top}, {infinite}')}")
    b.do(f"ret i1 {good}")
    signature = "internal i1 @finite(ptr %x, i64 %stride, i64 %rows, i64 %columns)"
    module.functions.append(b.function(signature, module.attributes()))


def _listing(module: Module, shape: Shape) -> None:
    """Lists what is not 0 in a row: places and numbers; how many there are now."""
    b, lanes = Lines(module, shape), shape.lanes
    count = b.cell("i64")
    b.do(f"store i64 %count, ptr {count}")
    kind = f"i{lanes}"
    with b.loop("0", "%k", lanes) as j:
        mask = b.lanes_below(b.less(b.pure(f"sub i64 %k, {j}"), lanes), lanes)
        start = b.at("%row", b.times(j, shape.size))
        x = b.load(start, lanes, mask)
        some = b.here(f"fcmp une {shape.vector} {x}, zeroinitializer")
        left = b.cell("i64")
        bits = b.here(f"bitcast <{lanes} x i1> {some} to {kind}")
        b.do(f"store i64 {b.here(f'zext {kind} {bits} to i64')}, ptr {left}")
        with b.forever() as behind:
            rest = b.here(f"load i64, ptr {left}")
            b.go_on(b.here(f"icmp ne i64 {rest}, 0"), behind)
            first = b.here(b.intrinsic("llvm.cttz.i64", "i64", ("i64", rest), ("i1", "true")))
            at = b.here(f"load i64, ptr {count}")
            place = b.here(f"trunc i64 {b.here(f'add i64 {j}, {first}')} to i32")
            offset = b.here(f"mul i64 {first}, {shape.size}")
            found = b.here(f"getelementptr i8, ptr {start}, i64 {offset}")
            number = b.here(f"load {shape.scalar}, ptr {found}")
            to = b.here(f"getelementptr i32, ptr %places, i64 {at}")
            b.do(f"store i32 {place}, ptr {to}")
            to = b.here(f"getelementptr {shape.scalar}, ptr %numbers, i64 {at}")
            b.do(f"store {shape.scalar} {number}, ptr {to}")
            b.do(f"store i64 {b.here(f'add i64 {at}, 1')}, ptr {count}")
            less = b.here(f"add i64 {rest}, -1")
            b.do(f"store i64 {b.here(f'and i64 {rest}, {less}')}, ptr {left}")
    b.do(f"ret i64 {b.here(f'load i64, ptr {count}')}")
    signature = "internal i64 @list(ptr %row, i64 %k, ptr %places, ptr %numbers, i64 %count)"
    module.functions.append(b.function(signature, module.attributes()))


def _strip(module: Module, shape: Shape) -> None:
    """`strip(ptr job, i64 index)`: some rows of C, unless too many numbers were listed by then."""
    b = Lines(module, shape)
    job = _read_job(b)
    top = b.pure(f"mul i64 %index, {job['high']}")
    bottom = b.less(b.add(top, job["high"]), job["m"])
    places = b.here(f"call ptr @tb_scratch(i64 {job['room']})")
    entries = b.pure(f"udiv i64 {job['room']}, {4 + shape.size}")
    numbers = b.at(places, b.times(entries, 4))
    held = b.pure(f"icmp ne ptr {places}, null")
    starts = b.cell(f"[{BATCH + 1} x i64]")
    listed = b.at("%job", 8 * JOB.index("listed"))
    with b.when(b.pure(f"xor i1 {held}, true")):
        b.do(f"store atomic i64 {job['limit']}, ptr {listed} monotonic, align 8")
    row, used, batch = b.cell("i64"), b.cell("i64"), b.cell("i64")
    b.do(f"store i64 {top}, ptr {row}")
    with b.forever() as behind:
        first = b.here(f"load i64, ptr {row}")
        before = b.here(f"load atomic i64, ptr {listed} monotonic, align 8")
        b.go_on(b.here(f"icmp slt i64 {before}, {job['limit']}"), behind)
        b.go_on(b.here(f"icmp slt i64 {first}, {bottom}"), behind)
        for cell in (used, batch):
            b.do(f"store i64 0, ptr {cell}")
        b.do(f"store i64 0, ptr {starts}")
        _fill(b, job, bottom, first, entries, (places, numbers), (used, batch, starts))
        count = b.here(f"load i64, ptr {used}")
        b.do(f"{b.name('old')} = atomicrmw add ptr {listed}, i64 {count} monotonic, align 8")
        _batch(b, job, first, b.here(f"load i64, ptr {batch}"), (places, numbers), starts)
        done = b.here(f"load i64, ptr {batch}")
        b.do(f"store i64 {b.here(f'add i64 {first}, {done}')}, ptr {row}")
    with b.when(held):
        b.do(f"call void @tb_scratch_free(ptr {places}, i64 {job['room']})")
    b.declare("declare void @tb_scratch_free(ptr, i64)")
    b.declare("declare ptr @tb_scratch(i64)")
    b.finish("internal void @strip(ptr %job, i64 %index)")


def _read_job(b: Lines) -> dict[str, str]:
    found = {}
    for k, name in enumerate(JOB):
        if name != "listed":
            kind = "ptr" if name in "abc" else "i64"
            found[name] = b.pure(f"load {kind}, ptr {b.at('%job', 8 * k)}", safe=True)
    return found


def _fill(
    b: Lines,
    job: dict[str, str],
    bottom: str,
    first: str,
    entries: str,
    lists: tuple[str, str],
    cells: tuple[str, str, str],
) -> None:
    """Lists rows while another whole one has room."""
    used, batch, starts = cells
    with b.forever() as behind:
        count, rows = b.here(f"load i64, ptr {used}"), b.here(f"load i64, ptr {batch}")
        row = b.here(f"add i64 {first}, {rows}")
        b.go_on(b.here(f"icmp slt i64 {row}, {bottom}"), behind)
        b.go_on(b.here(f"icmp slt i64 {rows}, {BATCH}"), behind)
        room = b.here(f"add i64 {count}, {job['k']}")
        b.go_on(b.here(f"icmp sle i64 {room}, {entries}"), behind)
        offset = b.here(f"mul i64 {row}, {job['ars']}")
        start = b.here(f"getelementptr i8, ptr {job['a']}, i64 {offset}")
        arguments = f"ptr {start}, i64 {job['k']}, ptr {lists[0]}, ptr {lists[1]}, i64 {count}"
        now = b.here(f"call i64 @list({arguments})")
        b.do(f"store i64 {now}, ptr {used}")
        more = b.here(f"add i64 {rows}, 1")
        b.do(f"store i64 {more}, ptr {batch}")
        b.do(f"store i64 {now}, ptr {b.here(f'getelementptr i64, ptr {starts}, i64 {more}')}")


def _batch(
    b: Lines, job: dict[str, str], first: str, rows: str, lists: tuple[str, str], starts: str
) -> None:
    """The rows of C of a batch, panel by panel, so that a panel of B stays near."""
    s = b.shape
    vectors = b.pure(f"udiv i64 {b.add(job['n'], s.lanes - 1)}, {s.lanes}")
    at = b.cell("i64", "0")
    b.do(f"store i64 0, ptr {at}")
    with b.forever() as behind:
        v = b.here(f"load i64, ptr {at}")
        rest = b.here(f"sub i64 {vectors}, {v}")
        b.go_on(b.here(f"icmp sgt i64 {rest}, 0"), behind)
        step, code = str(PANELS[-1]), f"@panel_{PANELS[-1]}"
        for size in PANELS[-2::-1]:
            fits = b.here(f"icmp sge i64 {rest}, {size}")
            step = b.here(f"select i1 {fits}, i64 {size}, i64 {step}")
            code = b.here(f"select i1 {fits}, ptr @panel_{size}, ptr {code}")
        behind_it = b.here(f"mul i64 {b.here(f'add i64 {v}, {step}')}, {s.lanes}")
        over = b.here(f"sub i64 {behind_it}, {job['n']}")
        over = b.here(f"call i64 @llvm.smax.i64(i64 {over}, i64 0)")
        last = b.here(f"sub i64 {s.lanes}, {over}")
        across = b.here(f"mul i64 {v}, {s.lanes * s.size}")
        panel = b.here(f"getelementptr i8, ptr {job['b']}, i64 {across}")
        with b.loop("0", rows) as k:
            low, high = (
                b.here(f"load i64, ptr {b.here(f'getelementptr i64, ptr {starts}, i64 {x}')}")
                for x in (k, b.here(f"add i64 {k}, 1"))
            )
            places = b.here(f"getelementptr i32, ptr {lists[0]}, i64 {low}")
            numbers = b.here(f"getelementptr {LLVM_TYPES[s.ty]}, ptr {lists[1]}, i64 {low}")
            down = b.here(f"mul i64 {b.here(f'add i64 {first}, {k}')}, {job['crs']}")
            target = b.here(f"getelementptr i8, ptr {job['c']}, i64 {down}")
            target = b.here(f"getelementptr i8, ptr {target}, i64 {across}")
            count = b.here(f"sub i64 {high}, {low}")
            b.do(
                f"call void {code}(ptr {places}, ptr {numbers}, i64 {count}, ptr {panel},"
                f" i64 {job['brs']}, ptr {target}, i64 {last})"
            )
        b.do(f"store i64 {b.here(f'add i64 {v}, {step}')}, ptr {at}")


def _sample(b: Lines) -> str:
    """How many of some elements of A are not 0. They are spread by a multiplication, so that no
    pattern of rows or columns meets them all.
    """
    s = b.shape
    found, seed = b.cell("i64", "0"), b.cell("i64", "88172645463325252")
    with b.loop("0", str(SAMPLES)):
        old = b.here(f"load i64, ptr {seed}")
        scaled = b.here(f"mul i64 {old}, 6364136223846793005")
        new = b.here(f"add i64 {scaled}, 1442695040888963407")
        b.do(f"store i64 {new}, ptr {seed}")
        mixed = b.here(f"xor i64 {new}, {b.here(f'lshr i64 {new}, 29')}")
        high, low = b.here(f"lshr i64 {new}, 32"), b.here(f"and i64 {mixed}, 4294967295")
        row = b.here(f"lshr i64 {b.here(f'mul i64 {high}, %m')}, 32")
        column = b.here(f"lshr i64 {b.here(f'mul i64 {low}, %k')}, 32")
        at = b.here(f"add i64 {b.here(f'mul i64 {row}, %lda')}, {column}")
        x = b.here(f"load {s.scalar}, ptr {b.here(f'getelementptr {s.scalar}, ptr %a, i64 {at}')}")
        some = b.here(f"zext i1 {b.here(f'fcmp une {s.scalar} {x}, 0.0')} to i64")
        total = b.here(f"load i64, ptr {found}")
        b.do(f"store i64 {b.here(f'add i64 {total}, {some}')}, ptr {found}")
    return b.here(f"load i64, ptr {found}")


def _entry(module: Module, shape: Shape) -> None:
    """`sparse`: looks, and fills and runs the job where that pays."""
    b, size = Lines(module, shape), shape.size
    result = b.cell("i64", "0")
    b.do(f"store i64 0, ptr {result}")
    sampled = _sample(b)
    with b.when(b.here(f"icmp sle i64 {sampled}, {MOST_SAMPLED}")):
        stride = b.times("%ldb", size)
        good = b.here(f"call i1 @finite(ptr %b, i64 {stride}, i64 %k, i64 %n)")
        with b.when(good):
            _run(b, sampled, result)
    b.do(f"ret i64 {b.here(f'load i64, ptr {result}')}")
    signature = (
        "i64 @sparse(ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc, i64 %m, i64 %n, i64 %k)"
    )
    module.functions.append(b.function(signature, module.attributes()))


def _run(b: Lines, sampled: str, result: str) -> None:
    size = b.shape.size
    job = b.cell(f"[{len(JOB)} x i64]")
    elements = b.here("mul i64 %m, %k")
    strips = _strips(b, sampled, elements)
    entries = b.here(f"call i64 @llvm.smax.i64(i64 {b.here('mul i64 %k, 2')}, i64 {ENTRIES})")
    high = b.here(f"add i64 {b.here('sub i64 %m, 1')}, {strips}")
    values = {name: f"%{name}" for name in ("a", "b", "c", "m", "n", "k")}
    values |= {f"{x}rs": b.here(f"mul i64 %ld{x}, {size}") for x in "abc"}
    values["high"] = b.here(f"udiv i64 {high}, {strips}")
    values["limit"] = b.here(f"add i64 {b.here(f'udiv i64 {elements}, {MOST_LISTED}')}, 1")
    values["listed"] = "0"
    values["room"] = b.here(f"mul i64 {entries}, {4 + size}")
    for k, name in enumerate(JOB):
        kind = "ptr" if name in "abc" else "i64"
        b.do(f"store {kind} {values[name]}, ptr {b.here(f'getelementptr i64, ptr {job}, i64 {k}')}")
    b.do(b.external("tb_parfor", "void", ("ptr", "@strip"), ("ptr", job), ("i64", strips)))
    at = b.here(f"getelementptr i64, ptr {job}, i64 {JOB.index('listed')}")
    listed = b.here(f"load i64, ptr {at}")
    done = b.here(f"icmp slt i64 {listed}, {values['limit']}")
    b.do(f"store i64 {b.here(f'zext i1 {done} to i64')}, ptr {result}")


def _strips(b: Lines, sampled: str, elements: str) -> str:
    """Into how many strips C is cut: two for each thread where that pays."""
    b.module.declarations["@tb_threads = external global i64"] = None
    share = b.here(f"udiv i64 {b.here(f'mul i64 {elements}, {sampled}')}, {SAMPLES}")
    work = b.here(f"mul i64 {share}, %n")
    threads = b.here("load atomic i64, ptr @tb_threads monotonic, align 8")
    wanted = b.here(f"mul i64 {threads}, 2")
    pays = b.here(f"icmp sge i64 {work}, {PARALLEL}")
    several = b.here(f"icmp sgt i64 {threads}, 1")
    cut = b.here(f"and i1 {pays}, {several}")
    strips = b.here(f"select i1 {cut}, i64 {wanted}, i64 1")
    return b.here(f"call i64 @llvm.smin.i64(i64 {strips}, i64 %m)")
