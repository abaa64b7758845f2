"""Routines of LAPACK for every matrix of a batch, as NumPy calls them.

In: a `Factor` step. Out: `run_<name>(ptr %f)`, which finds sizes and memory in the frame.

Invariants: the routine, the order of its operands and what is made of its results are NumPy's own
(`numpy/linalg/umath_linalg.cpp`), so results agree to the last bit where the library is NumPy's.
Integers are handed over in 64 bits: where LAPACK has 32, it reads the low half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailorbird.assemble import blas
from tailorbird.dispatch.runners import Runner
from tailorbird.emit.builder import LLVM_TYPES, Module
from tailorbird.emit.frame import Frame
from tailorbird.lower.kernel import PART, SIZES, Buffer
from tailorbird.lower.steps import Factor

LETTERS = {"f64": "d", "c128": "z"}
ROUTINES = {"cholesky": "potrf", "solve": "gesv", "inv": "gesv", "slogdet": "getrf"}


def told(step: Factor) -> str:
    """The step for people."""
    columns = f", {step.columns} columns" if step.op == "solve" else ""
    name = f"{LETTERS[step.ty]}{ROUTINES[step.op]}"
    return f"{step.op} of {step.order} x {step.order}{columns}   (LAPACK's {name})"


class Factorer(Runner):
    """Writes the run function of one step."""

    def __init__(self, module: Module, frame: Frame, step: Factor) -> None:
        super().__init__(module, frame)
        self.step = step
        self.size_of = SIZES[step.ty]
        self.t = self.text()

    def emit(self, name: str) -> None:
        """A loop over the batch."""
        t, step = self.t, self.step
        self.n = self.size(t, step.order)
        self.columns = self.size(t, step.columns)
        self.square = t.reg(f"mul i64 {self.n}, {self.n}")
        self.order = self.stored(self.n)
        self.leading = self.stored(t.op_max(self.n, "1"))
        self.info = t.slot("i64", "0")
        with self.turns(self.size(t, step.count)) as b:
            ROWS[step.op](self, b)
        t.do("ret void")
        self.close(t, f"run_{name}")

    # -- parts

    def stored(self, register: str) -> str:
        """The address of an integer."""
        slot = self.t.slot("i64")
        self.t.do(f"store i64 {register}, ptr {slot}")
        return slot

    @contextmanager
    def turns(self, count: str) -> Iterator[str]:
        """A loop that counts from 0."""
        t = self.t
        at = t.slot("i64")
        head, body, end = t.fresh("head"), t.fresh("body"), t.fresh("end")
        t.do(f"store i64 0, ptr {at}")
        t.do(f"br label %{head}")
        t.label(head)
        k = t.reg(f"load i64, ptr {at}")
        t.do(f"br i1 {t.reg(f'icmp slt i64 {k}, {count}')}, label %{body}, label %{end}")
        t.label(body)
        yield k
        t.do(f"store i64 {t.reg(f'add i64 {k}, 1')}, ptr {at}")
        t.do(f"br label %{head}")
        t.label(end)

    def place(self, buffer: Buffer, index: str, scale: int) -> str:
        """The address of an element, or of the matrix that begins there."""
        scaled = self.t.reg(f"mul i64 {index}, {scale}")
        base = self.pointer(self.t, buffer.name)
        return self.t.reg(f"getelementptr i8, ptr {base}, i64 {scaled}")

    def matrix(self, k: int, b: str) -> str:
        """Matrix b of the batch of the k-th operand."""
        last = k == len(self.step.matrices) - 1
        area = self.t.reg(f"mul i64 {self.n}, {self.columns}") if last else self.square
        begin = self.t.reg(f"mul i64 {b}, {area}")
        return self.place(self.step.matrices[k], begin, self.size_of)

    def pivots(self) -> str:
        return self.pointer(self.t, self.step.vectors[-1].name)

    def call(self, *arguments: str) -> None:
        """The routine; lengths of texts go behind the other arguments, where Fortran has them."""
        t = self.t
        t.do(f"store i64 0, ptr {self.info}")
        texts = [("i64", "1")] * sum(x.startswith("@tb_letter") for x in arguments)
        routine = LETTERS[self.step.ty] + ROUTINES[self.step.op]
        name = f"{blas.LAPACK_PREFIX}{blas.lapack_bits()}_{routine}"
        t.call(name, "void", *(("ptr", x) for x in (*arguments, self.info)), *texts)

    def letter(self, text: str) -> str:
        name = f"@tb_letter_{text}"
        self.t.module.definitions[name] = f'{name} = internal constant [1 x i8] c"{text}"'
        return name

    def keep_info(self, b: str) -> None:
        """What the routine says of matrix b."""
        t = self.t
        found = t.reg(f"sext i32 {t.reg(f'load i32, ptr {self.info}')} to i64")
        t.do(f"store i64 {found}, ptr {self.place(self.step.vectors[0], b, 8)}")

    def zero(self, address: str, elements: str) -> None:
        size = self.t.reg(f"mul i64 {elements}, {self.size_of}")
        args = (("ptr", address), ("i8", "0"), ("i64", size), ("i1", "false"))
        self.t.call("llvm.memset.p0.i64", "void", *args)

    # -- routines

    def cholesky(self, b: str) -> None:
        """The lower half; above it stands what was there."""
        a = self.matrix(0, b)
        self.call(self.letter("L"), self.order, a, self.leading)
        self.keep_info(b)
        with self.turns(self.n) as j:
            column = self.t.reg(f"mul i64 {j}, {self.n}")
            offset = self.t.reg(f"mul i64 {column}, {self.size_of}")
            self.zero(self.t.reg(f"getelementptr i8, ptr {a}, i64 {offset}"), j)

    def solve(self, b: str) -> None:
        right = self.stored(self.columns)
        a, x = self.matrix(0, b), self.matrix(1, b)
        self.call(self.order, right, a, self.leading, self.pivots(), x, self.leading)
        self.keep_info(b)

    def inv(self, b: str) -> None:
        """NumPy solves for the columns of 1."""
        t = self.t
        x = self.matrix(1, b)
        self.zero(x, self.square)
        one = LLVM_TYPES[PART.get(self.step.ty, self.step.ty)]
        next_one = t.reg(f"mul i64 {t.reg(f'add i64 {self.n}, 1')}, {self.size_of}")
        with self.turns(self.n) as j:
            place = t.reg(f"getelementptr i8, ptr {x}, i64 {t.reg(f'mul i64 {j}, {next_one}')}")
            t.do(f"store {one} 1.0, ptr {place}")
        self.solve(b)

    def slogdet(self, b: str) -> None:
        """The diagonal of the factor, multiplied by its signs and added by its logarithms."""
        t, kind = self.t, self.step.ty
        a, pivots = self.matrix(0, b), self.pivots()
        self.call(self.order, self.order, a, self.leading, pivots)
        sign = t.slot("[2 x double]", align=16)
        total = t.slot("double")
        t.do(f"store [2 x double] [double 1.0, double 0.0], ptr {sign}")
        t.do(f"store double 0.0, ptr {total}")
        bits = blas.lapack_bits()
        after = t.reg(f"mul i64 {t.reg(f'add i64 {self.n}, 1')}, {self.size_of}")
        with self.turns(self.n) as j:
            at = t.reg(f"getelementptr i{bits}, ptr {pivots}, i64 {j}")
            pivot = t.reg(f"load i{bits}, ptr {at}")
            wide = pivot if bits == 64 else t.reg(f"sext i32 {pivot} to i64")
            stays = t.reg(f"icmp eq i64 {wide}, {t.reg(f'add i64 {j}, 1')}")
            self.scale(sign, t.reg(f"select i1 {stays}, double 1.0, double -1.0"))
        with self.turns(self.n) as j:
            at = t.reg(f"getelementptr i8, ptr {a}, i64 {t.reg(f'mul i64 {j}, {after}')}")
            size = DIAGONAL[kind](self, sign, at)
            log = t.call("log", "double", ("double", size))
            held = t.reg(f"load double, ptr {total}")
            t.do(f"store double {t.reg(f'fadd double {held}, {log}')}, ptr {total}")
        failed = t.reg(f"icmp ne i32 {t.reg(f'load i32, ptr {self.info}')}, 0")
        parts = 2 if kind in PART else 1
        out = self.place(self.step.vectors[0], b, 8 * parts)
        for k in range(parts):
            found = t.field(sign, 8 * k, "double")
            t.do(f"store double {t.reg(f'select i1 {failed}, double 0.0, double {found}')}, "
                 f"ptr {t.offset(out, 8 * k)}")  # fmt: skip
        found = t.field(total, 0, "double")
        minus_inf = "0xFFF0000000000000"
        kept = t.reg(f"select i1 {failed}, double {minus_inf}, double {found}")
        t.do(f"store double {kept}, ptr {self.place(self.step.vectors[1], b, 8)}")

    def scale(self, sign: str, factor: str) -> None:
        """A real factor of a sign."""
        for k in (0, 8) if self.step.ty in PART else (0,):
            found = self.t.field(sign, k, "double")
            made = self.t.reg(f"fmul double {found}, {factor}")
            self.t.do(f"store double {made}, ptr {self.t.offset(sign, k)}")

    def real_element(self, sign: str, at: str) -> str:
        """Multiplies the sign of an element into `sign`; the size of the element."""
        t = self.t
        x = t.reg(f"load double, ptr {at}")
        below = t.reg(f"fcmp olt double {x}, 0.0")
        self.scale(sign, t.reg(f"select i1 {below}, double -1.0, double 1.0"))
        return t.reg(f"select i1 {below}, double {t.reg(f'fneg double {x}')}, double {x}")

    def complex_element(self, sign: str, at: str) -> str:
        """The same: x / |x| is the sign."""
        t = self.t
        a, b = t.field(at, 0, "double"), t.field(at, 8, "double")
        size = t.call("hypot", "double", ("double", a), ("double", b))
        u, v = (t.reg(f"fdiv double {x}, {size}") for x in (a, b))
        p, q = t.field(sign, 0, "double"), t.field(sign, 8, "double")
        products = [t.reg(f"fmul double {x}, {y}") for x, y in ((p, u), (q, v), (p, v), (q, u))]
        real = t.reg(f"fsub double {products[0]}, {products[1]}")
        imaginary = t.reg(f"fadd double {products[2]}, {products[3]}")
        t.do(f"store double {real}, ptr {sign}")
        t.do(f"store double {imaginary}, ptr {t.offset(sign, 8)}")
        return size


ROWS: dict[str, Callable[[Factorer, str], None]] = {
    "cholesky": Factorer.cholesky,
    "solve": Factorer.solve,
    "inv": Factorer.inv,
    "slogdet": Factorer.slogdet,
}
DIAGONAL: dict[str, Callable[[Factorer, str, str], str]] = {
    "f64": Factorer.real_element,
    "c128": Factorer.complex_element,
}
