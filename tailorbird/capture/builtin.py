"""Python's own functions: len, range, zip, min, sum, float, isinstance, and the math module.

In: abstract values. Out: abstract values. On values that are wholly known they are simply called;
on integers that depend on sizes they are exact; on data they record what NumPy would.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.capture.arith import (
    PYTHON,
    binary,
    concretely,
    condition,
    must_be_finite,
    truth,
    unary,
)
from tailorbird.capture.branches import select
from tailorbird.capture.call import call
from tailorbird.capture.containers import iterate, length
from tailorbird.capture.objects import attribute_of
from tailorbird.capture.registry import handles
from tailorbird.capture.rounds import Rounds
from tailorbird.capture.settle import settled
from tailorbird.capture.tracer import LONGEST_UNROLLED, Tracer
from tailorbird.capture.values import (
    Arr,
    BorrowedDict,
    BorrowedList,
    Joint,
    Obj,
    Partial,
    Scal,
    SymbolicRange,
    exact,
    is_static,
)
from tailorbird.capture.views import index
from tailorbird.ir.expr import Expr, apply
from tailorbird.ir.node import Value
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.types import PYTHON_TYPES, WEAK_BOOL, WEAK_COMPLEX, WEAK_FLOAT, WEAK_INT, Type

PURE = {
    *(str, repr, ord, chr, divmod, pow, round, hash, callable, bytes, frozenset, set, format),
    *(np.finfo, np.iinfo, np.dtype, np.promote_types, np.can_cast),
    *(np.issubdtype, np.min_scalar_type, slice, complex, isinstance, issubclass),
}
REAL = (int, float, np.integer, np.floating)
PURE_MODULES = ("math", "cmath", "operator", "_operator")


@handles(len)
def _len(t: Tracer, x: Any) -> Any:
    return length(t, x)


@handles(range)
def _range(t: Tracer, *bounds: Any) -> Any:
    found = [t.integer(b, "a bound of range") for b in bounds]
    if all(isinstance(b, int) for b in found):
        return concretely(t, range, *found)
    if len(found) == 1:
        return SymbolicRange(0, found[0], 1)
    return SymbolicRange(found[0], found[1], found[2] if len(found) > 2 else 1)


def _is_long(x: Any) -> bool:
    """Whether something is gone over by a loop that is captured, not written out."""
    if isinstance(x, (Arr, Joint, SymbolicRange)):
        return True
    return isinstance(x, range) and len(x) > LONGEST_UNROLLED


def _is_even(x: Any) -> bool:
    return isinstance(x, (Arr, Joint, SymbolicRange, range))


@handles(slice)
def _slice(t: Tracer, *parts: Any) -> Any:
    return concretely(t, slice, *parts) if is_static(parts) else slice(*parts)


@handles(zip)
def _zip(t: Tracer, *parts: Any, strict: Any = False) -> Any:
    if parts and not strict and any(map(_is_long, parts)) and all(map(_is_even, parts)):
        return Joint(parts)
    columns = [iterate(t, p, "zip") for p in parts]
    if strict and len({len(c) for c in columns}) > 1:
        t.raises("ValueError: zip() arguments have different lengths")
    return list(zip(*columns))


@handles(enumerate)
def _enumerate(t: Tracer, items: Any, start: Any = 0) -> Any:
    if _is_long(items):
        return Joint((items,), t.integer(start, "the start of enumerate"))
    return list(enumerate(iterate(t, items, "enumerate"), t.concrete(start)))


@handles(divmod)
def _divmod(t: Tracer, x: Any, y: Any) -> Any:
    return binary(t, "floor_divide", x, y), binary(t, "remainder", x, y)


@handles(reversed)
def _reversed(t: Tracer, items: Any) -> Any:
    if isinstance(items, SymbolicRange):
        step = t.concrete(items.step, "a step")
        count = Rounds(items.start, items.stop, step, lambda t, k: None).count(t)
        last = items.start + (t.assume.greatest(count, 0) - 1) * step
        return SymbolicRange(last, items.start - step, -step)
    if isinstance(items, Arr):
        return index(t, items, slice(None, None, -1))
    return iterate(t, items, "reversed")[::-1]


@handles(list)
def _list(t: Tracer, items: Any = ()) -> Any:
    return iterate(t, items, "list")


@handles(tuple)
def _tuple(t: Tracer, items: Any = ()) -> Any:
    return tuple(iterate(t, items, "tuple"))


@handles(dict)
def _dict(t: Tracer, *items: Any, **named: Any) -> Any:
    first = items[0] if items else {}
    pairs = first.items() if isinstance(first, dict) else iterate(t, first, "dict")
    return {**{t.concrete(k): v for k, v in pairs}, **named}


@handles(map)
def _map(t: Tracer, function: Any, *parts: Any) -> Any:
    rows = zip(*(iterate(t, p, "map") for p in parts))
    return [call(t, function, row, {}) for row in rows]


@handles(filter)
def _filter(t: Tracer, function: Any, items: Any) -> Any:
    found = iterate(t, items, "filter")
    return [x for x in found if truth(t, call(t, function, (x,), {}), "filter")]


@handles(sorted)
def _sorted(t: Tracer, items: Any, reverse: Any = False) -> Any:
    found = t.concrete(iterate(t, items, "sorted"), "what is sorted")
    return concretely(t, lambda: sorted(found, reverse=reverse))


@handles(functools.reduce)
def _reduce(t: Tracer, function: Any, items: Any, *initial: Any) -> Any:
    found = [*initial, *iterate(t, items, "reduce")]
    if not found:
        t.raises("TypeError: reduce() of empty iterable")
    return functools.reduce(lambda a, b: call(t, function, (a, b), {}), found)


@handles(functools.partial)
def _partial(t: Tracer, function: Any, *args: Any, **keywords: Any) -> Partial:
    return Partial(function, args, keywords)


# Numbers


@handles(abs)
def _abs(t: Tracer, x: Any) -> Any:
    return unary(t, "absolute", x)


@handles(sum)
def _sum(t: Tracer, items: Any, start: Any = 0) -> Any:
    total = start
    for item in iterate(t, items, "sum"):
        total = binary(t, "add", total, item)
    return total


def _better(t: Tracer, name: str, item: Any, best: Any) -> Any:
    """The item if it is less (or greater) than the best so far."""
    test = condition(t, binary(t, "less" if name == "min" else "greater", item, best), name)
    if not isinstance(test, Value):
        return item if test else best
    if isinstance(item, (int, Expr)) and isinstance(best, (int, Expr)):
        return apply(name, item, best)
    return select(t, t.frames[-1], test, lambda: item, lambda: best)


def _extreme(name: str) -> Any:
    def handler(t: Tracer, *items: Any) -> Any:
        found = iterate(t, items[0], name) if len(items) == 1 else list(items)
        if not found:
            t.raises(f"ValueError: {name}() arg is an empty sequence")
        best = found[0]
        for item in found[1:]:
            best = _better(t, name, item, best)
        return best

    return handler


handles(min)(_extreme("min"))
handles(max)(_extreme("max"))


@handles(any)
def _any(t: Tracer, items: Any) -> bool:
    return any(truth(t, x, "any") for x in iterate(t, items, "any"))


@handles(all)
def _all(t: Tracer, items: Any) -> bool:
    return all(truth(t, x, "all") for x in iterate(t, items, "all"))


@handles(bool)
def _bool(t: Tracer, x: Any = False) -> Any:
    test = condition(t, x, "bool()")
    if not isinstance(test, Value):
        return test
    if test.type == WEAK_BOOL:
        return Scal(test)
    return Scal(t.emit("cast", [test], {"dtype": test.type.dtype}, WEAK_BOOL))


@handles(int)
def _int(t: Tracer, x: Any = 0) -> Any:
    if isinstance(x, Expr):
        return x
    if isinstance(x, Scal):
        found = exact(x.value)
        if found is not None:
            return t.assume.canon(found)
        known = settled(t, x)
        return _int_of_data(t, x) if known is None else concretely(t, int, known)
    if isinstance(x, Arr):
        t.refuse("data_dependent_value", name="int()")
    return concretely(t, int, x)


def _int_of_data(t: Tracer, x: Scal) -> Expr:
    """A scalar cut to an exact integer; what int64 does not hold leaves the graph."""
    if x.dtype.kind == "c":
        t.raises("TypeError: int() of a complex number")
    if x.dtype.kind in "iu":
        return t.bound(x.value)
    if x.dtype.kind == "f":
        size = t.emit("absolute", [x.value], None, x.type)
        bound = x.dtype.type(2**63)
        inside = t.emit("less", [size, float(bound) if x.type.weak else bound], None, _bool_like(x))
        t.check(inside, "!=")
    return t.bound(t.emit("cast", [x.value], {"dtype": WEAK_INT.dtype}, WEAK_INT))


def _bool_like(x: Scal) -> Type:
    return Type(np.dtype(bool), weak=x.type.weak)


@handles(float)
def _float(t: Tracer, x: Any = 0.0) -> Any:
    if isinstance(x, Scal) and x.type.weak and x.dtype.kind == "f":
        return x
    if isinstance(x, Arr) and x.shape:
        t.raises("TypeError: only length-1 arrays can be converted to Python scalars")
    if isinstance(x, (Scal, Expr, Arr)):
        value = t.operand(x)
        kind = getattr(x, "dtype", np.dtype(np.int64)).kind
        if kind == "c":
            t.raises("TypeError: float() of a complex number")
        return Scal(t.emit("cast", [value], {"dtype": WEAK_FLOAT.dtype}, WEAK_FLOAT))
    return concretely(t, float, x)


@handles(isinstance)
def _isinstance(t: Tracer, x: Any, kinds: Any) -> bool:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if not all(isinstance(k, type) for k in wanted):
        t.refuse("unsupported_call", name="isinstance")
    kind = type_of_value(t, x)
    plain: Any = type.__instancecheck__
    for wish in wanted:
        if type(wish).__instancecheck__ is not plain and not _is_known_abc(wish):
            t.refuse("unsupported_call", name=f"isinstance with {wish.__name__}")
    return issubclass(kind, wanted)


def _is_known_abc(kind: type) -> bool:
    return kind.__module__ in ("numbers", "collections.abc", "typing")


@handles(type)
def type_of_value(t: Tracer, x: Any) -> type:
    """The Python type that an abstract value has."""
    if isinstance(x, Arr):
        return np.ndarray
    if isinstance(x, Scal):
        if x.type.weak:
            return {"f": float, "c": complex, "b": bool}[x.dtype.kind]
        return x.dtype.type
    if isinstance(x, Expr):
        return int
    if isinstance(x, BorrowedList):
        return list
    if isinstance(x, BorrowedDict):
        return dict
    if isinstance(x, Obj):
        t.statics[x.source.ask("type")] = type(x.live)
        return type(x.live)
    if not isinstance(
        x, (int, float, complex, str, bytes, tuple, list, dict, type(None), np.generic)
    ):
        t.refuse("unsupported_call", name="type() of such a value")
    return type(x)


@handles(getattr)
def _getattr(t: Tracer, x: Any, name: Any, *default: Any) -> Any:
    if default and not _hasattr(t, x, name):
        return default[0]
    return attribute_of(t, x, t.concrete(name))


@handles(hasattr)
def _hasattr(t: Tracer, x: Any, name: Any) -> bool:
    kind = type_of_value(t, x)
    if isinstance(x, Obj):
        t.unkept = "the attributes of an object were asked for"
        return hasattr(kind, name) or name in getattr(x.live, "__dict__", {})
    return hasattr(kind, name)


@handles(complex)
def _complex(t: Tracer, *parts: Any) -> Any:
    if is_static(parts):
        return concretely(t, complex, *parts)
    if len(parts) == 1 and isinstance(parts[0], Scal):
        value = t.operand(parts[0])
        return Scal(t.emit("cast", [value], {"dtype": WEAK_COMPLEX.dtype}, WEAK_COMPLEX))
    if len(parts) == 2 and all(issubclass(type_of_value(t, x), REAL) for x in parts):
        halves = [t.operand(_float(t, x)) for x in parts]
        return Scal(t.emit("complex", halves, None, WEAK_COMPLEX))
    t.refuse("unsupported_call", name="complex() of data")


def _left_out(name: str) -> Callable[..., Any]:
    def refuse(t: Tracer, *args: Any, **keywords: Any) -> Any:
        t.refuse("unsupported_call", name=f"{name}()")

    return refuse


for _each in (
    print,
    input,
    open,
    eval,
    exec,
    globals,
    locals,
    vars,
    setattr,
    delattr,
    id,
    iter,
    next,
):
    handles(_each)(_left_out(_each.__name__))


@handles(np.result_type)
def _result_type(t: Tracer, *parts: Any) -> np.dtype:
    found = [p.dtype if isinstance(p, Arr) else _type_entry(p) for p in parts]
    if LEGACY and not all(isinstance(p, (Arr, np.dtype, type)) for p in parts):
        t.refuse("promotion", name="np.result_type of values")
    return concretely(t, lambda: np.result_type(*found))


def _type_entry(x: Any) -> Any:
    """What stands for a value in promotion: a dtype, or a Python number when it is weak."""
    if isinstance(x, Scal):
        return PYTHON_TYPES[x.dtype.kind]() if x.type.weak else x.dtype
    return 0 if isinstance(x, Expr) else x


# math: where Python may raise, a check keeps the result finite

CIRCULAR = {math.sin: "sin", math.cos: "cos", math.tan: "tan"}
BOUNDED = {
    math.atan: "arctan",
    math.tanh: "tanh",
    math.asinh: "arcsinh",
    math.fabs: "absolute",
    math.degrees: "degrees",
    math.radians: "radians",
    math.erf: "erf",
}
OVERFLOWS = {math.exp: "exp", math.sinh: "sinh", math.cosh: "cosh", math.expm1: "expm1"}
POSITIVE = {math.log: "log", math.log2: "log2", math.log10: "log10"}


def _on_scalar(name: str, guard: str) -> Any:
    def handler(t: Tracer, x: Any) -> Any:
        if not isinstance(x, (Scal, Expr, Arr)):
            return concretely(t, getattr(math, _PYTHON_NAMES[name]), x)
        if isinstance(x, Arr) or (isinstance(x, Scal) and x.dtype.kind == "c"):
            t.refuse("unsupported_call", name=f"math.{_PYTHON_NAMES[name]} of an array")
        value = t.operand(_float(t, x))
        return _GUARDED[guard](t, name, x, value)

    return handler


def _total(t: Tracer, name: str, x: Any, value: Any) -> Scal:
    return Scal(t.emit(name, [value], None, WEAK_FLOAT))


def _finite_result(t: Tracer, name: str, x: Any, value: Any) -> Scal:
    """Python raises where the result is infinite or nan."""
    result = t.emit(name, [value], None, WEAK_FLOAT)
    must_be_finite(t, result)
    return Scal(result)


_GUARDED = {"total": _total, "finite": _finite_result}
_FORMS = {
    "finite": {**CIRCULAR, **OVERFLOWS, **POSITIVE, math.sqrt: "sqrt", math.log1p: "log1p"},
    "total": BOUNDED,
}
_PYTHON_NAMES = {name: f.__name__ for forms in _FORMS.values() for f, name in forms.items()}
for _guard, _forms in _FORMS.items():
    for _function, _name in _forms.items():
        handles(_function)(_on_scalar(_name, _guard))


def _rounding(function: Any, op: str) -> Any:
    def handler(t: Tracer, x: Any, *digits: Any) -> Any:
        if isinstance(x, Expr) and not digits:
            return x
        strong = isinstance(x, Scal) and not x.type.weak
        if function is math.trunc and strong and x.dtype != np.float64:
            t.raises(f"TypeError: {x.dtype} has no method __trunc__")
        known = settled(t, x) if isinstance(x, (Scal, Arr)) else x
        if known is None and isinstance(x, Scal) and x.dtype.kind in "iuf" and not digits:
            whole = x.dtype.kind in "iu"
            return _int_of_data(t, x if whole else Scal(t.emit(op, [x.value], None, x.type)))
        if digits and (known is None or not is_static(digits)):
            t.refuse("unsupported_call", name="round() of data to some digits")
        if known is None:
            t.refuse("data_dependent_value", name=f"{function.__name__}()")
        return concretely(t, function, known, *digits)

    return handler


TO_INTEGERS = {math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc", round: "rint"}
for _rounds, _op in TO_INTEGERS.items():
    handles(_rounds)(_rounding(_rounds, _op))


@handles(math.prod)
def _prod(t: Tracer, items: Any, *, start: Any = 1) -> Any:
    total = start
    for item in iterate(t, items, "math.prod"):
        total = binary(t, "multiply", total, item)
    return total


def is_pure(function: Any) -> bool:
    """Whether a function may be called while capturing, on values that are wholly known."""
    try:
        if function in PURE:
            return True
    except TypeError:
        return False
    module = getattr(function, "__module__", None)
    return module in PURE_MODULES


def _operator(name: str) -> Any:
    if name in ("negative", "positive", "invert"):
        return lambda t, a: unary(t, name, a)
    return lambda t, a, b: binary(t, name, a, b)


for _op, _python in PYTHON.items():
    if _op != "absolute":
        handles(_python)(_operator(_op))
