"""Which CPU code is made for.

In: this machine and the knob `target` (empty means this machine; `haswell` gives AVX2 code
anywhere). Out: a `Target` for the emitters (vector width) and for LLVM (CPU name and features),
and a fingerprint for cache keys.

Invariants: `host()` only gives targets whose code this machine can run; anything else is Refused
with a reason. AVX2 is the least that is supported. LLVM is loaded on the first call, never on
import.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
from types import ModuleType

from tailorbird import knobs
from tailorbird.dataclass import dataclass
from tailorbird.errors import Refused
from tailorbird.reasons import why

AVX2_BYTES = 32
AVX512_BYTES = 64
AVX2_NEEDS = ("avx2", "fma", "bmi2")
AVX512_NEEDS = ("avx512f", "avx512bw", "avx512dq", "avx512vl")

# Names the knob `target` may take: LLVM's CPU name -> vector bytes.
NAMED = {
    "x86-64-v3": AVX2_BYTES,
    "haswell": AVX2_BYTES,
    "skylake": AVX2_BYTES,
    "znver2": AVX2_BYTES,
    "znver3": AVX2_BYTES,
    "x86-64-v4": AVX512_BYTES,
    "skylake-avx512": AVX512_BYTES,
    "icelake-server": AVX512_BYTES,
    "sapphirerapids": AVX512_BYTES,
    "znver4": AVX512_BYTES,
}


@dataclass(frozen=True)
class Target:
    """A CPU to compile for: LLVM's name and features, and the width of its vectors."""

    name: str
    cpu: str
    features: str
    vector_bytes: int

    def lanes(self, item_bytes: int) -> int:
        """How many items of that size one vector holds."""
        return self.vector_bytes // item_bytes


def host() -> Target:
    """The target to compile for now: this machine, or the CPU named by the knob `target`."""
    name = knobs.get("target")
    return _host(name)


def named(name: str) -> Target:
    """A target by name, whether or not this machine could run its code (for building ahead)."""
    if name not in NAMED:
        raise Refused(why("unknown_target", name=name, known=", ".join(NAMED)))
    return Target(name, name, "", NAMED[name])


@functools.cache
def fingerprint(target: Target) -> str:
    """Everything besides the IR that decides what machine code comes out, as one line."""
    llvm = llvm_binding()
    import llvmlite

    import tailorbird

    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return (
        f"tailorbird={tailorbird.__version__} llvmlite={llvmlite.__version__} llvm={version} "
        f"cpu={target.cpu} vector={target.vector_bytes} features={target.features}"
    )


@functools.cache
def own_state() -> str:
    """A digest of our own files, for who changes them without changing the version."""
    import tailorbird

    found = []
    for folder, _, names in os.walk(os.path.dirname(tailorbird.__file__)):
        for name in names:
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                found.append((folder, name, status.st_mtime_ns, status.st_size))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def llvm_binding() -> ModuleType:
    """`llvmlite.binding`, loaded when first needed and set up for this machine once."""
    return _llvm_binding()


@functools.cache
def _llvm_binding() -> ModuleType:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Addresses are placed by the emitters already; LSR was most of code generation (process-wide).
    llvm.set_option("", "--disable-lsr")
    return llvm


@functools.cache
def _host(name: str) -> Target:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Refused(why("unsupported_platform", platform=f"{sys.platform} {platform.machine()}"))
    llvm = llvm_binding()
    features = llvm.get_host_cpu_features()
    cpu = llvm.get_host_cpu_name()
    width = _vector_bytes(cpu, features)
    if not name:
        return Target(cpu, cpu, features.flatten(), width)
    target = named(name)
    if target.vector_bytes > width:
        raise Refused(why("target_too_new", name=name, cpu=cpu))
    return target


def _vector_bytes(cpu: str, features: dict[str, bool]) -> int:
    if not all(features.get(name, False) for name in AVX2_NEEDS):
        raise Refused(why("no_avx2", cpu=cpu))
    wide = all(features.get(name, False) for name in AVX512_NEEDS)
    return AVX512_BYTES if wide else AVX2_BYTES
