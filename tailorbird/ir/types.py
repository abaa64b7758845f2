"""Types: a dtype, a symbolic shape, and whether the value is a weak Python scalar (NEP 50).

Printed `f32[n,64]`, `f64` (a NumPy scalar), `py_f64` (a Python float). Weakness is part of the
type, so NumPy's promotion falls out of the types of the operands.
"""

from __future__ import annotations

import numpy as np

from tailorbird.dataclass import dataclass
from tailorbird.ir.expr import Dim, Expr

SHORT = {
    "bool": "b1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
LONG = {short: np.dtype(name) for name, short in SHORT.items()}
SUPPORTED = frozenset(LONG.values())
_SHORT_OF = {dtype: short for short, dtype in LONG.items()}  # NumPy works a name out at each asking
PYTHON_TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


@dataclass(frozen=True)
class Type:
    """What a value is: `Type(np.dtype("f4"), (n, 64))`."""

    dtype: np.dtype
    shape: tuple[Dim, ...] = ()
    weak: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def short(self) -> str:
        """The dtype's short name, `f32`."""
        return _SHORT_OF.get(self.dtype) or SHORT[self.dtype.name]

    def __str__(self) -> str:
        if self.weak:
            return f"py_{self.short}"
        return self.short + (f"[{','.join(map(str, self.shape))}]" if self.shape else "")


WEAK_BOOL = Type(np.dtype(bool), weak=True)
WEAK_INT = Type(np.dtype(np.int64), weak=True)
WEAK_FLOAT = Type(np.dtype(np.float64), weak=True)
WEAK_COMPLEX = Type(np.dtype(np.complex128), weak=True)
BOOL = np.dtype(bool)
INT = np.dtype(np.int64)
FLOAT = np.dtype(np.float64)
COMPLEX = np.dtype(np.complex128)


def type_of_literal(x: object) -> Type:
    """The type of a scalar operand: a Python number is weak, a NumPy scalar is not."""
    if isinstance(x, np.generic):
        return Type(x.dtype)
    if isinstance(x, bool):
        return WEAK_BOOL
    if isinstance(x, (int, Expr)):
        return WEAK_INT
    if isinstance(x, float):
        return WEAK_FLOAT
    if isinstance(x, complex):
        return WEAK_COMPLEX
    raise TypeError(f"{x!r} is not a scalar operand")
