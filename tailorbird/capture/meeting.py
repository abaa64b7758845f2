"""Sizes that must be equal, of which some are known only at run time.

In: sizes that an operation needs to be one, and the arrays that have them. Out: whether they are,
under a check where only the run can tell; and contents read along the sizes of the other array.

Invariants: a size that is only checked keeps its own expression, so what is read is of the type
that the shape rules ask for only after `along`.
"""

from __future__ import annotations

from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Operand, Value, View, type_of
from tailorbird.ir.types import Type


def meet(t: Tracer, a: Dim, b: Dim) -> bool:
    """Is a == b? As `same`, but checked where it hangs on values that are computed."""
    answer = t.assume.equal(a, b)
    if answer is not None or None not in (t.assume.hint(a), t.assume.hint(b)):
        return t.same(a, b)
    t.checked_equal(a, b)
    return True


def agreed(t: Tracer, x: Operand, shape: Shape) -> Operand:
    """x read along the sizes of the shape it broadcasts to, where they were only checked."""
    own = type_of(x).shape
    wanted = shape[len(shape) - len(own) :]
    own = tuple(map(t.assume.canon, own))
    if all(a == b or a == 1 for a, b in zip(own, wanted)) or not isinstance(x, Value):
        return x
    sizes = tuple(a if a == 1 else b for a, b in zip(own, wanted))
    view = View(tuple((0, 1, k) for k in range(len(own))), sizes)
    return t.emit("read", [x], {"view": view}, Type(x.type.dtype, sizes))


def along(t: Tracer, x: Arr, shape: Shape) -> Value:
    """The content of x, read along sizes that its own were found to be equal to."""
    found = agreed(t, t.read(x), tuple(map(t.assume.canon, shape)))
    assert isinstance(found, Value)
    return found
