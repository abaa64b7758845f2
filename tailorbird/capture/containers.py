"""Tuples, lists, dicts and strings: items, iteration and methods.

In: containers of abstract values. Out: abstract values. A container that the function made lives in
the interpreter and may change there; one of the caller's may only be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any

import numpy as np

from tailorbird.capture.arith import concretely
from tailorbird.capture.lift import lift
from tailorbird.capture.tracer import LONGEST_UNROLLED, Tracer
from tailorbird.capture.values import (
    Arr,
    BorrowedDict,
    BorrowedList,
    Joint,
    Obj,
    Scal,
    SymbolicRange,
    is_static,
    kind_name,
)
from tailorbird.capture.views import index
from tailorbird.ir.expr import Dim, Expr, apply

LONGEST_STATIC = 64
READING = {
    list: {"index", "count", "copy"},
    tuple: {"index", "count"},
    dict: {"get", "keys", "values", "items", "copy"},
}
CHANGING = {
    list: {"append", "extend", "insert", "pop", "reverse", "clear", "remove"},
    dict: {"update", "pop", "setdefault", "clear"},
}


def item_of(t: Tracer, x: Any, key: Any) -> Any:
    """`x[key]`."""
    if isinstance(x, Arr):
        return index(t, x, key)
    if isinstance(x, Scal):
        return _item_of_scalar(t, x, key)
    if isinstance(x, Obj):
        return _item_of_object(t, x, key)
    if x is np.mgrid or x is np.ogrid:
        from tailorbird.capture.grids import grid

        return grid(t, key, sparse=x is np.ogrid)
    if x is np.s_ or x is np.index_exp:
        return key if x is np.s_ or isinstance(key, tuple) else (key,)
    if isinstance(x, (tuple, list, dict, str, range)):
        if isinstance(key, Expr) and t.assume.hint(key) is None:
            t.refuse("data_dependent_value", name=f"an index of a {type(x).__name__}")
        return _got(t, x, t.concrete(key, "an index"))
    t.refuse("unsupported_type", name="what is indexed", type=kind_name(x))


def _got(t: Tracer, x: Any, at: Any) -> Any:
    try:
        found = x[at]
    except (LookupError, TypeError) as error:
        t.raises(f"{type(error).__name__}: {error}")
    return list(found) if isinstance(x, BorrowedList) and isinstance(at, slice) else found


def _item_of_scalar(t: Tracer, x: Scal, key: Any) -> Any:
    if not x.type.weak and key == ():
        return x
    t.refuse("unsupported_syntax", name="an index of a scalar")


def _item_of_object(t: Tracer, x: Obj, key: Any) -> Any:
    if not isinstance(x.live, tuple):
        t.refuse("unsupported_type", name=str(x.source), type=type(x.live).__name__)
    return _got(t, object_items(t, x), t.concrete(key, "an index"))


def object_items(t: Tracer, x: Obj) -> tuple[Any, ...]:
    """The items of a named tuple of the caller's."""
    t.statics[x.source.ask("type")] = type(x.live)
    return tuple(lift(t, x.source.item(k), item) for k, item in enumerate(x.live))


# Iteration


def iterate(t: Tracer, x: Any, what: str) -> list[Any]:
    """The items of an iterable whose length is known, or is specialised because it is short."""
    if isinstance(x, Arr):
        if not x.shape:
            t.raises("TypeError: iteration over a 0-d array")
        return [index(t, x, k) for k in range(_count(t, x.shape[0], what))]
    if isinstance(x, SymbolicRange):
        return _range_items(t, x, what)
    if isinstance(x, Joint):
        rows = list(zip(*(iterate(t, part, what) for part in x.parts)))
        return rows if x.start is None else [(x.start + k, row[0]) for k, row in enumerate(rows)]
    if isinstance(x, Obj) and isinstance(x.live, tuple):
        return list(object_items(t, x))
    if isinstance(x, (Scal, Obj, Expr)) or not isinstance(x, Iterable):
        t.refuse("unsupported_type", name=what, type=kind_name(x))
    if isinstance(x, (set, frozenset)):
        t.refuse("unsupported_type", name=what, type="set, whose order may change")
    if isinstance(x, Sized) and len(x) > 100 * LONGEST_STATIC:
        t.refuse("budget", name=what)
    if isinstance(x, (list, tuple, dict, str, range, zip, enumerate, reversed)) or is_view(x):
        return list(x)
    t.refuse("unsupported_type", name=what, type=kind_name(x))


def is_view(x: Any) -> bool:
    return isinstance(x, (type({}.keys()), type({}.values()), type({}.items())))


def _count(t: Tracer, size: Dim, what: str) -> int:
    size = t.assume.canon(size)
    if isinstance(size, int):
        return size
    seen = t.assume.hint(size)
    if seen is None:
        t.refuse("data_dependent_loop", name=what)
    if seen > LONGEST_UNROLLED:
        t.refuse("long_loop", name=what, count=seen, most=LONGEST_UNROLLED)
    return t.concrete(size, what)


def _range_items(t: Tracer, x: SymbolicRange, what: str) -> list[Any]:
    step = t.concrete(x.step, "a step")
    if step == 0:
        t.raises("ValueError: range() arg 3 must not be zero")
    distance = x.stop - x.start if step > 0 else x.start - x.stop
    if not t.at_least(distance, 1):
        return []
    trips = apply("floordiv", t.assume.canon(distance) + (abs(step) - 1), abs(step))
    return [t.assume.canon(x.start + k * step) for k in range(_count(t, trips, what))]


def length(t: Tracer, x: Any) -> Dim:
    """`len(x)`."""
    if isinstance(x, Arr):
        if not x.shape:
            t.raises("TypeError: len() of unsized object")
        return t.assume.canon(x.shape[0])
    if isinstance(x, SymbolicRange):
        return len(_range_items(t, x, "range"))
    if isinstance(x, Obj) and isinstance(x.live, tuple):
        return len(object_items(t, x))
    if isinstance(x, (list, tuple, dict, str, bytes, range, set, frozenset)) or is_view(x):
        return len(x)
    t.raises(f"TypeError: object of type {kind_name(x)} has no len()")


# Methods


def container_method(t: Tracer, owner: Any, name: str, args: Any, keywords: Any) -> Any:
    """A method of a list, dict, tuple, string or NumPy number."""
    if isinstance(owner, (str, np.generic)):
        known = [t.concrete(a, "an argument") for a in args]
        pairs = {k: t.concrete(v, "an argument") for k, v in keywords.items()}
        return concretely(t, lambda: getattr(owner, name)(*known, **pairs))
    for kind in (list, tuple, dict):
        if isinstance(owner, kind):
            return _on_container(t, kind, owner, name, args, keywords)
    t.refuse("unsupported_call", name=f"{type(owner).__name__}.{name}")


def _on_container(t: Tracer, kind: Any, owner: Any, name: str, args: Any, keywords: Any) -> Any:
    borrowed = isinstance(owner, (BorrowedList, BorrowedDict))
    if name not in READING[kind] and (borrowed or name not in CHANGING.get(kind, ())):
        t.refuse("unsupported_call", name=f"{kind.__name__}.{name}")
    if name in CHANGING.get(kind, ()):
        unfrozen(t, owner)
    if name in ("index", "count", "remove") and not is_static((owner, args)):
        t.refuse("data_dependent_value", name=f"{kind.__name__}.{name}")
    if name == "extend":
        args = (iterate(t, args[0], "list.extend"),)
    if kind is dict and name in ("get", "pop", "setdefault"):
        args = (t.concrete(args[0], "a key"), *args[1:])
    try:
        found = getattr(owner, name)(*args, **keywords)
    except (LookupError, TypeError, ValueError) as error:
        t.raises(f"{type(error).__name__}: {error}")
    return list(found) if is_view(found) else found


def unfrozen(t: Tracer, x: Any) -> None:
    """A container from outside a loop or branch that is being captured must stay as it is."""
    if any(x is held for held in t.frozen):
        kind = "list" if isinstance(x, list) else "dict"
        t.refuse("loop_shape", name=f"a {kind} that is changed in a loop or under a branch")


def set_item(t: Tracer, x: Any, key: Any, value: Any) -> None:
    """`x[key] = value` for a container that the function made."""
    if isinstance(x, (BorrowedList, BorrowedDict)) or not isinstance(x, (list, dict)):
        kind = next(k.__name__ for k in (list, dict, type(x)) if isinstance(x, k))
        t.refuse("in_place_write", name=f"a {kind} of the caller's")
    at = t.concrete(key, "an index")
    unfrozen(t, x)
    try:
        x[at] = value
    except (LookupError, TypeError) as error:
        t.raises(f"{type(error).__name__}: {error}")
