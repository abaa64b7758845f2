"""Attributes: of arrays, of the caller's objects, of modules and of plain values.

In: an abstract value and a name. Out: an abstract value. An attribute of a caller's object is
found by path and guarded by the object's type; a property is inlined; nothing that could run user
code on its own (`__getattr__`, custom descriptors) is followed.
"""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from tailorbird.capture.lift import is_tailored, lift
from tailorbird.capture.loose import loosen, possible
from tailorbird.capture.registry import ATTRIBUTES, METHODS
from tailorbird.capture.source import Source, is_library
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import (
    Arr,
    Bound,
    Code,
    Method,
    Obj,
    Random,
    Scal,
    UfuncMethod,
    kind_name,
)
from tailorbird.ir.expr import Expr
from tailorbird.ir.promote import real_dtype
from tailorbird.ir.types import WEAK_FLOAT, Type

NOTHING = object()
CONTAINERS = (list, dict, tuple, str, set)
OPAQUE_METHODS = frozenset(("argsort", "searchsorted", "nonzero"))
NUMBERS = (int, float, complex)
SAFE_OF_STATIC = (np.dtype, np.finfo, np.iinfo, type, slice, range)


def attribute_of(t: Tracer, x: Any, name: str) -> Any:
    """`x.name`."""
    if isinstance(x, (Arr, Scal)):
        return _of_data(t, x, name)
    if isinstance(x, ModuleType):
        return _of_module(t, x, name)
    if isinstance(x, Obj):
        return _of_object(t, x, name)
    if isinstance(x, Random):
        return Method(x, name)
    if isinstance(x, np.ufunc):
        return UfuncMethod(x, name)
    if isinstance(x, np.generic) and name in ("real", "imag"):
        return getattr(x, name)
    if isinstance(x, (*CONTAINERS, np.generic)):
        return _of_plain(t, x, name)
    if isinstance(x, SAFE_OF_STATIC):
        return _of_static(t, x, name)
    if isinstance(x, (*NUMBERS, Expr)):
        return _of_number(t, x, name)
    if isinstance(x, Code) and name in ("__name__", "__qualname__", "__doc__"):
        return getattr(x.live, name)
    t.refuse("unsupported_syntax", name=f"the attribute {name} of {kind_name(x)}")


def _of_data(t: Tracer, x: Arr | Scal, name: str) -> Any:
    if isinstance(x, Scal) and (x.type.weak or x.value in t.loose):
        return _of_weak(t, x, name)
    handler = ATTRIBUTES.get(name)
    if handler is not None:
        return handler(t, x)
    if name not in METHODS and name not in OPAQUE_METHODS:
        t.refuse("unsupported_call", name=f"the attribute {name} of an array")
    return Method(x, name)


def _of_weak(t: Tracer, x: Scal, name: str) -> Any:
    """An attribute of a Python number, or of what may be one."""
    if x.dtype.kind == "f" and name == "real":
        return x
    if x.type == WEAK_FLOAT and name == "imag" and x.value not in t.loose:
        return 0.0
    if x.dtype.kind == "c" and name in ("real", "imag"):
        kinds = [Type(real_dtype(k.dtype), weak=k.weak) for k in possible(t, x.value)]
        part = t.emit(name, [x.value], None, kinds[0])
        loosen(t, part, kinds)
        return Scal(part)
    t.refuse("unsupported_call", name=f"the attribute {name} of a Python number")


def _of_number(t: Tracer, x: Any, name: str) -> Any:
    if name in ("real", "imag"):
        return getattr(x, name) if isinstance(x, NUMBERS) else x if name == "real" else 0
    if isinstance(x, (float, complex)) and name in ("is_integer", "conjugate", "hex"):
        return getattr(x, name)
    t.refuse("unsupported_call", name=f"the attribute {name} of a Python number")


def _of_plain(t: Tracer, x: Any, name: str) -> Any:
    if name in getattr(x, "fields", ()):
        return x[x.fields.index(name)]
    if not hasattr(x, name):
        t.raises(f"AttributeError: {name}")
    return Method(x, name)


def _of_static(t: Tracer, x: Any, name: str) -> Any:
    """An attribute of a dtype, of the limits of one, of a class of NumPy's."""
    if isinstance(x, type) and not is_library(x.__module__):
        found = _in_class(x, name)
        if isinstance(found, staticmethod | FunctionType):
            return _class_function(t, x, name, found)
        if isinstance(found, classmethod):
            return Bound(_class_function(t, x, name, found), x)
        t.refuse("unsupported_syntax", name=f"the attribute {name} of a class")
    try:
        return getattr(x, name)
    except AttributeError:
        t.raises(f"AttributeError: {name}")


def _class_function(t: Tracer, owner: type, name: str, found: Any) -> Any:
    function = found if isinstance(found, FunctionType) else found.__func__
    first, *parts = owner.__qualname__.split(".")
    source = Source(("module", owner.__module__, first))
    for part in parts:
        source = source.attr(part)
    if "<locals>" in parts or source.find(None, {}) is not owner:
        t.refuse("unsupported_syntax", name=f"{name} of a class defined in a function")
    source = source.attr(name)
    return lift(t, source.attr("__func__") if isinstance(found, classmethod) else source, function)


def _of_module(t: Tracer, module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        t.raises(f"AttributeError: {module.__name__}.{name}")
    live = getattr(module, name)
    if is_library(module.__name__):
        t.looked[module.__name__, name] = live
        return live
    return lift(t, Source(("module", module.__name__, name)), live)


# Objects of the caller's


def _of_object(t: Tracer, x: Obj, name: str) -> Any:
    kind = type(x.live)
    plain: tuple[Any, ...] = (object.__getattribute__, tuple.__getattribute__)
    if kind.__getattribute__ not in plain:
        t.refuse("unsupported_type", name=str(x.source), type=kind.__name__)
    found = _in_class(kind, name)
    if isinstance(found, property):
        return _property(t, x, name, found)
    inside = getattr(x.live, "__dict__", {})
    if name in inside:
        return lift(t, x.source.attr(name), inside[name])
    if isinstance(found, FunctionType | staticmethod | classmethod):
        return _method_of(t, x, name, found)
    if is_tailored(found):
        return Bound(lift(t, x.source.attr(name).attr("__func__"), found), x)
    is_field = isinstance(x.live, tuple) and name in getattr(kind, "_fields", ())
    if isinstance(found, MemberDescriptorType) or is_field:
        return _slot(t, x, name)
    if found is NOTHING:
        t.raises(f"AttributeError: {name}")
    if hasattr(type(found), "__get__"):
        t.refuse("unsupported_syntax", name=f"the descriptor {name} of {kind.__name__}")
    return lift(t, x.source.attr(name), found)


def _slot(t: Tracer, x: Obj, name: str) -> Any:
    if not hasattr(x.live, name):
        t.raises(f"AttributeError: {name}")
    return lift(t, x.source.attr(name), getattr(x.live, name))


def _property(t: Tracer, x: Obj, name: str, found: property) -> Any:
    from tailorbird.capture.call import call

    if not isinstance(found.fget, FunctionType):
        t.refuse("unsupported_syntax", name=f"the property {name}")
    source = x.source.ask("type").attr(name).attr("fget")
    return call(t, lift(t, source, found.fget), (x,), {})


def _method_of(t: Tracer, x: Obj, name: str, found: Any) -> Any:
    """Found through the object itself, for an attribute of its own may come to hide the method."""
    source = x.source.attr(name)
    if isinstance(found, FunctionType):
        return Bound(lift(t, source.attr("__func__"), found), x)
    if isinstance(found, staticmethod):
        return lift(t, source, found.__func__)
    return Bound(lift(t, source.attr("__func__"), found.__func__), type(x.live))


def _in_class(kind: type, name: str) -> Any:
    """What the class itself holds under a name, without running descriptors."""
    for owner in kind.__mro__:
        if name in owner.__dict__:
            return owner.__dict__[name]
    return NOTHING
