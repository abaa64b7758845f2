"""IR text to a loaded library, by way of the disk.

In: IR text, the names it exports, and how to find the names it needs. Out: a Library.

    key -> objects.get -> elf.undefined -> resolve -> jit.load
              | missing
              +-> jit.compile_object -> objects.put

Invariants: the key is one visible line, `cache_key`; what the disk gives is used only after its
digest was checked; an object that is found but does not load is compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence

from tailorbird import events
from tailorbird.assemble import elf, jit, objects, process
from tailorbird.assemble.target import Target, fingerprint, host, own_state
from tailorbird.errors import CompileError, CorruptObject

Resolve = Callable[[Iterable[str]], dict[str, int]]


def cache_key(text: str, target: Target, level: int = jit.LEVEL) -> str:
    """The key of what `text` compiles to: its digest and all else that decides the code."""
    return f"{hashlib.sha256(text.encode()).hexdigest()} level={level} {fingerprint(target)}"


def build(
    ir: str | Callable[[], str],
    exports: Sequence[str],
    resolve: Resolve = process.resolve,
    target: Target | None = None,
    name: str = "",
    level: int = jit.LEVEL,
    key: str = "",
) -> jit.Library:
    """Compile IR, or fetch what it compiled to before, and load it. With a key, that stands for
    the text, which is written only when it has to be compiled.
    """
    target = target or host()
    key = key or cache_key(_text(ir), target, level)
    cache = objects.default_cache()
    entry = cache.get(key) if cache is not None else None
    if entry is not None:
        try:
            return load(entry.obj, exports, resolve)
        except (CompileError, CorruptObject) as error:
            events.record("cache_reload_failed", name, error=str(error))
    obj = compile_timed(_text(ir), target, name, level)
    if cache is not None:
        cache.put(key, objects.Entry(obj, {"name": name}))
    library = load(obj, exports, resolve)
    library.compiled = True
    return library


def _text(ir: str | Callable[[], str]) -> str:
    return ir if isinstance(ir, str) else ir()


def compile_timed(ir: str, target: Target, name: str, level: int) -> bytes:
    """`jit.compile_object`, with an event that says how long it took."""
    start = time.perf_counter()
    obj = jit.compile_object(ir, target, level)
    took = (time.perf_counter() - start) * 1e3
    events.record("compiled_object", name, milliseconds=round(took, 3), bytes=len(obj))
    return obj


def load(obj: bytes, exports: Sequence[str], resolve: Resolve = process.resolve) -> jit.Library:
    """Load an object, finding the names it needs with `resolve`."""
    return jit.load(obj, resolve(elf.undefined(obj)), exports)


@functools.cache
def build_runtime(
    name: str,
    write: Callable[..., str],
    arguments: tuple[str | int, ...],
    exports: tuple[str, ...],
    resolve: Resolve = process.resolve,
    level: int = jit.LEVEL,
) -> jit.Library:
    """A piece of the runtime, built once per process and never unloaded: the text that `write`
    gives for such arguments.
    """
    key = f"{name} {arguments} level={level} {own_state()} {fingerprint(host())}"
    text = functools.partial(write, *arguments)
    library = build(text, exports, resolve, name=name, level=level, key=key)
    library.make_permanent()
    return library
