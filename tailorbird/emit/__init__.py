"""Kernels to LLVM IR text.

In: a `lower.Program` and a target's vector width. Out: one module with a function for each kernel
and one entry that checks the arguments, allocates results, runs the steps and returns Python
objects. Promised: no access outside the buffers' extents, no Python objects touched without the
GIL. Start with `builder.py` (how instructions find their place), then `ops.py` (the table from op
to code), `nest.py` (loops), `entry.py` (the call).
"""
