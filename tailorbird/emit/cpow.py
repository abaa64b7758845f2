"""Complex powers as NumPy computes them: integer exponents by squaring, others by the C library.

The text is one function of four numbers for each precision; `libm.py` calls it lane by lane.
"""

from __future__ import annotations

from tailorbird.emit.builder import LLVM_TYPES, Builder

CPOW = r"""define internal {$T, $T} @tb_cpow_$T($T %ar, $T %ai, $T %br, $T %bi) noinline {
entry:
  %b0 = fcmp oeq $T %br, 0.0
  %b1 = fcmp oeq $T %bi, 0.0
  %nothing = and i1 %b0, %b1
  br i1 %nothing, label %one, label %base
one:
  ret {$T, $T} {$T 1.0, $T 0.0}
base:
  %a0 = fcmp oeq $T %ar, 0.0
  %a1 = fcmp oeq $T %ai, 0.0
  %zero = and i1 %a0, %a1
  br i1 %zero, label %of.zero, label %exponent
of.zero:
  %up = fcmp ogt $T %br, 0.0
  %nan = select i1 %up, $T 0.0, $T 0x7FF8000000000000
  %z0 = insertvalue {$T, $T} poison, $T %nan, 0
  %z1 = insertvalue {$T, $T} %z0, $T %nan, 1
  ret {$T, $T} %z1
exponent:
  %above = fcmp ogt $T %br, -100.0
  %below = fcmp olt $T %br, 100.0
  %within = and i1 %above, %below
  %real = and i1 %within, %b1
  br i1 %real, label %small, label %library
small:
  %n = fptosi $T %br to i64
  %back = sitofp i64 %n to $T
  %whole = fcmp oeq $T %back, %br
  br i1 %whole, label %squaring, label %library
squaring:
  %negative = icmp slt i64 %n, 0
  %minus = sub i64 0, %n
  %size = select i1 %negative, i64 %minus, i64 %n
  %is3 = icmp eq i64 %n, 3
  %is1 = icmp eq i64 %n, 1
  %is2 = icmp eq i64 %n, 2
  %short = or i1 %is1, %is2
  br i1 %is3, label %cube, label %loop
cube:
  %cs = call {$T, $T} @tb_cmul_$T($T %ar, $T %ai, $T %ar, $T %ai)
  %cr = extractvalue {$T, $T} %cs, 0
  %ci = extractvalue {$T, $T} %cs, 1
  %third = call {$T, $T} @tb_cmul_$T($T %ar, $T %ai, $T %cr, $T %ci)
  ret {$T, $T} %third
loop:
  %left = phi i64 [%size, %squaring], [%rest, %next]
  %xr = phi $T [1.0, %squaring], [%yr, %next]
  %xi = phi $T [0.0, %squaring], [%yi, %next]
  %pr = phi $T [%ar, %squaring], [%qr, %next]
  %pi = phi $T [%ai, %squaring], [%qi, %next]
  %low = and i64 %left, 1
  %odd = icmp ne i64 %low, 0
  %product = call {$T, $T} @tb_cmul_$T($T %xr, $T %xi, $T %pr, $T %pi)
  %mr = extractvalue {$T, $T} %product, 0
  %mi = extractvalue {$T, $T} %product, 1
  %fr = select i1 %short, $T %pr, $T %mr
  %fi = select i1 %short, $T %pi, $T %mi
  %yr = select i1 %odd, $T %fr, $T %xr
  %yi = select i1 %odd, $T %fi, $T %xi
  %rest = lshr i64 %left, 1
  %done = icmp eq i64 %rest, 0
  br i1 %done, label %end, label %next
next:
  %square = call {$T, $T} @tb_cmul_$T($T %pr, $T %pi, $T %pr, $T %pi)
  %qr = extractvalue {$T, $T} %square, 0
  %qi = extractvalue {$T, $T} %square, 1
  br label %loop
end:
  br i1 %negative, label %inverse, label %give
give:
  %g0 = insertvalue {$T, $T} poison, $T %yr, 0
  %g1 = insertvalue {$T, $T} %g0, $T %yi, 1
  ret {$T, $T} %g1
inverse:
  %sr = call $T @llvm.fabs.$F($T %yr)
  %si = call $T @llvm.fabs.$F($T %yi)
  %straight = fcmp oge $T %sr, %si
  %big = select i1 %straight, $T %yr, $T %yi
  %little = select i1 %straight, $T %yi, $T %yr
  %none = fcmp oeq $T %big, 0.0
  %ratio = fdiv $T %little, %big
  %scaled = fmul $T %little, %ratio
  %sum = fadd $T %big, %scaled
  %scale = fdiv $T 1.0, %sum
  %minus_ratio = fsub $T 0.0, %ratio
  %plus_ratio = fadd $T %ratio, 0.0
  %minus_scale = fneg $T %scale
  %across = fmul $T %plus_ratio, %scale
  %along = fmul $T %minus_ratio, %scale
  %ir = select i1 %straight, $T %scale, $T %across
  %ii = select i1 %straight, $T %along, $T %minus_scale
  %d0 = insertvalue {$T, $T} poison, $T %ir, 0
  %d1 = insertvalue {$T, $T} %d0, $T %ii, 1
  %over = insertvalue {$T, $T} {$T 0x7FF0000000000000, $T 0.0}, $T 0x7FF8000000000000, 1
  %r = select i1 %none, {$T, $T} %over, {$T, $T} %d1
  ret {$T, $T} %r
library:
$LIBRARY
}
"""
CMUL = r"""define internal {$T, $T} @tb_cmul_$T($T %ar, $T %ai, $T %br, $T %bi) alwaysinline {
  %rr = fmul $T %ar, %br
  %ii = fmul $T %ai, %bi
  %ri = fmul $T %ar, %bi
  %ir = fmul $T %ai, %br
  %r = fsub $T %rr, %ii
  %i = fadd $T %ri, %ir
  %z0 = insertvalue {$T, $T} poison, $T %r, 0
  %z1 = insertvalue {$T, $T} %z0, $T %i, 1
  ret {$T, $T} %z1
}
"""
LIBRARY = {
    "f64": """  %c = call {double, double} @cpow(double %ar, double %ai, double %br, double %bi)
  ret {double, double} %c""",
    "f32": """  %g = insertelement <2 x float> poison, float %ar, i64 0
  %h = insertelement <2 x float> %g, float %ai, i64 1
  %k = insertelement <2 x float> poison, float %br, i64 0
  %l = insertelement <2 x float> %k, float %bi, i64 1
  %c = call <2 x float> @cpowf(<2 x float> %h, <2 x float> %l)
  %u = extractelement <2 x float> %c, i64 0
  %v = extractelement <2 x float> %c, i64 1
  %w0 = insertvalue {float, float} poison, float %u, 0
  %w1 = insertvalue {float, float} %w0, float %v, 1
  ret {float, float} %w1""",
}
DECLARED = {
    "f64": "declare {double, double} @cpow(double, double, double, double)",
    "f32": "declare <2 x float> @cpowf(<2 x float>, <2 x float>)",
}


def define(b: Builder, ty: str) -> str:
    """The name of the function, which the module has from here on."""
    scalar = LLVM_TYPES[ty]
    b.declare(DECLARED[ty])
    b.declare(f"declare {scalar} @llvm.fabs.{ty}({scalar})")
    for text in (CMUL, CPOW.replace("$LIBRARY", LIBRARY[ty])):
        signature = text.replace("$T", scalar).partition("@")[2].partition(" {")[0]
        b.define(signature, text.replace("$T", scalar).replace("$F", ty))
    return f"tb_cpow_{scalar}"
