"""Matrix products by our own kernels (`emit/gemm.py`) or through NumPy's own BLAS.

`run_<name>(ptr %f)` multiplies every pair of matrices of a batch: nothing when the result is empty,
zeros when nothing is summed, a matrix-vector product for one row or column, a symmetric product for
a matrix and its own transpose, else a full one. Those are NumPy's own choices, so results agree.

Invariants: BLAS does complex products and those of a matrix and a vector. Of the others ours does
all but thin ones where its vectors are wider than BLAS's; where they are not, small ones and those
whose right factor stays in the cache. Where the left factor may be mostly zeros, a large product
looks at it first and passes over them (`emit/sparse.py`).
"""

from __future__ import annotations

from tailorbird.assemble import blas
from tailorbird.assemble.target import Target
from tailorbird.dataclass import dataclass
from tailorbird.dispatch.runners import Runner
from tailorbird.emit.builder import LLVM_TYPES, Module
from tailorbird.emit.frame import Frame
from tailorbird.lower.kernel import PART, SIZES
from tailorbird.lower.program import Gemm, Matrix

ROW_MAJOR, NO_TRANS, TRANS, UPPER = 101, 111, 112, 121
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
SMALL = 1 << 17  # products up to which our kernels are ahead of equally wide ones
SPARSE_FROM = 1 << 23  # products from which looking for zeros costs next to nothing
SPARSE_COLUMNS = 16  # columns of a result from which passing over zeros pays
NEAR = 1 << 18  # elements of a right factor up to which they are, however many rows there are
# A thin product reads a large matrix that lies transposed once, for a few rows or columns of bytes:
# memory is the limit, and BLAS reads it in its order.
THIN_ROWS, THIN_COLUMNS, THIN_FROM = 15, 64, 1 << 15
Arguments = list[tuple[str, str]]


@dataclass(frozen=True)
class Choice:
    """Who multiplies: our own kernels up to `most` products and for right factors of up to `NEAR`
    elements, always where it is None; else BLAS, whose integers have `int_bits` bits.
    """

    int_bits: int
    most: int | None

    def told(self, ty: str) -> str:
        """The choice for people."""
        if ty in PART:
            return "NumPy's BLAS"
        upto = "" if self.most is None else f" up to {self.most} products, or {NEAR} on the right"
        return f"own kernel{upto}, else NumPy's BLAS"


def choose(machine: Target) -> Choice:
    """The choice on a machine whose NumPy has this BLAS."""
    library = blas.blas()
    if library is None:
        return Choice(64, None)
    wider = machine.vector_bytes > library.vector_bytes(machine.vector_bytes)
    return Choice(library.int_bits, None if wider else SMALL)


def is_gram(step: Gemm) -> bool:
    """A matrix times its own transpose: half the work, and exactly symmetric, as in NumPy."""
    a, b = step.a, step.b
    same = (a.buffer.name, a.offset, a.leading, a.batch) == (
        b.buffer.name,
        b.offset,
        b.leading,
        b.batch,
    )
    return same and a.transposed != b.transposed and step.m == step.n


@dataclass
class Placed:
    """A matrix of `rows` by `columns` at an address; `leading` is one that BLAS accepts."""

    pointer: str
    rows: str
    columns: str
    leading: str
    transposed: bool


class Multiplier(Runner):
    """Writes the run function of one matrix product."""

    def __init__(self, module: Module, frame: Frame, step: Gemm, choice: Choice) -> None:
        super().__init__(module, frame)
        self.step = step
        self.choice = choice
        self.ty = step.out.buffer.ty
        self.t = self.text()

    def emit(self, name: str) -> None:
        """A loop over the batch."""
        t, step = self.t, self.step
        m, n, k = (self.size(t, d) for d in (step.m, step.n, step.k))
        counts = [self.size(t, d) for d in step.batch]
        total = "1"
        for c in counts:
            total = t.reg(f"mul i64 {total}, {c}")
        t.do(f"%some = icmp sgt i64 {total}, 0")
        t.do("br i1 %some, label %head, label %done")
        t.label("head")
        t.do("br label %loop")
        t.label("loop")
        t.do("%b = phi i64 [0, %head], [%b1, %next]")
        self.multiply(
            self.place(step.a, counts, m, k),
            self.place(step.b, counts, k, n),
            self.place(step.out, counts, m, n),
        )
        t.do("br label %next")
        t.label("next")
        t.do("%b1 = add i64 %b, 1")
        t.do(f"%more = icmp slt i64 %b1, {total}")
        t.do("br i1 %more, label %loop, label %done")
        t.label("done")
        t.do("ret void")
        self.close(t, f"run_{name}")

    def place(self, x: Matrix, counts: list[str], rows: str, columns: str) -> Placed:
        """Matrix %b of the batch. Where the leading dimension is raised there is one row only."""
        t = self.t
        offset = self.size(t, x.offset)
        rest = "%b"
        for count, stride in zip(reversed(counts), reversed(x.batch), strict=True):
            index = t.reg(f"srem i64 {rest}, {count}")
            rest = t.reg(f"sdiv i64 {rest}, {count}")
            if stride != 0:
                step = t.reg(f"mul i64 {index}, {self.size(t, stride)}")
                offset = t.reg(f"add i64 {offset}, {step}")
        scaled = t.reg(f"mul i64 {offset}, {SIZES[x.buffer.ty]}")
        base = self.pointer(t, x.buffer.name)
        pointer = t.reg(f"getelementptr i8, ptr {base}, i64 {scaled}")
        least = t.op_max(rows if x.transposed else columns, "1")
        leading = t.op_max(self.size(t, x.leading), least)
        return Placed(pointer, rows, columns, leading, x.transposed)

    def multiply(self, a: Placed, b: Placed, out: Placed) -> None:
        """One product, in the way that fits its sizes."""
        t = self.t
        area = t.reg(f"mul i64 {out.rows}, {out.columns}")
        t.require(t.reg(f"icmp sgt i64 {area}, 0"), "next")
        t.do(f"br i1 {t.reg(f'icmp eq i64 {a.columns}, 0')}, label %zero, label %sized")
        t.label("zero")
        size = t.reg(f"mul i64 {area}, {SIZES[self.ty]}")
        args = (("ptr", out.pointer), ("i8", "0"), ("i64", size), ("i1", "false"))
        t.call("llvm.memset.p0.i64", "void", *args)
        t.do("br label %next")
        t.label("sized")
        t.do(f"br i1 {t.reg(f'icmp eq i64 {out.rows}, 1')}, label %onerow, label %rows")
        t.label("onerow")  # out[0, :] = b.T @ a[0, :]
        self.gemv(b, (a.pointer, a.leading if a.transposed else "1"), (out.pointer, "1"), True)
        t.do("br label %next")
        t.label("rows")
        t.do(f"br i1 {t.reg(f'icmp eq i64 {out.columns}, 1')}, label %onecolumn, label %full")
        t.label("onecolumn")  # out[:, 0] = a @ b[:, 0]
        step = "1" if b.transposed else b.leading
        self.gemv(a, (b.pointer, step), (out.pointer, out.leading), False)
        t.do("br label %next")
        t.label("full")
        if self.step.sparse and not a.transposed and not b.transposed:
            self.skipping(a, b, out)
        if self.ty not in PART:
            self.ours(a, b, out)
        if is_gram(self.step):
            self.syrk(a, out)
        else:
            self.gemm(a, b, out)

    def skipping(self, a: Placed, b: Placed, out: Placed) -> None:
        """The product that passes over zeros, which looks whether that pays; goes on where not."""
        t = self.t
        matrices = [x for m in (a, b, out) for x in (("ptr", m.pointer), ("i64", m.leading))]
        sizes = [("i64", size) for size in (out.rows, out.columns, a.columns)]
        area = t.reg(f"mul i64 {out.rows}, {out.columns}")
        work = t.reg(f"mul i64 {area}, {a.columns}")
        wide = t.reg(f"icmp sge i64 {out.columns}, {SPARSE_COLUMNS}")
        large = t.reg(f"icmp sge i64 {work}, {SPARSE_FROM}")
        t.do(f"br i1 {t.reg(f'and i1 {wide}, {large}')}, label %skip, label %whole")
        t.label("skip")
        done = t.call(f"tb_sparse_{self.ty}", "i64", *matrices, *sizes)
        t.do(f"br i1 {t.reg(f'icmp eq i64 {done}, 1')}, label %next, label %whole")
        t.label("whole")

    def ours(self, a: Placed, b: Placed, out: Placed) -> None:
        """Our own kernels, where they are chosen; goes on where they are not."""
        t = self.t
        t.do(f"br i1 {self.is_ours(a, b, out)}, label %ours, label %theirs")
        t.label("ours")
        layouts = [("ptr", a.pointer), ("i64", a.leading), ("i64", str(int(a.transposed)))]
        layouts += [("ptr", b.pointer), ("i64", b.leading), ("i64", str(int(b.transposed)))]
        layouts += [("ptr", out.pointer), ("i64", out.leading)]
        sizes = [("i64", size) for size in (out.rows, out.columns, a.columns)]
        gram = ("i64", str(int(is_gram(self.step))))
        t.call(f"tb_multiply_{self.ty}", "void", *layouts, *sizes, gram)
        t.do("br label %next")
        t.label("theirs")

    def is_ours(self, a: Placed, b: Placed, out: Placed) -> str:
        t = self.t
        chosen = "true"
        if self.choice.most is not None:
            area = t.reg(f"mul i64 {out.rows}, {out.columns}")
            work = t.reg(f"mul i64 {area}, {a.columns}")
            few = t.reg(f"icmp sle i64 {work}, {self.choice.most}")
            right = t.reg(f"mul i64 {b.rows}, {b.columns}")
            near = t.reg(f"icmp sle i64 {right}, {NEAR}")
            chosen = t.reg(f"or i1 {few}, {near}")
        columns = THIN_COLUMNS // SIZES[self.ty]
        for matrix, side, most in ((a, out.columns, columns), (b, out.rows, THIN_ROWS)):
            if matrix.transposed:
                area = t.reg(f"mul i64 {matrix.rows}, {matrix.columns}")
                large = t.reg(f"icmp sgt i64 {area}, {THIN_FROM}")
                thin = t.reg(f"and i1 {large}, {t.reg(f'icmp sle i64 {side}, {most}')}")
                chosen = t.reg(f"and i1 {chosen}, {t.reg(f'xor i1 {thin}, true')}")
        return chosen

    # -- BLAS

    def gemm(self, a: Placed, b: Placed, out: Placed) -> None:
        one, zero = self.factors()
        self.call(
            "gemm",
            [*self.flags(ROW_MAJOR, self.trans(a.transposed), self.trans(b.transposed))],
            [*self.integers(out.rows, out.columns, a.columns), one],
            [*self.matrix(a), *self.matrix(b), zero, *self.matrix(out)],
        )

    def syrk(self, a: Placed, out: Placed) -> None:
        """a @ a.T: the upper triangle, and the lower one from it."""
        one, zero = self.factors()
        self.call(
            "syrk",
            [*self.flags(ROW_MAJOR, UPPER, self.trans(a.transposed))],
            [*self.integers(out.columns, a.columns), one],
            [*self.matrix(a), zero, *self.matrix(out)],
        )
        scalar = f"i{8 * SIZES[self.ty]}"
        name = f"tb_mirror_{scalar}"
        self.module.definitions.setdefault(name, MIRROR.replace("$T", scalar))
        arguments = f"ptr {out.pointer}, i64 {out.columns}, i64 {out.leading}"
        self.t.do(f"call void @{name}({arguments})")

    def gemv(self, m: Placed, vector: tuple[str, str], out: tuple[str, str], flip: bool) -> None:
        """out = m @ vector, or m.T @ vector when flipped; vectors are (address, step)."""
        one, zero = self.factors()
        rows, columns = (m.columns, m.rows) if m.transposed else (m.rows, m.columns)
        self.call(
            "gemv",
            [*self.flags(ROW_MAJOR, self.trans(m.transposed != flip))],
            [*self.integers(rows, columns), one, *self.matrix(m)],
            [("ptr", vector[0]), *self.integers(vector[1]), zero],
            [("ptr", out[0]), *self.integers(out[1])],
        )

    def call(self, name: str, *parts: Arguments) -> None:
        arguments = [argument for part in parts for argument in part]
        self.t.call(f"tb_cblas_{LETTERS[self.ty]}{name}", "void", *arguments)

    def flags(self, *values: int) -> Arguments:
        return [("i32", str(value)) for value in values]

    def trans(self, transposed: bool) -> int:
        return TRANS if transposed else NO_TRANS

    def matrix(self, x: Placed) -> Arguments:
        return [("ptr", x.pointer), *self.integers(x.leading)]

    def integers(self, *registers: str) -> Arguments:
        """As wide as BLAS has them."""
        if self.choice.int_bits == 64:
            return [("i64", register) for register in registers]
        return [("i32", self.narrow(register)) for register in registers]

    def narrow(self, register: str) -> str:
        literal = not register.startswith("%")
        return register if literal else self.t.reg(f"trunc i64 {register} to i32")

    def factors(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """1 and 0: by value for reals, by address for complex numbers."""
        if self.ty not in PART:
            scalar = LLVM_TYPES[self.ty]
            return (scalar, "1.0"), (scalar, "0.0")
        scalar = LLVM_TYPES[PART[self.ty]]
        pair = f"[2 x {scalar}]"
        name = f"tb_factors_{self.ty}"
        numbers = [f"{pair} [{scalar} {x}, {scalar} 0.0]" for x in ("1.0", "0.0")]
        value = f"[2 x {pair}] [{', '.join(numbers)}]"
        self.module.definitions.setdefault(name, f"@{name} = internal constant {value}")
        zero = self.t.offset(f"@{name}", 2 * SIZES[PART[self.ty]])
        return ("ptr", f"@{name}"), ("ptr", zero)


MIRROR = """define internal void @tb_mirror_$T(ptr %c, i64 %n, i64 %ld) nounwind {
entry:
  br label %rows
rows:
  %i = phi i64 [0, %entry], [%i1, %next]
  %row = mul i64 %i, %ld
  br label %test
test:
  %j = phi i64 [0, %rows], [%j1, %copy]
  %more = icmp slt i64 %j, %i
  br i1 %more, label %copy, label %next
copy:
  %above = mul i64 %j, %ld
  %from = add i64 %above, %i
  %to = add i64 %row, %j
  %p = getelementptr $T, ptr %c, i64 %from
  %q = getelementptr $T, ptr %c, i64 %to
  %x = load $T, ptr %p
  store $T %x, ptr %q
  %j1 = add i64 %j, 1
  br label %test
next:
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, %n
  br i1 %again, label %rows, label %done
done:
  ret void
}
"""
