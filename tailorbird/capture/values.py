"""The values that the abstract interpreter computes with.

Python values that do not depend on array data are themselves: numbers, strings, tuples, lists and
dicts. An exact integer that depends on sizes or integer arguments is an `Expr`. The rest is here.

Invariants: an array is a reference `Arr(buffer, view)`, never a content; what it shows now is read
from `buffer.content`, so views that live across writes need no care. An `Arr` object stands for one
Python array object: `a is b` between arrays is `is` between their `Arr`s.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tailorbird.capture.source import FunctionText, Source
from tailorbird.dataclass import dataclass, field
from tailorbird.ir.expr import Dim, Expr
from tailorbird.ir.node import Operand, Value, View
from tailorbird.ir.types import Type


class Buffer:
    """One allocation: the type and the value of its content now.

    `lent` says that it may stand for an array that others see, and so may not be told from it.
    `argument` is the graph parameter whose memory this is, `handle` the very argument object.
    `contiguous` says that the memory is known to be in C order. A buffer with a `base` is the
    base reshaped, or a `part` of its complex numbers, and has no content (`derived.py`): it shares
    memory with the base if `shares`, and if not `shares` nobody knows; `seen` is what its root held
    when it was made. A buffer with a `choice` has no memory and no content either: it stands for
    one of two arrays (`either.py`).
    """

    __slots__ = (
        "__weakref__", "argument", "base", "choice", "content", "contiguous", "handle", "lent",
        "part", "seen", "shares", "type", "writeable",
    )  # fmt: skip

    def __init__(self, content: Value, argument: Value | None = None) -> None:
        self.content = content
        self.type = content.type
        self.argument = argument
        self.handle: Arr | None = None
        self.base: Arr | None = None
        self.part = ""
        self.seen: Value | None = None
        self.choice: Choice | None = None
        self.shares = False
        self.contiguous = False
        self.lent = False
        self.writeable = True

    @property
    def root(self) -> Buffer:
        """The buffer whose memory this is."""
        buffer = self
        while buffer.base is not None:
            buffer = buffer.base.buffer
        return buffer

    @property
    def may_be_written(self) -> bool:
        """Whether neither this nor what it shows again is read-only."""
        return self.writeable and (self.base is None or self.base.buffer.may_be_written)

    @property
    def is_own(self) -> bool:
        """Whether this has memory of its own."""
        return self.base is None and self.choice is None


class Arr:
    """A reference to a buffer through a view; the view is None when it shows everything."""

    __slots__ = ("buffer", "shape", "view")

    def __init__(self, buffer: Buffer, view: View | None = None) -> None:
        self.buffer = buffer
        self.view = view
        self.shape: tuple[Dim, ...] = buffer.type.shape if view is None else view.shape

    @property
    def dtype(self) -> np.dtype:
        return self.buffer.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def through(self, view: View | None) -> Arr:
        """A reference to a part of what this shows; to all of it, this one."""
        if view is None:
            return self
        return Arr(self.buffer, view if self.view is None else self.view.then(view))


@dataclass(frozen=True, eq=False)
class Choice:
    """One of two arrays of one type: the first where the test holds."""

    test: Value
    first: Arr
    second: Arr


def sides(x: Arr) -> Iterator[Arr]:
    """The references to memory that x may be: itself, or those on both sides of a choice."""
    choice = x.buffer.choice
    if choice is None:
        yield x
    else:
        yield from sides(choice.first.through(x.view))
        yield from sides(choice.second.through(x.view))


class Scal:
    """A scalar that depends on data: a NumPy scalar, or a Python one when its type is weak."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def dtype(self) -> np.dtype:
        return self.value.type.dtype

    shape: tuple[Dim, ...] = ()
    ndim = 0


@dataclass(frozen=True, eq=False)
class Poison:
    """A name that has no one value here; reading it is refused, with the reason."""

    reason: str


TRACED = (Arr, Scal)
SYMBOLIC = (Arr, Scal, Expr)


class BorrowedList(list):
    """A list of the caller's: it may be read, and a write to it is refused."""


class BorrowedDict(dict):
    """A dict of the caller's: it may be read, and a write to it is refused."""


BorrowedList.__name__, BorrowedDict.__name__ = "list", "dict"  # in Python's texts of exceptions


@dataclass(frozen=True, eq=False)
class Obj:
    """A Python object of the caller's, whose attributes are found by path."""

    source: Source
    live: Any


@dataclass(frozen=True, eq=False)
class Random:
    """A random generator of the caller's, and the array that its draws are versions of."""

    token: Arr
    live: Any


@dataclass(frozen=True, eq=False)
class Code:
    """A Python function that is reached from the caller, and the path to it."""

    source: Source
    live: Any


@dataclass(frozen=True, eq=False)
class Bound:
    """A function with its first argument: a method of an object."""

    function: Any
    first: Any


@dataclass(frozen=True, eq=False)
class Method:
    """A method of an array or a scalar, by name."""

    owner: Any
    name: str


@dataclass(frozen=True, eq=False)
class UfuncMethod:
    """`np.add.reduce` and its kin."""

    ufunc: np.ufunc
    name: str


@dataclass(frozen=True, eq=False)
class Partial:
    """functools.partial of something callable."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(eq=False)
class Frame:
    """One activation: the function's text, its names, and where its other names come from."""

    text: FunctionText
    globals: dict[str, Any]
    function: Any = None
    source: Source | None = None
    outer: Frame | None = None
    names: dict[str, Any] = field(default_factory=dict)
    lifted: dict[str, Any] = field(default_factory=dict)
    loops: int = 0  # how many `loop` and `while` regions of this activation are being captured
    live: frozenset[str] | None = None  # the names needed after the statement that is executed
    after: frozenset[str] = frozenset()  # the names needed at the end of the innermost such region


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function defined inside the captured one, with the activation it was defined in."""

    text: FunctionText
    frame: Frame
    defaults: tuple[Any, ...] = ()
    keyword_defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SymbolicRange:
    """range() whose bounds are exact integers that are not all numbers."""

    start: Dim
    stop: Dim
    step: Dim


@dataclass(frozen=True, eq=False)
class Joint:
    """zip() or enumerate() of parts that are not all of known length."""

    parts: tuple[Any, ...]
    start: Dim | None = None


class Unhandled(Exception):
    """A handler does not know this form of its function: it is called opaquely, if that is safe."""


Handler = Callable[..., Any]
Evaluator = Callable[[Any, ast.AST, Frame], Any]


def is_static(x: Any) -> bool:
    """Whether a value is wholly known: no array data and no symbolic integer in it."""
    if isinstance(x, (Arr, Scal, Expr, Obj, Random, SymbolicRange)):
        return False
    if isinstance(x, (tuple, list)):
        return all(map(is_static, x))
    if isinstance(x, dict):
        return all(map(is_static, x.values()))
    if isinstance(x, slice):
        return is_static(x.start) and is_static(x.stop) and is_static(x.step)
    return True


def is_number(x: Any) -> bool:
    """A concrete Python or NumPy number."""
    return isinstance(x, (int, float, complex, np.generic))


def kind_name(x: Any) -> str:
    """What the caller would call the type of x, for reasons."""
    if isinstance(x, (Obj, Code, Random)):
        x = x.live
    if isinstance(x, Scal):
        return x.dtype.name
    return _KINDS.get(type(x), type(x).__name__)


_KINDS: dict[type, str] = {
    Arr: "ndarray",
    Expr: "int",
    SymbolicRange: "range",
    **dict.fromkeys((LocalFunction, Bound, Method, UfuncMethod, Partial), "function"),
}


def counts(value: Value) -> bool:
    """Whether a value is the result of an op that gives no negative numbers."""
    return value.node is not None and value.node.op in ("argmin", "argmax", "count_nonzero")


def exact(value: Operand) -> Dim | None:
    """The exact integer that a scalar was made from, when it was."""
    if isinstance(value, (int, Expr)) and not isinstance(value, bool):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if not isinstance(value, Value) or value.node is None or value.node.op != "cast":
        return None
    inner = value.node.inputs[0]
    from_integer = isinstance(inner, (int, Expr, np.integer))
    return exact(inner) if from_integer and value.type.dtype == np.int64 else None


def writes_once(view: View) -> bool:
    """Whether no element of the base is shown twice: broadcasts and diagonals are read-only."""
    used = [axis for _, _, axis in view.dims if axis is not None]
    missing = (k for k in range(len(view.shape)) if k not in used)
    return len(set(used)) == len(used) and all(view.shape[k] == 1 for k in missing)
