"""How an array may lie in memory: the same numbers, other strides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _c(x: np.ndarray) -> np.ndarray:
    return x.copy()


def _fortran(x: np.ndarray) -> np.ndarray:
    return np.asfortranarray(x)


def _rows_apart(x: np.ndarray) -> np.ndarray:
    """Unit stride along the last axis, gaps elsewhere."""
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def _every_second(x: np.ndarray) -> np.ndarray:
    """No unit stride at all."""
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    picked = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    picked[...] = x
    return picked


def _backwards(x: np.ndarray) -> np.ndarray:
    """Negative strides along every axis."""
    flip = tuple(slice(None, None, -1) for _ in x.shape)
    return np.ascontiguousarray(x[flip])[flip]


def _last_backwards(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[..., ::-1])[..., ::-1]


def _transposed(x: np.ndarray) -> np.ndarray:
    """The first two axes swapped in memory, with gaps."""
    if x.ndim < 2:
        return _every_second(x)
    return _rows_apart(np.ascontiguousarray(np.swapaxes(x, 0, 1))).swapaxes(0, 1)


def _repeated(x: np.ndarray) -> np.ndarray:
    """Stride 0 along the first axis: the first row for every row."""
    return np.broadcast_to(x[:1].copy(), x.shape) if x.shape and x.shape[0] else x.copy()


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": _c,
    "F": _fortran,
    "rows apart": _rows_apart,
    "every second": _every_second,
    "backwards": _backwards,
    "last backwards": _last_backwards,
    "transposed": _transposed,
    "repeated": _repeated,
}


def laid_out(x: np.ndarray, name: str) -> np.ndarray:
    """The array in a layout; equal to x, save for `repeated`."""
    return LAYOUTS[name](x)
