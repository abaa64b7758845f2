"""Calls of library functions that have no handler: recorded as `call` nodes, or refused.

In: a function of NumPy or SciPy and its abstract arguments. Out: results whose types were learnt by
calling it once on the live values, which the interpreter computes from the graph so far.

Invariants: only functions that neither write, read files, draw random numbers nor call back are
called. A size of a result is a symbol of its own unless the function is known to keep the shape. A
result that shares memory with an argument is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailorbird.capture.arith import concretely
from tailorbird.capture.builtin import is_pure
from tailorbird.capture.lift import is_generator, lift
from tailorbird.capture.opaque_shapes import kept_shape
from tailorbird.capture.reading import read_through
from tailorbird.capture.source import is_library
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.trial import results_of
from tailorbird.capture.values import Arr, Scal, is_static, kind_name
from tailorbird.errors import GuardMissed
from tailorbird.ir.expr import Expr
from tailorbird.ir.node import Graph, Node, Operand, Slot, Value
from tailorbird.ir.types import SUPPORTED, Type
from tailorbird.reasons import why

ALLOWED = (
    "numpy", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.linalg", "scipy.fft",
    "scipy.ndimage", "scipy.signal",
)  # fmt: skip
REFUSED_NAMES = """
    copyto put place putmask fill_diagonal put_along_axis shuffle byteswap
    save savez savez_compressed savetxt load loadtxt genfromtxt fromfile memmap fromregex
    open_memmap info source lookfor show_config show_runtime test seterr seterrcall setbufsize
    errstate set_printoptions printoptions geterr getbufsize DataSource get_include
    apply_along_axis apply_over_axes vectorize frompyfunc fromfunction piecewise fromiter
    nditer nested_iters generic_filter generic_filter1d geometric_transform
    roots sqrtm logm fractional_matrix_power real_if_close poly1d poly
    select choose
    asfortranarray require frombuffer sliding_window_view as_strided matrix asmatrix bmat
    may_share_memory shares_memory byte_bounds rec
"""  # they write, reach outside, call back, choose a type by value, or share memory
REFUSED = frozenset(REFUSED_NAMES.split())
UFUNC_METHODS = ("accumulate", "reduce", "reduceat")
NAMES = (str, int, float, complex, bool, type(None), np.generic, np.dtype, type)


class Record(tuple):
    """A named tuple that a library function returned; its fields are found by name."""

    fields: tuple[str, ...] = ()


def call_library(t: Tracer, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call that no handler takes."""
    if is_static(args) and is_static(keywords) and is_pure(function):
        if function in (hash, str, repr, format):
            t.unkept = f"{function.__name__}() may differ from process to process"
        return concretely(t, lambda: function(*args, **keywords))
    read = read_through(t, function, args, keywords)
    if read is not None:
        return read[0]
    if is_generator(getattr(function, "__self__", None)):
        return _drawn(t, function, args, keywords)
    path = path_of(function)
    inside = t.region.parent is not None
    name = getattr(function, "__name__", type(function).__name__)
    if path is None or name in REFUSED or "out" in keywords:
        t.refuse("unsupported_call", name=_shown(function, name))
    operands: list[Operand] = []
    template = (
        tuple(frozen(t, a, operands) for a in args),
        tuple((key, frozen(t, a, operands)) for key, a in sorted(keywords.items())),
    )
    if inside:
        learnt = results_of(t, function, template, operands)
        if learnt is None:
            t.refuse("call_in_loop", name=_shown(function, name))
        t.reasons.append(
            why("library_routine", file=t.file, line=t.line, name=_shown(function, name))
        )
        return _recorded(t, path, template, operands, *learnt)
    live = live_values(t, operands)
    result = _called(t, function, template, live)
    t.reasons.append(why("opaque_call", file=t.file, line=t.line, name=_shown(function, name)))
    shape = kept_shape(t, function, template, operands)
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    types = [_type(t, name, x, live, shape) for x in found]
    return _recorded(t, path, template, operands, result, types)


def _drawn(t: Tracer, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A function of `np.random`: a method of the one generator behind it."""
    from tailorbird.capture.draws import GLOBAL, draw

    random = lift(t, GLOBAL, GLOBAL.find(None, {}))
    return draw(t, random, function.__name__, args, keywords)


def _shown(function: Any, name: str) -> str:
    module = getattr(function, "__module__", None)
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        module = f"numpy.{function.__self__.__name__}"
    return f"{module}.{name}" if module else name


def path_of(function: Any) -> str | None:
    """`module:name` of a function that may be called opaquely."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        home = path_of(owner) if function.__name__ in UFUNC_METHODS else None
        return home and f"{home}.{function.__name__}"
    name: str = getattr(function, "__qualname__", "") or getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    if not callable(function) or (module and not is_library(module)):
        return None
    if isinstance(function, type) or ".random" in module:
        return None
    for candidate in ALLOWED:
        foreign = candidate.startswith("scipy") and not module.startswith("scipy")
        if foreign and not isinstance(function, np.ufunc):
            continue
        found = getattr(importlib.import_module(candidate), name, None)
        if found is function:
            return f"{candidate}:{name}"
    return None


# Operands


def frozen(t: Tracer, x: Any, operands: list[Operand]) -> Any:
    """An argument as a template: what is computed becomes a slot. An array of rank 0 would come as
    a scalar, with which some functions do something else.
    """
    if isinstance(x, Arr) and not x.shape:
        t.refuse("unsupported_call", name="a library function of an array of rank 0")
    if isinstance(x, (Arr, Scal, Expr)):
        operands.append(t.operand(x))
        return Slot(len(operands) - 1)
    if isinstance(x, (tuple, list)):
        return tuple(frozen(t, item, operands) for item in x)
    if isinstance(x, NAMES):
        return x
    t.refuse("unsupported_call", name=f"a function that takes a {kind_name(x)}")


def live_values(t: Tracer, operands: Sequence[Operand]) -> list[Any]:
    """What operands are in this call: the graph so far, run on the live arguments."""
    from tailorbird.ir.interp import run

    graph = Graph(t.name, t.parameters, t.ints, [], t.region, list(operands))
    arguments = [t.live[p] for p in t.parameters] + [t.live[name] for name in t.ints]
    try:
        return run(graph, arguments)
    except GuardMissed as error:
        t.raises(f"an exception: {error}")


def _called(t: Tracer, function: Callable[..., Any], template: Any, live: list[Any]) -> Any:
    def fill(x: Any) -> Any:
        if isinstance(x, Slot):
            return live[x.index]
        return tuple(map(fill, x)) if isinstance(x, tuple) else x

    args, keywords = template
    try:
        with np.errstate(all="ignore"):
            return function(*fill(args), **{key: fill(x) for key, x in keywords})
    except Exception as error:  # noqa: BLE001 - whatever it is, plain Python shall raise it
        t.raises(f"{type(error).__name__}: {error}")


# Results


def _recorded(
    t: Tracer,
    path: str,
    template: Any,
    operands: list[Operand],
    result: Any,
    types: list[Type],
) -> Any:
    many = isinstance(result, (tuple, list))
    found = list(result) if many else [result]
    attrs: dict[str, Any] = {"function": path, "template": template}
    if many:
        attrs["many"] = True
    node = t.region.append(Node("call", operands, attrs, types, line=t.place()))
    values = [_wrapped(t, v, x) for v, x in zip(node.outputs, found)]
    if not many:
        return values[0]
    if isinstance(result, list):
        return values
    record = Record(values) if hasattr(result, "_fields") else tuple(values)
    if isinstance(record, Record):
        record.fields = result._fields
    return record


def _wrapped(t: Tracer, value: Value, x: Any) -> Arr | Scal:
    return t.array(value) if isinstance(x, np.ndarray) else Scal(value)


def _type(t: Tracer, name: str, x: Any, live: list[Any], shape: Shape | None) -> Type:
    if type(x) is not np.ndarray and not isinstance(x, np.generic):
        t.refuse("unsupported_call", name=f"{name}, which returns a {kind_name(x)}")
    if x.dtype not in SUPPORTED or not x.dtype.isnative:
        t.refuse("unsupported_dtype", name=f"the result of {name}", dtype=x.dtype)
    arrays = [a for a in live if isinstance(a, np.ndarray)]
    if isinstance(x, np.ndarray) and any(np.may_share_memory(x, a) for a in arrays):
        t.refuse("returns_view", name=name)
    if shape is not None and tuple(map(t.assume.hint, shape)) == x.shape:
        return Type(x.dtype, shape)
    return Type(x.dtype, tuple(t.new_fresh() for _ in x.shape))
