"""For tests that are named for a bug: a function plain and tailored, on equal arguments.

In: a function and calls of it. Out: nothing if all that `hunt_compare.py` compares is the same.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np

import tailorbird as tb
from tailorbird import knobs
from tailorbird.ir.promote import LEGACY
from tests.hunt_compare import difference, run


def agrees(function, *calls, native=True):
    """The tailored function, after every call (a tuple of arguments) gave the same."""
    with knobs.scope(race=False, cache=False, background=False):
        tailored = tb.tailor(function, background=False)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for arguments in calls:
                names = [f"argument{k}" for k in range(len(arguments))]
                mine, yours = (dict(zip(names, copy.deepcopy(arguments))) for _ in range(2))
                plain = run(lambda **kw: function(*kw.values()), mine)
                found = run(lambda **kw: tailored(*kw.values()), yours)
                assert not difference(plain, found, list)
    whys = [str(r.why) for r in tailored._tiers.records.values() if r.why is not None]
    assert not any("bug of Tailorbird" in w for w in whys), whys
    by_value = LEGACY and any("promotion rule" in w for w in whys)
    assert not native or tailored.variants or by_value, whys
    return tailored
