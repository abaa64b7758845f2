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
from tailorbird.ir.node import Value


def meet(t: Tracer, a: Dim, b: Dim) -> bool:
    """Is a == b? As `same`, but checked where it hangs on values that are computed."""
    answer = t.assume.equal(a, b)
    if answer is not None or None not in (t.assume.hint(a), t.assume.hint(b)):
        return t.same(a, b)
    t.checked_equal(a, b)
    return True


def along(t: Tracer, x: Arr, shape: Shape) -> Value:
    """The content of x, read along sizes that its own were found to be equal to."""
    found = t.agreed(t.read(x), tuple(map(t.assume.canon, shape)))
    assert isinstance(found, Value)
    return found
