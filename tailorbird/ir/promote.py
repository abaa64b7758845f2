"""The dtype of a result, by NumPy's own promotion (NEP 50).

In: the name of an elementwise op and the types of its operands. Out: the dtypes the operands are
converted to and the dtype of the result. Nothing is decided here: a ufunc is asked through
`resolve_dtypes`, with a Python type standing for a weak scalar, and the answer is cached.

NumPy 1.26 looks at the values of scalars instead. A graph means the same under both; where a
program's own operation could have another dtype capture refuses it (`refuse_by_value`), so that the
plain function runs, and the interpreter converts operands before it asks NumPy (`converted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tailorbird.errors import Refused
from tailorbird.ir.ops import COMPARISONS, UFUNCS
from tailorbird.ir.types import BOOL, INT, PYTHON_TYPES, SUPPORTED, Type
from tailorbird.reasons import why

LEGACY = np.lib.NumpyVersion(np.__version__) < "2.0.0"
SPECIAL_FUNCTIONS = frozenset({"erf", "expit"})
FLOAT = np.dtype(np.float64)
REALS: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): FLOAT,
}
PYTHON_DTYPES: dict[Any, np.dtype] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    complex: np.dtype(np.complex128),
}
COMBINING = frozenset({"where", "concatenate", "matmul", "dot", "einsum"})
WIDE: dict[str, np.dtype] = {"b": INT, "i": INT, "u": np.dtype(np.uint64)}

Resolved = tuple[tuple[np.dtype, ...], np.dtype]


def result_dtype(name: str, types: Sequence[Type]) -> Resolved:
    """The dtypes an elementwise op computes in: of each operand, and of the result.

    >>> f32, weak = Type(np.dtype("f4"), (3,)), Type(np.dtype("f8"), weak=True)
    >>> result_dtype("multiply", [f32, weak])[1]
    dtype('float32')
    """
    key = tuple([PYTHON_TYPES[t.dtype.kind] if t.weak else t.dtype for t in types])
    return _resolve(name, key)


@cache
def _resolve(name: str, key: tuple[Any, ...]) -> Resolved:
    """Cached by dtypes and Python types alone: shapes do not matter."""
    alone = all(isinstance(entry, type) for entry in key)
    key = tuple(PYTHON_DTYPES[entry] if entry is bool or alone else entry for entry in key)
    if name == "where":
        result = _promote(key[1:])
        return (BOOL, result, result), result
    if name == "concatenate":
        result = _promote(key)
        return (result,) * len(key), result
    try:
        *operands, result = _ufunc(name).resolve_dtypes((*key, None))
    except TypeError as error:
        raise Refused(why("numpy_raises", error=f"TypeError: {error}")) from error
    for dtype in (*operands, result):
        if dtype not in SUPPORTED:
            raise Refused(why("unsupported_dtype", name=f"the result of {name}", dtype=dtype))
    return tuple(operands), result


def _ufunc(name: str) -> Any:
    if name in SPECIAL_FUNCTIONS:
        import scipy.special

        return getattr(scipy.special, name)
    return {**UFUNCS, "matmul": np.matmul}[name]


def _promote(key: Sequence[Any]) -> np.dtype:
    """What `np.result_type` says; a Python type is asked for with its zero."""
    return np.result_type(*(entry() if isinstance(entry, type) else entry for entry in key))


def common_dtype(types: Sequence[Type]) -> np.dtype:
    """The dtype that values are joined in, by `concatenate` and `einsum`."""
    return result_dtype("concatenate", types)[1]


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    return REALS.get(dtype, dtype)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype NumPy sums and multiplies in by default: small integers in 64 bits."""
    return WIDE.get(dtype.kind, dtype)


def mean_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype NumPy averages in by default: integers in float64."""
    return dtype if dtype.kind in "fc" else FLOAT


def check_literal(name: str, x: Any, dtype: np.dtype) -> None:
    """Refuses a Python int that does not fit the integer dtype it would be converted to."""
    if type(x) is not int or dtype.kind not in "iu":
        return
    limits = np.iinfo(dtype)
    if limits.min <= x <= limits.max:
        return
    if name in COMPARISONS or LEGACY:
        raise Refused(why("promotion", name=f"{name} of {dtype} and {x}"))
    raise Refused(why("numpy_raises", error=f"OverflowError: {x} does not fit {dtype}"))


def converted(name: str, types: Sequence[Type], operands: Sequence[Any]) -> list[Any]:
    """Operands in the dtypes that they are taken in, which leaves NumPy nothing to decide."""
    known = name in UFUNCS or name == "where"
    if not known:
        return list(operands)
    dtypes = result_dtype(name, types)[0]
    return [np.asarray(x).astype(dtype)[()] for x, dtype in zip(operands, dtypes)]


def _differs(name: str, types: Sequence[Type]) -> bool:
    """Whether a Python scalar beside NumPy scalars counts as its full dtype and that matters."""
    weak = tuple(PYTHON_TYPES[t.dtype.kind] if t.weak else t.dtype for t in types)
    return _resolve(name, weak) != _resolve(name, tuple(t.dtype for t in types))


def refuse_by_value(name: str, types: Sequence[Type]) -> None:
    """NumPy 1.26: refuses the operands for which a scalar's value decides, or decides otherwise."""
    if not LEGACY or (name not in UFUNCS and name not in COMBINING):
        return
    arrays = {t.dtype for t in types if t.rank}
    scalars = {t.dtype for t in types if not t.rank and not t.weak}
    weak = {t.dtype for t in types if t.weak}
    mixed = bool(arrays) and bool(scalars) and (bool(scalars - arrays) or name == "ldexp")
    hidden = bool(scalars) and bool(weak - scalars) and not arrays and _differs(name, types)
    if mixed or hidden:
        names = ", ".join(str(t) for t in types)
        raise Refused(why("promotion", name=f"{name} of {names}"))
