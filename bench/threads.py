"""How many threads a process uses, for every peer: from the environment, before any is imported.

In: a count. Out: variables. NumPy reads its BLAS's count when it is imported, so this module, and
what is imported before it, imports nothing.
"""

from __future__ import annotations

import os

VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS", "TAILOR_THREADS"),
)


def environment(threads: int) -> dict[str, str]:
    """What the peers read from the environment when they are imported."""
    parallel = "true" if threads > 1 else "false"
    return {
        **dict.fromkeys(VARIABLES, str(threads)),
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={parallel}",
        "JAX_PLATFORMS": "cpu",
    }


def configure(threads: int) -> None:
    """Set that for this process."""
    os.environ.update(environment(threads))
