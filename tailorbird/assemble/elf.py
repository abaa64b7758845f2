"""The names an object file leaves undefined.

In: the bytes of an x86-64 ELF object that LLVM wrote. Out: the symbols it needs from outside,
sorted. LLVM adds names that the IR never mentions (`memcpy`, `fmod`), so the object is asked
rather than the emitter.

Invariant: bytes that are not such an object, or are cut short, raise CorruptObject and nothing
else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tailorbird.errors import CorruptObject

MAGIC = b"\x7fELF\x02\x01"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMBOL_TABLE = 2
UNDEFINED = 0


def undefined(obj: bytes) -> list[str]:
    """The names that must be given when the object is loaded."""
    try:
        return sorted(set(_undefined(obj)))
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptObject(f"not a whole ELF object: {error}") from error


def _undefined(obj: bytes) -> Iterator[str]:
    if not obj.startswith(MAGIC):
        raise CorruptObject("not an ELF object")
    header = HEADER.unpack_from(obj)
    start, count = header[6], header[12]
    sections = [SECTION.unpack_from(obj, start + i * SECTION.size) for i in range(count)]
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind == SYMBOL_TABLE:
            names = sections[link][4]
            yield from _names(obj, offset, size, names)


def _names(obj: bytes, offset: int, size: int, names: int) -> Iterator[str]:
    for at in range(offset, offset + size, SYMBOL.size):
        name, _, _, section, _, _ = SYMBOL.unpack_from(obj, at)
        if name and section == UNDEFINED:
            begin = names + name
            yield obj[begin : obj.index(b"\0", begin)].decode("ascii")
