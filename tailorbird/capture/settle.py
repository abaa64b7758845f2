"""Scalars that look like data and are not: they follow from sizes and integer arguments alone.

In: a scalar that the code needs to know (`if n / 2 > 1.5`, `int(math.sqrt(n))`). Out: its value,
with every size in it specialised under a guard; or None when array data is in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Scal
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Operand, Value
from tailorbird.ir.ops import OPS
from tailorbird.ir.types import PYTHON_TYPES


def settled(t: Tracer, x: Any) -> Any:
    """The value of a scalar that depends on integers only, or None."""
    if not isinstance(x, Scal) or not _from_integers(t, x.value):
        return None
    with np.errstate(all="ignore"):
        return _value(t, x.value)


def _from_integers(t: Tracer, x: Operand) -> bool:
    if not isinstance(x, Value):
        return not isinstance(x, Expr) or t.assume.hint(t.assume.canon(x)) is not None
    node = x.node
    if node is None or x.type.shape or OPS[node.op].kind != "map":
        return False
    return all(_from_integers(t, i) for i in node.inputs)


def _value(t: Tracer, x: Operand) -> Any:
    if isinstance(x, Expr):
        return t.concrete(x)
    if not isinstance(x, Value) or x.node is None:
        return x
    meaning = OPS[x.node.op].meaning
    assert meaning is not None, x.node.op
    result = meaning(*(_value(t, i) for i in x.node.inputs), **x.node.attrs)
    return PYTHON_TYPES[x.type.dtype.kind](result) if x.type.weak else result
