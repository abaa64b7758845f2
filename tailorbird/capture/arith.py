"""Operators: on arrays and NumPy scalars, on Python scalars that depend on data, and on integers.

In: abstract values. Out: abstract values, with the nodes, guards and checks that make them right.

Invariants: an operation whose operands are all Python scalars keeps Python's rules: its result is
weak, and where Python would raise (division by zero, overflow of a power) a check leaves for plain
Python. An operation of integers is exact; a comparison of integers is decided, under a guard.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailorbird.capture.elementwise import (
    HALF_IS_SQRT,
    OPERATOR_ROOTS,
    elementwise,
    map_value,
    ordered_scalars,
    root_at_half,
)
from tailorbird.capture.loose import beside, follow
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import SYMBOLIC, Arr, Scal, is_static, kind_name
from tailorbird.capture.views import makes_contiguous
from tailorbird.ir.expr import Dim, Expr, apply
from tailorbird.ir.node import Operand, Value, type_of
from tailorbird.ir.ops import COMPARISONS
from tailorbird.ir.types import WEAK_BOOL, WEAK_COMPLEX, WEAK_FLOAT, WEAK_INT, Type

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.MatMult: "matmul",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
UNARY: dict[type[ast.AST], str] = {
    ast.USub: "negative",
    ast.UAdd: "positive",
    ast.Invert: "invert",
}
PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "matmul": operator.matmul,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "negative": operator.neg,
    "positive": operator.pos,
    "invert": operator.invert,
    "absolute": abs,
}
PLAIN = (int, float, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice)
PLAIN += (type(None), type(Ellipsis), np.generic, np.dtype, type)  # type: ignore[assignment]
OF_COMPLEX = {"add", "subtract", "multiply", "divide", "power", "negative", "positive"}
OF_COMPLEX |= {"absolute", "equal", "not_equal"}
ORDERINGS = COMPARISONS - {"equal", "not_equal"}
NOT_SCALARS = (Arr, list, tuple)
LOGICAL = {"bitwise_and", "bitwise_or", "bitwise_xor"}
OF_FLOATS = OF_COMPLEX | COMPARISONS | {"floor_divide", "remainder"}
DOUBLE = Type(np.dtype(np.float64))
FAST_POWERS = {(int, 2): "square", (int, -1): "reciprocal", (float, 0.5): "sqrt"}


# Python operators


def binary(t: Tracer, name: str, a: Any, b: Any) -> Any:
    """`a op b` as Python evaluates it."""
    if isinstance(a, (Arr, Scal)) or isinstance(b, (Arr, Scal)):
        return _on_data(t, name, a, b)
    if isinstance(a, Expr) or isinstance(b, Expr):
        return _on_integers(t, name, a, b)
    if name in COMPARISONS and not (is_static(a) and is_static(b)):
        return _compare_containers(t, name, a, b)
    return concretely(t, PYTHON[name], a, b)


def _compare_containers(t: Tracer, name: str, a: Any, b: Any) -> Any:
    """`a op b` where sizes or data stand in tuples or lists: decided by the first that differ."""
    if not isinstance(a, (tuple, list)) or type(a) is not type(b):
        if name in ("equal", "not_equal") and {type(a), type(b)} == {tuple, list}:
            return name == "not_equal"
        kinds = f"{kind_name(a)} and {kind_name(b)}"
        t.refuse("unsupported_type", name=f"an operand of {name}", type=kinds)
    if name in ("equal", "not_equal") and len(a) != len(b):
        return name == "not_equal"
    for x, y in zip(a, b):
        if not truth(t, binary(t, "equal", x, y), "items of sequences that are compared"):
            return name == "not_equal" if name in ("equal", "not_equal") else binary(t, name, x, y)
    return concretely(t, PYTHON[name], len(a), len(b))


def unary(t: Tracer, name: str, x: Any) -> Any:
    """`-x`, `+x`, `~x` and `abs(x)`."""
    if _is_truth(x):
        return unary(t, name, _counted(t, x))
    if isinstance(x, Scal) and x.type.weak:
        return _weak(t, name, [x.value])
    if isinstance(x, (Arr, Scal)):
        return elementwise(t, name, [x])
    if isinstance(x, Expr):
        if name == "absolute":
            return _absolute(t, x)
        return {"negative": -x, "positive": x, "invert": -x - 1}[name]
    return concretely(t, PYTHON[name], x)


def _absolute(t: Tracer, x: Expr) -> Dim:
    positive = t.assume.known(x)
    if positive is None:
        return apply("max", x, -x)
    return x if positive else -x


def concretely(t: Tracer, function: Callable[..., Any], *args: Any) -> Any:
    """Computes with values that are wholly known; an exception is left to plain Python."""
    for arg in args:
        if not isinstance(arg, PLAIN):
            t.refuse("unsupported_type", name="an operand", type=kind_name(arg))
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    except (ArithmeticError, TypeError, ValueError, LookupError) as error:
        t.raises(f"{type(error).__name__}: {error}")


def _on_data(t: Tracer, name: str, a: Any, b: Any) -> Any:
    if name == "matmul":
        from tailorbird.capture.products import matmul

        return matmul(t, a, b)
    for x in (a, b):
        if not isinstance(x, (*SYMBOLIC, int, float, complex, np.generic, list, tuple)):
            return _with_object(t, name, x)
    if name == "power" and isinstance(a, Arr):
        fast = _fast_power(t, a, b)
        if fast is not None:
            return elementwise(t, fast, [a])
    if isinstance(b, Scal) and b.type == DOUBLE and _is_python_complex(a):
        b = Scal(t.emit("cast", [b.value], {"dtype": DOUBLE.dtype}, WEAK_FLOAT))
    elif type(b) is np.float64 and _is_python_complex(a):
        b = float(b)
    operands = [beside(t, a, b), beside(t, b, a)]
    if _python_only(a, b) and all(type_of(x).weak or isinstance(x, np.bool_) for x in operands):
        if _is_truth(a) or _is_truth(b):
            return _on_truths(t, name, a, b)
        numbers = [int(x) if isinstance(x, np.bool_) else x for x in operands]
        return _weak(t, name, numbers)
    value = None
    if name in ORDERINGS and not isinstance(a, NOT_SCALARS) and not isinstance(b, NOT_SCALARS):
        value = ordered_scalars(t, name, (a, b))
    value = map_value(t, name, operands) if value is None else value
    if name == "power" and isinstance(a, Arr) and a.dtype.kind == "f" and not HALF_IS_SQRT:
        exponent = type_of(operands[1])
        if (exponent.weak or OPERATOR_ROOTS) and isinstance(value, Value):
            value = root_at_half(t, operands, exponent, value)
    return makes_contiguous(t.result(value), (a, b))


def _fast_power(t: Tracer, a: Arr, b: Any) -> str | None:
    """NumPy's operator has another function for some exponents; of bools, with another dtype."""
    if a.dtype.kind == "b" and isinstance(b, (int, Expr)):
        t.refuse("promotion", name="a power of a bool array")
    if a.dtype.kind not in "fc" or not isinstance(b, (int, float)):
        return None
    return FAST_POWERS.get((type(b), b))


def _is_python_complex(x: Any) -> bool:
    """Python's complex takes np.float64 on its right for the float that it is."""
    return type(x) is complex or (isinstance(x, Scal) and x.type == WEAK_COMPLEX)


def _python_only(a: Any, b: Any) -> bool:
    return not isinstance(a, (Arr, np.generic)) and not isinstance(b, (Arr, np.generic))


def _with_object(t: Tracer, name: str, x: Any) -> Any:
    """An array beside something that is not a number: only None is compared now and then."""
    t.refuse("unsupported_type", name=f"an operand of {name}", type=kind_name(x))


def _weak(t: Tracer, name: str, operands: Sequence[Operand]) -> Scal:
    """An operation of Python scalars, by Python's rules."""
    kinds = {type_of(x).dtype.kind for x in operands}
    if "b" in kinds:
        t.refuse("unsupported_type", name=f"an operand of {name}", type="bool of data")
    is_complex = "c" in kinds
    if name not in (OF_COMPLEX if is_complex else OF_FLOATS):
        t.raises(f"TypeError: {name} of such Python numbers")
    if name in ("divide", "floor_divide", "remainder"):
        _not_zero(t, operands[1])
    result = WEAK_COMPLEX if is_complex else WEAK_FLOAT
    if name in COMPARISONS:
        result = WEAK_BOOL
    elif name == "absolute":
        result = WEAK_FLOAT
    value = t.emit(name, operands, None, result)
    if t.loose:
        follow(t, name, operands, value)
    if name == "power":
        _power_is_finite(t, value, is_complex)
    return Scal(value)


def _is_truth(x: Any) -> bool:
    """Whether this is a Python bool that data decides."""
    return isinstance(x, Scal) and x.type == WEAK_BOOL


def _on_truths(t: Tracer, name: str, a: Any, b: Any) -> Any:
    """Python's bools are bools under `&`, `|` and `^` among themselves, and integers else."""
    if name in LOGICAL and all(_is_truth(x) or isinstance(x, bool) for x in (a, b)):
        return Scal(t.emit(name, [t.operand(a), t.operand(b)], None, WEAK_BOOL))
    return binary(t, name, _counted(t, a), _counted(t, b))


def _counted(t: Tracer, x: Any) -> Any:
    """A Python bool as the integer that it is."""
    if not _is_truth(x):
        return x
    return t.bound(t.emit("cast", [x.value], {"dtype": WEAK_INT.dtype}, WEAK_INT))


def _not_zero(t: Tracer, x: Operand) -> None:
    if isinstance(x, Expr):
        zero = t.assume.agrees(x, 0)
        if zero is None:
            t.check(t.assume.canon(x), "!=")
        elif zero:
            t.raises("ZeroDivisionError")
    elif isinstance(x, Value):
        t.check(x, "!=")
    elif x == 0:
        t.raises("ZeroDivisionError")


def _power_is_finite(t: Tracer, value: Value, is_complex: bool) -> None:
    """Python raises on overflow and turns complex where NumPy gives inf and nan."""
    if is_complex:
        t.refuse("promotion", name="a power of Python complex numbers")
    must_be_finite(t, value)


def must_be_finite(t: Tracer, value: Value) -> None:
    """`x - x` is 0 unless x is infinite or nan."""
    t.check(t.emit("subtract", [value, value], None, WEAK_FLOAT), "==")


# Integers


def _on_integers(t: Tracer, name: str, a: Any, b: Any) -> Any:
    a, b = (int(x) if isinstance(x, bool) else x for x in (a, b))
    if isinstance(a, (int, Expr)) and isinstance(b, (int, Expr)):
        return integers(t, name, t.assume.canon(a), t.assume.canon(b))
    if isinstance(a, np.generic) or isinstance(b, np.generic):
        return t.result(map_value(t, name, [t.operand(a), t.operand(b)]))
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return _repeated(t, name, a, b)
    if name in COMPARISONS and isinstance(a, float):
        return _against_float(t, _MIRRORED[name], b, a)
    if name in COMPARISONS and isinstance(b, float):
        return _against_float(t, name, a, b)
    if isinstance(a, (float, complex)) or isinstance(b, (float, complex)):
        return _weak(t, name, [a, b])
    if name in ("equal", "not_equal"):
        return name == "not_equal"
    t.raises(f"TypeError: {name} of int and {type(b).__name__}")


def _repeated(t: Tracer, name: str, a: Any, b: Any) -> Any:
    if name != "multiply":
        t.raises(f"TypeError: {name} of a sequence and an int")
    return t.concrete(a) * b if isinstance(a, Expr) else a * t.concrete(b)


def integers(t: Tracer, name: str, a: Dim, b: Dim) -> Any:
    """`a op b` for exact integers."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return concretely(t, PYTHON[name], a, b)
    if name in COMPARISONS:
        return _compare_integers(t, name, a, b)
    if name in ("add", "subtract", "multiply"):
        return PYTHON[name](a, b)
    if name in ("floor_divide", "remainder", "divide"):
        _not_zero(t, b)
        if name == "divide":
            return Scal(t.emit("divide", [a, b], None, WEAK_FLOAT))
        return apply("floordiv" if name == "floor_divide" else "mod", a, b)
    if name == "power":
        return _integer_to_power(t, a, b)
    if t.assume.hint(a) is None or t.assume.hint(b) is None:
        return _bits(t, name, a, b)
    return concretely(t, PYTHON[name], t.concrete(a), t.concrete(b))


def _bits(t: Tracer, name: str, a: Dim, b: Dim) -> Dim:
    """An operation on the bits of integers that are known only at run time."""
    if name in ("left_shift", "right_shift"):
        if not t.at_least(b, 0):
            t.raises("ValueError: negative shift count")
        power = 2**b if isinstance(b, int) else apply("pow", 2, b)
        return a * power if name == "left_shift" else apply("floordiv", a, power)
    if name == "bitwise_and" and isinstance(b, int) and b > 0 and b & (b + 1) == 0:
        return apply("mod", a, b + 1)
    return t.bound(t.emit(name, [a, b], None, WEAK_INT))


def _integer_to_power(t: Tracer, a: Dim, b: Dim) -> Any:
    if not t.at_least(b, 0):
        return _weak(t, "power", [a, b])
    if isinstance(b, int) and b <= 8:
        return math.prod([a] * b)
    return apply("pow", a, b)


_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
    "not_equal": "not_equal",
}


def _compare_integers(t: Tracer, name: str, a: Dim, b: Dim) -> Any:
    """A bool where the call decides, else a scalar that is computed."""
    if name in ("equal", "not_equal"):
        same = t.assume.agrees(a, b)
        answer = None if same is None else same == (name == "equal")
    else:
        answer = t.assume.known(_surplus(name, a, b))
    if answer is None:
        return Scal(t.emit(name, [t.assume.canon(a), t.assume.canon(b)], None, WEAK_BOOL))
    return answer


def _surplus(name: str, a: Dim, b: Dim) -> Dim:
    """What is >= 0 where the comparison of two integers holds."""
    return {"less": b - a - 1, "less_equal": b - a, "greater": a - b - 1, "greater_equal": a - b}[
        name
    ]


def facts_of(x: Any, holds: bool) -> list[Dim]:
    """What is >= 0 where a condition holds, or where it does not, as far as it is of integers."""
    node = x.node if isinstance(x, Value) else None
    if node is None:
        return []
    if node.op in COMPARISONS and all(isinstance(i, (int, Expr)) for i in node.inputs):
        return _facts_of_comparison(node.op if holds else _OPPOSITE[node.op], *node.inputs)
    if node.op == "cast" and node.result.type.dtype.kind == "b":
        return facts_of(node.inputs[0], holds)
    if node.op == "logical_not":
        return facts_of(node.inputs[0], not holds)
    if node.op == "branch":
        then, other = (region.yields[x.index] for region in node.regions)
        if holds and _is_false(other):
            return [*facts_of(node.inputs[0], True), *facts_of(then, True)]
        if not holds and _is_true(then):
            return [*facts_of(node.inputs[0], False), *facts_of(other, False)]
    return []


def _is_false(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_)) and not x


def _is_true(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_)) and bool(x)


def _facts_of_comparison(name: str, a: Any, b: Any) -> list[Dim]:
    if name == "not_equal":
        return []
    return [a - b, b - a] if name == "equal" else [_surplus(name, a, b)]


_OPPOSITE = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "equal": "not_equal",
    "not_equal": "equal",
}


def condition(t: Tracer, x: Any, what: str) -> bool | Value:
    """Whether Python takes a branch: a bool where it is known, else a value that decides."""
    if isinstance(x, Expr):
        x = integers(t, "not_equal", t.assume.canon(x), 0)
    if not isinstance(x, (Arr, Scal)):
        return truth(t, x, what)
    from tailorbird.capture.settle import settled

    known = settled(t, x)
    if known is not None:
        return bool(known)
    if any(d != 1 for d in x.shape):
        t.refuse("data_dependent_branch", name=what)
    value = t.operand(x) if not x.shape else t.reshaped(t.read(x), ())  # type: ignore[arg-type]
    if type_of(value).dtype.kind != "b":
        weak = type_of(value).weak
        value = t.emit("not_equal", [value, 0], None, WEAK_BOOL if weak else Type(np.dtype(bool)))
    return value if isinstance(value, Value) else bool(value)


def negated(t: Tracer, test: Value) -> Scal:
    """`not test`, which is a Python bool."""
    value = t.emit("logical_not", [test], None, Type(test.type.dtype, weak=test.type.weak))
    if not value.type.weak:
        value = t.emit("cast", [value], {"dtype": WEAK_BOOL.dtype}, WEAK_BOOL)
    return Scal(value)


def _against_float(t: Tracer, name: str, a: Expr, b: float) -> Any:
    """An exact integer against a float: the float is rounded to the integer that decides."""
    if not math.isfinite(b):
        return PYTHON[name](0, b)
    if name in ("equal", "not_equal"):
        if b.is_integer():
            return _compare_integers(t, name, a, int(b))
        return name == "not_equal"
    if name in ("less", "greater_equal"):
        return _compare_integers(t, name, a, math.ceil(b))
    return _compare_integers(t, name, a, math.floor(b))


# Truth


def truth(t: Tracer, x: Any, what: str) -> bool:
    """Whether Python takes the branch; refused where array data decides."""
    if isinstance(x, Expr):
        zero = t.assume.agrees(x, 0)
        if zero is None:
            t.refuse("data_dependent_branch", name=what)
        return not zero
    if isinstance(x, (Arr, Scal)):
        from tailorbird.capture.settle import settled

        known = settled(t, x)
        if known is None:
            t.refuse("data_dependent_branch", name=what)
        return bool(known)
    if isinstance(x, (tuple, list, dict)):
        return bool(len(x))
    if isinstance(x, PLAIN) and is_static(x):
        return bool(x)
    known = _objects_truth(x)
    if known is None:
        t.refuse("unsupported_type", name=what, type=kind_name(x))
    return known


def _objects_truth(x: Any) -> bool | None:
    """The truth of something that is no data: functions and plain objects are true."""
    live = getattr(x, "live", x)
    asks = hasattr(type(live), "__bool__") or hasattr(type(live), "__len__")
    return None if asks else True
