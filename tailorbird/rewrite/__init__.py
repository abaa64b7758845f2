"""Graph to graph: the same meaning, in a form that is smaller or simpler.

In: a verified graph. Out: a verified graph with the same parameters, guards, results and finals.
Promised: what the reference interpreter computes for both is NumPy's answer, and every node keeps
the source line it came from. Start with `walk.py` (one walker for every table of rows), then
`decompose.py`, whose table leaves only the core ops that fusing and code generation know.
"""
