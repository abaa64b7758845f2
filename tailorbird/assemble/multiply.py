"""Our own matrix products, as generated code calls them.

In: nothing; the kernels of a type are built when generated code first names `tb_multiply_f64`,
`tb_sparse_f32` and so on, and are kept on disk like everything compiled. Out: their addresses.

Invariants: see `emit/gemm.py` and `emit/sparse.py` for the functions themselves. Here: vectors are
as wide as the target's, blocks fit this machine's caches; the code is never unloaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailorbird.assemble import build, memory, pool, process
from tailorbird.assemble.target import host
from tailorbird.hardware import profile


def address(ty: str) -> int:
    """The product of matrices of a type, for the target at hand."""
    machine = profile()
    made_for = (ty, host().vector_bytes, machine.cache(1), machine.cache(2))
    library = build.build_runtime(f"multiply_{ty}", _ir, made_for, ("multiply",), _resolve)
    return library.address("multiply")


def sparse(ty: str) -> int:
    """The product for a left matrix that may be mostly zeros."""
    made_for = (ty, host().vector_bytes)
    library = build.build_runtime(f"sparse_{ty}", _sparse_ir, made_for, ("sparse",), _resolve)
    return library.address("sparse")


def _ir(ty: str, vector_bytes: int, first: int, second: int) -> str:
    from tailorbird.emit.gemm import emit_module

    return emit_module(ty, vector_bytes, first, second)


def _sparse_ir(ty: str, vector_bytes: int) -> str:
    from tailorbird.emit.sparse import emit_module

    return emit_module(ty, vector_bytes)


def _resolve(names: Iterable[str]) -> dict[str, int]:
    known = {**pool.symbols(), **memory.symbols()}
    return {name: known.get(name) or process.resolve_one(name) for name in names}
