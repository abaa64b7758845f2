"""Functions without a vector form: the C library's, lane by lane.

A helper takes a vector, calls the scalar function for every lane and returns a vector; it is
defined once in the module. Complex functions take and return two vectors; their C calling
convention on x86-64 passes a double complex in two registers and a float complex in one.
"""

from __future__ import annotations

import math

from tailorbird.emit import cpow
from tailorbird.emit.builder import LLVM_TYPES, Builder, vector_type

NAMES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "arctan2": "atan2", "power": "pow",
}  # fmt: skip
LARGEST = {"f64": 709.0, "f32": 88.0}  # whose exp does not overflow


def call_library(b: Builder, op: str, ty: str, width: int, args: list[str]) -> str:
    """A real or complex (`cexp.re`) library function on every lane."""
    if op in ("cexp.re", "cexp.im"):
        return _unless_odd(b, op, ty, width, args)
    if "." in op:
        return _complex(b, op, ty, width, args)
    scalar = LLVM_TYPES[ty]
    function = NAMES.get(op, op) + ("f" if ty == "f32" else "")
    operands = ", ".join([scalar] * len(args))
    b.declare(f"declare {scalar} @{function}({operands})")
    if width == 1:
        return b.pure(f"call {scalar} @{function}({', '.join(f'{scalar} {a}' for a in args)})")
    vt = f"<{width} x {scalar}>"
    name = f"tb_{function}_{width}"
    lines = []
    result = "poison"
    for k in range(width):
        picked = []
        for j in range(len(args)):
            lines.append(f"  %a{j}_{k} = extractelement {vt} %x{j}, i64 {k}")
            picked.append(f"{scalar} %a{j}_{k}")
        lines.append(f"  %r{k} = call {scalar} @{function}({', '.join(picked)})")
        lines.append(f"  %v{k} = insertelement {vt} {result}, {scalar} %r{k}, i64 {k}")
        result = f"%v{k}"
    parameters = ", ".join(f"{vt} %x{j}" for j in range(len(args)))
    lines.append(f"  ret {vt} {result}")
    _define(b, vt, f"{name}({parameters})", lines)
    return b.pure(f"call {vt} @{name}({', '.join(f'{vt} {a}' for a in args)})")


def _unless_odd(b: Builder, op: str, ty: str, width: int, args: list[str]) -> str:
    """One part of exp(x + iy) as it was computed already, in lanes where x does not overflow and y
    is finite; the library's in others.
    """
    x, y, found = args
    vt, flags = vector_type(ty, width), vector_type("b1", width)
    suffix = ty if width == 1 else f"v{width}{ty}"
    size = b.pure(b.intrinsic(f"llvm.fabs.{suffix}", vt, (vt, y)))
    large = b.pure(f"fcmp ugt {vt} {x}, {b.constant(LARGEST[ty], ty, width)}")
    endless = b.pure(f"fcmp uge {vt} {size}, {b.constant(math.inf, ty, width)}")
    odd = b.pure(f"or {flags} {large}, {endless}")
    name, helper = f"tb_{op}_{ty}_{width}", _define_complex(b, "cexp", ty, width, 2)
    lines = [
        f"  %p = call {{{vt}, {vt}}} @{helper}({vt} %x, {vt} %y)",
        f"  %r = extractvalue {{{vt}, {vt}}} %p, {int(op == 'cexp.im')}",
        f"  %s = select {flags} %odd, {vt} %r, {vt} %found",
        f"  ret {vt} %s",
    ]
    _define(b, vt, f"{name}({vt} %x, {vt} %y, {vt} %found, {flags} %odd)", lines)
    call = f"call {vt} @{name}({vt} {x}, {vt} {y}, {vt} {found}, {flags} {odd})"
    return b.rare(odd, width, [(vt, found, call)])[0]


def _complex(b: Builder, op: str, ty: str, width: int, args: list[str]) -> str:
    function, part = op.split(".")
    vt = vector_type(ty, width)
    pair = f"{{{vt}, {vt}}}"
    name = _define_complex(b, function, ty, width, len(args))
    both = b.pure(f"call {pair} @{name}({', '.join(f'{vt} {a}' for a in args)})")
    return b.pure(f"extractvalue {pair} {both}, {0 if part == 're' else 1}")


def _define_complex(b: Builder, function: str, ty: str, width: int, count: int) -> str:
    """The name of a helper that gives both parts of a function of so many numbers."""
    scalar, vt = LLVM_TYPES[ty], vector_type(ty, width)
    pair = f"{{{vt}, {vt}}}"
    name = f"tb_{function}_{ty}_{width}"
    lines, re, im = [], "poison", "poison"
    for k in range(width):
        picked = [f"%x{j}" for j in range(count)]
        if width > 1:
            for j, x in enumerate(picked):
                lines.append(f"  %a{j}_{k} = extractelement {vt} {x}, i64 {k}")
            picked = [f"%a{j}_{k}" for j in range(count)]
        lines += _call_one(b, function, ty, k, picked)
        if width > 1:
            lines.append(f"  %p{k} = insertelement {vt} {re}, {scalar} %u{k}, i64 {k}")
            lines.append(f"  %q{k} = insertelement {vt} {im}, {scalar} %w{k}, i64 {k}")
            re, im = f"%p{k}", f"%q{k}"
        else:
            re, im = f"%u{k}", f"%w{k}"
    lines.append(f"  %s0 = insertvalue {pair} poison, {vt} {re}, 0")
    lines.append(f"  %s1 = insertvalue {pair} %s0, {vt} {im}, 1")
    lines.append(f"  ret {pair} %s1")
    parameters = ", ".join(f"{vt} %x{j}" for j in range(count))
    _define(b, pair, f"{name}({parameters})", lines)
    return name


def _define(b: Builder, result: str, signature: str, lines: list[str]) -> None:
    body = "\n".join(lines)
    b.define(signature, f"define internal {result} @{signature} noinline {{\n{body}\n}}\n")


def _call_one(b: Builder, function: str, ty: str, k: int, args: list[str]) -> list[str]:
    if function == "cpow":
        scalar, name = LLVM_TYPES[ty], cpow.define(b, ty)
        given = ", ".join(f"{scalar} {x}" for x in args)
        return [
            f"  %z{k} = call {{{scalar}, {scalar}}} @{name}({given})",
            f"  %u{k} = extractvalue {{{scalar}, {scalar}}} %z{k}, 0",
            f"  %w{k} = extractvalue {{{scalar}, {scalar}}} %z{k}, 1",
        ]
    x, y = args
    if ty == "f64":
        b.declare(f"declare {{double, double}} @{function}(double, double)")
        return [
            f"  %z{k} = call {{double, double}} @{function}(double {x}, double {y})",
            f"  %u{k} = extractvalue {{double, double}} %z{k}, 0",
            f"  %w{k} = extractvalue {{double, double}} %z{k}, 1",
        ]
    b.declare(f"declare <2 x float> @{function}f(<2 x float>)")
    return [
        f"  %g{k} = insertelement <2 x float> poison, float {x}, i64 0",
        f"  %h{k} = insertelement <2 x float> %g{k}, float {y}, i64 1",
        f"  %z{k} = call <2 x float> @{function}f(<2 x float> %h{k})",
        f"  %u{k} = extractelement <2 x float> %z{k}, i64 0",
        f"  %w{k} = extractelement <2 x float> %z{k}, i64 1",
    ]
