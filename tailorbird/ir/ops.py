"""The table of ops: one row each, with its NumPy meaning.

A row is `Op(name, kind, meaning)`. `meaning` takes the operands' concrete values and the attributes
by keyword and returns what NumPy returns; `interp.py` runs graphs by these meanings and is the
definition every backend is tested against. The kind says which shape rule holds and what lowering
may do:

    map       elementwise with broadcasting; `meaning` is usually a ufunc
    reduce    folds the axes in `axis` (a tuple of non-negative ints); `keepdims` keeps them as 1
    scan      a running reduction along `axis`; same shape out
    contract  products summed over shared indices
    linear    a routine of LAPACK for every matrix of a batch; several results (`linear.py`)
    create    a new array from scalars; attribute `shape`
    move      the same elements elsewhere: views, reshapes, joins, functional writes, gathers
    region    holds graphs: loop, while, branch
    effect    call (opaque Python), transfer (device to device), check (if it fails: plain Python),
              bind (an integer value becomes a symbol)

To add one: docs/add_an_op.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.dataclass import dataclass
from tailorbird.ir.linear import guarded, slogdet


@dataclass(frozen=True)
class Op:
    """One row: its name, its kind, and what NumPy computes for it."""

    name: str
    kind: str
    meaning: Callable[..., Any] | None


def _words(text: str) -> list[str]:
    return text.split()


UNARY = _words("""
    negative positive absolute fabs sign signbit rint floor ceil trunc sqrt square cbrt reciprocal
    exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh
    arccosh arctanh degrees radians isnan isinf isfinite logical_not invert conjugate spacing
""")
BINARY = _words("""
    add subtract multiply divide floor_divide remainder fmod power float_power maximum minimum fmax
    fmin arctan2 hypot logaddexp logaddexp2 copysign nextafter heaviside ldexp gcd lcm equal
    not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor left_shift right_shift
""")
if hasattr(np, "bitwise_count"):
    UNARY.append("bitwise_count")
UFUNCS: dict[str, np.ufunc] = {name: getattr(np, name) for name in UNARY + BINARY}


def _special(name: str) -> Callable[..., Any]:
    """A ufunc of scipy.special, imported when first run."""

    def meaning(x: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(x)

    return meaning


def _cast(x: Any, dtype: Any) -> Any:
    return np.asarray(x).astype(dtype)[()]


def _real(x: Any) -> Any:
    return np.asarray(x).real[()]


def _imag(x: Any) -> Any:
    return np.asarray(x).imag[()]


def _complex(real: Any, imag: Any) -> Any:
    real, imag = np.broadcast_arrays(real, imag)
    found = np.empty(real.shape, np.result_type(real.dtype, imag.dtype, np.complex64))
    found.real, found.imag = real, imag
    return found[()]


def _arange(start: Any, step: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`start + step * index`, as NumPy fills it: from the first two elements."""
    first = np.asarray(start).astype(dtype)
    second = np.asarray(start + step).astype(dtype)
    delta = second - first if dtype != np.bool_ else np.asarray(0)
    return (first + np.arange(shape[0], dtype=delta.dtype) * delta).astype(dtype)


def _linspace(start: Any, stop: Any, shape: tuple[int, ...], endpoint: bool, dtype: Any) -> Any:
    return np.linspace(start, stop, shape[0], endpoint=endpoint, dtype=dtype)


def _full(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.full(shape, value, dtype=dtype)


def _empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Poison, so that reliance on what is there shows."""
    return np.full(shape, np.nan if np.dtype(dtype).kind in "fc" else 123, dtype=dtype)


def _concatenate(*parts: Any, axis: int) -> Any:
    return np.concatenate(parts, axis=axis)


def _pad(x: Any, width: tuple[tuple[int, int], ...], mode: str) -> Any:
    return np.pad(x, width, mode=mode)  # type: ignore[call-overload]


def _take(x: Any, indices: Any, axis: int) -> Any:
    return np.take(x, indices, axis=axis)


def _matmul(x: Any, y: Any, sparse: bool = False) -> Any:
    """`sparse` is a hint: x may be mostly zeros."""
    return np.matmul(x, y)


def _einsum(*operands: Any, subscripts: str) -> Any:
    return np.einsum(subscripts, *operands)


def _reduce(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def meaning(x: Any, axis: tuple[int, ...], keepdims: bool = False, **kw: Any) -> Any:
        return function(x, axis=axis, keepdims=keepdims, **kw)

    return meaning


def _arg_reduce(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def meaning(x: Any, axis: tuple[int, ...], keepdims: bool = False) -> Any:
        if len(axis) == 1:
            return function(x, axis=axis[0], keepdims=keepdims)
        return function(x, axis=None, keepdims=keepdims)

    return meaning


def _scan(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def meaning(x: Any, axis: int, dtype: Any) -> Any:
        return function(x, axis=axis, dtype=dtype)

    return meaning


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return np.reshape(x, shape)


# fmt: off
ROWS: list[Op] = [
    *(Op(name, "map", ufunc) for name, ufunc in UFUNCS.items()),
    Op("where",         "map",      np.where),
    Op("cast",          "map",      _cast),                 # attribute dtype
    Op("real",          "map",      _real),
    Op("imag",          "map",      _imag),
    Op("complex",       "map",      _complex),              # of its two parts
    Op("erf",           "map",      _special("erf")),
    Op("expit",         "map",      _special("expit")),
    Op("sum",           "reduce",   _reduce("sum")),        # attributes axis, keepdims, dtype
    Op("prod",          "reduce",   _reduce("prod")),
    Op("min",           "reduce",   _reduce("min")),
    Op("max",           "reduce",   _reduce("max")),
    Op("any",           "reduce",   _reduce("any")),
    Op("all",           "reduce",   _reduce("all")),
    Op("mean",          "reduce",   _reduce("mean")),       # attribute dtype
    Op("var",           "reduce",   _reduce("var")),        # attributes dtype, ddof
    Op("std",           "reduce",   _reduce("std")),
    Op("count_nonzero", "reduce",   _reduce("count_nonzero")),
    Op("argmin",        "reduce",   _arg_reduce("argmin")),
    Op("argmax",        "reduce",   _arg_reduce("argmax")),
    Op("cumsum",        "scan",     _scan("cumsum")),       # attributes axis, dtype
    Op("cumprod",       "scan",     _scan("cumprod")),
    Op("matmul",        "contract", _matmul),               # attribute sparse
    Op("dot",           "contract", np.dot),                # rounds unlike matmul: its own row
    Op("einsum",        "contract", _einsum),               # attribute subscripts, with `->`
    Op("cholesky",      "linear",   guarded(np.linalg.cholesky)),  # factor, info
    Op("solve",         "linear",   guarded(np.linalg.solve)),     # x, info
    Op("inv",           "linear",   guarded(np.linalg.inv)),       # inverse, info
    Op("slogdet",       "linear",   slogdet),               # sign, logarithm
    Op("full",          "create",   _full),                 # attributes shape, dtype
    Op("empty",         "create",   _empty),                # poison; nobody may rely on it
    Op("arange",        "create",   _arange),               # start, step; shape, dtype
    Op("linspace",      "create",   _linspace),             # start, stop; shape, endpoint, dtype
    Op("read",          "move",     None),                  # attribute view
    Op("write",         "move",     None),                  # %new = write %base, value {view}
    Op("write_mask",    "move",     None),                  # %new = write_mask %base, %mask, value
    Op("compress",      "move",     None),                  # %base[%mask]; attribute size
    Op("gather",        "move",     None),                  # %base[index...]; axes
    Op("scatter",       "move",     None),                  # %base, index..., value; axes, op
    Op("reshape",       "move",     _reshape),              # attribute shape
    Op("concatenate",   "move",     _concatenate),          # attribute axis
    Op("pad",           "move",     _pad),                  # width, mode (edge, reflect, ...)
    Op("take",          "move",     _take),                 # attribute axis
    Op("extent",        "move",     None),                  # bools, as many as %n says; size
    Op("loop",          "region",   None),
    Op("while",         "region",   None),
    Op("branch",        "region",   None),
    Op("call",          "effect",   None),                  # function, template, many, reason
    Op("transfer",      "effect",   None),                  # attributes source, target
    Op("check",         "effect",   None),                  # operand rel 0; attribute rel
    Op("bind",          "effect",   None),                  # attribute symbol
]
# fmt: on
OPS: dict[str, Op] = {row.name: row for row in ROWS}
LINEAR = frozenset(row.name for row in ROWS if row.kind == "linear")
ACCUMULATED = frozenset(_words("add subtract multiply maximum minimum"))  # by scatter {op}
COMPARISONS = frozenset(_words("equal not_equal less less_equal greater greater_equal"))
