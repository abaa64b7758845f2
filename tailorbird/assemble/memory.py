"""Memory for large results and temporaries.

In: nothing; built when generated code first names one of its symbols. Out: addresses of
`tb_new_large`, `tb_scratch` and `tb_scratch_free`, and a few handles for tests and people.

Invariants: see `memory_ir.py` for the blocks themselves. Here: arrays made by `tb_new_large` own
their data through NumPy's own interface for data handlers (NEP 49), so they can be resized,
pickled, and freed by any thread; the handler, its capsule and its code are never freed, since
arrays outlive modules at exit; the knobs `huge_pages` and `recycle` are followed when `refresh` is
called, as `symbols` does.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import numpy as np

from tailorbird import knobs
from tailorbird.assemble import build, jit, memory_ir, process

LARGE = memory_ir.LARGE


def symbols() -> dict[str, int]:
    """Addresses for generated code, with the switches set from the knobs."""
    library = _library()
    refresh()
    names = ("tb_new_large", "tb_scratch", "tb_scratch_free")
    return {name: library.address(name) for name in names}


def refresh() -> None:
    """Follow the knobs `huge_pages` and `recycle` from now on."""
    _flag("tb_mem_huge").value = int(knobs.get("huge_pages"))
    _flag("tb_mem_recycle").value = int(knobs.get("recycle"))
    if not knobs.get("recycle"):
        release()


def release() -> None:
    """Give every kept block back to the system."""
    ctypes.CFUNCTYPE(None)(_library().address("tb_mem_release"))()


def kept() -> int:
    """How many bytes of freed blocks are being kept for reuse."""
    return int(ctypes.c_int64.from_address(_library().address("tb_mem_kept")).value)


def new_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised array as generated code makes them; for tests and opaque results."""
    descr = np.dtype(dtype)
    dims = (ctypes.c_ssize_t * max(len(shape), 1))(*shape)
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.py_object,
        ctypes.py_object,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
    )
    _incref(descr)
    make = prototype(_library().address("tb_new_large"))
    array: np.ndarray = make(np.ndarray, descr, len(shape), ctypes.addressof(dims), None, 0)
    return array


def _flag(name: str) -> ctypes.c_int32:
    return ctypes.c_int32.from_address(_library().address(name))


def _incref(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@functools.cache
def _library() -> jit.Library:
    exports = memory_ir.EXPORTS
    library = build.build_runtime("memory", memory_ir.ir, (), exports, level=jit.QUICK)
    _install_capsule(library)
    reset = ctypes.CFUNCTYPE(None)(library.address("tb_mem_reset"))
    os.register_at_fork(after_in_child=reset)
    return library


def _install_capsule(library: jit.Library) -> None:
    """Wrap the handler as NumPy wants it; the capsule is never freed."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )
    make = prototype(process.resolve_one("tb_PyCapsule_New"))
    capsule = make(library.address("tb_mem_handler"), library.address("tb_mem_name"), None)
    _incref(capsule)
    ctypes.c_void_p.from_address(library.address("tb_mem_capsule")).value = id(capsule)
