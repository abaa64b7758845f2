"""What `dataclasses` offers, at a tenth of what it costs to make a class.

In: a class with annotated fields. Out: the same class with `__init__`, `__repr__`, and, unless
`eq=False`, `__eq__` and, if it is frozen, `__hash__`; what the class defines itself stays.

A dataclass writes, compiles and runs up to six functions as text. There are a hundred such classes
here, and making them was half of what it took to import the compiler, which a first call waits for.

Invariants: the only function written as text is `__init__`, when the first object of a class is
made. `frozen` is held by the type checker alone, so that making an object costs what it costs by
hand.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NamedTuple, TypeVar, dataclass_transform, overload

T = TypeVar("T")
NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING"})()


class Field(NamedTuple):
    """What a field is made from when it is not given, and whether it counts."""

    default: Any
    factory: Any
    compare: bool
    repr: bool


def field(
    *, default: Any = NOTHING, default_factory: Any = None, compare: bool = True, repr: bool = True
) -> Any:
    """A field that is more than a type and a default."""
    return Field(default, default_factory, compare, repr)


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(*, frozen: bool = ..., eq: bool = ..., repr: bool = ...) -> Callable[..., Any]: ...
@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: Any = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True
) -> Any:
    """Makes a class of fields.

    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1) == Point(1, 0), replace(Point(1), y=2)
    (True, Point(x=1, y=2))
    """
    if cls is None:
        return lambda made: _made(made, frozen, eq, repr)
    return _made(cls, frozen, eq, repr)


def replace(row: T, /, **changes: Any) -> T:
    """An object like another but for some fields."""
    for name in type(row).__fields__:  # type: ignore[attr-defined]
        if name not in changes:
            changes[name] = getattr(row, name)
    return type(row)(**changes)


def _made(cls: Any, frozen: bool, eq: bool, repr: bool) -> Any:
    fields: dict[str, Field] = dict(getattr(cls, "__fields__", {}))
    for name in cls.__annotations__:
        given = cls.__dict__.get(name, NOTHING)
        if isinstance(given, Field):
            if given.default is NOTHING:
                delattr(cls, name)
            else:
                setattr(cls, name, given.default)
        else:
            given = Field(given, None, True, True)
        fields[name] = given
    cls.__fields__ = fields
    made: dict[str, Any] = {"__init__": _unwritten(cls, fields)}
    if repr:
        made["__repr__"] = _shown([name for name, f in fields.items() if f.repr])
    if eq:
        made |= _compared([name for name, f in fields.items() if f.compare], frozen)
    for name, function in made.items():
        if name not in cls.__dict__:
            setattr(cls, name, function)
    return cls


def _unwritten(cls: Any, fields: dict[str, Field]) -> Callable[..., None]:
    """An `__init__` that writes the real one and steps aside."""

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _written(cls, fields)
        cls.__init__(self, *args, **kwargs)

    return __init__


def _written(cls: Any, fields: dict[str, Field]) -> Any:
    scope: dict[str, Any] = {"NOTHING": NOTHING}
    parameters, lines = ["self"], []
    for name, f in fields.items():
        value = name
        if f.factory is not None:
            scope[f"_{name}_factory"] = f.factory
            parameters.append(f"{name}=NOTHING")
            value = f"_{name}_factory() if {name} is NOTHING else {name}"
        elif f.default is not NOTHING:
            scope[f"_{name}_default"] = f.default
            parameters.append(f"{name}=_{name}_default")
        else:
            parameters.append(name)
        lines.append(f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines, " pass"]), scope)
    return scope["__init__"]


def _shown(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({inside})"

    return recursive_repr("...")(__repr__)


def _compared(names: list[str], frozen: bool) -> dict[str, Any]:
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda row: ()

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}
