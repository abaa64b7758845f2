"""How a step runs: a nest in one piece or in chunks over the pool, a matrix product through BLAS.

`run_<name>(ptr %f)` is made for each step. Work is points times the schedule's cost; below
`PARALLEL` one thread is enough. Chunks of a fold depend on the sizes alone, never on the number of
threads, so results do not change with it.
"""

from __future__ import annotations

from dataclasses import replace

from tailorbird.dispatch.text import Text
from tailorbird.emit.builder import LLVM_TYPES, Module
from tailorbird.emit.frame import Frame
from tailorbird.emit.nest import has_partials
from tailorbird.ir.expr import Dim, product
from tailorbird.lower.kernel import PART, SIZES, Axis, Nest
from tailorbird.lower.program import Gemm, Matrix

PARALLEL = 1 << 20  # points * cost from which threads pay
FOLD_POINTS = 1 << 16  # points in one chunk of a fold
ROW_MAJOR, NO_TRANS, TRANS, UPPER = 101, 111, 112, 121


def chunk_axis(nest: Nest) -> Axis | None:
    if nest.rows:
        return nest.rows[0]
    return nest.inner[0] if nest.inner else None


def points(nest: Nest) -> Dim:
    """All points of a nest."""
    return product(a.extent for a in [*nest.rows, *nest.inner])


def is_gram(step: Gemm) -> bool:
    """A real matrix times its own transpose: half the work, and exactly symmetric, as in NumPy."""
    a, b = step.a, step.b
    same = (a.buffer.name, a.offset, a.leading, a.batch) == (
        b.buffer.name,
        b.offset,
        b.leading,
        b.batch,
    )
    return same and a.transposed != b.transposed and step.m == step.n and a.buffer.ty not in PART


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


class Runner:
    """Writes the run function of each step into the module."""

    def __init__(self, module: Module, frame: Frame) -> None:
        self.module = module
        self.frame = frame

    def text(self) -> Text:
        return Text(self.module)

    def size(self, t: Text, dim: Dim) -> str:
        """A size out of the frame."""
        if isinstance(dim, int):
            return str(dim)
        address = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot('size', dim)}")
        return t.reg(f"load i64, ptr {address}")

    def pointer(self, t: Text, name: str) -> str:
        address = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot('pointer', name)}")
        return t.reg(f"load ptr, ptr {address}")

    def close(self, t: Text, name: str) -> None:
        self.module.functions.append(t.function(f"internal void @{name}(ptr %f)", "nounwind"))

    # -- nests

    def nest(self, nest: Nest) -> None:
        t = self.text()
        axis = chunk_axis(nest)
        n = "1" if axis is None else self.size(t, axis.extent)
        if axis is None or (nest.scan and not nest.rows):
            t.do(f"call void @{nest.name}(ptr %f, i64 0, i64 {n}, i64 0)")
            t.do("ret void")
            self.close(t, f"run_{nest.name}")
            return
        total = self.size(t, points(nest))
        if has_partials(nest):
            self.folding(t, nest, n)
        else:
            self.mapping(t, nest, axis, n, total)

    def is_parallel(self, t: Text, total: str, cost: int) -> str:
        """Whether the work is worth waking other threads for."""
        work = t.reg(f"mul i64 {total}, {cost}")
        big = t.reg(f"icmp sge i64 {work}, {PARALLEL}")
        threads = self.threads(t)
        several = t.reg(f"icmp sgt i64 {threads}, 1")
        return t.reg(f"and i1 {big}, {several}")

    def threads(self, t: Text) -> str:
        t.module.declarations["@tb_threads = external global i64"] = None
        return t.reg("load atomic i64, ptr @tb_threads monotonic, align 8")

    def mapping(self, t: Text, nest: Nest, axis: Axis, n: str, total: str) -> None:
        parallel = self.is_parallel(t, total, nest.schedule.cost)
        t.do(f"br i1 {parallel}, label %many, label %one")
        t.label("one")
        t.do(f"call void @{nest.name}(ptr %f, i64 0, i64 {n}, i64 0)")
        t.do("ret void")
        t.label("many")
        pieces = t.reg(f"mul i64 {self.threads(t)}, 4")
        chunk = t.ceil_div(n, pieces)
        if axis.name == nest.schedule.vector:
            step = nest.schedule.width * nest.schedule.unroll
            chunk = t.reg(f"and i64 {t.reg(f'add i64 {chunk}, {step - 1}')}, {-step}")
        chunk = t.op_max(chunk, "1")
        self.parfor(t, nest, n, chunk)
        t.do("ret void")
        self.close(t, f"run_{nest.name}")
        self.chunk_function(nest)

    def parfor(self, t: Text, nest: Nest, n: str, chunk: str) -> None:
        count = t.ceil_div(n, chunk)
        job = t.slot("[3 x i64]")
        t.do(f"store ptr %f, ptr {job}")
        t.do(f"store i64 {n}, ptr {t.offset(job, 8)}")
        t.do(f"store i64 {chunk}, ptr {t.offset(job, 16)}")
        t.call("tb_parfor", "void", ("ptr", f"@chunk_{nest.name}"), ("ptr", job), ("i64", count))

    def chunk_function(self, nest: Nest) -> None:
        t = self.text()
        frame = t.reg("load ptr, ptr %job")
        n = t.field("%job", 8, "i64")
        chunk = t.field("%job", 16, "i64")
        low = t.reg(f"mul i64 %c, {chunk}")
        high = t.op_min(t.reg(f"add i64 {low}, {chunk}"), n)
        t.do(f"call void @{nest.name}(ptr {frame}, i64 {low}, i64 {high}, i64 %c)")
        t.do("ret void")
        signature = f"internal void @chunk_{nest.name}(ptr %job, i64 %c)"
        self.module.functions.append(t.function(signature, "nounwind"))

    def folding(self, t: Text, nest: Nest, n: str) -> None:
        """Partial folds of fixed chunks, then the fold of the partial ones."""
        chunk = self.size_slot(t, "chunk", nest.name)
        count = self.size_slot(t, "chunks", nest.name)
        several = t.reg(f"icmp sgt i64 {count}, 1")
        worth = self.is_parallel(t, self.size(t, points(nest)), nest.schedule.cost)
        parallel = t.reg(f"and i1 {several}, {worth}")
        t.do(f"br i1 {parallel}, label %many, label %head")
        t.label("many")
        self.parfor(t, nest, n, chunk)
        t.do("br label %end")
        t.label("head")
        t.do("br label %loop")
        t.label("loop")
        t.do("%c = phi i64 [0, %head], [%c1, %loop]")
        low = t.reg(f"mul i64 %c, {chunk}")
        high = t.op_min(t.reg(f"add i64 {low}, {chunk}"), n)
        t.do(f"call void @{nest.name}(ptr %f, i64 {low}, i64 {high}, i64 %c)")
        t.do("%c1 = add i64 %c, 1")
        t.do(f"%more = icmp slt i64 %c1, {count}")
        t.do("br i1 %more, label %loop, label %end")
        t.label("end")
        t.do(f"call void @{nest.name}_end(ptr %f, i64 0, i64 {count}, i64 0)")
        t.do("ret void")
        self.close(t, f"run_{nest.name}")
        self.chunk_function(nest)

    def size_slot(self, t: Text, *key: str) -> str:
        address = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot(*key)}")
        return t.reg(f"load i64, ptr {address}")

    # -- matrix products

    def gemm(self, step: Gemm, name: str, int_bits: int) -> None:
        t = self.text()
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
        a, b, out = (self.matrix_pointer(t, x, counts) for x in (step.a, step.b, step.out))
        self.multiply(t, step, (m, n, k), (a, b, out), int_bits)
        t.do("br label %next")
        t.label("next")
        t.do("%b1 = add i64 %b, 1")
        t.do(f"%more = icmp slt i64 %b1, {total}")
        t.do("br i1 %more, label %loop, label %done")
        t.label("done")
        t.do("ret void")
        self.close(t, f"run_{name}")

    def matrix_pointer(self, t: Text, x: Matrix, counts: list[str]) -> str:
        """The address of matrix %b of the batch."""
        item = SIZES[x.buffer.ty]
        offset = self.size(t, x.offset)
        rest = "%b"
        for count, stride in zip(reversed(counts), reversed(x.batch), strict=True):
            index = t.reg(f"srem i64 {rest}, {count}")
            rest = t.reg(f"sdiv i64 {rest}, {count}")
            if stride != 0:
                step = t.reg(f"mul i64 {index}, {self.size(t, stride)}")
                offset = t.reg(f"add i64 {offset}, {step}")
        scaled = t.reg(f"mul i64 {offset}, {item}")
        return t.reg(f"getelementptr i8, ptr {self.pointer(t, x.buffer.name)}, i64 {scaled}")

    def multiply(
        self,
        t: Text,
        step: Gemm,
        sizes: tuple[str, str, str],
        pointers: tuple[str, str, str],
        int_bits: int,
    ) -> None:
        """One product: nothing, zeros, a matrix-vector product for one row or column, or gemm."""
        m, n, k = sizes
        a, b, out = pointers
        area = t.reg(f"mul i64 {m}, {n}")
        bytes_out = t.reg(f"mul i64 {area}, {SIZES[step.out.buffer.ty]}")
        t.require(t.reg(f"icmp sgt i64 {area}, 0"), "next")
        t.do(f"br i1 {t.reg(f'icmp eq i64 {k}, 0')}, label %zero, label %sized")
        t.label("zero")
        t.module.declarations["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"] = None
        t.do(f"call void @llvm.memset.p0.i64(ptr {out}, i8 0, i64 {bytes_out}, i1 false)")
        t.do("br label %next")
        t.label("sized")
        lda = self.leading(t, step.a, m, k)
        ldb = self.leading(t, step.b, k, n)
        ldc = self.leading(t, step.out, m, n)
        t.do(f"br i1 {t.reg(f'icmp eq i64 {m}, 1')}, label %onerow, label %rows")
        t.label("onerow")  # out[0, :] = b.T @ a[0, :]
        self.gemv(
            t,
            step.b,
            (k, n),
            ldb,
            b,
            a,
            lda if step.a.transposed else "1",
            out,
            "1",
            int_bits,
            flip=True,
        )
        t.do("br label %next")
        t.label("rows")
        t.do(f"br i1 {t.reg(f'icmp eq i64 {n}, 1')}, label %onecolumn, label %full")
        t.label("onecolumn")  # out[:, 0] = a @ b[:, 0]
        self.gemv(
            t,
            step.a,
            (m, k),
            lda,
            a,
            b,
            "1" if step.b.transposed else ldb,
            out,
            ldc,
            int_bits,
            flip=False,
        )
        t.do("br label %next")
        t.label("full")
        letter, one, zero, scalar = self.scale(t, step.out.buffer.ty)
        if is_gram(step):
            args = [("i32", str(ROW_MAJOR)), ("i32", str(UPPER))]
            args += [("i32", self.trans(step.a.transposed))]
            args += [self.integer(t, x, int_bits) for x in (n, k)]
            args += [(scalar, one), ("ptr", a), self.integer(t, lda, int_bits)]
            args += [(scalar, zero), ("ptr", out), self.integer(t, ldc, int_bits)]
            t.call(f"tb_cblas_{letter}syrk", "void", *args)
            self.mirror(t, LLVM_TYPES[step.out.buffer.ty], out, n, ldc)
            return
        args = [
            ("i32", str(ROW_MAJOR)),
            ("i32", self.trans(step.a.transposed)),
            ("i32", self.trans(step.b.transposed)),
        ]
        args += [self.integer(t, x, int_bits) for x in (m, n, k)]
        args += [
            (scalar, one),
            ("ptr", a),
            self.integer(t, lda, int_bits),
            ("ptr", b),
            self.integer(t, ldb, int_bits),
        ]
        args += [(scalar, zero), ("ptr", out), self.integer(t, ldc, int_bits)]
        t.call(f"tb_cblas_{letter}gemm", "void", *args)

    def mirror(self, t: Text, scalar: str, out: str, n: str, leading: str) -> None:
        """The lower triangle from the upper one."""
        name = f"tb_mirror_{scalar}"
        t.module.definitions.setdefault(name, MIRROR.replace("$T", scalar))
        t.do(f"call void @{name}(ptr {out}, i64 {n}, i64 {leading})")

    def leading(self, t: Text, x: Matrix, rows: str, columns: str) -> str:
        """The leading dimension BLAS accepts; where it has to be raised there is one row only."""
        least = t.op_max(rows if x.transposed else columns, "1")
        return t.op_max(self.size(t, x.leading), least)

    def gemv(
        self,
        t: Text,
        matrix: Matrix,
        shape: tuple[str, str],
        leading: str,
        pointer: str,
        vector: str,
        step: str,
        out: str,
        out_step: str,
        int_bits: int,
        flip: bool,
    ) -> None:
        """out = M @ v, or M.T @ v when flipped; M has `shape` as it is meant and may lie
        transposed.
        """
        rows, columns = shape
        if matrix.transposed:
            rows, columns = columns, rows
        letter, one, zero, scalar = self.scale(t, matrix.buffer.ty)
        args = [("i32", str(ROW_MAJOR)), ("i32", self.trans(matrix.transposed != flip))]
        args += [
            self.integer(t, rows, int_bits),
            self.integer(t, columns, int_bits),
            (scalar, one),
            ("ptr", pointer),
        ]
        args += [
            self.integer(t, leading, int_bits),
            ("ptr", vector),
            self.integer(t, step, int_bits),
            (scalar, zero),
        ]
        args += [("ptr", out), self.integer(t, out_step, int_bits)]
        t.call(f"tb_cblas_{letter}gemv", "void", *args)

    def trans(self, transposed: bool) -> str:
        return str(TRANS if transposed else NO_TRANS)

    def integer(self, t: Text, register: str, bits: int) -> tuple[str, str]:
        if bits == 64:
            return "i64", register
        return "i32", t.reg(f"trunc i64 {register} to i32") if register.startswith(
            "%"
        ) else register

    def scale(self, t: Text, ty: str) -> tuple[str, str, str, str]:
        """BLAS letter, the factors 1 and 0, and their type: by value for reals, by address for
        complex.
        """
        letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[ty]
        if ty not in PART:
            scalar = LLVM_TYPES[ty]
            return letter, "1.0", "0.0", scalar
        scalar = LLVM_TYPES[PART[ty]]
        pair = f"[2 x {scalar}]"
        name = f"tb_factors_{ty}"
        factors = [f"{pair} [{scalar} {x}, {scalar} 0.0]" for x in ("1.0", "0.0")]
        value = f"[2 x {pair}] [{', '.join(factors)}]"
        t.module.definitions.setdefault(name, f"@{name} = internal constant {value}")
        return letter, f"@{name}", t.offset(f"@{name}", 2 * SIZES[PART[ty]]), "ptr"
