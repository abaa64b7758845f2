"""Which maps are generated, and which are left to NumPy as a call between kernels.

A map that no vector form is worth writing for, or whose errors depend on data (a negative integer
exponent raises), is not inlined: it becomes a step that calls NumPy. `explain` names it.
"""

from __future__ import annotations

from tailorbird.ir.node import Node, type_of
from tailorbird.ir.ops import OPS

LEFT_TO_NUMPY = frozenset(["gcd", "lcm", "nextafter", "spacing", "ldexp"])
COMPLEX = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "reciprocal",
        "negative",
        "conjugate",
        "absolute",
        "equal",
        "not_equal",
        "where",
        "cast",
        "real",
        "imag",
        "isnan",
        "isinf",
        "isfinite",
        "exp",
        "log",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "arcsin",
        "arccos",
        "arctan",
        "arcsinh",
        "arccosh",
        "arctanh",
        "power",
    ]
)


def generated(node: Node) -> bool:
    """Whether code is generated for a map."""
    if OPS[node.op].kind != "map":
        return True
    if node.op in LEFT_TO_NUMPY:
        return False
    types = [type_of(x) for x in node.inputs]
    if any(t.dtype.kind == "c" for t in types) and node.op not in COMPLEX:
        return False
    if node.op == "power" and node.result.type.weak and node.result.type.dtype.kind == "c":
        return False  # Python's own rounding
    if node.op == "power" and node.result.type.dtype.kind in "iub":
        exponent = node.inputs[1]
        return isinstance(exponent, int) and 0 <= exponent <= 64
    return True


def folds(node: Node) -> bool:
    """Whether code is generated for a reduction: complex products and extremes are NumPy's."""
    kind = type_of(node.inputs[0]).dtype.kind
    return kind != "c" or node.op == "sum"
