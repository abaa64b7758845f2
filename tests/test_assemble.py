"""assemble/: targets, LLVM, undefined symbols, and every name generated code may use."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tailorbird import events, knobs
from tailorbird.assemble import (
    blas,
    build,
    elf,
    jit,
    memory_ir,
    pool_ir,
    process,
    steps_ir,
    symbols,
    target,
)
from tailorbird.emit.builder import Module
from tailorbird.errors import CompileError, CorruptObject, Refused

ADD = """
define i64 @add(i64 %a, i64 %b) {
  %slot = alloca i64
  store i64 %a, ptr %slot
  %x = load i64, ptr %slot
  %r = add i64 %x, %b
  ret i64 %r
}
"""
C_NAMES = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyObject_Vectorcall",
    "Py_IncRef",
    "Py_DecRef",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyLong_AsLongLongAndOverflow",
    "PyFloat_AsDouble",
    "PyFloat_FromDouble",
    "PyLong_FromLongLong",
    "PyComplex_AsCComplex",
    "PyErr_CheckSignals",
    "PyErr_Occurred",
    "PyErr_Clear",
    "PyContextVar_Get",
    "PyArray_Scalar",
    "PyArray_NewFromDescr",
)
BINARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def test_host_target_can_be_run_and_described():
    host = target.host()
    assert host.vector_bytes in (32, 64)
    assert host.lanes(8) == host.vector_bytes // 8
    line = target.fingerprint(host)
    assert host.cpu in line and "llvmlite=" in line and "\n" not in line


def test_knob_target_gives_avx2_code():
    vector = "define <8 x float> @f(<8 x float> %x) {\n ret <8 x float> %x\n}"
    with knobs.scope(target="haswell"):
        chosen = target.host()
        assert (chosen.cpu, chosen.vector_bytes) == ("haswell", 32)
        assert "zmm" not in jit.assembly(vector)
    assert target.fingerprint(chosen) != target.fingerprint(target.named("znver4"))


def test_unknown_target_is_refused_with_a_reason():
    with knobs.scope(target="pdp11"), pytest.raises(Refused) as caught:
        target.host()
    assert caught.value.why.code == "unknown_target"


def test_other_platforms_are_refused(monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "aarch64")
    with pytest.raises(Refused) as caught:
        target._host.__wrapped__("")
    assert caught.value.why.code == "unsupported_platform"


def test_no_avx2_is_refused():
    with pytest.raises(Refused) as caught:
        target._vector_bytes("old", {"avx": True})
    assert caught.value.why.code == "no_avx2"
    features = dict.fromkeys(target.AVX2_NEEDS, True)
    assert target._vector_bytes("haswell", features) == 32


def test_compile_load_call():
    library = jit.load(jit.compile_object(ADD), {}, ["add"])
    assert BINARY(library.address("add"))(40, 2) == 42
    assert "add" in jit.assembly(ADD)


@pytest.mark.parametrize(
    "text", (pool_ir.IR + steps_ir.ir(), memory_ir.ir()), ids=("pool", "memory")
)
def test_what_every_first_call_waits_for_is_compiled_quickly(text):
    def seconds(level):
        start = time.process_time()
        jit.compile_object(text, level=level)
        return time.process_time() - start

    assert " x float>" not in text and " x i1>" not in text, "vectors need the other level"
    assert min(seconds(jit.QUICK) for _ in range(3)) < min(seconds(jit.LEVEL) for _ in range(3)) / 2
    keys = {build.cache_key(text, target.host(), level) for level in (jit.QUICK, jit.LEVEL)}
    assert len(keys) == 2


def test_bad_ir_is_a_compile_error():
    for text in ("define i64 @f( {", "define i64 @f() {\n ret i32 1\n}"):
        with pytest.raises(CompileError):
            jit.compile_object(text)


def test_an_object_that_is_none_does_not_load():
    with pytest.raises(CompileError):
        jit.load(b"garbage" * 50, {}, ["f"])


def test_missing_symbols_are_named():
    needy = "declare void @tb_nothing_like_this()\ndefine void @f() {\n"
    needy += " call void @tb_nothing_like_this()\n ret void\n}"
    with pytest.raises(CompileError, match="tb_nothing_like_this"):
        build.build(needy, ["f"], symbols.resolve)


def test_undefined_names_include_those_llvm_adds():
    text = """
    @tb_miss = external global i8
    declare double @llvm.sin.f64(double)
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    define double @f(double %x, ptr %p, ptr %q, i64 %n) {
      call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 false)
      store ptr @tb_miss, ptr %p
      %s = call double @llvm.sin.f64(double %x)
      ret double %s
    }"""
    assert elf.undefined(jit.compile_object(text)) == ["memcpy", "sin", "tb_miss"]


def test_elf_reader_refuses_damage():
    obj = jit.compile_object(ADD)
    for bad in (b"", b"hello", obj[:30], obj[: len(obj) // 2]):
        with pytest.raises(CorruptObject):
            elf.undefined(bad)


def test_code_goes_when_its_library_goes():
    gc.collect()  # those of other tests
    library = jit.load(jit.compile_object(ADD), {}, ["add"])
    waiting = len(jit._dropped)
    del library
    gc.collect()
    assert len(jit._dropped) == waiting + 1
    another = jit.load(jit.compile_object(ADD), {}, ["add"])
    assert not jit._dropped
    assert BINARY(another.address("add"))(1, 2) == 3


def test_many_threads_compile_and_load():
    results = []

    def work(k: int) -> None:
        text = ADD.replace("add i64 %x, %b", f"add i64 %x, {k}")
        library = jit.load(jit.compile_object(text), {}, ["add"])
        results.append(BINARY(library.address("add"))(1, 0) == k + 1)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 6


def test_build_reads_back_what_it_compiled(tmp_path):
    with knobs.scope(cache_dir=tmp_path / "cache", cache=True):
        text = ADD.replace("%x, %b", "%x, 77")
        for _ in range(2):
            library = build.build(text, ["add"], name="add77")
            assert BINARY(library.address("add"))(1, 0) == 78
    assert len(events.recent("compiled_object", "add77")) == 1


def test_build_compiles_again_what_does_not_load(tmp_path):
    with knobs.scope(cache_dir=tmp_path / "cache", cache=True):
        text = ADD.replace("%x, %b", "%x, 78")
        key = build.cache_key(text, target.host())
        cache = build.objects.default_cache()
        assert cache.put(key, build.objects.Entry(b"not an object"))
        library = build.build(text, ["add"], name="add78")
    assert BINARY(library.address("add"))(1, 0) == 79
    assert events.recent("cache_reload_failed", "add78")


def test_every_runtime_symbol_resolves():
    table = symbols.runtime_symbols()
    assert all(table.values())
    assert table["tb_ndarray_type"] == id(np.ndarray)
    assert table["tb_scalar_type_complex64"] == id(np.complex64)
    assert table["tb_descr_bool"] == id(np.dtype(bool))
    assert all(symbols.resolve([f"tb_{name}" for name in C_NAMES]).values())
    assert all(symbols.resolve(["sin", "cexp", "powf", "fmod", "memcpy", "lgamma"]).values())


def test_numpy_scalar_slot_makes_scalars():
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    )
    value = ctypes.c_double(2.5)
    make = prototype(process.resolve_one("tb_PyArray_Scalar"))
    scalar = make(ctypes.addressof(value), np.dtype("f8"), None)
    assert type(scalar) is np.float64 and scalar == 2.5


def test_blas_is_numpys_and_multiplies():
    library = blas.blas()
    if library is None:
        pytest.skip("NumPy's BLAS cannot be called directly here")
    integer = {32: ctypes.c_int32, 64: ctypes.c_int64}[library.int_bits]
    rng = np.random.default_rng(0)
    a, b, c = rng.random((3, 4)), rng.random((4, 5)), np.empty((3, 5))
    pointer, real, enum = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
    kinds = [enum, enum, enum, integer, integer, integer, real]
    kinds += [pointer, integer, pointer, integer, real, pointer, integer]
    gemm = ctypes.CFUNCTYPE(None, *kinds)(symbols.resolve_one("tb_cblas_dgemm"))
    gemm(101, 111, 111, 3, 5, 4, 1.0, a.ctypes.data, 4, b.ctypes.data, 5, 0.0, c.ctypes.data, 5)
    assert np.allclose(c, a @ b)
    for name in ("sgemm", "cgemm", "zgemm", "dgemv", "sgemv", "ddot", "sdot", "zdotu_sub"):
        assert symbols.resolve_one(f"tb_cblas_{name}")


def test_blas_that_is_missing_has_a_reason(monkeypatch):
    monkeypatch.setattr(blas, "_candidates", list)
    assert blas.blas.__wrapped__() is None
    assert events.recent("no_blas")[-1].data["why"].code == "no_blas"


def test_fork_waits_for_a_compilation_in_another_thread():
    big = ADD + "\n".join(ADD.replace("@add", f"@f{i}") for i in range(400))
    thread = threading.Thread(target=jit.compile_object, args=(big,))
    thread.start()
    child = os.fork()
    if child == 0:
        library = jit.load(jit.compile_object(ADD), {}, ["add"])
        os._exit(0 if BINARY(library.address("add"))(1, 2) == 3 else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_importing_does_not_load_llvm():
    code = "import sys, tailorbird.dispatch.object, tailorbird.assemble.pool; "
    code += "sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_functions_that_are_the_same_are_written_once():
    module = Module(avx512=False)
    for name, operation in (("plus", "add"), ("sum", "add"), ("less", "sub")):
        body = f"entry:\n  %r = {operation} i64 %a, %b\n  ret i64 %r\n"
        module.functions.append(f"define i64 @{name}(i64 %a, i64 %b) nounwind {{\n{body}}}\n")
    text = module.text()
    assert text.count("define") == 2
    library = jit.load(jit.compile_object(text), {}, ["plus", "sum", "less"])
    assert [BINARY(library.address(name))(5, 3) for name in ("plus", "sum", "less")] == [8, 8, 2]
