"""Proofs about expressions with symbols that change while the graph runs: loops and bound values.

In: an expression that should be >= 0, and what is known of its open symbols: the ends between which
a loop variable or a bound value lies. Out: sets of expressions over sizes and arguments alone; the
first is >= 0 wherever all of one set are.

Invariants: a symbol is replaced by an end only where the expression is monotonic in it, innermost
symbols first; ends of an inner symbol may name outer ones. What cannot be bounded yields nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product

from tailorbird.ir.expr import Dim, Expr, Sym, apply, substitute

Ends = tuple[Dim | None, Dim | None]
OPEN = frozenset(("loop", "value"))
MOST_STEPS = 12
MOST_WAYS = 3


def lower_bounds(
    x: Dim,
    ends: Mapping[Sym, Ends],
    positive: Callable[[Sym], bool],
    steps: int = MOST_STEPS,
) -> Iterator[tuple[Dim, ...]]:
    """Sets of expressions without open symbols; x >= 0 wherever all of one set are >= 0."""
    sym = _innermost(x, ends)
    if sym is None:
        yield (x,)
        return
    assert isinstance(x, Expr)
    sign = _direction(x, sym, positive) if steps else 0
    if sign == 0:
        return
    for replacements in islice(_replacements(sym, sign, ends, positive), MOST_WAYS):
        parts = [substitute(x, {sym: value}) for value in replacements]
        ways = [list(islice(lower_bounds(p, ends, positive, steps - 1), MOST_WAYS)) for p in parts]
        for chosen in islice(product(*ways), MOST_WAYS):
            yield (*(expr for way in chosen for expr in way), *_also(sym, sign))


def is_open(sym: Sym) -> bool:
    """Whether a symbol changes while the graph runs, or is a function of one that does."""
    if sym.kind != "op":
        return sym.kind in OPEN
    return any(is_open(s) for arg in sym.args if isinstance(arg, Expr) for s in arg.symbols())


def _innermost(x: Dim, ends: Mapping[Sym, Ends]) -> Sym | None:
    """The open symbol to replace first: a function, else the one that was bounded last."""
    if isinstance(x, int):
        return None
    found = {sym for monomial, _ in x.terms for sym in monomial if is_open(sym)}
    if not found:
        return None
    order = {sym: k for k, sym in enumerate(ends)}
    return max(found, key=lambda sym: (sym.kind == "op", order.get(sym, -1), str(sym)))


def _direction(x: Expr, sym: Sym, positive: Callable[[Sym], bool]) -> int:
    """1 where x grows with the symbol, -1 where it falls, 0 where nobody knows."""
    sign = 0
    for monomial, coefficient in x.terms:
        if sym not in monomial:
            continue
        others = [other for other in monomial if other != sym]
        if len(others) != len(monomial) - 1 or not all(map(positive, others)):
            return 0
        here = 1 if coefficient > 0 else -1
        if sign not in (0, here):
            return 0
        sign = here
    return sign


def _replacements(
    sym: Sym, sign: int, ends: Mapping[Sym, Ends], positive: Callable[[Sym], bool]
) -> Iterator[tuple[Dim, ...]]:
    """What may stand for a symbol: the expression must hold for all of one tuple."""
    if sym.kind != "op":
        low, high = ends.get(sym, (None, None))
        end = low if sign > 0 else high
        if end is not None:
            yield (end,)
        return
    a, b = sym.args
    if sym.name in ("min", "max"):
        if (sym.name == "max") == (sign > 0):
            yield (a,)
            yield (b,)
        else:
            yield (a, b)
    elif sym.name == "mod":
        yield (0,) if sign > 0 else (b - 1,)
    elif sym.name == "pow" and sign > 0:
        yield (0,)
    elif sym.name == "pow":
        for values in _at_end(b, sign, ends, positive):
            yield tuple(apply("pow", a, v) for v in values)
    elif sym.name == "floordiv" and isinstance(b, int) and b > 0:
        for values in _at_end(a, sign, ends, positive):
            yield tuple(apply("floordiv", v, b) for v in values)


def _also(sym: Sym, sign: int) -> tuple[Dim, ...]:
    """What must not be negative besides: a power grows with its exponent from a base of 1 on."""
    return (sym.args[0] - 1,) if sym.name == "pow" and sign < 0 else ()


def _at_end(
    x: Dim, sign: int, ends: Mapping[Sym, Ends], positive: Callable[[Sym], bool]
) -> Iterator[tuple[Dim, ...]]:
    """x at an end of its innermost symbol."""
    inner = _innermost(x, ends)
    if inner is None or not isinstance(x, Expr):
        return
    way = _direction(x, inner, positive)
    if way:
        for values in _replacements(inner, sign * way, ends, positive):
            yield tuple(substitute(x, {inner: v}) for v in values)
