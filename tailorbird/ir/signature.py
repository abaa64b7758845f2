"""How each op is written: how many operands it takes and which attributes it must and may have.

One row an op, beside its meaning in `ops.py` and its rule in `shapes.py`; `verify.py` holds every
node against it.
"""

from __future__ import annotations

from tailorbird.dataclass import dataclass
from tailorbird.ir.ops import UFUNCS

ANY = 1_000_000


@dataclass(frozen=True)
class Signature:
    """How many operands an op takes, and the attributes it must have and may have."""

    least: int
    most: int
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


def _signatures() -> dict[str, Signature]:
    fold = Signature(1, 1, ("axis",), ("keepdims",))
    typed = Signature(1, 1, ("axis",), ("keepdims", "dtype"))
    spread = Signature(1, 1, ("axis",), ("keepdims", "dtype", "ddof"))
    folds = ("min", "max", "any", "all", "count_nonzero", "argmin", "argmax")
    return {
        **{name: Signature(u.nin, u.nin) for name, u in UFUNCS.items()},
        **dict.fromkeys(("real", "imag", "erf", "expit"), Signature(1, 1)),
        **dict.fromkeys(folds, fold),
        **dict.fromkeys(("sum", "prod", "mean"), typed),
        **dict.fromkeys(("var", "std"), spread),
        **dict.fromkeys(("cumsum", "cumprod"), Signature(1, 1, ("axis", "dtype"))),
        "matmul": Signature(2, 2, (), ("sparse",)),
        "dot": Signature(2, 2),
        **dict.fromkeys(("cholesky", "inv", "slogdet"), Signature(1, 1)),
        "solve": Signature(2, 2),
        "complex": Signature(2, 2),
        "where": Signature(3, 3),
        "cast": Signature(1, 1, ("dtype",)),
        "einsum": Signature(1, ANY, ("subscripts",)),
        "full": Signature(1, 1, ("shape", "dtype")),
        "empty": Signature(0, 0, ("shape", "dtype")),
        "arange": Signature(2, 2, ("shape", "dtype")),
        "linspace": Signature(2, 2, ("shape", "dtype", "endpoint")),
        "read": Signature(1, 1, ("view",)),
        "write": Signature(2, 2, ("view",)),
        "write_mask": Signature(3, 3),
        "compress": Signature(2, 2, ("size",)),
        "gather": Signature(2, ANY, (), ("axes",)),
        "scatter": Signature(3, ANY, (), ("axes", "op")),
        "reshape": Signature(1, 1, ("shape",)),
        "concatenate": Signature(1, ANY, ("axis",)),
        "pad": Signature(1, 1, ("width", "mode")),
        "take": Signature(2, 2, ("axis",)),
        "extent": Signature(1, 1, ("size",)),
        "loop": Signature(3, ANY, ("var",), ("stops",)),
        "while": Signature(0, ANY),
        "branch": Signature(1, 1),
        "call": Signature(0, ANY, ("function", "template"), ("many", "reason")),
        "transfer": Signature(1, 1, ("source", "target")),
        "check": Signature(1, 1, ("rel",), ("reason",)),
        "bind": Signature(1, 1, ("symbol",)),
    }


SIGNATURES = _signatures()
