"""Matrices as BLAS takes them: how they lie in memory."""

from __future__ import annotations

from tailorbird.ir.expr import Dim
from tailorbird.lower.kernel import Buffer

Lying = tuple[Buffer, Dim, tuple[Dim, ...]]  # a buffer, where in it, and the strides


def one_row(found: Lying, columns: Dim) -> Lying:
    """A matrix of one row lies as if others followed it."""
    buffer, offset, strides = found
    return buffer, offset, (*strides[:-2], columns, strides[-1]) if strides[-1] == 1 else strides


def is_positive(stride: Dim) -> bool:
    """Surely positive: a constant, or products of sizes with positive coefficients."""
    if isinstance(stride, int):
        return stride > 0
    return all(c > 0 and all(s.kind == "size" for s in m) for m, c in stride.terms)
