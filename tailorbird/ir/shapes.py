"""Shape and dtype rules: the type of each op's result from its operands and attributes.

In: an op, its operands and attributes. Out: a `Type`. `infer` has a rule for every row of the table
of ops that has one result and no regions, `infer_all` for those with several; the verifier compares
every node with them and the capturer makes its nodes by them. What NumPy would reject raises
`Refused` with the reason `numpy_raises`.

Invariants: a dimension of one is the literal 1, so that broadcasting is decided by reading; whether
two other dimensions are equal is asked of `same(a, b)`, which is equality of expressions unless the
caller knows more. A result of `infer` is never weak: NumPy functions return NumPy scalars. A node
whose operands are all weak may be given the weak type by whoever makes it (Python's operators).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tailorbird.errors import Refused
from tailorbird.ir.expr import Dim
from tailorbird.ir.node import Operand, type_of
from tailorbird.ir.ops import OPS
from tailorbird.ir.promote import (
    check_literal,
    common_dtype,
    mean_dtype,
    real_dtype,
    result_dtype,
    sum_dtype,
)
from tailorbird.ir.types import BOOL, COMPLEX, FLOAT, INT, Type
from tailorbird.reasons import why

__all__ = ["Same", "broadcast", "infer", "infer_all", "reduce_shape", "result_dtype"]

Shape = tuple[Dim, ...]
Same = Callable[[Dim, Dim], bool]
Attrs = Mapping[str, Any]
Rule = Callable[[str, Sequence[Type], Attrs, Same], Type]


def infer(
    op: str, operands: Sequence[Operand], attrs: Attrs | None = None, same: Same = operator.eq
) -> Type:
    """The type of the result of an op.

    >>> infer("sum", [np.float32(1)], {"axis": ()})
    Type(dtype=dtype('float32'), shape=(), weak=False)
    """
    types = [type_of(x) for x in operands]
    rule = RULES.get(op) or RULES_OF_KIND[OPS[op].kind]
    if rule is _map and any(type(x) is int for x in operands):
        for x, dtype in zip(operands, result_dtype(op, types)[0]):
            check_literal(op, x, dtype)
    return rule(op, types, attrs or {}, same)


def infer_all(
    op: str, operands: Sequence[Operand], attrs: Attrs | None = None, same: Same = operator.eq
) -> list[Type]:
    """The types of all results of an op."""
    rule = RULES_OF_SEVERAL.get(op)
    if rule is None:
        return [infer(op, operands, attrs, same)]
    return rule([type_of(x) for x in operands], same)


def _raises(error: str) -> NoReturn:
    raise Refused(why("numpy_raises", error=error))


# Shapes


def broadcast(shapes: Sequence[Shape], same: Same = operator.eq) -> Shape:
    """The shape that shapes broadcast to.

    >>> broadcast([(4, 1), (3,)])
    (4, 3)
    """
    result = max(shapes, key=len, default=())
    for shape in shapes:
        if not shape or shape is result:
            continue
        kept = len(result) - len(shape)
        joined = [_join(a, b, same) for a, b in zip(result[kept:], shape)]
        result = (*result[:kept], *joined)
    return result


def _join(a: Dim, b: Dim, same: Same) -> Dim:
    """One dimension that two broadcast to."""
    if a is b or _is_one(b):
        return a
    if _is_one(a):
        return b
    if a == b or same(a, b):
        return a
    _raises(f"ValueError: operands could not be broadcast together ({a} and {b})")


def _is_one(dim: Dim) -> bool:
    return type(dim) is int and dim == 1


def _agree(a: Dim, b: Dim, same: Same, what: str) -> None:
    """Two dimensions that must be equal, without broadcasting."""
    if a != b and not same(a, b):
        _raises(f"ValueError: {what}: {a} is not {b}")


def reduce_shape(shape: Shape, axis: Sequence[int], keepdims: bool = False) -> Shape:
    """The shape after folding the axes.

    >>> reduce_shape((2, 3, 4), (1,), keepdims=True)
    (2, 1, 4)
    """
    if keepdims:
        return tuple(1 if k in axis else dim for k, dim in enumerate(shape))
    return tuple(dim for k, dim in enumerate(shape) if k not in axis)


# Rules by kind


def _map(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    dtype = result_dtype(op, types)[1]
    if len(types) == 1:
        return Type(dtype, types[0].shape)
    return Type(dtype, broadcast([t.shape for t in types], same))


def _part(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(real_dtype(types[0].dtype), types[0].shape)


def _complex(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    dtypes = [t.dtype for t in types]
    if any(dtype.kind == "c" for dtype in dtypes):
        _raises("TypeError: a part of a complex number that is complex")
    shape = broadcast([t.shape for t in types], same)
    return Type(np.result_type(*dtypes, np.complex64), shape)


def _cast(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(attrs["dtype"], types[0].shape)


def _reduction(choose: Callable[[np.dtype, np.dtype | None], np.dtype]) -> Rule:
    """A reduction whose result dtype is `choose(operand's dtype, attribute dtype)`."""

    def rule(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
        shape = reduce_shape(types[0].shape, attrs["axis"], attrs.get("keepdims", False))
        return Type(choose(types[0].dtype, attrs.get("dtype")), shape)

    return rule


def _scan(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(attrs.get("dtype") or sum_dtype(types[0].dtype), types[0].shape)


def _create(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(attrs["dtype"], attrs["shape"])


def _first(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return types[0]


# Contractions


def _matmul(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    a, b = (t.shape for t in types)
    if not a or not b:
        _raises("ValueError: matmul needs operands of rank 1 or more")
    _agree(a[-1], b[-2] if len(b) > 1 else b[0], same, "matmul")
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    batch = broadcast([a[:-2], b[:-2]], same)
    return Type(result_dtype("matmul", types)[1], batch + rows + columns)


def _dot(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    a, b = (t.shape for t in types)
    if not a or not b:
        return Type(result_dtype("multiply", types)[1], a or b)
    _agree(a[-1], b[-2] if len(b) > 1 else b[0], same, "dot")
    rest = b[:-2] + b[-1:] if len(b) > 1 else ()
    return Type(common_dtype(types), a[:-1] + rest)


def _einsum(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    inputs, arrow, output = attrs["subscripts"].replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow or "." in inputs or [len(t) for t in terms] != [t.rank for t in types]:
        raise Refused(why("unsupported_call", name=f"einsum {attrs['subscripts']!r}"))
    dims: dict[str, Dim] = {}
    for term, t in zip(terms, types):
        for letter, dim in zip(term, t.shape):
            dims[letter] = _join(dims.get(letter, 1), dim, same)
    return Type(common_dtype(types), tuple(dims[letter] for letter in output))


# Routines of LAPACK


def _matrices(x: Type, same: Same) -> Shape:
    """The batch of square matrices."""
    if x.rank < 2 or x.dtype not in (FLOAT, COMPLEX):
        _raises(f"TypeError: {x} is no square matrix of float64 or complex128")
    _agree(x.shape[-2], x.shape[-1], same, "a square matrix")
    return x.shape[:-2]


def _like_matrix(types: Sequence[Type], same: Same) -> list[Type]:
    batch = _matrices(types[0], same)
    return [types[0], Type(INT, batch)]


def _solve(types: Sequence[Type], same: Same) -> list[Type]:
    a, b = types
    batch = _matrices(a, same)
    if b.rank < 2 or b.dtype != a.dtype:
        _raises(f"TypeError: solve with {a} and {b}")
    _agree(a.shape[-1], b.shape[-2], same, "solve")
    batch = broadcast([batch, b.shape[:-2]], same)
    return [Type(a.dtype, (*batch, *b.shape[-2:])), Type(INT, batch)]


def _slogdet(types: Sequence[Type], same: Same) -> list[Type]:
    batch = _matrices(types[0], same)
    return [Type(types[0].dtype, batch), Type(FLOAT, batch)]


# Moves


def _read(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(types[0].dtype, attrs["view"].shape)


def _compress(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    base, mask = types
    for a, b in zip(base.shape, mask.shape):
        _agree(a, b, same, "boolean index")
    return Type(base.dtype, (attrs["size"], *base.shape[mask.rank :]))


def _gather(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    base, *indices = types
    axes = sorted(attrs.get("axes", range(len(indices))))
    inserted = broadcast([t.shape for t in indices], same)
    rest = tuple(dim for k, dim in enumerate(base.shape) if k not in axes)
    adjacent = axes[-1] - axes[0] == len(axes) - 1
    place = axes[0] if adjacent else 0  # NumPy puts indices with a slice between them first
    return Type(base.dtype, rest[:place] + inserted + rest[place:])


def _reshape(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(types[0].dtype, attrs["shape"])


def _concatenate(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    axis = attrs["axis"]
    shape = list(types[0].shape)
    for t in types[1:]:
        for k, dim in enumerate(t.shape):
            if k == axis:
                shape[k] = shape[k] + dim
            else:
                _agree(shape[k], dim, same, "concatenate")
    return Type(common_dtype(types), tuple(shape))


def _pad(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    widths = attrs["width"]
    shape = tuple(dim + before + after for dim, (before, after) in zip(types[0].shape, widths))
    return Type(types[0].dtype, shape)


def _take(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    base, indices = types
    axis = attrs["axis"]
    return Type(base.dtype, base.shape[:axis] + indices.shape + base.shape[axis + 1 :])


def _extent(op: str, types: Sequence[Type], attrs: Attrs, same: Same) -> Type:
    return Type(BOOL, (attrs["size"],))


def _keep(found: np.dtype, asked: np.dtype | None) -> np.dtype:
    return found


_SUM = _reduction(lambda found, asked: asked or sum_dtype(found))
_MEAN = _reduction(lambda found, asked: asked or mean_dtype(found))
_SPREAD = _reduction(lambda found, asked: asked or real_dtype(mean_dtype(found)))
_TRUTH = _reduction(lambda found, asked: BOOL)
_COUNT = _reduction(lambda found, asked: INT)

RULES_OF_KIND: dict[str, Rule] = {
    "map": _map,
    "reduce": _reduction(_keep),
    "scan": _scan,
    "create": _create,
}
RULES_OF_SEVERAL: dict[str, Callable[[Sequence[Type], Same], list[Type]]] = {
    "cholesky": _like_matrix,
    "solve": _solve,
    "inv": _like_matrix,
    "slogdet": _slogdet,
}
RULES: dict[str, Rule] = {
    "cast": _cast,
    "real": _part,
    "imag": _part,
    "complex": _complex,
    **dict.fromkeys(("sum", "prod"), _SUM),
    **dict.fromkeys(("var", "std"), _SPREAD),
    **dict.fromkeys(("any", "all"), _TRUTH),
    **dict.fromkeys(("count_nonzero", "argmin", "argmax"), _COUNT),
    **dict.fromkeys(("write", "write_mask", "scatter", "transfer"), _first),
    "mean": _MEAN,
    "matmul": _matmul,
    "dot": _dot,
    "einsum": _einsum,
    "read": _read,
    "compress": _compress,
    "gather": _gather,
    "take": _take,
    "extent": _extent,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "pad": _pad,
}
