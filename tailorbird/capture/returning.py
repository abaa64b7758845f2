"""`return` inside a loop that becomes a node: what is returned waits in hidden names.

In: the value of a `return`. Out: hidden names of the activation: a template that says how the value
is put together, and one name for each of its parts; and the value again, once the loop is left.

Invariants: a part is a scalar or an array, so that loops and branches carry it as any other name.
On a path that did not return, nothing looks at these names: they are not bound there, and a join
takes what the other path has.
"""

from __future__ import annotations

from typing import Any

from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Poison, Scal, is_number, is_static
from tailorbird.ir.expr import Expr

RETURNED = "$returned"  # whether a loop was left by `return`
RESULT = "$result"  # how the value is put together; its parts are `$result.0` and so on
MOST_PARTS = 8
PARTS = tuple(f"{RESULT}.{k}" for k in range(MOST_PARTS))
HIDDEN = frozenset((RETURNED, RESULT, *PARTS))
PLACE, KEPT, PARTED = "place", "kept", "parted"

Names = dict[str, Any]


def is_part(name: str) -> bool:
    """Whether a name holds a returned value or a part of it."""
    return name.startswith(RESULT)


def keep(t: Tracer, names: Names, value: Any) -> None:
    """Notes that the function returns a value."""
    parts: list[Any] = []
    names[RETURNED] = True
    names[RESULT] = _template(t, value, parts)
    names.update(zip(PARTS, parts))


def kept(t: Tracer, names: Names) -> Any:
    """The value that was noted; its hidden names are gone."""
    found = {name: names.pop(name, None) for name in HIDDEN}
    if found[RESULT] is None:
        t.refuse("loop_shape", name="what is returned in a loop, which is one of two things,")
    for x in found.values():
        if isinstance(x, Poison):
            t.refuse("loop_shape", name=x.reason)
    return _value(found[RESULT], found)


def forget(names: Names) -> None:
    """On this path nothing was returned."""
    for name in (RESULT, *PARTS):
        names.pop(name, None)


def _template(t: Tracer, x: Any, parts: list[Any]) -> Any:
    if isinstance(x, (Arr, Scal, Expr)) or is_number(x):
        if len(parts) == MOST_PARTS:
            t.refuse("loop_shape", name=f"a result of more than {MOST_PARTS} parts")
        parts.append(x)
        return (PLACE, PARTS[len(parts) - 1])
    if type(x) is tuple:
        return (PARTED, *(_template(t, item, parts) for item in x))
    if not is_static(x):
        t.refuse("loop_shape", name="what is returned in a loop")
    return (KEPT, x)


def _value(template: Any, found: Names) -> Any:
    kind, *items = template
    if kind == PARTED:
        return tuple(_value(item, found) for item in items)
    return found[items[0]] if kind == PLACE else items[0]
