"""The benchmarked functions, once per peer.

In: nothing. Out: each module's `FUNCTIONS` (or `build(...)`), a dict from the function's name to
that peer's version of it. All versions of one name take the same arguments in the same order.
`numpy_.py` is the meaning; the others are written as users of that peer would write them. A peer
without a version of a function is left out of its cases.
"""
