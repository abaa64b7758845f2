"""Every name that generated code may reference, and where it is in this process.

In: the names an object leaves undefined. Out: their addresses. Nothing is looked up before it is
asked for.

| name | what |
|---|---|
| `tb_ndarray_type`, `tb_np_new` | NumPy: the array type, PyArray_NewFromDescr |
| `tb_PyArray_Scalar` | NumPy: (data, descr, base) -> scalar |
| `tb_descr_float64`, `tb_scalar_type_float64` | the dtype; the scalar type (any of DTYPES) |
| `tb_Py...` | any function that CPython exports |
| `tb_PyFloat_Type`, `tb_Py_None`, `tb_Py_True` | CPython objects |
| `tb_miss` | a byte; its address, returned by an entry, means "my guards did not hold" |
| `tb_plain` | a byte; its address, returned by an entry, means "the plain function is faster" |
| `tb_parfor`, `tb_threads` | the pool (`pool.py`) |
| `tb_step`, `tb_map`, `tb_fold` | how a step runs (`steps_ir.py`) |
| `tb_new_large`, `tb_scratch`, `tb_scratch_free` | result memory (`memory.py`) |
| `tb_multiply_f64`, `tb_multiply_f32` | our own matrix product (`multiply.py`) |
| `tb_sparse_f64`, `tb_sparse_f32` | the one for a matrix that may be mostly zeros |
| `tb_cblas_dgemm` ... | NumPy's own BLAS (`blas.py`), integers of `blas().int_bits` bits |
| `tb_lapack64_dgesv` ... | a routine of LAPACK whose integers have so many bits |
| `sin`, `fmod`, `memcpy` ... | libm, libgcc, libc |

Invariants: data symbols stand for the object itself, `@tb_descr_float64` is the PyArray_Descr;
objects that are named here live as long as the process. A name that cannot be found is a
CompileError.
"""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tailorbird.assemble import blas, process
from tailorbird.errors import CompileError

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

_DESCRS = {name: np.dtype(name) for name in DTYPES}
_OBJECTS: Mapping[str, object] = {
    "tb_ndarray_type": np.ndarray,
    "tb_PyFloat_Type": float,
    "tb_PyLong_Type": int,
    "tb_PyBool_Type": bool,
    "tb_PyComplex_Type": complex,
    "tb_PyTuple_Type": tuple,
    "tb_Py_None": None,
    "tb_Py_True": True,
    "tb_Py_False": False,
    **{f"tb_descr_{name}": descr for name, descr in _DESCRS.items()},
    **{f"tb_scalar_type_{name}": descr.type for name, descr in _DESCRS.items()},
    **{
        f"tb_{name}": getattr(builtins, name.removeprefix("PyExc_"))
        for name in ("PyExc_MemoryError", "PyExc_RuntimeError", "PyExc_OverflowError")
    },
}
_ALIASES = {"tb_np_new": "tb_PyArray_NewFromDescr"}
_BLAS_PREFIX = "tb_cblas_"
_marks = (ctypes.c_char * 2)()
MISS = ctypes.addressof(_marks)
PLAIN = MISS + 1


def resolve(names: Iterable[str]) -> dict[str, int]:
    """The addresses of `names`, looked up now."""
    return {name: resolve_one(name) for name in names}


def resolve_one(name: str) -> int:
    """The address of one name; a CompileError when this process has nothing of that name."""
    if name in _OBJECTS:
        return id(_OBJECTS[name])
    if name in _RUNTIME:
        return _RUNTIME[name]()
    if name.startswith(_BLAS_PREFIX):
        return _blas(name.removeprefix(_BLAS_PREFIX))
    if name.startswith(blas.LAPACK_PREFIX):
        return _lapack(name.removeprefix(blas.LAPACK_PREFIX))
    return process.resolve_one(_ALIASES.get(name, name))


def runtime_symbols() -> dict[str, int]:
    """Every name with a fixed meaning, resolved: for tests and for people; code uses `resolve`."""
    return resolve([*_OBJECTS, *_ALIASES, *_RUNTIME])


def _blas(name: str) -> int:
    library = blas.blas()
    found = library.find(name) if library is not None else None
    if not found:
        raise CompileError(f"the code needs cblas_{name}, which NumPy's BLAS does not offer")
    return found


def _lapack(name: str) -> int:
    wanted, _, routine = name.partition("_")
    address, bits = blas.lapack(routine) or (0, 0)
    if str(bits) != wanted:
        raise CompileError(f"the code needs {routine} with integers of {wanted} bits")
    return address


def _pool(name: str) -> Callable[[], int]:
    def address() -> int:
        from tailorbird.assemble import pool

        return pool.symbols()[name]

    return address


def _memory(name: str) -> Callable[[], int]:
    def address() -> int:
        from tailorbird.assemble import memory

        return memory.symbols()[name]

    return address


def _multiply(ty: str) -> Callable[[], int]:
    def address() -> int:
        from tailorbird.assemble import multiply

        return multiply.address(ty)

    return address


def _sparse(ty: str) -> Callable[[], int]:
    def address() -> int:
        from tailorbird.assemble import multiply

        return multiply.sparse(ty)

    return address


_RUNTIME: Mapping[str, Callable[[], int]] = {
    "tb_miss": lambda: MISS,
    "tb_plain": lambda: PLAIN,
    "tb_parfor": _pool("tb_parfor"),
    "tb_threads": _pool("tb_threads"),
    "tb_step": _pool("tb_step"),
    "tb_map": _pool("tb_map"),
    "tb_fold": _pool("tb_fold"),
    "tb_divide": _pool("tb_divide"),
    "tb_new_large": _memory("tb_new_large"),
    "tb_scratch": _memory("tb_scratch"),
    "tb_scratch_free": _memory("tb_scratch_free"),
    "tb_multiply_f32": _multiply("f32"),
    "tb_multiply_f64": _multiply("f64"),
    "tb_sparse_f32": _sparse("f32"),
    "tb_sparse_f64": _sparse("f64"),
}
