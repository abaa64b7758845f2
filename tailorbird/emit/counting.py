"""Integers that lie close together, counted: what sorting and `unique` come to for them.

In: an integer type and a vector width. Out: the text of a module with

| function | what |
|---|---|
| `i64 count(ptr x, i64 n, ptr tables, ptr counts, ptr low)` | how often each value occurs |
| `void spread(ptr counts, i64 low, i64 span, ptr out)` | so many of each value, in order |
| `void order(ptr x, i64 n, i64 low, i64 span, ptr starts, ptr out)` | where each stands, sorted |

`count` returns the number of values from the smallest to the largest and stores the smallest, or
returns 0 as soon as they lie further apart than `SPAN`; n is at least 1. `tables` has room for
`TABLES * (SPAN + 1)` numbers of 32 bits, `counts` for `SPAN` of 64. `starts` says where the first
of each value goes, and has one place more; it is used up.

Invariants:
- Equal neighbours go to different tables, so that no addition waits for the one before.
- Another thread may write into x meanwhile: then what is found may be wrong, but nothing is read or
  written outside of the tables and of `out`. `count` returns 0 where it can tell.
"""

from __future__ import annotations

from tailorbird.emit.builder import LLVM_TYPES, Builder, Module
from tailorbird.lower.kernel import SIZES

SPAN = 1 << 12
TABLES = 4
BLOCK = 1 << 12  # elements between looks at how far apart they are
SUMS = 4  # vectors looked at together


def emit_module(ty: str, vector_bytes: int) -> str:
    """The module of a type."""
    module = Module(vector_bytes == 64)
    _range(module, ty, vector_bytes)
    _count(module, ty)
    _spread(module, ty, vector_bytes)
    _order(module, ty)
    return module.text()


def _at(b: Builder, kind: str, base: str, index: str) -> str:
    return b.here(f"getelementptr {kind}, ptr {base}, i64 {index}")


def _wide(b: Builder, x: str, ty: str) -> str:
    """As 64 bits; differences are right whichever way they are read."""
    kind = LLVM_TYPES[ty]
    if kind == "i64":
        return x
    return b.here(f"{'zext' if ty.startswith('u') else 'sext'} {kind} {x} to i64")


def _range(module: Module, ty: str, vector_bytes: int) -> None:
    """`span`: largest less smallest and 1; 0 where that is more than `SPAN`. The smallest."""
    b, kind, lanes = Builder(module), LLVM_TYPES[ty], vector_bytes // SIZES[ty]
    names = [f"llvm.{'u' if ty.startswith('u') else 's'}{end}" for end in ("min", "max")]
    vector = f"<{lanes} x {kind}>"
    first = b.here(f"load {kind}, ptr %x")
    low, high = b.cell(kind), b.cell(kind)
    for cell in (low, high):
        b.do(f"store {kind} {first}, ptr {cell}")
    start = b.splat(first, ty, lanes)
    ends = [[b.cell(vector) for _ in range(SUMS)] for _ in names]
    step = lanes * SUMS

    def take(cell: str, name: str, shape: str, suffix: str, x: str) -> None:
        old = b.here(f"load {shape}, ptr {cell}")
        new = b.here(b.intrinsic(f"{name}.{suffix}", shape, (shape, old), (shape, x)))
        b.do(f"store {shape} {new}, ptr {cell}")

    at = b.cell("i64", "0")
    b.do(f"store i64 0, ptr {at}")
    result = b.cell("i64", "0")
    with b.forever() as behind:
        begin = b.here(f"load i64, ptr {at}")
        rest = b.here(f"sub i64 %n, {begin}")
        size = b.here(b.intrinsic("llvm.smin.i64", "i64", ("i64", rest), ("i64", str(BLOCK))))
        whole = b.here(f"add i64 {begin}, {b.here(f'and i64 {size}, {-step}')}")
        end = b.here(f"add i64 {begin}, {size}")
        for cells in ends:
            for cell in cells:
                b.do(f"store {vector} {start}, ptr {cell}")
        with b.loop(begin, whole, step) as i:
            for k in range(SUMS):
                p = _at(b, kind, _at(b, kind, "%x", i), str(k * lanes))
                x = b.here(f"load {vector}, ptr {p}, align {SIZES[ty]}")
                for name, cells in zip(names, ends):
                    take(cells[k], name, vector, f"v{lanes}{kind}", x)
        with b.loop(whole, end) as i:
            x = b.here(f"load {kind}, ptr {_at(b, kind, '%x', i)}")
            for name, cell in zip(names, (low, high)):
                take(cell, name, kind, kind, x)
        for name, cells, cell in zip(names, ends, (low, high)):
            for part in cells:
                value = b.here(f"load {vector}, ptr {part}")
                fold = f"llvm.vector.reduce.{name.removeprefix('llvm.')}.v{lanes}{kind}"
                take(cell, name, kind, kind, b.here(b.intrinsic(fold, kind, (vector, value))))
        small, large = (_wide(b, b.here(f"load {kind}, ptr {c}"), ty) for c in (low, high))
        apart = b.here(f"sub i64 {large}, {small}")
        b.do(f"store i64 0, ptr {result}")
        b.go_on(b.here(f"icmp ult i64 {apart}, {SPAN}"), behind)
        b.do(f"store i64 {b.here(f'add i64 {apart}, 1')}, ptr {result}")
        b.do(f"store i64 {small}, ptr %low")
        b.do(f"store i64 {end}, ptr {at}")
        b.go_on(b.here(f"icmp slt i64 {end}, %n"), behind)
    b.do(f"ret i64 {b.here(f'load i64, ptr {result}')}")
    signature = "internal i64 @span(ptr %x, i64 %n, ptr %low)"
    module.functions.append(b.function(signature, module.attributes()))


def _cell(b: Builder, x: str, low: str, span: str) -> str:
    """Which cell a value has; the one behind the last for all that are none."""
    place = b.here(f"sub i64 {x}, {low}")
    return b.here(b.intrinsic("llvm.umin.i64", "i64", ("i64", place), ("i64", span)))


def _count(module: Module, ty: str) -> None:
    """`count`: every element of a turn has a table of its own."""
    b, kind = Builder(module), LLVM_TYPES[ty]
    result = b.cell("i64", "0")
    span = b.here("call i64 @span(ptr %x, i64 %n, ptr %low)")
    with b.when(b.here(f"icmp ne i64 {span}, 0")):
        low = b.here("load i64, ptr %low")
        cells = b.here(f"add i64 {span}, 1")  # the last one for what is no value any more
        room = b.here(f"mul i64 {cells}, {4 * TABLES}")
        b.do(
            b.intrinsic(
                "llvm.memset.p0.i64",
                "void",
                ("ptr", "%tables"),
                ("i8", "0"),
                ("i64", room),
                ("i1", "false"),
            )
        )
        tables = [_at(b, "i32", "%tables", b.here(f"mul i64 {cells}, {k}")) for k in range(TABLES)]

        def add(i: str, k: int) -> None:
            x = b.here(f"load {kind}, ptr {_at(b, kind, _at(b, kind, '%x', i), str(k))}")
            p = _at(b, "i32", tables[k], _cell(b, _wide(b, x, ty), low, span))
            more = b.here(f"add i32 {b.here(f'load i32, ptr {p}')}, 1")
            b.do(f"store i32 {more}, ptr {p}")

        whole = b.here(f"and i64 %n, {-TABLES}")
        with b.loop("0", whole, TABLES) as i:
            for k in range(TABLES):
                add(i, k)
        with b.loop(whole, "%n") as i:
            add(i, 0)
        every = b.cell("i64")
        b.do(f"store i64 0, ptr {every}")
        with b.loop("0", span) as i:
            total = "0"
            for table in tables:
                count = b.here(f"load i32, ptr {_at(b, 'i32', table, i)}")
                total = b.here(f"add i64 {total}, {b.here(f'zext i32 {count} to i64')}")
            b.do(f"store i64 {total}, ptr {_at(b, 'i64', '%counts', i)}")
            before = b.here(f"load i64, ptr {every}")
            b.do(f"store i64 {b.here(f'add i64 {before}, {total}')}, ptr {every}")
        whole = b.here(f"icmp eq i64 {b.here(f'load i64, ptr {every}')}, %n")
        b.do(f"store i64 {b.here(f'select i1 {whole}, i64 {span}, i64 0')}, ptr {result}")
    b.do(f"ret i64 {b.here(f'load i64, ptr {result}')}")
    signature = "i64 @count(ptr %x, i64 %n, ptr %tables, ptr %counts, ptr %low)"
    module.functions.append(b.function(signature, module.attributes()))


def _spread(module: Module, ty: str, vector_bytes: int) -> None:
    """`spread`: runs of one value, in whole vectors and the rest one by one."""
    b, kind, lanes = Builder(module), LLVM_TYPES[ty], vector_bytes // SIZES[ty]
    at = b.cell("i64", "0")
    b.do(f"store i64 0, ptr {at}")
    with b.loop("0", "%span") as k:
        value = b.here(f"add i64 %lowest, {k}")
        if kind != "i64":
            value = b.here(f"trunc i64 {value} to {kind}")
        wide = f"<{lanes} x {kind}>"
        first = b.here(f"insertelement {wide} poison, {kind} {value}, i64 0")
        spread = b.here(
            f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer"
        )
        count = b.here(f"load i64, ptr {_at(b, 'i64', '%counts', k)}")
        begin = b.here(f"load i64, ptr {at}")
        end = b.here(f"add i64 {begin}, {count}")
        whole = b.here(f"add i64 {begin}, {b.here(f'and i64 {count}, {-lanes}')}")
        with b.loop(begin, whole, lanes) as i:
            b.do(f"store {wide} {spread}, ptr {_at(b, kind, '%out', i)}, align {SIZES[ty]}")
        with b.loop(whole, end) as i:
            b.do(f"store {kind} {value}, ptr {_at(b, kind, '%out', i)}")
        b.do(f"store i64 {end}, ptr {at}")
    b.do("ret void")
    signature = "void @spread(ptr %counts, i64 %lowest, i64 %span, ptr %out)"
    module.functions.append(b.function(signature, module.attributes()))


def _order(module: Module, ty: str) -> None:
    """`order`: equal elements keep the order they have."""
    b, kind = Builder(module), LLVM_TYPES[ty]
    last = b.here("sub i64 %n, 1")
    with b.loop("0", "%n") as i:
        x = b.here(f"load {kind}, ptr {_at(b, kind, '%x', i)}")
        p = _at(b, "i64", "%starts", _cell(b, _wide(b, x, ty), "%lowest", "%span"))
        next_ = b.here(f"load i64, ptr {p}")
        b.do(f"store i64 {b.here(f'add i64 {next_}, 1')}, ptr {p}")
        place = b.here(b.intrinsic("llvm.umin.i64", "i64", ("i64", next_), ("i64", last)))
        b.do(f"store i64 {i}, ptr {_at(b, 'i64', '%out', place)}")
    b.do("ret void")
    signature = "void @order(ptr %x, i64 %n, i64 %lowest, i64 %span, ptr %starts, ptr %out)"
    module.functions.append(b.function(signature, module.attributes()))
