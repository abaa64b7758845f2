"""The smallest builder vector math can emit into, and the loop around it, for tests.

`kernel(name, ty, width, avx512)` compiles `void f(ptr out, ptr in0[, ptr in1], i64 n)` with
llvmlite for this machine (or for an AVX2 machine) and returns a Python function on arrays.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

from tailorbird.emit.vmath import emit_math
from tailorbird.emit.vmath_lanes import FORMATS

BINARY = {"arctan2", "power", "float_power", "hypot", "logaddexp", "logaddexp2"}
DTYPES = {"float": np.float32, "double": np.float64}


class TestBuilder:
    """Value-numbered straight-line code with a branch per `rare`."""

    __test__ = False

    def __init__(self, avx512: bool) -> None:
        self.avx512 = avx512
        self.block = "loop"
        self.lines: list[str] = []
        self.module: dict[str, str] = {}
        self.known: dict[str, str] = {}

    def pure(self, rhs: str) -> str:
        if rhs not in self.known:
            self.known[rhs] = f"%v{len(self.known)}"
            self.lines.append(f"{self.known[rhs]} = {rhs}")
        return self.known[rhs]

    def declare(self, line: str) -> None:
        self.module[line] = line

    def define(self, name: str, text: str) -> None:
        self.module[name] = text

    def rare(self, mask: str, W: int, choices: list[tuple[str, str, str]]) -> list[str]:
        ((vtype, value, call_text),) = choices
        if W > 1:
            reduce = f"@llvm.vector.reduce.or.v{W}i1(<{W} x i1>"
            self.declare(f"declare i1 {reduce})")
            mask = self.pure(f"call i1 {reduce} {mask})")
        n = len(self.lines)
        self.lines += [
            f"br i1 {mask}, label %rare{n}, label %join{n}",
            f"rare{n}:",
            f"%slow{n} = {call_text}",
            f"br label %join{n}",
            f"join{n}:",
            f"%joined{n} = phi {vtype} [{value}, %{self.block}], [%slow{n}, %rare{n}]",
        ]
        self.block = f"join{n}"
        return [f"%joined{n}"]


def full_width(ty: str, avx512: bool) -> int:
    return FORMATS[ty][3] // (1 if avx512 else 2)


def kernel_text(name: str, ty: str, width: int, avx512: bool) -> str:
    b = TestBuilder(avx512)
    arity = 2 if name in BINARY else 1
    vt = f"<{width} x {ty}>" if width > 1 else ty
    align = FORMATS[ty][0] // 8
    args = []
    for i in range(arity):
        address = b.pure(f"getelementptr {ty}, ptr %in{i}, i64 %i")
        args.append(b.pure(f"load {vt}, ptr {address}, align {align}"))
    result = emit_math(b, name, ty, width, args)
    out = b.pure(f"getelementptr {ty}, ptr %out, i64 %i")
    inputs = "".join(f", ptr noalias %in{i}" for i in range(arity))
    body = "\n  ".join(b.lines)
    vectors = 512 if avx512 else 256
    return f"""
{chr(10).join(b.module.values())}
define void @f(ptr noalias %out{inputs}, i64 %n) "prefer-vector-width"="{vectors}" {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %{b.block}]
  {body}
  store {vt} {result}, ptr {out}, align {align}
  %next = add nuw nsw i64 %i, {width}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


@functools.cache
def host_has_avx512() -> bool:
    features = llvm.get_host_cpu_features()
    return all(features.get(f) for f in ("avx512f", "avx512dq", "avx512vl", "avx512bw"))


def target_machine(avx512: bool) -> llvm.TargetMachine:
    """A new one each time: an engine owns its machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    if not avx512:
        return target.create_target_machine(cpu="haswell", opt=2, jit=True)
    features = llvm.get_host_cpu_features().flatten()
    cpu = llvm.get_host_cpu_name()
    return target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)


def kernel(name: str, ty: str, width: int, avx512: bool) -> Callable[..., np.ndarray]:
    machine = target_machine(avx512)
    module = llvm.parse_assembly(kernel_text(name, ty, width, avx512))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address("f")
    dtype = DTYPES[ty]

    def call(*arrays: np.ndarray) -> np.ndarray:
        size = len(arrays[0])
        padded = -(-size // width) * width
        inputs = [np.ones(padded, dtype) for _ in arrays]
        for room, array in zip(inputs, arrays):
            room[:size] = array
        out = np.empty(padded, dtype)
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(arrays) + 1), ctypes.c_int64)
        signature(address)(out.ctypes.data, *[a.ctypes.data for a in inputs], padded)
        return out[:size]

    call.engine = engine  # the code lives as long as the function
    return call
