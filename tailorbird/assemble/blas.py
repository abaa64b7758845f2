"""The BLAS and the LAPACK that NumPy itself uses, by address.

In: nothing but this process, which has NumPy loaded. Out: a `Blas` whose `find("dgemm")` is the
address of `cblas_dgemm`, and the width of its integers; or None, with a reason. `lapack("dgesv")`
is the address of a Fortran routine.

Invariants: only a library that NumPy has already loaded is used, so results, threads and versions
are those of `np.matmul`; only where NumPy brings no LAPACK is it SciPy's. A name whose suffix is
`64_` takes 64-bit integers, others 32-bit ones.
"""

from __future__ import annotations

import ctypes
import functools
import re

from tailorbird import events
from tailorbird.assemble import process
from tailorbird.assemble.process import address_of
from tailorbird.dataclass import dataclass
from tailorbird.reasons import why

LIBRARY = re.compile(
    r"(/\S*/lib[^/\s]*(?:openblas|mkl_rt|blis|flexiblas|cblas|blas|lapack)[^/\s]*\.so[^\s]*)"
)
# How the C names are spelt, most telling first: (prefix, suffix, bits of an integer).
SPELLINGS = (
    ("scipy_cblas_", "64_", 64),
    ("cblas_", "64_", 64),
    ("cblas_", "_64", 64),
    ("scipy_cblas_", "", 32),
    ("cblas_", "", 32),
)
PROBE = "dgemm"
# How Fortran names are spelt: (prefix, suffix, bits of an integer).
FORTRAN = (("scipy_", "_64_", 64), ("", "_64_", 64), ("scipy_", "_", 32), ("", "_", 32))
LAPACK_PREFIX = "tb_lapack"  # before the bits and the name, in generated code
# OpenBLAS names its kernels after CPUs; those of other names use vectors of 32 bytes or less.
CORE_NAME = "openblas_get_corename"
WIDE_CORES = frozenset(("SkylakeX", "Cooperlake", "SapphireRapids"))


@dataclass(frozen=True)
class Blas:
    """A loaded BLAS: where it is, how its names are spelt, and how wide its integers are."""

    path: str
    prefix: str
    suffix: str
    int_bits: int

    def find(self, name: str) -> int | None:
        """The address of the C function `name` (`dgemm`, `sgemv`, `ddot`, `zdotu_sub`), or None."""
        return _symbol(self.path, f"{self.prefix}{name}{self.suffix}")

    def vector_bytes(self, most: int) -> int:
        """How wide the vectors of its kernels are; `most` where it does not say."""
        name = f"{self.prefix.removesuffix('cblas_')}{CORE_NAME}{self.suffix}"
        address = _symbol(self.path, name)
        if not address:
            return most
        core = ctypes.CFUNCTYPE(ctypes.c_char_p)(address)() or b""
        return most if core.decode() in WIDE_CORES else 32


@functools.cache
def blas() -> Blas | None:
    """NumPy's BLAS, or None when it has none that can be called directly."""
    for path in _candidates():
        for prefix, suffix, bits in SPELLINGS:
            if _symbol(path, f"{prefix}{PROBE}{suffix}"):
                return Blas(path, prefix, suffix, bits)
    events.record("no_blas", why=why("no_blas"))
    return None


@functools.cache
def lapack(name: str) -> tuple[int, int] | None:
    """The address of a routine, and the bits of its integers."""
    for path in _candidates():
        for prefix, suffix, bits in FORTRAN:
            found = _symbol(path, f"{prefix}{name}{suffix}")
            if found:
                return found, bits
    from scipy.linalg import cython_lapack

    capsule = getattr(cython_lapack, "__pyx_capi__", {}).get(name)
    return (process.capsule_pointer(capsule), 32) if capsule else None


def lapack_bits() -> int:
    """The width of LAPACK's integers."""
    found = lapack("dgesv")
    return found[1] if found else 64


def _candidates() -> list[str]:
    """Shared libraries in this process whose name says BLAS, in the order they are mapped."""
    try:
        with open("/proc/self/maps") as maps:
            lines = maps.read()
    except OSError:
        return []
    paths = list(dict.fromkeys(LIBRARY.findall(lines)))
    return sorted(paths, key=lambda path: "numpy" not in path)


@functools.cache
def _symbol(path: str, name: str) -> int | None:
    try:
        return address_of(getattr(ctypes.CDLL(path), name))
    except (AttributeError, OSError):
        return None
