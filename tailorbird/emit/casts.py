"""Casts between scalar types, as NumPy casts on this machine."""

from __future__ import annotations

from tailorbird.emit.builder import Builder, vector_type

BITS = {
    "b1": 1,
    "i8": 8,
    "u8": 8,
    "i16": 16,
    "u16": 16,
    "i32": 32,
    "u32": 32,
    "i64": 64,
    "u64": 64,
    "f32": 32,
    "f64": 64,
}


def is_float(ty: str) -> bool:
    return ty[0] == "f"


def is_signed(ty: str) -> bool:
    return ty[0] == "i"


def cast(b: Builder, register: str, source: str, target: str, width: int) -> str:
    """A cast as NumPy casts on this machine."""
    if source == target:
        return register
    vt, wt = vector_type(source, width), vector_type(target, width)
    if target == "b1":
        zero = b.constant(0, source, width)
        compare = (
            f"fcmp une {vt} {register}, {zero}"
            if is_float(source)
            else f"icmp ne {vt} {register}, {zero}"
        )
        return b.pure(compare)
    if is_float(source):
        return _from_float(b, register, source, target, width)
    if is_float(target):
        signed = "s" if is_signed(source) else "u"
        return b.pure(f"{signed}itofp {vt} {register} to {wt}")
    if BITS[target] == BITS[source]:
        return register
    if BITS[target] < BITS[source]:
        return b.pure(f"trunc {vt} {register} to {wt}")
    return b.pure(f"{'s' if is_signed(source) else 'z'}ext {vt} {register} to {wt}")


def _from_float(b: Builder, register: str, source: str, target: str, width: int) -> str:
    """Out-of-range values are undefined in C; these are the instructions NumPy's loops compile
    to. Frozen, or LLVM takes the integer for what it is in range and need not make it one.
    """

    def whole(x: str, to: str) -> str:
        kind = vector_type(to, width)
        return b.pure(f"freeze {kind} {b.pure(f'fptosi {vt} {x} to {kind}')}")

    vt, wt = vector_type(source, width), vector_type(target, width)
    if is_float(target):
        return b.pure(f"{'fpext' if target == 'f64' else 'fptrunc'} {vt} {register} to {wt}")
    if target == "u64":
        half = b.constant(2.0**63, source, width)
        large = b.pure(f"fcmp oge {vt} {register}, {half}")
        high = whole(b.pure(f"fsub {vt} {register}, {half}"), target)
        high = b.pure(f"xor {wt} {high}, {b.constant(-(2**63), 'i64', width)}")
        low = whole(register, target)
        return b.pure(f"select {vector_type('b1', width)} {large}, {wt} {high}, {wt} {low}")
    through = {"u32": "i64", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}.get(
        target, target
    )
    return cast(b, whole(register, through), through, target, width)
