"""Plain data for JSON, and back: values, paths, result structures, sizes and opaque calls.

In: what a variant is made of. Out: lists, texts and numbers from which the same is made again, or
`Unmarked` for what they cannot hold.

Invariants: unpacking makes data and runs nothing; what it is given came from a file whose digest
was checked, and a shape that it does not know is a ValueError, KeyError, IndexError or TypeError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tailorbird.capture.source import Source, is_library
from tailorbird.dispatch.marks import Unmarked
from tailorbird.dispatch.outside import Outside

OURS = ("tailorbird.lower.opaque", "tailorbird.ir.draws")
TYPES: Mapping[str, type] = {
    **{t.__name__: t for t in (bool, int, float, complex)},
    **{
        f"numpy.{name}": np.dtype(name).type
        for name in (
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float32", "float64", "complex64", "complex128"),
        )
    },
}
TYPE_NAMES = {kind: name for name, kind in TYPES.items()}


def packed(x: Any) -> Any:
    """A static value as plain data."""
    kind = type(x)
    if x is None or kind in (bool, int, str):
        return x
    if kind is float:
        return ["float", struct.pack("<d", x).hex()]
    if kind is complex:
        return ["complex", struct.pack("<dd", x.real, x.imag).hex()]
    if kind is bytes:
        return ["bytes", x.hex()]
    if kind in (tuple, list):
        return [kind.__name__, *map(packed, x)]
    if kind is slice:
        return ["slice", *map(packed, (x.start, x.stop, x.step))]
    if x is Ellipsis:
        return ["ellipsis"]
    if isinstance(x, np.dtype) and x.type in TYPE_NAMES and x.isnative:
        return ["dtype", TYPE_NAMES[x.type]]
    if kind in TYPE_NAMES:
        return ["scalar", TYPE_NAMES[kind], x.tobytes().hex()]
    if isinstance(x, type) and x in TYPE_NAMES:
        return ["type", TYPE_NAMES[x]]
    if kind.__name__ == "Slot":
        return ["slot", x.index]
    raise Unmarked(f"a {kind.__name__}")


def unpacked(data: Any) -> Any:
    """The value again."""
    if not isinstance(data, list):
        return data
    kind, *rest = data
    if kind == "tuple":
        return tuple(map(unpacked, rest))
    if kind == "list":
        return list(map(unpacked, rest))
    return _UNPACK[kind](*rest)


def _slot(index: int) -> Any:
    from tailorbird.ir.node import Slot

    return Slot(index)


_UNPACK: Mapping[str, Callable[..., Any]] = {
    "float": lambda text: struct.unpack("<d", bytes.fromhex(text))[0],
    "complex": lambda text: complex(*struct.unpack("<dd", bytes.fromhex(text))),
    "bytes": bytes.fromhex,
    "slice": lambda *parts: slice(*map(unpacked, parts)),
    "ellipsis": lambda: Ellipsis,
    "dtype": lambda name: np.dtype(TYPES[name]),
    "scalar": lambda name, text: np.frombuffer(bytes.fromhex(text), TYPES[name])[0],
    "type": TYPES.__getitem__,
    "slot": _slot,
}


# Paths, structures, sizes


def packed_source(source: Source) -> Any:
    """A path."""
    steps = [[kind, *map(packed, rest)] for kind, *rest in source.steps]
    return [list(source.root), steps, source.kind]


def unpacked_source(data: Any) -> Source:
    root, steps, kind = data
    return Source(tuple(root), tuple((s[0], *map(unpacked, s[1:])) for s in steps), kind)


def packed_shape(results: Any) -> Any:
    """A result structure without its leaves."""
    if isinstance(results, (tuple, list)):
        return [type(results).__name__, *map(packed_shape, results)]
    if isinstance(results, dict):
        return ["dict", *([packed(k), packed_shape(x)] for k, x in results.items())]
    return 0


def unpacked_shape(data: Any) -> Any:
    if data == 0:
        return None
    kind, *items = data
    if kind == "dict":
        return {unpacked(k): unpacked_shape(x) for k, x in items}
    return {"tuple": tuple, "list": list}[kind](map(unpacked_shape, items))


def packed_dim(dim: Any) -> Any:
    """A size: a number, or a polynomial as (coefficient, symbols)."""
    if isinstance(dim, int):
        return dim
    return [[c, list(map(_packed_symbol, monomial))] for monomial, c in dim.terms]


def _packed_symbol(sym: Any) -> Any:
    """A name, or a function as [name, sizes]."""
    if sym.kind == "op":
        return [sym.name, list(map(packed_dim, sym.args))]
    if sym.kind not in ("size", "int"):
        raise Unmarked(f"the symbol {sym}")
    return sym.name


def number(dim: Any, known: Mapping[str, int]) -> int:
    """What a packed size is, given its symbols."""
    if isinstance(dim, int):
        return dim
    total = 0
    for c, symbols in dim:
        for x in symbols:
            c *= known[x] if isinstance(x, str) else _applied(known, *x)
        total += c
    return total


def bare(dim: Any) -> str:
    """The name of a packed size that is one symbol, or the empty text."""
    if isinstance(dim, list) and len(dim) == 1 and dim[0][0] == 1 and len(dim[0][1]) == 1:
        symbol = dim[0][1][0]
        return symbol if isinstance(symbol, str) else ""
    return ""


def _applied(known: Mapping[str, int], name: str, dims: list[Any]) -> int:
    from tailorbird.ir.expr import FUNCTIONS

    return FUNCTIONS[name](*(number(dim, known) for dim in dims))


# Opaque calls and arrays


def packed_object(x: Any) -> Any:
    """What a context holds: an opaque call, or a value."""
    if not isinstance(x, Outside):
        return ["value", packed(x)]
    attrs = [[name, packed(value)] for name, value in sorted(x.attrs.items())]
    return ["outside", x.op, attrs, [[packed(dtype), rank] for dtype, rank in x.wanted]]


def unpacked_object(data: Any) -> Any:
    kind, *rest = data
    if kind == "value":
        return unpacked(rest[0])
    op, attrs, wanted = rest
    found = {name: unpacked(value) for name, value in attrs}
    module = str(found.get("function", OURS[0])).partition(":")[0]
    if module not in OURS and not is_library(module):
        raise ValueError(f"{module} is no library")
    return Outside(op, found, [(unpacked(dtype), rank) for dtype, rank in wanted])


def packed_array(x: np.ndarray) -> Any:
    return [packed(x.dtype), list(x.shape), x.tobytes().hex()]


def unpacked_array(data: Any) -> np.ndarray:
    dtype, shape, text = data
    return np.frombuffer(bytes.fromhex(text), unpacked(dtype)).reshape(shape).copy()
