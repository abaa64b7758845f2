"""What the ops of LAPACK mean: each does one thing to every matrix of a batch.

In: arrays of float64 or complex128, matrices along the last two axes. Out: what NumPy's function of
that name returns and, where it may raise LinAlgError, `info`: one int64 for each matrix, not 0
where it raises. Nobody may rely on the other results of such a matrix: here they are poison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def guarded(function: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """A function of matrices that may raise LinAlgError, as one that says so in its last result."""

    def meaning(*operands: Any) -> tuple[Any, Any]:
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in operands))
        spread = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in operands]
        out = np.full((*batch, *operands[-1].shape[-2:]), np.nan, operands[-1].dtype)
        info = np.zeros(batch, np.int64)
        for at in np.ndindex(batch):
            try:
                out[at] = function(*(x[at] for x in spread))
            except np.linalg.LinAlgError:
                info[at] = 1
        return out, info

    return meaning


def slogdet(x: Any) -> tuple[Any, Any]:
    """The sign and the logarithm of the determinant; LAPACK never fails here."""
    sign, logarithm = np.linalg.slogdet(x)
    return sign, logarithm
