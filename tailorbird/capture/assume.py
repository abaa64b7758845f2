"""What capture assumes about sizes and integer arguments, and what it can prove from that.

In: comparisons between exact integer expressions. Out: answers (true, false, or None when nobody
can know before the call), the guards the answers rest on, and a substitution that unifies equal
sizes.

Invariants:
- A comparison is proved, or decided by the values seen (`hints`) under a recorded guard, or None.
- Two sizes that must be equal are unified: one symbol is replaced by an expression, everywhere.
  An equality of argument sizes then shows in the parameters' types and needs no guard of its own.
- A size is never negative; a guard that was recorded is a fact for every later proof.
- What holds only in a region (`local` facts, the `ends` of its symbols) is taken back by `leave`.
- A guard is over sizes and arguments alone; one over loop variables is required of their ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any

from tailorbird.capture.bounds import Ends, is_open, lower_bounds
from tailorbird.ir.expr import (
    Dim,
    Expr,
    Sym,
    apply,
    divide_exactly,
    evaluate,
    replace_product,
    substitute,
)
from tailorbird.ir.node import Guard

NEVER_NEGATIVE = frozenset(("size", "fresh"))


class Assumptions:
    """Hints, facts, guards and solved symbols of one capture."""

    def __init__(self) -> None:
        self.hints: dict[Sym, int] = {}
        self.solved: dict[Sym, Dim] = {}
        self.guards: dict[Guard, None] = {}
        self.facts: list[Dim] = []
        self.local: list[Dim] = []
        self.ends: dict[Sym, Ends] = {}
        self.quotients: dict[Dim, tuple[Dim, Dim]] = {}
        self._proofs: dict[Dim, bool] = {}
        self._canonical: dict[Dim, Dim] = {}

    # regions and attempts

    def enter(self) -> tuple[int, int, dict[Dim, bool]]:
        """Marks the beginning of a region, for `leave`."""
        mark = len(self.local), len(self.ends), self._proofs
        self._proofs = dict(self._proofs)
        return mark

    def leave(self, mark: tuple[int, int, dict[Dim, bool]]) -> None:
        """Forgets what held only in the region since the mark."""
        facts, ends, before = mark
        self._proofs = {e: True for e, proved in before.items() if proved}
        del self.local[facts:]
        while len(self.ends) > ends:
            self.ends.popitem()

    def suppose(self, x: Dim) -> None:
        """x >= 0 from here to the end of the region."""
        if isinstance(x, Expr):
            self.local.append(x)
            self._proofs = {e: True for e, proved in self._proofs.items() if proved}

    def bound(self, sym: Sym, low: Dim | None, high: Dim | None) -> None:
        """A symbol of this region lies between these ends."""
        self.ends[sym] = (low, high)

    def saved(self) -> tuple[Any, ...]:
        """Everything that an abandoned attempt may have assumed, for `restore`."""
        return (
            dict(self.solved), dict(self.guards), list(self.facts), list(self.local),
            dict(self.ends), dict(self.quotients),
        )  # fmt: skip

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Forgets an attempt; the values seen stay."""
        solved, guards, facts, local, ends, quotients = saved
        self.solved, self.guards, self.facts = dict(solved), dict(guards), list(facts)
        self.local, self.ends, self.quotients = list(local), dict(ends), dict(quotients)
        self._proofs = {}
        self._canonical = {}

    # values

    def canon(self, x: Dim) -> Dim:
        """x with every solved symbol replaced."""
        if isinstance(x, int) or not (self.solved or self.quotients):
            return x
        found = self._canonical.get(x)
        if found is None:
            found = self._multiplied_out(substitute(x, self.solved))
            self._canonical[x] = found
        return found

    def hint(self, x: Dim) -> int | None:
        """The value x has in this call, or None when it is known only at run time."""
        if isinstance(x, int):
            return x
        try:
            return evaluate(x, self.hints)
        except (KeyError, ZeroDivisionError):
            return None

    # questions

    def holds(self, x: Dim) -> bool | None:
        """Is x >= 0? Proved, or decided by the hint under a guard."""
        x = self.canon(x)
        if isinstance(x, int):
            return x >= 0
        if self.proved(x):
            return True
        if self.proved(-x - 1):
            return False
        value = self.hint(x)
        if value is not None:
            self._require(x if value >= 0 else -x - 1)
            return value >= 0
        if self._by_ends(x):
            return True
        return False if self._by_ends(-x - 1) else None

    def known(self, x: Dim) -> bool | None:
        """Is x >= 0, as a condition of the program's? Not decided for the sake of one size."""
        x = self.canon(x)
        if self.hint(x) is not None:
            return self.holds(x)
        if self.proved(x):
            return True
        return False if self.proved(-x - 1) else None

    def _by_ends(self, x: Dim) -> bool:
        """x >= 0 for all iterations, by guards on sizes that hold in this call."""
        for base in (x, *(x - self.canon(fact) for fact in self.local)):
            for way in self._ways(base):
                seen = [self.hint(e) for e in way]
                if all(value is not None and value >= 0 for value in seen):
                    for e in way:
                        if not self._follows(e):
                            self._require(e)
                    return True
        return False

    def equal(self, a: Dim, b: Dim) -> bool | None:
        """Is a == b? Equal values are unified; an equality that no symbol solves is None."""
        difference = self.canon(a - b)
        if isinstance(difference, int):
            return difference == 0
        value = self.hint(difference)
        if value is None:
            if self.proved(difference) and self.proved(-difference):
                return True
            return False if self._apart(difference) else None
        if value != 0:
            if not self._apart(difference):
                self.guards[Guard("!=", difference)] = None
            return False
        if self._solve(difference):
            return True
        self._divide(difference)
        return True if self.canon(a) == self.canon(b) else None

    def agrees(self, a: Dim, b: Dim) -> bool | None:
        """Is a == b? Like `equal`, but an equality that no symbol solves is guarded as it is."""
        answer = self.equal(a, b)
        if answer is None and self.hint(a - b) == 0:
            self.guards[Guard("==", self.canon(a - b))] = None
            return True
        return answer

    def proved(self, x: Dim) -> bool:
        """Does x >= 0 follow from the facts alone?"""
        if isinstance(x, int):
            return x >= 0
        known = self._proofs.get(x)
        if known is None:
            known = self._prove(x)
            self._proofs[x] = known
        return known

    # functions that fold by what is known

    def least(self, a: Dim, b: Dim) -> Dim:
        first = self.holds(b - a)
        return apply("min", a, b) if first is None else self.canon(a if first else b)

    def greatest(self, a: Dim, b: Dim) -> Dim:
        first = self.holds(a - b)
        return apply("max", a, b) if first is None else self.canon(a if first else b)

    def pin(self, x: Dim) -> int | None:
        """The value of x, on which the graph is specialised from here on."""
        x = self.canon(x)
        value = self.hint(x)
        if value is None or isinstance(x, int):
            return value
        if not self._solve(x - value):
            self.guards[Guard("==", x - value)] = None
        return value

    def quotient(self, total: Dim, part: Dim) -> Dim:
        """total // part, which has no remainder: under a guard. Times part it is total again."""
        self._leaves(total, part, 0)
        return apply("floordiv", total, part)

    # the end

    def owed(self) -> list[Guard]:
        """The guards that the finished graph relies on, without those that others imply."""
        kept = self._equalities()
        ordered: list[Guard] = []
        for guard in self.guards:
            expr = self.canon(guard.expr)
            if not isinstance(expr, int):
                ordered.append(Guard(guard.rel, expr))
        bounds = list(dict.fromkeys(g for g in ordered if g.rel == ">="))
        strongest = [g for g in bounds if not self._implied(g, bounds)]
        for guard in dict.fromkeys(ordered):
            if guard.rel != ">=" or guard in strongest:
                kept.append(guard)
        return kept

    def _equalities(self) -> list[Guard]:
        """An integer argument that was solved still arrives with every call, to be compared."""
        solved = (
            (Expr((((sym,), 1),)), value) for sym, value in self.solved.items() if sym.kind == "int"
        )
        return [Guard("==", sym - self.canon(value)) for sym, value in solved]

    def _implied(self, guard: Guard, others: Iterable[Guard]) -> bool:
        if self._bounded(guard.expr, 2):
            return True
        for other in others:
            if other is not guard and self._bounded(guard.expr - other.expr, 2):
                return True
        return False

    def _multiplied_out(self, x: Dim) -> Dim:
        """x with `quotient * part` written as the total it came from."""
        for quotient, (total, part) in self.quotients.items():
            if isinstance(x, int):
                return x
            made = substitute(quotient, self.solved)
            if isinstance(made, Expr):
                whole, divisor = (substitute(d, self.solved) for d in (total, part))
                x = replace_product(_in_quotients(x, made, whole, divisor), made * divisor, whole)
        return x

    # proofs

    def _require(self, x: Dim) -> None:
        """Guards x >= 0, divided by the common factor of its terms."""
        assert isinstance(x, Expr)
        factor = gcd(*(c for monomial, c in x.terms if monomial))
        smallest = apply("floordiv", x, factor) if factor > 1 else x
        self.guards[Guard(">=", smallest)] = None
        self.learn(smallest)
        if factor > 1:
            self.learn(x)

    def learn(self, x: Dim) -> None:
        """From here on x >= 0 is a fact."""
        self.facts.append(x)
        self._proofs = {e: True for e, proved in self._proofs.items() if proved}

    def _apart(self, difference: Dim) -> bool:
        return self.proved(difference - 1) or self.proved(-difference - 1)

    def _prove(self, x: Dim) -> bool:
        if self._follows(x):
            return True
        bases = (x, *(x - self.canon(fact) for fact in self.local))
        if any(self._follows(base) for base in bases[1:]):
            return True
        if not any(is_open(sym) for sym in _symbols_of(bases)):
            return False
        return any(all(map(self._follows, way)) for base in bases for way in self._ways(base))

    def _follows(self, x: Dim) -> bool:
        """x >= 0 because its terms are, or by one fact about sizes."""
        if isinstance(x, int) or self._bounded(x, 2):
            return self._bounded(x, 2)
        return any(self._exceeds(x, self.canon(fact)) for fact in self.facts)

    def _exceeds(self, x: Expr, fact: Dim) -> bool:
        """x >= fact because no term of the difference can be negative."""
        known = fact.terms if isinstance(fact, Expr) else (((), fact),)
        left: dict[tuple[Sym, ...], int] = dict(known)
        for monomial, coefficient in x.terms:
            more = coefficient - left.pop(monomial, 0)
            if more < 0 or (more and not self._monomial_positive(monomial)):
                return False
        return all(c <= 0 and (not c or self._monomial_positive(m)) for m, c in left.items())

    def _monomial_positive(self, monomial: tuple[Sym, ...]) -> bool:
        return all(self._never_negative(sym, 2) for sym in monomial)

    def _ways(self, x: Dim) -> Iterable[tuple[Dim, ...]]:
        for way in lower_bounds(self.canon(x), self.ends, self._positive):
            yield tuple(map(self.canon, way))

    def _positive(self, sym: Sym) -> bool:
        return self._never_negative(sym, 2) or self._follows(Expr((((sym,), 1),)))

    def _bounded(self, x: Dim, depth: int) -> bool:
        """x >= 0 because no term of it can be negative."""
        if isinstance(x, int):
            return x >= 0
        for monomial, coefficient in x.terms:
            if coefficient < 0:
                return False
            if not all(self._never_negative(sym, depth) for sym in monomial):
                return False
        return True

    def _never_negative(self, sym: Sym, depth: int) -> bool:
        if sym.kind in NEVER_NEGATIVE:
            return True
        if sym.kind != "op" or depth == 0:
            return False
        signs = [self._bounded(arg, depth - 1) for arg in sym.args]
        if sym.name == "max":
            return any(signs)
        if sym.name == "mod":
            return self._bounded(sym.args[1], depth - 1)
        return all(signs)

    # unification

    def _solve(self, difference: Dim) -> bool:
        """Replaces one symbol so that the difference is zero."""
        if isinstance(difference, int):
            return difference == 0
        difference = divide_exactly(difference, gcd(*(c for _, c in difference.terms))) or 0
        assert isinstance(difference, Expr)
        candidates = [
            (sym.kind != "int", _number(sym), sym, coefficient)
            for (sym, *more), coefficient in _symbolic(difference)
            if not more and abs(coefficient) == 1 and sym.kind in ("int", "size")
        ]
        ordered = sorted(candidates, key=lambda c: (c[0], -c[1]))
        for _, _, sym, coefficient in ordered:
            value = Expr((((sym,), 1),)) - difference * coefficient
            if isinstance(value, int) or sym not in value.symbols():
                self.replace(sym, value)
                return True
        return False

    def _divide(self, difference: Dim) -> None:
        """Guards the remainders of its quotients as seen, and solves what is left of it."""
        assert isinstance(difference, Expr)
        for sym in sorted(difference.symbols(), key=str):
            remainder = self.hint(apply("mod", *sym.args)) if sym.name == "floordiv" else None
            if remainder is not None:
                total, part = sym.args
                self._leaves(total, part, remainder)
                difference = difference * part
        reduced = self.canon(difference)
        if isinstance(reduced, Expr):
            self._solve(self._without_common(reduced))

    def _leaves(self, total: Dim, part: Dim, remainder: int) -> None:
        """Guards that total % part is the remainder; a quotient times part is then without it."""
        if isinstance(part, int) and isinstance(total, Expr):
            constant = dict(total.terms).get((), 0)
            total, remainder = total - constant, (remainder - constant) % part
        rest = apply("mod", total, part) - remainder
        if not isinstance(rest, int):
            self.guards[Guard("==", rest)] = None
        self.quotients[apply("floordiv", total, part)] = (total - remainder, part)
        self._canonical.clear()

    def _without_common(self, x: Expr) -> Dim:
        """x divided by the sizes that every term has, where they are not zero, under a guard."""
        shared = set.intersection(*(set(monomial) for monomial, _ in x.terms))
        result: Dim = x
        for sym in sorted(shared, key=str):
            size = Expr((((sym,), 1),))
            if sym.kind in ("size", "int") and self.hint(size) and self.holds(size - 1):
                result = divide_exactly(result, size) or result
        return result

    def replace(self, sym: Sym, value: Dim) -> None:
        """The symbol is this expression, everywhere."""
        step = {sym: value}
        self.solved = {s: substitute(v, step) for s, v in self.solved.items()}
        self.solved[sym] = value
        self._canonical.clear()
        self._proofs.clear()
        self.facts = [substitute(fact, step) for fact in self.facts]
        if sym.kind in NEVER_NEGATIVE:
            self.facts.append(value)


def _in_quotients(x: Expr, quotient: Expr, total: Dim, part: Dim) -> Dim:
    """x with `(total + c) // part`, and a total beside its quotient, in terms of the quotient."""
    if not isinstance(part, int) or isinstance(total, int):
        return x
    steps: dict[Sym, Dim] = {}
    for (sym, *_), _ in _symbolic(x):
        more = sym.args[0] - total if sym.name == "floordiv" and sym.args[1] == part else None
        if isinstance(more, int):
            steps[sym] = quotient + more // part
    found = substitute(x, steps)
    terms = dict(found.terms) if isinstance(found, Expr) else {}
    first = total.terms[0][0]
    if quotient.terms[0][0] in terms and terms.get(first) and len(first) == 1:
        size = Expr(((first, 1),))
        if isinstance(total - size, int):
            return found + terms[first] * (quotient * part + (size - total) - size)
    return found


def _symbols_of(xs: Iterable[Dim]) -> set[Sym]:
    return {sym for x in xs if isinstance(x, Expr) for sym in x.symbols()}


def _symbolic(x: Expr) -> Iterable[tuple[tuple[Sym, ...], int]]:
    return ((monomial, c) for monomial, c in x.terms if monomial)


def _number(sym: Sym) -> int:
    """Later sizes are replaced first, so that the first argument keeps its names."""
    digits = "".join(c for c in sym.name if c.isdigit())
    return int(digits) if digits else -1
