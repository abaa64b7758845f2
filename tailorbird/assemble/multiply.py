"""Our own matrix product, as generated code calls it.

In: nothing; the kernels of a type are built when generated code first names `tb_multiply_f64` or
`tb_multiply_f32`, and are kept on disk like everything compiled. Out: their addresses.

Invariants: see `emit/gemm.py` for the function itself. Here: vectors are as wide as the target's,
blocks fit this machine's caches; the code is never unloaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailorbird.assemble import build, memory, pool, process
from tailorbird.assemble.target import host
from tailorbird.hardware import profile

EXPORTS = ("multiply",)


def address(ty: str) -> int:
    """The product of matrices of a type, for the target at hand."""
    machine = profile()
    made_for = (ty, host().vector_bytes, machine.cache(1), machine.cache(2))
    library = build.build_runtime(f"multiply_{ty}", _ir, made_for, EXPORTS, _resolve)
    return library.address("multiply")


def _ir(ty: str, vector_bytes: int, first: int, second: int) -> str:
    from tailorbird.emit.gemm import emit_module

    return emit_module(ty, vector_bytes, first, second)


def _resolve(names: Iterable[str]) -> dict[str, int]:
    known = {**pool.symbols(), **memory.symbols()}
    return {name: known.get(name) or process.resolve_one(name) for name in names}
