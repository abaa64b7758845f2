"""A call comes in; the first variant whose guards hold answers it.

In: a call of a tailored function. Out: the result of native code, or of the fallback, which is
Python. Promised: a call that native code answers runs no Python; one it cannot answer gets to the
fallback with its arguments as they were passed.

Read `object.py` first (the callable and its table of entries), then `stub_ir.py` (the code behind
every call), `tiers.py` (what the fallback does: look up, build, race) with `built.py`, `race.py`
and `worker.py`. Of one variant: `entry.py` with `guards.py`, `runners.py` and `text.py` (its code),
`variant.py` (its memory), `trampoline.py` and `found.py` (how its inputs are found). `plans.py`
keeps variants on disk for the next process, with `marks.py` (is all that a capture read still the
same?) and `packing.py` (plain data). `errstate.py` says when NumPy has been asked to report,
`abi.py` how objects are laid out.
"""
