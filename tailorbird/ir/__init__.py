"""The graph: what a captured function computes, and the definition of what that means.

In: nothing (this room imports only NumPy). Out: types, nodes, the table of ops, shape rules, text,
checks and a reference interpreter. Promised: a graph is pure (writes are functional), typed, and
prints as text that parses back to an equal graph. Start with `ops.py` (one row an op), then
`node.py`, then `interp.py`, which defines the language. The grammar of the text is in docs/ir.md.
"""
