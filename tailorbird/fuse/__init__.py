"""Graph to groups: which nodes become one kernel.

In: a verified graph. Out: an ordered list of groups and single steps. Promised: every value is made
before it is used, and a value that is inlined into several places is cheap. Start with `flow.py`
(how an index travels through a node), then `groups.py`.
"""
