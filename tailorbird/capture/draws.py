"""Draws from random generators of the caller's: calls that give what was drawn and the next token.

In: a generator, or the one behind `np.random`, and abstract arguments. Out: an array or a
number. What a method gives is known by its row: where its `size` stands, and its dtype.

Invariants: no number is drawn from the caller's generator while reading the function. A function
draws from one generator only, for two names may be one generator whose draws would lose their
order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.assign import assign
from tailorbird.capture.opaque import frozen
from tailorbird.capture.source import Source
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr, Random, Scal, is_number
from tailorbird.ir.draws import DRAW
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Node, Operand, Slot
from tailorbird.ir.types import FLOAT, INT, WEAK_FLOAT, Type
from tailorbird.reasons import why

GLOBAL = Source(("module", "numpy.random.mtrand", "_rand"))
FORMS = {"rand": "random_sample", "randn": "standard_normal"}  # whose arguments are the sizes

# Methods by the place of their `size`.
_REAL = (
    "random random_sample standard_normal standard_exponential standard_cauchy",
    "standard_gamma exponential chisquare standard_t pareto weibull power rayleigh",
    "normal uniform laplace logistic gumbel lognormal vonmises wald beta gamma f"
    " noncentral_chisquare",
    "triangular",
)
_WHOLE = (
    "",
    "poisson geometric logseries zipf",
    "integers randint binomial negative_binomial",
    "hypergeometric",
)
PLACES = {
    name: (place, kind)
    for rows, kind in ((_REAL, FLOAT), (_WHOLE, INT))
    for place, names in enumerate(rows)
    for name in names.split()
}


def draw(t: Tracer, x: Random, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """`x.name(*args, **keywords)`."""
    shown = f"numpy.random.{type(x.live).__name__}.{name}"
    if name in FORMS:
        return draw(t, x, FORMS[name], (), {"size": args} if args else {})
    if name == "shuffle" and len(args) == 1 and not keywords:
        return _shuffle(t, x, args[0])
    given = _given(t, x, name, args, keywords)
    if given is None:
        t.refuse("unsupported_call", name=shown)
    kind, one = given
    operands: list[Operand] = [t.read(x.token)]
    template = (
        (Slot(0), name, *(frozen(t, a, operands) for a in args)),
        tuple((key, frozen(t, a, operands)) for key, a in sorted(keywords.items())),
    )
    attrs = {"function": DRAW, "template": template, "many": True}
    node = Node("call", operands, attrs, [kind, x.token.buffer.type], line=t.place())
    t.region.append(node)
    t.write(x.token, node.outputs[1])
    code = "opaque_call" if t.region.parent is None else "library_routine"
    t.reasons.append(why(code, file=t.file, line=t.line, name=shown))
    return Scal(node.outputs[0]) if one else t.array(node.outputs[0])


def _shuffle(t: Tracer, x: Random, array: Any) -> None:
    """In one dimension it is a permutation, written back."""
    if not isinstance(array, Arr) or array.ndim != 1:
        t.refuse("unsupported_call", name="shuffle of other than an array of rank 1")
    assign(t, array, slice(None), draw(t, x, "permutation", (array,), {}))


# What is drawn


def _given(
    t: Tracer, x: Random, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Type, bool] | None:
    """The type of what a method gives, and whether it is a number; None if that is not known."""
    if name in ("permutation", "permuted", "choice"):
        return _of_choice(t, name, args, keywords)
    if name not in PLACES or "out" in keywords:
        return None
    place, dtype = PLACES[name]
    given = dict(enumerate(args))
    size = given.pop(place, keywords.get("size"))
    kind = given.pop(place + 1, keywords.get("dtype"))
    if kind is not None:
        dtype = t.supported(np.dtype(kind))
    numbers = [a for k, a in keywords.items() if k not in ("size", "dtype", "endpoint", "method")]
    shapes = [_shape(a) for k, a in [*given.items()] if k < place] + [_shape(a) for a in numbers]
    if any(shape is None for shape in shapes):
        return None
    shape = t.broadcast([s for s in shapes if s is not None]) if size is None else _sizes(t, size)
    if shape is None or (size is None and not shape):
        return _of_number(name, dtype, kind) if size is None else None
    return Type(dtype, shape), False


def _of_number(name: str, dtype: np.dtype, kind: Any) -> tuple[Type, bool] | None:
    """One number: a Python float, or of `integers` a NumPy scalar; not a Python int."""
    if name == "integers":
        return Type(dtype), True
    return (WEAK_FLOAT, True) if dtype == FLOAT and kind is None else None


def _of_choice(
    t: Tracer, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Type, bool] | None:
    """Elements of an array, or of range(n)."""
    if not args or not isinstance(args[0], (Arr, int, Expr)) or isinstance(args[0], bool):
        return None
    first = args[0]
    dtype = first.dtype if isinstance(first, Arr) else INT
    if name != "choice":
        if (
            len(args) > 1
            or keywords.keys() - {"axis"}
            or (isinstance(first, Arr) and not first.ndim)
        ):
            return None
        return Type(dtype, t.shape_of(first) if isinstance(first, Arr) else (first,)), False
    size = args[1] if len(args) > 1 else keywords.get("size")
    shape = None if size is None else _sizes(t, size)
    if shape is None or (isinstance(first, Arr) and first.ndim != 1) or "axis" in keywords:
        return None
    return Type(dtype, shape), False


def _shape(x: Any) -> Shape | None:
    """The shape of what stands for a number."""
    if isinstance(x, (Arr, Scal)):
        return x.shape
    return () if is_number(x) or isinstance(x, Expr) else None


def _sizes(t: Tracer, size: Any) -> Shape | None:
    sizes = size if isinstance(size, tuple) else (size,)
    if not all(isinstance(d, (int, Expr)) and not isinstance(d, bool) for d in sizes):
        return None
    if not all(t.at_least(d, 0) for d in sizes):
        t.raises("ValueError: negative dimensions are not allowed")
    return sizes
