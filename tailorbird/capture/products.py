"""Products summed over shared indices: matmul, dot, einsum and what is made of them.

In: arrays. Out: `matmul`, `dot` and `einsum` nodes whose shared sizes have been unified. `dot`
and `matmul` are two ops because NumPy rounds them differently.
"""

from __future__ import annotations

from collections import Counter
from string import ascii_letters
from typing import Any

import numpy as np

from tailorbird.capture.assign import store_out
from tailorbird.capture.elementwise import elementwise
from tailorbird.capture.joining import joined
from tailorbird.capture.meeting import along, meet
from tailorbird.capture.registry import METHODS, handles
from tailorbird.capture.tracer import Shape, Tracer
from tailorbird.capture.values import Arr, Unhandled
from tailorbird.capture.views import (
    as_arr,
    diagonal_view,
    index,
    insert_axes,
    normal_axis,
    permute,
    reshape,
)
from tailorbird.ir.expr import Dim, product
from tailorbird.ir.node import Value, type_of


def matmul(t: Tracer, a: Any, b: Any, out: Any = None) -> Any:
    """`a @ b`."""
    x, y = as_arr(t, a), as_arr(t, b)
    if not x.ndim or not y.ndim:
        t.raises("ValueError: matmul: operands need at least one axis")
    right = _agree(t, x, y)
    t.broadcast([x.shape[:-2], y.shape[:-2]])
    if _is_column_by_row(t, x, y):
        result = elementwise(t, "add", [elementwise(t, "multiply", [x, y]), 0.0])
    else:
        result = t.result(t.inferred("matmul", [t.read(x), right], {}))
    if isinstance(result, Arr):
        result.buffer.contiguous = result.ndim <= 2
    return result if out is None else store_out(t, result, out)


def _is_column_by_row(t: Tracer, x: Arr, y: Arr) -> bool:
    """Whether NumPy multiplies complex matrices itself, into zeros, as BLAS does not."""
    if np.result_type(x.dtype, y.dtype).kind != "c" or min(x.ndim, y.ndim) < 2:
        return False
    outer = (x.shape[-2:-1], y.shape[-1:])
    return _is_one(t, x.shape[-1:]) and not any(_is_one(t, size) for size in outer)


def _agree(t: Tracer, x: Arr, y: Arr) -> Value:
    """y, whose size that is summed over is that of x: unified, or checked at run time."""
    axis = max(y.ndim - 2, 0)
    size, inner = x.shape[-1], y.shape[axis]
    if not meet(t, size, inner):
        t.raises(f"ValueError: shapes do not agree: {size} and {inner}")
    return along(t, y, (*y.shape[:axis], size, *y.shape[axis + 1 :]))


@handles(np.dot, method="dot")
def _dot(t: Tracer, a: Any, b: Any, out: Any = None) -> Any:
    x, y = as_arr(t, a), as_arr(t, b)
    if not x.ndim or not y.ndim:
        result = _scaled(t, x, y)
    else:
        right = _agree(t, x, y)
        single = _of_one_element(t, x, y)
        if single is None:
            result = t.result(t.inferred("dot", [t.read(x), right], {}))
        else:
            shape = (*x.shape[:-1], *y.shape[: max(y.ndim - 2, 0)], *y.shape[-1:][: y.ndim - 1])
            result = single if not shape else reshape(t, as_arr(t, single), shape)
    if isinstance(result, Arr):
        result.buffer.contiguous = True
    if isinstance(out, Arr) and out.dtype != type_of(t.operand(result)).dtype:
        t.raises("ValueError: output array is not acceptable")
    return result if out is None else store_out(t, result, out)


def _of_one_element(t: Tracer, x: Arr, y: Arr) -> Any:
    """The product of matrices or vectors of which one has one element, for BLAS a number."""
    blas = np.result_type(x.dtype, y.dtype).kind in "fc" and max(x.ndim, y.ndim) <= 2
    if not blas or not _is_one(t, x.shape[-1:]):
        return None
    if _is_one(t, y.shape):
        left = x if max(x.ndim, y.ndim) > 1 else reshape(t, x, ())
        return _scaled(t, left, reshape(t, y, ()))
    return _scaled(t, reshape(t, x, ()), y) if _is_one(t, x.shape) else None


def _is_one(t: Tracer, shape: Shape) -> bool:
    return all(t.assume.agrees(d, 1) for d in shape)


def _scaled(t: Tracer, x: Arr, y: Arr) -> Any:
    """np.dot with a number, which has the width of an array: where BLAS does it, products are added
    to zeros, and a number that is zero adds nothing, not even to nan.
    """
    product_of = elementwise(t, "multiply", [x, y])
    number, array = (x, y) if not x.ndim else (y, x)
    dtype = t.operand(product_of).type.dtype  # type: ignore[union-attr]
    if dtype.kind not in "fc" or not 1 <= array.ndim <= 2:
        return product_of
    if not t.at_least(product(t.shape_of(array)), 2):
        return product_of
    nothing = elementwise(t, "equal", [number, 0])
    return elementwise(t, "where", [nothing, 0.0, elementwise(t, "add", [product_of, 0.0])])


@handles(np.vdot)
def _vdot(t: Tracer, a: Any, b: Any) -> Any:
    x, y = (reshape(t, as_arr(t, v), -1) for v in (a, b))
    if x.dtype.kind == "c":
        x = elementwise(t, "conjugate", [x])
    return t.result(t.inferred("einsum", [t.read(x), _agree(t, x, y)], {"subscripts": "i,i->"}))


@handles(np.inner)
def _inner(t: Tracer, a: Any, b: Any) -> Any:
    x, y = as_arr(t, a), as_arr(t, b)
    if x.ndim <= 1 and y.ndim <= 1:
        return _dot(t, x, y)
    if y.ndim == 2 and x.ndim:
        return _dot(t, x, permute(t, y, (1, 0)))
    if y.ndim == 1 and x.ndim:
        return _dot(t, x, y)
    raise Unhandled


@handles(np.outer)
def _outer(t: Tracer, a: Any, b: Any, out: Any = None) -> Any:
    x, y = (reshape(t, as_arr(t, v), -1) for v in (a, b))
    result = elementwise(t, "multiply", [insert_axes(t, x, [1]), insert_axes(t, y, [0])])
    return result if out is None else store_out(t, result, out)


@handles(np.kron)
def _kron(t: Tracer, a: Any, b: Any) -> Any:
    """All products, the axes of both in turns, then taken together in pairs."""
    x, y = as_arr(t, a), as_arr(t, b)
    rank = max(x.ndim, y.ndim)
    if not x.ndim or not y.ndim:
        return elementwise(t, "multiply", [x, y])
    x, y = (insert_axes(t, v, range(rank - v.ndim)) for v in (x, y))
    spread = [insert_axes(t, x, range(1, 2 * rank, 2)), insert_axes(t, y, range(0, 2 * rank, 2))]
    shape = tuple(p * q for p, q in zip(t.shape_of(x), t.shape_of(y)))
    return reshape(t, as_arr(t, elementwise(t, "multiply", spread)), shape)


@handles(np.cross)
def _cross(
    t: Tracer, a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None
) -> Any:
    """Of vectors with three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_arr(t, a), as_arr(t, b)
    if not x.ndim or not y.ndim:
        t.raises("ValueError: At least one array has zero dimension")
    x, y = _to_end(t, x, axisa), _to_end(t, y, axisb)
    if not all(t.equal(v.shape[-1], 3) for v in (x, y)):
        raise Unhandled
    kind = t.supported(np.promote_types(x.dtype, y.dtype))
    first, other = ([as_arr(t, _part(t, v, k, kind)) for k in range(3)] for v in (x, y))
    rank = max(x.ndim, y.ndim)
    at = normal_axis(t, axisc, rank)
    parts = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        terms = [[first[i], other[j]], [first[j], other[i]]]
        products = [elementwise(t, "multiply", pair) for pair in terms]
        found = elementwise(t, "subtract", products)
        parts.append(insert_axes(t, as_arr(t, found), [at]))
    return joined(t, parts, at)


def _to_end(t: Tracer, x: Arr, axis: Any) -> Arr:
    at = normal_axis(t, axis, x.ndim)
    return permute(t, x, [*(k for k in range(x.ndim) if k != at), at])


def _part(t: Tracer, x: Arr, k: int, kind: np.dtype) -> Any:
    """The k-th components of the vectors along the last axis."""
    return METHODS["astype"](t, index(t, x, (Ellipsis, k)), kind)


@handles(np.tensordot)
def _tensordot(t: Tracer, a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = as_arr(t, a), as_arr(t, b)
    left, right = _summed_axes(t, x, y, axes)
    if len(left) != len(right):
        t.raises("ValueError: shape-mismatch for sum")
    for i, j in zip(left, right):
        if not t.same(x.shape[i], y.shape[j]):
            t.raises("ValueError: shape-mismatch for sum")
    rows = [k for k in range(x.ndim) if k not in left]
    columns = [k for k in range(y.ndim) if k not in right]
    shape = tuple(x.shape[k] for k in rows) + tuple(y.shape[k] for k in columns)
    depth = product(t.shape_of(x)[k] for k in left)
    height = product(t.shape_of(x)[k] for k in rows)
    width = product(t.shape_of(y)[k] for k in columns)
    flat_x = reshape(t, permute(t, x, [*rows, *left]), (height, depth))
    flat_y = reshape(t, permute(t, y, [*right, *columns]), (depth, width))
    return reshape(t, _dot(t, flat_x, flat_y), shape) if shape else _scalar(t, flat_x, flat_y)


def _scalar(t: Tracer, x: Arr, y: Arr) -> Any:
    """A full contraction, of which NumPy makes an array of rank 0."""
    return as_arr(t, _dot(t, reshape(t, x, -1), reshape(t, y, -1)))


def _summed_axes(t: Tracer, x: Arr, y: Arr, axes: Any) -> tuple[list[int], list[int]]:
    axes = t.concrete(axes, "axes")
    if isinstance(axes, int):
        if axes > min(x.ndim, y.ndim):
            t.raises("IndexError: tuple index out of range")
        return list(range(x.ndim - axes, x.ndim)), list(range(axes))
    left, right = ([a] if isinstance(a, int) else list(a) for a in axes)
    return [normal_axis(t, k, x.ndim) for k in left], [normal_axis(t, k, y.ndim) for k in right]


# einsum


@handles(np.einsum)
def _einsum(t: Tracer, subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    if not isinstance(subscripts, str):
        raise Unhandled
    arrays = [as_arr(t, x) for x in operands]
    text = _spelt_out(subscripts.replace(" ", ""), [x.ndim for x in arrays])
    inputs, arrow, output = text.partition("->")
    if not arrow:
        output = "".join(sorted(c for c, n in Counter(inputs.replace(",", "")).items() if n == 1))
    terms = inputs.split(",")
    if len(terms) != len(arrays) or any(len(s) != x.ndim for s, x in zip(terms, arrays)):
        t.raises("ValueError: einsum subscripts do not match the operands")
    if len(set(output)) != len(output) or not set(output) <= set(inputs):
        t.raises("ValueError: einsum output subscripts")
    sizes = _unify_letters(t, terms, arrays)
    if len(terms) == 1 and set(output) == set(inputs):
        return _einsum_view(t, arrays[0], inputs, output)
    values = [along(t, x, tuple(sizes[c] for c in term)) for x, term in zip(arrays, terms)]
    kind = np.result_type(*(x.dtype for x in arrays))
    t.supported(kind, "einsum")
    return t.result(t.inferred("einsum", values, {"subscripts": f"{inputs}->{output}"}))


def _spelt_out(text: str, ranks: list[int]) -> str:
    """The subscripts with letters of their own in place of `...`, which aligns at the right."""
    if "." not in text:
        return text
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    counts = [rank - len(term) + 3 for term, rank in zip(terms, ranks) if "..." in term]
    free = [c for c in ascii_letters if c not in text][: max(counts, default=0)]
    if len(terms) != len(ranks) or not arrow or "..." not in output or min(counts, default=-1) < 0:
        raise Unhandled
    places = iter(counts)
    spelt = [
        term.replace("...", "".join(free[len(free) - next(places) :])) if "..." in term else term
        for term in terms
    ]
    found = f"{','.join(spelt)}->{output.replace('...', ''.join(free))}"
    if "." in found:
        raise Unhandled
    return found


def _einsum_view(t: Tracer, x: Arr, letters: str, output: str) -> Arr:
    """One array whose every letter is kept: a view, of diagonals where a letter is repeated."""
    for letter in output:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = diagonal_view(t, x, 0, first, second)
            letters = "".join(c for k, c in enumerate(letters) if k not in (first, second)) + letter
    return permute(t, x, [letters.index(letter) for letter in output])


def _unify_letters(t: Tracer, terms: list[str], arrays: list[Arr]) -> dict[str, Dim]:
    """The size of each letter, to which the sizes of all arrays agree."""
    sizes: dict[str, Dim] = {}
    for term, x in zip(terms, arrays):
        for k, letter in enumerate(term):
            if not t.same(x.shape[k], x.shape[term.index(letter)]):
                t.raises("ValueError: dimensions in single operand for collapsing index")
        for letter, size in zip(term, x.shape):
            sizes[letter] = t.together((sizes.get(letter, 1), size))
    for term, x in zip(terms, arrays):
        if not all(_fits(t, n, sizes[c]) for c, n in zip(term, x.shape)):
            raise Unhandled  # NumPy stretches a size of 1
    return sizes


def _fits(t: Tracer, own: Dim, size: Dim) -> bool:
    """Whether a size is that of its letter, or was checked to be."""
    own, size = t.assume.canon(own), t.assume.canon(size)
    return own == size or (own != 1 and None in (t.assume.hint(own), t.assume.hint(size)))


@handles(np.trace, method="trace")
def _trace(
    t: Tracer, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None
) -> Any:
    x = as_arr(t, a)
    first, second = normal_axis(t, axis1, x.ndim), normal_axis(t, axis2, x.ndim)
    diagonal = diagonal_view(t, x, t.concrete(offset, "offset"), first, second)
    return METHODS["sum"](t, diagonal, axis=-1, dtype=dtype)
