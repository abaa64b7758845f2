"""Exact integer expressions: array sizes, Python ints, indices and trip counts are all one thing.

A constant is a plain `int`. Everything else is an `Expr`, a polynomial over symbols with integer
coefficients. What is not a polynomial (`//`, `%`, `min`, `max`) is a symbol of kind `op` that names
an exact function of other expressions, so equality stays structural and the value can always be
computed. Symbols are interned by name: equal text is the equal expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tailorbird.dataclass import dataclass, field

FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
}


@dataclass(frozen=True)
class Sym:
    """A symbol of one of six kinds.

    `size` is a dimension of an argument, `int` an integer argument, `loop` a loop variable, `fresh`
    is known only at run time (bound by the value whose type shows it), `value` is what an integer
    is at run time (bound by a `bind` node, and it may be negative), `op` is a function.
    """

    name: str
    kind: str = "size"
    args: tuple[Dim, ...] = ()
    _text: str = field(default="", compare=False, repr=False)
    _hash: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        inside = f"({','.join(map(str, self.args))})" if self.kind == "op" else ""
        object.__setattr__(self, "_text", self.name + inside)
        object.__setattr__(self, "_hash", hash((self.name, self.kind, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text


LARGEST_EXPONENT = 64  # up to here, a constant power is a product
Monomial = tuple[Sym, ...]


@dataclass(frozen=True)
class Expr:
    """A polynomial: sorted (monomial, coefficient) pairs, built only by operators and `symbol`."""

    terms: tuple[tuple[Monomial, int], ...]
    _hash: int = field(default=0, compare=False, repr=False)
    _symbols: frozenset[Sym] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return self._plus(other)
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _build(total)

    __radd__ = __add__

    def _plus(self, number: int) -> Expr:
        """The sum with a number: the constant stands last."""
        if not number:
            return self
        *others, last = self.terms
        if last[0]:
            return Expr((*self.terms, ((), number)))
        number += last[1]
        return Expr((*others, ((), number)) if number else tuple(others))

    def __neg__(self) -> Expr:
        return Expr(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Dim) -> Dim:
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return (-self) + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return Expr(tuple((m, c * other) for m, c in self.terms)) if other else 0
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in _terms(other):
                key = tuple(sorted(m + n, key=str)) if m and n else m or n
                if any(sym.name == "pow" for sym in key):
                    key = _one_power(key)
                total[key] = total.get(key, 0) + c * d
        return _build(total)

    __rmul__ = __mul__

    def symbols(self) -> frozenset[Sym]:
        """Every symbol in the expression, those inside function arguments too."""
        if self._symbols is None:
            object.__setattr__(self, "_symbols", frozenset(self._found()))
        assert self._symbols is not None
        return self._symbols

    def _found(self) -> set[Sym]:
        found: set[Sym] = set()
        for monomial, _ in self.terms:
            for sym in monomial:
                found.add(sym)
                for arg in sym.args:
                    if isinstance(arg, Expr):
                        found |= arg.symbols()
        return found

    def __str__(self) -> str:
        text = ""
        for monomial, c in self.terms:
            body = "*".join(map(str, monomial))
            size = str(abs(c)) if not monomial else body if abs(c) == 1 else f"{abs(c)}*{body}"
            text += ("-" if c < 0 else "+" if text else "") + size
        return text

    __repr__ = __str__


Dim = int | Expr


def _terms(x: Dim) -> Iterable[tuple[Monomial, int]]:
    return x.terms if isinstance(x, Expr) else (((), x),)


def _build(total: Mapping[Monomial, int]) -> Dim:
    kept = {m: c for m, c in total.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    if len(kept) == 1:
        return Expr(tuple(kept.items()))
    return Expr(tuple(sorted(kept.items(), key=_place)))


def _place(term: tuple[Monomial, int]) -> tuple[bool, list[str]]:
    """Where a term stands: by its symbols, the constant last."""
    monomial, _ = term
    return not monomial, [sym._text for sym in monomial]


def _one_power(monomial: Monomial) -> Monomial:
    """`b * pow(b, x) * pow(b, y)` as `pow(b, x + y + 1)`: exponents are never negative."""
    exponents: dict[Dim, Dim] = {}
    others: list[Sym] = []
    for sym in monomial:
        if sym.name == "pow" and sym.kind == "op":
            base, exponent = sym.args
            exponents[base] = exponents.get(base, 0) + exponent
        else:
            others.append(sym)
    for base, exponent in exponents.items():
        bare = base.terms[0][0] if isinstance(base, Expr) and len(base.terms) == 1 else ()
        if len(bare) == 1 and base == Expr(((bare, 1),)):
            exponent = exponent + others.count(bare[0])
            others = [sym for sym in others if sym != bare[0]]
            if isinstance(exponent, int):
                others += [bare[0]] * exponent
                continue
        others.append(Sym("pow", "op", (base, exponent)))
    return tuple(sorted(others, key=str))


def symbol(name: str, kind: str = "size") -> Expr:
    """The expression that is one symbol."""
    return Expr((((Sym(name, kind),), 1),))


def apply(name: str, *args: Dim) -> Dim:
    """A function of expressions: folded when constant or divisible, else a symbol of kind `op`."""
    if all(isinstance(a, int) for a in args):
        return FUNCTIONS[name](*args)
    if name in ("min", "max") and args[0] == args[1]:
        return args[0]
    if name == "pow" and isinstance(args[1], int) and 0 <= args[1] <= LARGEST_EXPONENT:
        return product([args[0]] * args[1])
    if name in ("floordiv", "mod") and isinstance(args[1], int) and args[1]:
        return _divided(name, args[0], args[1])
    return Expr((((Sym(name, "op", tuple(args)),), 1),))


def _divided(name: str, x: Dim, divisor: int) -> Dim:
    """`x // d` or `x % d`: with x = d*q + r, these are q + r // d and r % d."""
    whole = _build({m: c // divisor for m, c in _terms(x) if c % divisor == 0})
    rest = _build({m: c for m, c in _terms(x) if c % divisor})
    if isinstance(rest, int):
        left: Dim = FUNCTIONS[name](rest, divisor)
    else:
        left = Expr((((Sym(name, "op", (rest, divisor)),), 1),))
    return whole + left if name == "floordiv" else left


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes."""
    total: Dim = 1
    for d in dims:
        total = total * d
    return total


def divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """a / b when b divides every term of a, else None."""
    if isinstance(b, int):
        if b == 0 or any(c % b for _, c in _terms(a)):
            return None
        return _build({m: c // b for m, c in _terms(a)})
    if len(b.terms) != 1 or isinstance(a, int):
        return 1 if a == b else 0 if a == 0 else None
    divisor, coefficient = b.terms[0]
    quotient: dict[Monomial, int] = {}
    for monomial, c in a.terms:
        rest = list(monomial)
        for sym in divisor:
            if sym not in rest:
                return None
            rest.remove(sym)
        if c % coefficient:
            return None
        quotient[tuple(rest)] = c // coefficient
    return _build(quotient)


def replace_product(x: Dim, factors: Dim, total: Dim) -> Dim:
    """x with every multiple of a one-term product replaced by the same multiple of the total."""
    if isinstance(x, int) or isinstance(factors, int) or len(factors.terms) != 1:
        return x
    result: Dim = 0
    for monomial, coefficient in x.terms:
        term = Expr(((monomial, coefficient),)) if monomial else coefficient
        times = divide_exactly(term, factors)
        result = result + (term if times is None else times * total)
    return result


def substitute(x: Dim, values: Mapping[Sym, Dim]) -> Dim:
    """x with symbols replaced, inside function arguments too."""
    if isinstance(x, int):
        return x
    if values.keys().isdisjoint(x.symbols()):
        return x
    kept: dict[Monomial, int] = {}
    changed: Dim = 0
    for monomial, c in x.terms:
        if not any(_mentions(sym, values) for sym in monomial):
            kept[monomial] = c
            continue
        term: Dim = c
        for sym in monomial:
            term = term * _substitute_symbol(sym, values)
        changed = changed + term
    return _build(kept) + changed


def _mentions(sym: Sym, values: Mapping[Sym, Dim]) -> bool:
    if sym in values:
        return True
    inner = (arg for arg in sym.args if isinstance(arg, Expr))
    return any(not values.keys().isdisjoint(arg.symbols()) for arg in inner)


def _substitute_symbol(sym: Sym, values: Mapping[Sym, Dim]) -> Dim:
    if sym in values:
        return values[sym]
    if sym.kind == "op":
        return apply(sym.name, *(substitute(a, values) for a in sym.args))
    return Expr((((sym,), 1),))


def evaluate(x: Dim, values: Mapping[Sym, int]) -> int:
    """The number x stands for."""
    if isinstance(x, int):
        return x
    total = 0
    for monomial, c in x.terms:
        for sym in monomial:
            c *= _number(sym, values)
        total += c
    return total


def _number(sym: Sym, values: Mapping[Sym, int]) -> int:
    if sym in values:
        return values[sym]
    if sym.kind != "op":
        raise KeyError(f"no value for {sym}")
    return FUNCTIONS[sym.name](*(evaluate(arg, values) for arg in sym.args))
