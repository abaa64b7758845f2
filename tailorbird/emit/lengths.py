"""Comparisons of lengths, `hypot(x, y) < limit`, by squares.

A sum of squares is rounded twice, a square of the limit once, so where they differ by more than a
few roundings they say what the lengths say. Where they do not, and where the limit's square or
what it is compared with could overflow or vanish, the length itself is compared: seldom, and so in
a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailorbird.emit.builder import LLVM_TYPES
from tailorbird.emit.vmath import emit_math
from tailorbird.emit.vmath_lanes import FORMATS, Recorder

if TYPE_CHECKING:
    from tailorbird.emit.ops import Lanes

RELATIONS = {"less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge"}
DOUBT = 8  # units in the last place within which squares say nothing
SPARE = 8  # bits of the exponent that no square of a limit comes near


def compared(relation: str) -> Callable[[Lanes], str]:
    """NumPy's `relation` of hypot(x, y) and a limit."""

    def emit(x: Lanes) -> str:
        a, b, limit = x.args
        if x.width == 1:
            return _of_length(x.b, x, relation, x.args)
        square = x.intrinsic("fma", a, a, x.pure(f"fmul {x.vt()} {b}, {b}"))
        low, high = _ends(x, limit)
        less, more = x.fcmp("olt", square, low), x.fcmp("ogt", square, high)
        doubtful = x.flip(x.bits("or", less, more))
        sure = less if relation.startswith("less") else more
        return x.b.rare(doubtful, x.width, [(x.vt("b1"), sure, _call(x, relation))])[0]

    return emit


def _ends(x: Lanes, limit: str) -> tuple[str, str]:
    """Below which a square is surely of less than the limit, and above which of more; where the
    square of the limit is out of range there are no such numbers.
    """
    _, mantissa, bias, _ = FORMATS[LLVM_TYPES[x.types[0]]]
    small, large = 2.0 ** (SPARE - bias // 2), 2.0 ** (bias // 2 - SPARE)
    fits = x.bits("and", x.fcmp("ogt", limit, x.const(small)), x.fcmp("olt", limit, x.const(large)))
    aim = x.pure(f"fmul {x.vt()} {limit}, {limit}")
    margin = DOUBT * 2.0**-mantissa
    low = x.pure(f"fmul {x.vt()} {aim}, {x.const(1 - margin)}")
    high = x.pure(f"fmul {x.vt()} {aim}, {x.const(1 + margin)}")
    endless = float("inf")
    return x.select(fits, low, x.const(-endless)), x.select(fits, high, x.const(endless))


def _of_length(b: Any, x: Lanes, relation: str, args: list[str]) -> str:
    length = emit_math(b, "hypot", LLVM_TYPES[x.types[0]], x.width, args[:2])
    found: str = b.pure(f"fcmp {RELATIONS[relation]} {x.vt()} {length}, {args[2]}")
    return found


def _call(x: Lanes, relation: str) -> str:
    """The call of a function that compares the length itself."""
    name = f"length_{relation}_{x.types[0]}_{x.width}"
    inside = Recorder(x.b)
    result = _of_length(inside, x, relation, [f"%a{k}" for k in range(3)])
    flags, takes = x.vt("b1"), ", ".join(f"{x.vt()} %a{k}" for k in range(3))
    lines = "\n  ".join([*inside.lines, f"ret {flags} {result}"])
    x.b.define(name, f"define internal {flags} @{name}({takes}) noinline {{\n  {lines}\n}}")
    return f"call {flags} @{name}({', '.join(f'{x.vt()} {a}' for a in x.args)})"
