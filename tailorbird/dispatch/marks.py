"""Marks: what a live value is, in plain data that another process can compare.

In: a value that a capture relies on: a number, a function, a class, a module, a dtype. Out: nested
lists of texts. Values with equal marks, in two processes of the same versions, mean the same to a
capture. A value that no text can stand for is `Unmarked`, and what relies on it is not kept.

Invariants: a function is its code and its source text, for both were read; a class of the caller's
is everything it and its bases hold; a part of a library is its name, and only if that name leads
back to it, so that a patched library has another mark.
"""

from __future__ import annotations

import abc
import enum
import hashlib
import sys
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from tailorbird.capture.source import block_of, is_library, lines_of

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
UFUNC_HOMES = ("numpy", "scipy.special")
METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
UNSTABLE = frozenset(("__static_attributes__",))  # in no order
Mark = list[Any]


class Unmarked(Exception):
    """No text can stand for a value."""


def mark(x: Any) -> Mark:
    """What a value is.

    >>> mark((1, "a"))
    ['tuple', ['int', '1'], ['str', "'a'"]]
    """
    kind = type(x)
    if kind in PLAIN:
        return [kind.__name__, repr(x)]
    if kind is tuple:
        return ["tuple", *map(mark, x)]
    if kind is frozenset:
        return ["frozenset", *sorted(map(mark, x), key=repr)]
    if kind in (slice, range):
        return [kind.__name__, *map(mark, (x.start, x.stop, x.step))]
    if isinstance(x, np.dtype):
        return ["dtype", _dtype_text(x)]
    if isinstance(x, np.generic):
        return ["scalar", _dtype_text(x.dtype), x.tobytes().hex()]
    if isinstance(x, enum.Enum):
        return ["enum", mark(kind), x.name, mark(x.value)]
    return _of_named(x)


def mark_of_part(x: Any) -> Mark:
    """What a part of a library is; an object there, such as `np.mgrid`, is known by its class."""
    try:
        return mark(x)
    except Unmarked:
        if is_library(type(x).__module__):
            return ["part", *_path(type(x))]
        raise


def _dtype_text(x: np.dtype) -> str:
    if x.hasobject or x.names is not None or x.metadata or x.subdtype is not None:
        raise Unmarked(f"dtype {x}")
    return x.str


def _of_named(x: Any) -> Mark:
    """Modules, functions and classes."""
    if isinstance(x, ModuleType):
        if sys.modules.get(x.__name__) is not x:
            raise Unmarked(f"module {x.__name__}")
        return ["module", x.__name__]
    if isinstance(x, np.ufunc):
        for home in UFUNC_HOMES:
            if _found(home, x.__name__) is x:
                return ["ufunc", home, x.__name__]
    if is_library(getattr(x, "__module__", None)):
        return ["library", *_path(x)]
    if isinstance(x, type):
        return _of_class(x)
    if isinstance(x, FunctionType):
        return of_function(x)
    raise Unmarked(f"a {type(x).__name__}")


def _path(x: Any) -> tuple[str, str]:
    """The module and the name of a part of a library that are found there again."""
    module: str = x.__module__
    name: str = getattr(x, "__qualname__", None) or getattr(x, "__name__", None) or ""
    if _found(module, name) is not x:
        raise Unmarked(f"{module}.{name}")
    return module, name


def _found(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# Functions


def of_function(function: FunctionType) -> Mark:
    """A function of the caller's: code, text, and how many defaults and cells it has. Their values
    are found by paths of their own.
    """
    code = function.__code__
    try:
        text = "".join(block_of(code, lines_of(code, function.__globals__)))
    except OSError:
        text = ""
    counts = (
        len(function.__defaults__ or ()),
        sorted(function.__kwdefaults__ or ()),
        len(function.__closure__ or ()),
    )
    names = (function.__module__, function.__qualname__, function.__name__)
    return ["function", *map(str, names), repr(counts), digest(text), of_code(code)]


def digest(text: str) -> str:
    """A text of fixed length that stands for a longer one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def of_code(code: CodeType) -> str:
    """A digest of everything in a code object, its constants and where it was written."""
    parts = (
        *(code.co_filename, code.co_firstlineno, code.co_name, code.co_qualname, code.co_flags),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *(code.co_code, code.co_exceptiontable, code.co_linetable),
        _constant(code.co_consts),
    )
    return digest(repr(parts))


def _constant(x: Any) -> str:
    if isinstance(x, CodeType):
        return of_code(x)
    if type(x) is tuple:
        return f"({','.join(map(_constant, x))})"
    if type(x) is frozenset:
        return f"{{{','.join(sorted(map(_constant, x)))}}}"
    return f"{type(x).__name__} {x!r}"


# Classes


def _of_class(kind: type) -> Mark:
    if type(kind) not in METACLASSES:
        raise Unmarked(f"class {kind.__qualname__}")
    held = [_held(owner) for owner in kind.__mro__]
    return ["class", kind.__module__, kind.__qualname__, digest(repr(held))]


def _held(owner: type) -> Any:
    """What a class itself holds: functions by their marks, plain values too, others by type."""
    if is_library(owner.__module__):
        return _path(owner)
    names = sorted(name for name in vars(owner) if name not in UNSTABLE)
    return owner.__qualname__, [(name, _member(vars(owner)[name])) for name in names]


def _member(x: Any) -> Any:
    if isinstance(x, FunctionType):
        return of_function(x)
    if isinstance(x, staticmethod | classmethod):
        return type(x).__name__, _member(x.__func__)
    if isinstance(x, property):
        return "property", *map(_member, (x.fget, x.fset, x.fdel))
    if isinstance(x, MemberDescriptorType):
        return "slot"
    try:
        return mark(x) if type(x) in (*PLAIN, tuple) else type(x).__qualname__
    except Unmarked:
        return type(x).__qualname__
