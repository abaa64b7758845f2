"""Scalars whose type depends on the path that was taken: `s = 0` before a loop that adds floats.

In: scalars that meet where branches join or a loop goes round. Out: one type that holds both, and
the types that the scalar may have instead (`Tracer.loose`).

Invariants: such a scalar is used only where its other types would give the same: the same dtype to
compute in and the same result. Where the results differ in weakness alone, the result is loose too;
anything else is refused. What was converted to the joined type is loose as well. A Python int
becomes a float only if the float is exactly it, and a NumPy integer only if it fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tailorbird.capture.values import Scal
from tailorbird.dataclass import replace
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Operand, Value, type_of
from tailorbird.ir.ops import COMPARISONS
from tailorbird.ir.types import PYTHON_TYPES, WEAK_BOOL, WEAK_FLOAT, Type

if TYPE_CHECKING:
    from tailorbird.capture.tracer import Tracer

KINDS = "bifc"
EXACT_IN_DOUBLE = 2**53
MOST_COMBINATIONS = 16


def possible(t: Tracer, x: Operand) -> tuple[Type, ...]:
    """The types that an operand may have."""
    own = type_of(x)
    return (own, *t.loose.get(x, ())) if isinstance(x, Value) else (own,)


def beside(t: Tracer, x: Any, other: Any) -> Operand:
    """An operand. A Python bool is a number beside what may be a Python number on some path, and no
    NumPy bool beside what may be a Python bool.
    """
    if not isinstance(x, bool) or not isinstance(other, Scal):
        return t.operand(x)
    if not any(kind.weak for kind in t.loose.get(other.value, ())):
        return t.operand(x)
    return x if other.dtype.kind == "b" else int(x)


def joined_type(a: Type, b: Type) -> Type | None:
    """The scalar type that holds both, or None where a value would change."""
    if a == b:
        return a
    if a.shape or b.shape:
        return None
    if a.weak and b.weak:
        wide = a if KINDS.index(a.dtype.kind) > KINDS.index(b.dtype.kind) else b
        return None if "b" in (a.dtype.kind, b.dtype.kind) else wide
    if a.weak or b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        if (weak.dtype.kind == "b") != (strong.dtype.kind == "b"):
            return None
        found = np.result_type(PYTHON_TYPES[weak.dtype.kind](0), strong.dtype)
        return strong if found == strong.dtype else None
    wide_dtype = np.result_type(a.dtype, b.dtype)
    both_float = a.dtype.kind in "fc" and b.dtype.kind in "fc"
    return Type(wide_dtype) if both_float else None


def fitted(t: Tracer, x: Operand, wanted: Type) -> Operand:
    """x as a value of a joined type; a Python int that no double is exactly leaves the graph."""
    found = type_of(x)
    if found == wanted:
        return x
    if found.dtype.kind == "i" and wanted.dtype.kind in "fc":
        _is_exact(t, x, wanted)
    elif found.weak and wanted.dtype.kind in "iu" and found.dtype.kind == "i":
        _holds(t, x, wanted.dtype)
    made = t.emit("cast", [x], {"dtype": wanted.dtype}, replace(wanted, shape=()))
    t.loose[made] = possible(t, x)
    return made


def _holds(t: Tracer, x: Operand, dtype: np.dtype) -> None:
    """A Python int that becomes an integer of NumPy's must fit it."""
    if isinstance(x, Value):
        x = t.bound(x)
    assert isinstance(x, (int, Expr))
    limits = np.iinfo(dtype)
    wide = dtype.itemsize == 8 and isinstance(x, Expr)
    fits = (wide and dtype.kind == "i") or t.at_least(x, int(limits.min))
    if not fits or not (wide or t.at_least(int(limits.max), x)):
        t.refuse("promotion", name=f"{x}, an integer that becomes {dtype},")


def _is_exact(t: Tracer, x: Operand, wanted: Type) -> None:
    single = wanted.dtype in (np.float32, np.complex64)
    most = 2**24 if single else EXACT_IN_DOUBLE
    if isinstance(x, (int, Expr)):
        if not t.at_least(x, -most) or not t.at_least(most, x):
            t.refuse("promotion", name=f"{x}, an integer that becomes a float,")
    elif isinstance(x, Value):
        bound = t.bound(x)
        _is_exact(t, bound, wanted)


def loosen(t: Tracer, value: Operand, types: Sequence[Type]) -> None:
    """Notes the types that a value may have beside its own."""
    others = tuple(dict.fromkeys(k for k in types if k != type_of(value)))
    if others and isinstance(value, Value):
        t.loose[value] = others


def follow(t: Tracer, name: str, operands: Sequence[Operand], value: Value) -> None:
    """Refuses an operation that another type of an operand would change; else types the result."""
    ways = list(product(*(possible(t, x) for x in operands)))
    if len(ways) == 1:
        return
    if len(ways) > MOST_COMBINATIONS:
        t.refuse("promotion", name=f"{name} of scalars of one type or another")
    found = [_result(t, name, way, value.type) for way in ways]
    loosen(t, value, [Type(k.dtype, value.type.shape, k.weak) for k in found])
    if name in ("divide", "floor_divide", "remainder") and any(
        all(k.weak for k in w) for w in ways
    ):
        t.check(operands[1], "!=")


def _result(t: Tracer, name: str, types: tuple[Type, ...], declared: Type) -> Type:
    """The result type for these types of the operands, if it computes the same."""
    if all(k.weak for k in types):
        found = _by_python(name, types)
        same = found is not None and found.dtype == declared.dtype
    else:
        from tailorbird.capture.elementwise import promoted

        taken, dtype = promoted(t, name, types)
        found = Type(dtype)
        same = dtype == declared.dtype
        if name in COMPARISONS:
            whole = all(d.kind == "i" for d in taken)  # which are compared exactly
            same = whole or all(d == np.float64 for d in taken)
    if not same or found is None:
        t.refuse("promotion", name=f"{name} of a scalar of one type or another")
    return found


def _by_python(name: str, types: tuple[Type, ...]) -> Type | None:
    kinds = [k.dtype.kind for k in types]
    if "b" in kinds or "c" in kinds or name == "power":
        return None
    if name in COMPARISONS:
        return WEAK_BOOL
    if name == "divide":
        return WEAK_FLOAT
    return max(types, key=lambda k: KINDS.index(k.dtype.kind))
