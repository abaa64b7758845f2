"""The suites: one module each, named for what it measures.

In: `run(peers, options)`, called by `python -m bench`. Out: the body of `bench/results/SUITE.json`:
`cases` (race suites) or `probes` (suites that start fresh processes). A suite says which cases
there are; how they are measured is in `bench/race.py` and `bench/processes.py`, and which figures
are asked for in `bench/targets.py`.
"""

SUITES = ("overhead", "chain", "reductions", "products", "cold", "memory", "data")
SIZES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
QUICK_SIZES = (1, 10, 10_000)
