"""Hunts for wrong answers of the backend: `python -m tests.hunt_graphs --programs 1000 --seed 1`.

Draws random graphs from each mix of ops in `test_backend_random.py`, compiles each, runs it on
arguments of several sizes and layouts and compares with the reference interpreter. A failure is
shrunk and printed with the seed that finds it again. `--target haswell` hunts in AVX2 code.
"""

from __future__ import annotations

import argparse
import faulthandler
import time
import warnings

from hypothesis import seed

from tailorbird import knobs
from tests.test_backend_random import MIXES, property_of


def hunt(mix: str, count: int, start: int, most_nodes: int) -> bool:
    """Runs one mix; whether every program was right."""
    begin = time.time()
    try:
        seed(start)(property_of(mix, count, most_nodes))()
    except Exception as error:  # noqa: BLE001 - whatever went wrong is what is hunted
        print(f"--- {mix}, seed {start}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"{mix}, seed {start}: {count} programs in {time.time() - begin:.0f} s", flush=True)
    return True


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200, help="of each mix")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=12, help="most nodes of a program")
    parser.add_argument("--mix", choices=list(MIXES), action="append")
    parser.add_argument("--target", default="")
    options = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with knobs.scope(target=options.target):
        found = [
            hunt(mix, options.programs, options.seed, options.nodes)
            for mix in options.mix or list(MIXES)
        ]
    raise SystemExit(0 if all(found) else 1)


if __name__ == "__main__":
    main()
