"""NumPy's functions that C does, as the NumPy programs they come to: they are read, never run.

In and out: as the function of NumPy has it, which `library.py` makes sure of. An `assert` leaves
for plain Python where the arguments are ones that NumPy does something else with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def below(a: Array, v: Array) -> Array:
    """Whether a sorts before v: nan is last."""
    return (a < v) | ((v != v) & (a == a))


def search_left(a: Array, v: Array) -> Array:
    """Where each of v goes into a, which is sorted, before its equals."""
    low = np.zeros(v.shape, np.int64)
    size = len(a)
    while size > 1:
        half = size // 2
        low = low + half * below(np.take(a, low + (half - 1), mode="clip"), v)
        size = size - half
    if size == 1:
        low = low + below(np.take(a, low, mode="clip"), v)
    return low


def search_right(a: Array, v: Array) -> Array:
    """The same, behind its equals."""
    low = np.zeros(v.shape, np.int64)
    size = len(a)
    while size > 1:
        half = size // 2
        low = low + half * ~below(v, np.take(a, low + (half - 1), mode="clip"))
        size = size - half
    if size == 1:
        low = low + ~below(v, np.take(a, low, mode="clip"))
    return low


def find_left(a: Array, v: Array) -> Array:
    """`search_left` for one number."""
    low = 0
    size = len(a)
    while size > 0:
        half = size // 2
        if below(a[low + half], v):
            low = low + half + 1
            size = size - half - 1
        else:
            size = half
    return np.int64(low)


def find_right(a: Array, v: Array) -> Array:
    """`search_right` for one number."""
    low = 0
    size = len(a)
    while size > 0:
        half = size // 2
        if below(v, a[low + half]):
            size = half
        else:
            low = low + half + 1
            size = size - half - 1
    return np.int64(low)


def is_sorted(a: Array) -> None:
    """Leaves where it is not."""
    assert np.all(a[:-1] <= a[1:])


def interpolated(x: Array, xp: Array, fp: Array, left: Array, right: Array) -> Array:
    """np.interp of an array, all of them float64."""
    is_sorted(xp)
    last = len(xp) - 1
    if last == 0:
        return np.where(x < xp[0], left, np.where(x > xp[0], right, fp[0]))
    j = search_right(xp, x) - 1
    at = np.minimum(np.maximum(j, 0), max(last - 1, 0))
    x0, x1 = np.take(xp, at, mode="clip"), np.take(xp, at + 1, mode="clip")
    y0, y1 = np.take(fp, at, mode="clip"), np.take(fp, at + 1, mode="clip")
    slope = (y1 - y0) / (x1 - x0)
    found = slope * (x - x0) + y0
    found = np.where(np.isnan(found), slope * (x - x1) + y1, found)
    found = np.where(np.isnan(found) & (y0 == y1), y0, found)
    found = np.where(x0 == x, y0, found)
    found = np.where(j >= last, np.where(x > xp[last], right, fp[last]), found)
    found = np.where(j < 0, left, found)
    return np.where(np.isnan(x), x, found)


def convolved(a: Array, v: Array, kind: Any) -> Array:
    """All sums of products of two vectors that overlap; a is no shorter than v."""
    n = len(a)
    out = np.zeros(n + len(v) - 1, kind)
    for k in range(len(v)):
        out[k : k + n] += v[k] * a
    return out


def convolved_inside(a: Array, v: Array, kind: Any) -> Array:
    """Those where all of v overlaps."""
    last = len(v) - 1
    n = len(a) - last
    out = np.zeros(n, kind)
    for k in range(len(v)):
        out += v[last - k] * a[k : k + n]
    return out


def counts(a: Array, first: Array, last: Array, span: Array, edges: Array, bins: Any) -> Array:
    """The bin of each of a, as np.histogram finds it: by division, then by comparing with the
    edges, for the two may differ by one.
    """
    assert np.all(edges[:-1] < edges[1:])
    place = (a - first) / span * bins
    at = np.minimum(np.maximum(place.astype(np.int64), 0), bins - 1)
    at = at - (a < np.take(edges, at, mode="clip"))
    return at + ((a >= np.take(edges, at + 1, mode="clip")) & (at != bins - 1))


def running_most(x: Array) -> Array:
    """np.maximum.accumulate of a vector."""
    out = np.empty_like(x)
    best = x[0]
    for k in range(len(x)):
        best = np.maximum(best, x[k])
        out[k] = best
    return out


def running_least(x: Array) -> Array:
    """np.minimum.accumulate of a vector."""
    out = np.empty_like(x)
    best = x[0]
    for k in range(len(x)):
        best = np.minimum(best, x[k])
        out[k] = best
    return out
