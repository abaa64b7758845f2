"""How large exact integer expressions can become inside loops, and which are surely not negative.

In: the ranges of the loop variables around a place, and the guards of the graph. Out: an expression
over sizes that is never less (`most`) or never more (`least`) than one over loop variables, or None
where nothing is known.

Invariants: sizes are not negative; a loop variable lies in its range wherever this is asked, which
is inside the loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailorbird.ir.expr import Dim, Expr, Sym, apply
from tailorbird.ir.node import Guard

NEVER_NEGATIVE = frozenset(("size", "fresh"))
Range = tuple[Dim, Dim]  # from, and the last one


class Bounds:
    """The loops around a place: variables with their ranges, innermost last."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.ranges: dict[Sym, Range] = {}
        self.limits: dict[Sym, Dim] = {}  # the most that a size is that is known late
        self.positive: set[Sym] = set()  # bound values that are of unsigned data
        self.facts = [g.expr for g in guards if g.rel == ">="]

    def enter(self, var: Sym, start: Dim, stop: Dim, step: int) -> None:
        """Inside a loop; it runs, so its last value is not before the first."""
        self.ranges[var] = (start, stop - 1) if step > 0 else (stop + 1, start)
        self.facts.append(stop - start - 1 if step > 0 else start - stop - 1)

    def leave(self, var: Sym) -> None:
        del self.ranges[var]
        self.facts.pop()

    def most(self, x: Dim) -> Dim | None:
        return self._bound(x, True)

    def least(self, x: Dim) -> Dim | None:
        return self._bound(x, False)

    def not_negative(self, x: Dim) -> bool:
        """Whether x >= 0 follows from the ranges and the guards."""
        low = self.least(x)
        if low is None:
            return False
        return _is_sum_of_sizes(low) or any(
            _is_sum_of_sizes(low - fact) for fact in self._outer_facts()
        )

    def apart(self, a: Dim, b: Dim) -> bool:
        """Whether a and b surely differ."""
        return self.not_negative(a - b - 1) or self.not_negative(b - a - 1)

    def _outer_facts(self) -> list[Dim]:
        return [
            x for x in self.facts if isinstance(x, Expr) and not self.ranges.keys() & x.symbols()
        ]

    def _bound(self, x: Dim, up: bool) -> Dim | None:
        """Variables are replaced innermost first, for their ranges speak of the outer ones."""
        found: Dim | None = x
        for var in reversed(self.ranges):
            if found is not None:
                found = self._without(found, var, up)
        if found is None or isinstance(found, int):
            return found
        return self._of_functions(found, up)

    def _without(self, x: Dim, var: Sym, up: bool) -> Dim | None:
        if isinstance(x, int) or var not in x.symbols():
            return x
        low, high = self.ranges[var]
        total: Dim = 0
        for monomial, c in x.terms:
            if not any(sym == var or var in _inside(sym) for sym in monomial):
                total = total + Expr(((monomial, c),))
                continue
            rest = [sym for sym in monomial if sym != var and sym.kind != "op"]
            functions = [sym for sym in monomial if sym.kind == "op"]
            if len(functions) > 1 or not all(s.kind in NEVER_NEGATIVE for s in rest):
                return None
            times = len(monomial) - len(rest) - len(functions)
            if times > 1 and not _is_sum_of_sizes(low):
                return None
            end = high if (c > 0) == up else low
            term: Dim = Expr(((tuple(rest), 1),)) if rest else 1
            for _ in range(times):
                term = term * end
            for sym in functions:
                inner = self._function(sym, (c > 0) == up)
                if inner is None or times:
                    return None
                term = term * inner
            total = total + c * term
        return total

    def _of_functions(self, x: Expr, up: bool) -> Dim | None:
        """Functions and values that are left."""
        total: Dim = 0
        for monomial, c in x.terms:
            if up and c > 0 and any(sym in self.limits for sym in monomial):
                term: Dim = c
                for sym in monomial:
                    term = term * self.limits.get(sym, Expr((((sym,), 1),)))
                total = total + term
                continue
            if (c > 0) != up and len(monomial) == 1 and monomial[0] in self.positive:
                continue
            if all(sym.kind in ("size", "fresh", "int", "stride", "loop") for sym in monomial):
                total = total + Expr(((monomial, c),))
                continue
            if len(monomial) > 1 or monomial[0].kind != "op":
                return None
            inner = self._function(monomial[0], (c > 0) == up)
            if inner is None:
                return None
            total = total + c * inner
        return total

    def _function(self, sym: Sym, up: bool) -> Dim | None:
        a, b = (self._bound(x, up) for x in sym.args)
        if sym.name == "min":
            if up and (a is None or b is None):
                return a if b is None else b
            return None if a is None or b is None else apply("min", a, b)
        if sym.name == "max":
            if not up and (a is None or b is None):
                return a if b is None else b
            return None if a is None or b is None else apply("max", a, b)
        if sym.name == "pow":
            grows = a is not None and b is not None and self.not_negative(sym.args[0] - 1)
            return apply("pow", a, b) if grows else None  # type: ignore[arg-type]
        divisor = sym.args[1]
        if not isinstance(divisor, int) or divisor < 1:
            if sym.name == "mod" and not isinstance(divisor, int):
                top = self.most(divisor)
                return (None if top is None else top - 1) if up else 0
            return None
        if sym.name == "floordiv":
            return None if a is None else apply("floordiv", a, divisor)
        return divisor - 1 if up else 0


def _inside(sym: Sym) -> set[Sym]:
    """The symbols in the arguments of a function."""
    return {s for arg in sym.args if isinstance(arg, Expr) for s in arg.symbols()}


def _is_sum_of_sizes(x: Dim) -> bool:
    """Whether no term can be negative."""
    if isinstance(x, int):
        return x >= 0
    return all(
        c > 0 and all(s.kind in NEVER_NEGATIVE or _is_positive_function(s) for s in m)
        for m, c in x.terms
    )


def _is_positive_function(sym: Sym) -> bool:
    if sym.kind != "op":
        return False
    signs = [_is_sum_of_sizes(a) for a in sym.args]
    return any(signs) if sym.name == "max" else all(signs)
