"""What native code leaves to Python: a library function, or an op whose meaning is one.

In: the node of an opaque call. Out: a function from the operands to contiguous arrays of the
captured types, or to None when they differ or it raises. Some functions of NumPy are ours instead
where the data allows it (`counting.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.dataclass import dataclass
from tailorbird.dispatch.counting import FITTED


@dataclass(frozen=True)
class Outside:
    """An opaque call: the op, its attributes that are known, and the (dtype, rank) it gives."""

    op: str
    attrs: dict[str, Any]
    wanted: list[tuple[np.dtype, int]]

    def callable(self) -> Callable[..., tuple[np.ndarray, ...] | None]:
        """What an opaque call runs."""
        attrs, wanted = self.attrs, self.wanted
        if self.op == "call":
            call = _from_template(attrs["function"], attrs["template"])
        else:
            call = _from_meaning(self.op, attrs)
        many = bool(attrs.get("many"))

        def run(*operands: Any) -> tuple[np.ndarray, ...] | None:
            try:
                result = call(*operands)
            except Exception:  # noqa: BLE001 - the plain function runs and raises it in its place
                return None
            results = tuple(result) if many else (result,)
            if len(results) != len(wanted):
                return None
            out = []
            for x, (dtype, rank) in zip(results, wanted):
                array = np.asarray(x)
                if type(x) not in (np.ndarray, float) and not isinstance(x, np.generic):
                    return None
                if array.dtype != dtype or array.ndim != rank:
                    return None
                lies = array.flags.c_contiguous
                out.append(array if lies else np.ascontiguousarray(array).reshape(array.shape))
            return tuple(out)

        return run


def outside(node: Any) -> Outside:
    """The call that a node is."""
    attrs = node.attrs
    if node.op != "call":
        attrs = {k: v for k, v in attrs.items() if not _symbolic(v)}
    return Outside(node.op, attrs, [(v.type.dtype, v.type.rank) for v in node.outputs])


def _symbolic(x: Any) -> bool:
    from tailorbird.ir.expr import Expr

    if isinstance(x, tuple):
        return any(_symbolic(item) for item in x)
    return isinstance(x, Expr)


def _from_meaning(op: str, attrs: dict[str, Any]) -> Callable[..., Any]:
    from tailorbird.ir.ops import OPS

    meaning = OPS[op].meaning
    assert meaning is not None, op
    return lambda *operands: meaning(*operands, **attrs)


def _from_template(path: str, template: Any) -> Callable[..., Any]:
    from tailorbird.ir.node import Slot

    module, name = path.split(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    function = FITTED.get(path, function)
    args, kwargs = template

    def call(*operands: Any) -> Any:
        def fill(x: Any) -> Any:
            if isinstance(x, Slot):
                return operands[x.index]
            if isinstance(x, (tuple, list)):
                return type(x)(fill(item) for item in x)
            return x

        return function(*map(fill, args), **{k: fill(v) for k, v in kwargs})

    return call
