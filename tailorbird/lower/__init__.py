"""Groups become kernels; values become buffers.

In: a verified graph, its groups (`fuse/`), and how the arguments lie in memory. Out: a `Program`:
buffers and steps (nests, BLAS calls, opaque calls) in order. Promised: every step writes memory
that no later step expects otherwise, and every index is an exact expression. Start with `kernel.py`
(the form), then `index.py` (values to expressions), then `program.py`.
"""
