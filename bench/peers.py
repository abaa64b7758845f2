"""Who is compared: one loader per peer.

In: names of peers and the number of threads. Out: `Peer`s that can prepare a function, and for the
others the reason why they are missing.

Invariants:
- A peer gets its arguments in its own kind of array (JAX arrays, torch tensors), converted outside
  the clock, and leaves its result in its own kind; JAX waits for the result (`block_until_ready`).
- `threads.configure` comes before any peer is imported, NumPy as well: they read thread counts
  from the environment then.
- Each `prepare` compiles afresh for the arguments at hand, so no peer pays for having seen another
  shape (torch.compile would turn to dynamic shapes, then to eager).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]
Prepared = tuple[Callable[..., Any], Arguments]
SETTLING_CALLS = 100


@dataclass(frozen=True)
class Peer:
    """One system under comparison."""

    name: str
    version: str
    functions: dict[str, Callable[..., Any]]
    prepare: Callable[[Callable[..., Any], Arguments], Prepared]

    def ready(self, function: str, arguments: Arguments) -> Prepared | None:
        """The compiled function and its converted arguments, or None if there is no version."""
        version = self.functions.get(function)
        return None if version is None else self.prepare(version, arguments)


def load(names: list[str], threads: int) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can be had, and why the others cannot."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            peers.append(LOADERS[name](threads))
        except ImportError as error:
            missing[name] = str(error)
    return peers, missing


def _as_is(function: Callable[..., Any], arguments: Arguments) -> Prepared:
    function(*arguments)
    return function, arguments


def _numpy(threads: int) -> Peer:
    from bench.versions import numpy_

    return Peer("numpy", np.__version__, dict(numpy_.FUNCTIONS), _as_is)


def _tailorbird(threads: int) -> Peer:
    from bench.versions import numpy_

    api = importlib.import_module("tailorbird.api")

    def prepare(function: Callable[..., Any], arguments: Arguments) -> Prepared:
        tailored = api.tailor(function, background=False)
        tailored.warm(*arguments)
        for _ in range(SETTLING_CALLS if np.size(arguments[0]) < 1e6 else SETTLING_CALLS // 10):
            tailored(*arguments)
        return tailored, arguments

    version = importlib.import_module("tailorbird").__version__
    return Peer("tailorbird", version, dict(numpy_.FUNCTIONS), prepare)


def _numba(threads: int, fastmath: bool = False) -> Peer:
    import numba

    from bench.versions import numba_

    numba.set_num_threads(threads)
    functions = numba_.build(fastmath=fastmath, parallel=threads > 1)
    name = "numba fastmath" if fastmath else "numba"
    return Peer(name, numba.__version__, functions, _as_is)


def _jax(threads: int) -> Peer:
    import jax

    jax.config.update("jax_enable_x64", True)
    from bench.versions import jax_

    def prepare(function: Callable[..., Any], arguments: Arguments) -> Prepared:
        native = tuple(_convert(value, jax.numpy.asarray) for value in arguments)

        def call(*values: Any) -> Any:
            return function(*values).block_until_ready()

        return _as_is(call, native)

    return Peer("jax", jax.__version__, dict(jax_.FUNCTIONS), prepare)


def _torch(threads: int) -> Peer:
    import torch

    from bench.versions import torch_

    torch.set_num_threads(threads)

    def prepare(function: Callable[..., Any], arguments: Arguments) -> Prepared:
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=False)
        return _as_is(compiled, tuple(_convert(value, torch.from_numpy) for value in arguments))

    return Peer("torch.compile", torch.__version__, dict(torch_.FUNCTIONS), prepare)


def _numexpr(threads: int) -> Peer:
    import numexpr

    from bench.versions import numexpr_

    numexpr.set_num_threads(threads)
    version = metadata.version("numexpr")
    return Peer("numexpr", version, dict(numexpr_.FUNCTIONS), _as_is)


def _convert(value: Any, make: Callable[[np.ndarray], Any]) -> Any:
    return make(value) if isinstance(value, np.ndarray) else value


LOADERS: dict[str, Callable[[int], Peer]] = {
    "numpy": _numpy,
    "tailorbird": _tailorbird,
    "numba": _numba,
    "numba fastmath": lambda threads: _numba(threads, fastmath=True),
    "jax": _jax,
    "torch.compile": _torch,
    "numexpr": _numexpr,
}
