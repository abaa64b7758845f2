"""Complex arithmetic as pairs of real expressions, in NumPy's own formulas.

Sums and products are spelt out; quotients follow Smith's method as NumPy does; exp is made of real
functions. Others call the C library's complex functions lane by lane (`clog`, `csqrt`, ...), which
is what NumPy calls too.
"""

from __future__ import annotations

from collections.abc import Callable

from tailorbird.lower.kernel import PART, Ex, Op, const

Parts = tuple[Ex, ...]
LIBRARY = {
    "exp": "cexp", "log": "clog", "sqrt": "csqrt", "sin": "csin", "cos": "ccos", "tan": "ctan",
    "sinh": "csinh", "cosh": "ccosh", "tanh": "ctanh", "arcsin": "casin", "arccos": "cacos",
    "arctan": "catan", "arcsinh": "casinh", "arccosh": "cacosh", "arctanh": "catanh",
    "power": "cpow",
}  # fmt: skip


def _add(ty: str, a: Parts, b: Parts) -> Parts:
    return tuple(Op("add", (x, y), ty) for x, y in zip(a, b, strict=True))


def _subtract(ty: str, a: Parts, b: Parts) -> Parts:
    return tuple(Op("subtract", (x, y), ty) for x, y in zip(a, b, strict=True))


def _multiply(ty: str, a: Parts, b: Parts) -> Parts:
    def times(x: Ex, y: Ex) -> Ex:
        return Op("multiply", (x, y), ty)

    real = Op("subtract", (times(a[0], b[0]), times(a[1], b[1])), ty)
    imag = Op("add", (times(a[0], b[1]), times(a[1], b[0])), ty)
    return real, imag


def _divide(ty: str, a: Parts, b: Parts) -> Parts:
    """Smith's quotient; the larger part of the divisor decides, and 0/0 divides by both parts,
    as NumPy does.
    """

    def f(op: str, *xs: Ex) -> Ex:
        return Op(op, xs, "b1" if op in ("greater_equal", "equal", "logical_and") else ty)

    zero = const(0.0, ty)
    size0, size1 = f("absolute", b[0]), f("absolute", b[1])
    swap = f("greater_equal", size0, size1)
    big = f("where", swap, b[0], b[1])
    small = f("where", swap, b[1], b[0])
    ratio = f("divide", small, big)
    scale = f("divide", const(1.0, ty), f("add", big, f("multiply", small, ratio)))
    straight = (
        f("multiply", f("add", a[0], f("multiply", a[1], ratio)), scale),
        f("multiply", f("subtract", a[1], f("multiply", a[0], ratio)), scale),
    )
    crossed = (
        f("multiply", f("add", f("multiply", a[0], ratio), a[1]), scale),
        f("multiply", f("subtract", f("multiply", a[1], ratio), a[0]), scale),
    )
    none = f("logical_and", f("equal", size0, zero), f("equal", size1, zero))
    return tuple(
        f("where", none, f("divide", x, size), f("where", swap, s, c))
        for x, size, s, c in zip(a, (size0, size1), straight, crossed, strict=True)
    )


def _reciprocal(ty: str, a: Parts) -> Parts:
    """Smith's quotient of 1 as NumPy's own loop has it: at 0 it is nan."""

    def f(op: str, *xs: Ex) -> Ex:
        return Op(op, xs, "b1" if op == "less_equal" else ty)

    one = const(1.0, ty)
    straight = f("less_equal", f("absolute", a[1]), f("absolute", a[0]))
    big = f("where", straight, a[0], a[1])
    small = f("where", straight, a[1], a[0])
    ratio = f("divide", small, big)
    whole = f("add", big, f("multiply", small, ratio))
    own, other = f("divide", one, whole), f("divide", ratio, whole)
    return f("where", straight, own, other), f(
        "where", straight, f("negative", other), f("negative", own)
    )


def _exp(ty: str, a: Parts) -> Parts:
    """exp(x) (cos(y) + i sin(y)), and the library's where that is not what NumPy gives."""
    size = Op("exp", (a[0],), ty)
    parts = (Op("multiply", (size, Op(turn, (a[1],), ty)), ty) for turn in ("cos", "sin"))
    return tuple(Op(f"cexp.{p}", (*a, x), ty) for p, x in zip(("re", "im"), parts, strict=True))


def _negative(ty: str, a: Parts) -> Parts:
    return tuple(Op("negative", (x,), ty) for x in a)


def _conjugate(ty: str, a: Parts) -> Parts:
    return a[0], Op("negative", (a[1],), ty)


def _absolute(ty: str, a: Parts) -> Parts:
    return (Op("hypot", a, ty),)


def _compare(op: str, joiner: str) -> Callable[..., Parts]:
    def build(ty: str, a: Parts, b: Parts) -> Parts:
        parts = tuple(Op(op, (x, y), "b1") for x, y in zip(a, b, strict=True))
        return (Op(joiner, parts, "b1"),)

    return build


def _test(op: str, joiner: str) -> Callable[..., Parts]:
    def build(ty: str, a: Parts) -> Parts:
        return (Op(joiner, tuple(Op(op, (x,), "b1") for x in a), "b1"),)

    return build


TABLE: dict[str, Callable[..., Parts]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "reciprocal": _reciprocal,
    "negative": _negative,
    "conjugate": _conjugate,
    "absolute": _absolute,
    "equal": _compare("equal", "logical_and"),
    "not_equal": _compare("not_equal", "logical_or"),
    "isnan": _test("isnan", "logical_or"),
    "isinf": _test("isinf", "logical_or"),
    "isfinite": _test("isfinite", "logical_and"),
}


def apply(op: str, args: list[Parts], types: list[str], result: str) -> Parts:
    """A complex map; `types` are the operands' types after promotion."""
    ty = PART[next(t for t in types if t in PART)]
    if op == "where":
        condition, a, b = args
        return tuple(Op("where", (condition[0], x, y), ty) for x, y in zip(a, b, strict=True))
    if op == "exp":
        return _exp(ty, *args)
    if op in LIBRARY:
        given = tuple(x for parts in args for x in parts)
        return tuple(Op(f"{LIBRARY[op]}.{part}", given, ty) for part in ("re", "im"))
    return TABLE[op](ty, *args)
