"""Benchmarks: Tailorbird and its peers, side by side in one run, as ratios.

In: `python -m bench SUITE [--threads 2] [--peers numpy,numba]`. Out: a line per case while it runs
and `bench/results/SUITE.json` with the machine, the versions, the command, every time, every ratio
and the targets that hold or fall short; `python -m bench.plot` draws them.

What is promised: peers are interleaved round by round, so that all meet the same machine; each
peer's version of a function is written as its users would write it; answers are compared before
anything is timed; a peer that is not installed is named, not skipped in silence. Nothing here runs
as a test.

The programs of NPBench, with the peers' own versions of them, are a command of their own: npbench/.

Start reading at `suites/chain.py`, then `race.py` (one case), `timing.py` (the clock), `peers.py`
and `versions/` (who is compared), `targets.py` (the figures that are asked for).
"""
