"""LLVM: IR text to an object file, and an object file to addresses.

In: IR text, or the bytes of an object made here earlier. Out: object bytes, assembly text, or a
`Library` of addresses.

Invariants:
- Code is position independent (small model), so constants are read relative to the instruction
  pointer; whatever lives outside is an external symbol, so an object is valid in any process.
- SROA is the only pass and code generation runs at level 2: the emitters place vectors and
  addresses themselves. Level 0 takes a fifth of the time and aborts the process on masked vectors;
  it is for code that is known to have no vectors and waits for the system more than it computes.
- All use of LLVM happens under one lock, which is also held across a fork, so that a child never
  inherits a half-done compilation or a lock that nobody will release.
- The one JIT is never torn down: threads may still be inside its code while the interpreter ends.
- A Library's code is unmapped after the Library is dropped, unless it was made permanent. Dropping
  never waits: the code goes when the next object is loaded.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tailorbird.assemble.target import Target, host, llvm_binding
from tailorbird.errors import CompileError

LEVEL = 2
QUICK = 0

_lock = threading.RLock()
_serial = itertools.count()
_dropped: deque[Any] = deque()

os.register_at_fork(
    before=_lock.acquire,
    after_in_parent=_lock.release,
    after_in_child=_lock.release,
)


class Library:
    """Loaded code: the address of each exported name, valid while this object lives. `compiled`
    says that it was not there before.
    """

    __slots__ = ("_addresses", "_tracker", "compiled", "keep")

    def __init__(self, tracker: Any, addresses: dict[str, int]) -> None:
        self._tracker = tracker
        self._addresses = addresses
        self.keep: list[object] = []
        self.compiled = False

    def address(self, name: str) -> int:
        """Where the exported function or variable `name` is."""
        return self._addresses[name]

    def make_permanent(self) -> None:
        """Leave the code mapped for the rest of the process, even when this object goes."""
        if self._tracker is not None:
            self._tracker.detach()
            self._tracker = None

    def __del__(self, _dropped: deque[Any] = _dropped) -> None:
        if self._tracker is not None:
            _dropped.append(self._tracker)


def compile_object(ir: str, target: Target | None = None, level: int = LEVEL) -> bytes:
    """The object file for IR text; a CompileError says what LLVM did not accept."""
    with _lock:
        machine = _machine(target or host(), level)
        return bytes(machine.emit_object(_optimised(ir, machine)))


def assembly(ir: str, target: Target | None = None) -> str:
    """The same machine code as text, for people."""
    with _lock:
        machine = _machine(target or host(), LEVEL)
        return str(machine.emit_assembly(_optimised(ir, machine)))


def load(obj: bytes, symbols: Mapping[str, int], exports: Sequence[str]) -> Library:
    """Map an object, bind its undefined names to `symbols`, and look up `exports`."""
    with _lock:
        llvm = llvm_binding()
        _dropped.clear()
        builder = llvm.JITLibraryBuilder().add_object_img(obj)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        try:
            tracker = builder.link(_lljit(), f"tailorbird{next(_serial)}")
        except RuntimeError as error:
            raise CompileError(f"the object could not be linked: {error}") from error
        return Library(tracker, {name: tracker[name] for name in exports})


def _optimised(ir: str, machine: Any) -> Any:
    llvm = llvm_binding()
    try:
        module = llvm.parse_assembly(ir)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM rejected the IR: {error}") from error
    tuning = llvm.create_pipeline_tuning_options(LEVEL)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, llvm.create_pass_builder(machine, tuning))
    return module


@functools.cache
def _machine(target: Target, level: int) -> Any:
    return _new_machine(target, level)


def _new_machine(target: Target, level: int) -> Any:
    llvm = llvm_binding()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=level,
        reloc="pic",
        codemodel="small",
    )


@functools.cache
def _lljit() -> Any:
    # JITLink places all sections of an object in one block, within reach of 32-bit displacements.
    llvm = llvm_binding()
    machine = _new_machine(host(), LEVEL)
    return llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
