"""How each peer gets its version of a program.

In: a program and the number of threads. Out: `Version`s: a callable, and how its arguments are
made and its results are waited for. A version that cannot be loaded carries the error.

Invariants:
- NumPy, Tailorbird and torch.compile get the suite's NumPy source unchanged; Numba, JAX and Pythran
  get the files that the suite ships for them, all variants, of which the best one counts.
- Variants of Numba that are made for many threads run only where there are many, unless all are
  asked for. JAX's functions are called as shipped, and once more under `jax.jit` with the arguments
  that are no arrays held fixed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.npbench.checkout import Program

SEQUENTIAL = ("n", "o")
PARALLEL = ("np", "npr", "op", "opr")
JAX_VARIANTS = {"jax": "as shipped", "jax_lib": "lib"}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Version:
    """One variant of a program for one peer."""

    name: str
    call: Callable[..., Any] | None
    convert: Callable[[np.ndarray], Any] | None = None  # an argument into the peer's own array
    wait: Callable[[Any], Any] = _same
    functional: bool = False  # gives new arrays and never writes its arguments
    error: str = ""


@dataclass(frozen=True)
class Asked:
    """What the versions of a program depend on besides the program."""

    threads: int = 1
    all_variants: bool = False
    library: str = ""  # the compiled file, for Pythran


def _load(name: str, load: Callable[[], Any], **how: Any) -> Version:
    try:
        return Version(name, load(), **how)
    except Exception as error:  # noqa: BLE001 - a version that does not load is a row that says so
        return Version(name, None, error=f"{type(error).__name__}: {error}")


def _shipped(name: str, program: Program, ending: str, **how: Any) -> Version:
    return _load(name, lambda: program.function(ending), **how)


def _numpy(program: Program, asked: Asked) -> list[Version]:
    return [Version("plain", program.function("numpy"))]


def _tailorbird(program: Program, asked: Asked) -> list[Version]:
    from tailorbird import api

    return [Version("tailored", api.tailor(program.function("numpy"), background=False))]


def _numba(program: Program, asked: Asked) -> list[Version]:
    import numba

    numba.set_num_threads(asked.threads)
    both = asked.threads > 1 or asked.all_variants
    return [
        _shipped(variant, program, f"numba_{variant}")
        for variant in (*SEQUENTIAL, *(PARALLEL if both else ()))
        if program.has(f"numba_{variant}")
    ]


def _jax(program: Program, asked: Asked) -> list[Version]:
    import jax

    jax.config.update("jax_enable_x64", True)
    how: dict[str, Any] = {"convert": jax.numpy.array, "wait": jax.block_until_ready}
    found = [
        _shipped(name, program, ending, **how, functional=True)
        for ending, name in JAX_VARIANTS.items()
        if program.has(ending)
    ]
    return [*found, *(_jitted(version, how) for version in found[:1] if version.call)]


def _jitted(version: Version, how: dict[str, Any]) -> Version:
    """The function under `jax.jit`; which arguments are fixed is known with the first call."""
    import jax

    made: dict[int, Any] = {}

    def call(*values: Any) -> Any:
        if 0 not in made:
            fixed = [k for k, value in enumerate(values) if not isinstance(value, jax.Array)]
            made[0] = jax.jit(version.call, static_argnums=fixed)
        return made[0](*values)

    return Version("jit", call, **how, functional=True)


def _pythran(program: Program, asked: Asked) -> list[Version]:
    def load() -> Any:
        name = f"{program.info['module_name']}_pythran"
        spec = importlib.util.spec_from_file_location(name, asked.library)
        if spec is None or spec.loader is None:
            raise ImportError(f"no module in {Path(asked.library).name}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, program.info["func_name"])

    return [_load("compiled", load)] if asked.library else []


def _torch(program: Program, asked: Asked) -> list[Version]:
    import torch

    torch.set_num_threads(asked.threads)
    torch._dynamo.config.recompile_limit = 64
    return [Version("compiled", torch.compile(program.function("numpy"), dynamic=False))]


VERSIONS: dict[str, Callable[[Program, Asked], list[Version]]] = {
    "numpy": _numpy,
    "tailorbird": _tailorbird,
    "numba": _numba,
    "jax": _jax,
    "pythran": _pythran,
    "torch.compile": _torch,
}
PACKAGES = {"torch.compile": "torch"}
DEFAULT = ("numpy", "tailorbird", "numba", "jax", "pythran")
