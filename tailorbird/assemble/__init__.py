"""LLVM IR in, callable machine code out.

In: LLVM IR text that `emit/` wrote, and the names it exports. Out: a `Library` whose addresses may
be called until the Library is dropped. Promised: what was compiled once is read back from disk by
the next process; a cached file that is damaged or foreign is refused and compiled again; nothing
in here runs Python while a kernel runs.

Read `build.py` first (compile or fetch, resolve, load), then down: `target.py` (which CPU),
`objects.py` (the disk), `jit.py` (LLVM), `elf.py` (what an object still needs), `process.py`
(where libc, CPython and NumPy keep it). `pool.py` and `memory.py` are the two pieces of runtime
that generated code calls: threads and result memory. `symbols.py` is the list of every name that
generated code may reference.
"""
