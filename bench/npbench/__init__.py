"""The 54 programs of NPBench, plain NumPy source unchanged, against every peer the suite speaks of.

In: `python -m bench npbench --checkout PATH`, where PATH is a checkout of spcl/npbench; nothing of
it is kept here. Out: bench/results/npbench.json with every time, ratio, error and reason, a table
npbench.md and a plot npbench.png beside it, and the figures that hold or fall short.

What is promised:
- A cell is one program at one preset with one peer, in a process of its own with a time-out, so
  that a crash or a hang costs that cell alone. Cells are kept in a JSON lines file as soon as they
  are there; a run that was interrupted goes on after the last one.
- Every cell runs NumPy too: its answers are what the peer's are compared with, and its time, round
  by round beside the peer's, is what the peer's speed-up is over. What the machine does in between
  is the same for both.
- Arguments that are written are set back outside the clock. First calls are timed apart.
- Nothing is known here about any one program.

Start reading at `cell.py` (one measurement), then `versions.py` (how each peer gets its functions),
`answers.py`, `own.py` (what Tailorbird says about a program), `runner.py` (processes, time-outs,
resuming), `summary.py` and `figures.py` (what comes of it).
"""
