"""What the data of a call is like, as far as a rule of `rewrite/` would use it.

In: live arguments, a graph. Out: facts (`look.py`), and what follows from them for what is computed
(`infer.py`). Promised: looking costs microseconds, whatever the size; nothing here is relied on for
a right answer, since what a rule makes looks again at each call.
"""
