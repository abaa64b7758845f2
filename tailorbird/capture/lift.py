"""From live values to abstract ones.

In: a live value and the path it was found by. Out: what the interpreter computes with. Arrays,
floats and NumPy scalars become graph parameters, Python ints become symbols, containers become
containers of lifted values, everything else is itself and is recorded as a static the graph
relies on.

Invariants: a path is lifted once, so one array object is one `Arr`; sizes are symbols, never
numbers; the live value is looked at and never changed.
"""

from __future__ import annotations

import copy
import enum
import functools
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tailorbird.capture.source import Source, is_library
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import (
    Arr,
    BorrowedDict,
    BorrowedList,
    Bound,
    Code,
    Obj,
    Partial,
    Random,
    Scal,
)
from tailorbird.ir.draws import token
from tailorbird.ir.expr import Sym, symbol
from tailorbird.ir.node import Value
from tailorbird.ir.types import SUPPORTED, WEAK_COMPLEX, WEAK_FLOAT, Type

SCALAR_TYPES = frozenset(dtype.type for dtype in SUPPORTED)
GENERATORS = frozenset(("Generator", "RandomState"))
STATIC = (
    type(None), bool, str, bytes, range, slice, type(Ellipsis), np.dtype, np.ufunc, type,
    BuiltinFunctionType, enum.Enum, frozenset, functools._lru_cache_wrapper,
)  # fmt: skip


def lift(t: Tracer, source: Source, live: Any) -> Any:
    """The abstract value of a live one."""
    known = t.lifted.get(source)
    if known is None:
        known = _lift(t, source, live)
        t.lifted[source] = known
    return known


def _lift(t: Tracer, source: Source, live: Any) -> Any:
    kind = type(live)
    maker = _MAKERS.get(kind)
    if maker is not None:
        return maker(t, source, live)
    if isinstance(live, np.ndarray):
        t.refuse("subclass", name=str(source), type=kind.__name__)
    if isinstance(live, np.generic):
        return _numpy_scalar(t, source, live)
    if isinstance(live, (ModuleType, *STATIC)):
        t.statics[source] = live
        return live
    if is_tailored(live):
        return lift(t, source.attr("__wrapped__"), live.__wrapped__)
    if is_generator(live):
        return _random(t, source, live)
    if isinstance(live, functools.partial):
        return _partial(t, source, live)
    if isinstance(live, tuple) and hasattr(kind, "_fields"):
        return _object(t, source, live)
    if isinstance(live, (int, float, complex, tuple, list, dict)):
        t.refuse("unsupported_type", name=str(source), type=kind.__name__)
    if is_library(kind.__module__) and callable(live):
        t.statics[source] = live
        return live
    return _object(t, source, live)


def _object(t: Tracer, source: Source, live: Any) -> Obj:
    """An object whose attributes are looked up when asked for; its type never changes."""
    t.statics[source.ask("type")] = type(live)
    return Obj(source, live)


def is_tailored(live: Any) -> bool:
    """Whether this is a function that Tailorbird wraps."""
    kind = type(live)
    return kind.__module__.split(".")[0] == "tailorbird" and hasattr(live, "__wrapped__")


def is_generator(x: Any) -> bool:
    """Whether a value is one of NumPy's random generators, of no class of the caller's."""
    kind = type(x)
    return kind.__name__ in GENERATORS and kind.__module__.startswith("numpy.random.")


def _random(t: Tracer, source: Source, live: Any) -> Random:
    """A generator: its token is a parameter. Two names may be one generator, whose draws would
    lose their order: one is all there can be. What reading the function draws, a copy gives.
    """
    if any(isinstance(x, Random) for x in t.lifted.values()):
        t.refuse("unsupported_call", name="drawing from more than one random generator")
    t.statics[source.ask("type")] = type(live)
    source = source.ask("draws")
    made = token(copy.deepcopy(live))
    parameter = _parameter(t, source, Type(made.dtype, made.shape), made)
    return Random(Arr(t.buffer(parameter, parameter)), live)


# Leaves


def _dtype(t: Tracer, source: Source, live: np.ndarray | np.generic) -> np.dtype:
    """Guards compare scalar types, and C has two of 64 bits: `long long` is not compiled."""
    dtype = t.supported(live.dtype, str(source))
    if dtype.type not in SCALAR_TYPES:
        t.refuse("unsupported_dtype", name=str(source), dtype=f"{dtype.type.__name__} (long long)")
    return dtype


def _array(t: Tracer, source: Source, live: np.ndarray) -> Arr:
    dtype = _dtype(t, source, live)
    if not live.flags.aligned:
        t.refuse("misaligned", name=str(source))
    shape = tuple(t.new_size(d) for d in live.shape)
    if not shape:
        source = Source(source.root, source.steps, "zero_d")
    parameter = _parameter(t, source, Type(dtype, shape), live)
    buffer = t.buffer(parameter, parameter)
    buffer.writeable = live.flags.writeable
    buffer.handle = Arr(buffer)
    return buffer.handle


def _parameter(t: Tracer, source: Source, type: Type, live: Any) -> Value:
    parameter = Value(type, name=t.unique(str(source)))
    t.parameters.append(parameter)
    t.sources.append(source)
    t.live[parameter] = live
    return parameter


def _numpy_scalar(t: Tracer, source: Source, live: np.generic) -> Scal:
    dtype = _dtype(t, source, live)
    return Scal(_parameter(t, source, Type(dtype), live))


def _float(t: Tracer, source: Source, live: float) -> Scal:
    return Scal(_parameter(t, source, WEAK_FLOAT, live))


def _complex(t: Tracer, source: Source, live: complex) -> Scal:
    return Scal(_parameter(t, source, WEAK_COMPLEX, live))


def _int(t: Tracer, source: Source, live: int) -> Any:
    if not -(2**63) <= live < 2**63:
        t.refuse("unsupported_type", name=str(source), type="Python int of more than 64 bits")
    name = t.unique(str(source))
    t.ints.append(name)
    t.int_sources.append(source)
    t.live[name] = live
    t.assume.hints[Sym(name, "int")] = live
    return symbol(name, "int")


# Containers


def _tuple(t: Tracer, source: Source, live: tuple[Any, ...]) -> tuple[Any, ...]:
    _remember_shape(t, source, live)
    return tuple(lift(t, source.item(k), item) for k, item in enumerate(live))


def _list(t: Tracer, source: Source, live: list[Any]) -> BorrowedList:
    _remember_shape(t, source, live)
    return BorrowedList(lift(t, source.item(k), item) for k, item in enumerate(live))


def _dict(t: Tracer, source: Source, live: dict[Any, Any]) -> BorrowedDict:
    t.statics[source.ask("type")] = dict
    t.statics[source.ask("keys")] = tuple(live)
    for key in live:
        if not isinstance(key, (str, int, float, bool, type(None), tuple)):
            t.refuse("unsupported_type", name=f"a key of {source}", type=type(key).__name__)
    return BorrowedDict((key, lift(t, source.item(key), item)) for key, item in live.items())


def _remember_shape(t: Tracer, source: Source, live: Any) -> None:
    t.statics[source.ask("type")] = type(live)
    t.statics[source.ask("len")] = len(live)


# Functions


def _function(t: Tracer, source: Source, live: FunctionType) -> Any:
    t.statics[source] = live
    return live if is_library(live.__module__) else Code(source, live)


def _method(t: Tracer, source: Source, live: MethodType) -> Bound:
    function = lift(t, source.attr("__func__"), live.__func__)
    return Bound(function, lift(t, source.attr("__self__"), live.__self__))


def _partial(t: Tracer, source: Source, live: functools.partial[Any]) -> Partial:
    function = lift(t, source.attr("func"), live.func)
    args = lift(t, source.attr("args"), live.args)
    keywords = lift(t, source.attr("keywords"), live.keywords)
    return Partial(function, args, dict(keywords))


_MAKERS: dict[type, Any] = {
    np.ndarray: _array,
    float: _float,
    complex: _complex,
    int: _int,
    tuple: _tuple,
    list: _list,
    dict: _dict,
    FunctionType: _function,
    MethodType: _method,
}
