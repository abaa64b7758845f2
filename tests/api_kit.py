"""What the tests of the call share: tailored functions that are surely native, and comparisons.

`native(f)` compiles in the first call and never races, so that `answers` can hold native code
against the plain function: results by type, dtype, shape and value, arguments as they were left.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np

import tailorbird as tb
from tailorbird import events, knobs
from tailorbird.dispatch.worker import WORKER
from tailorbird.ir.promote import LEGACY

ROOT = Path(__file__).resolve().parent.parent


def native(function, **options):
    """Tailored, compiled in the first call, without a race."""
    with knobs.scope(race=False):
        return tb.tailor(function, background=False, **options)


def hits(tailored):
    """How many calls native code answered."""
    return sum(variant.hits for variant in tailored.variants)


def promotes_by_value(kind):
    """Whether this NumPy gives a number of a kind and a Python number a type by their values: then
    some programs stay plain.
    """
    return LEGACY and np.dtype(kind).itemsize < 8


def is_same(a, b):
    """Equal as results of a call; floats within the few ulp that are promised."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(is_same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__") and not isinstance(a, np.ndarray):
        return is_same(vars(a), vars(b))
    if isinstance(a, (np.ndarray, np.generic)):
        same_kind = a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind not in "fc":
            return same_kind and np.array_equal(a, b)
        places = 1e-3 if a.dtype.itemsize < 4 else 1e-5 if a.dtype.char in "fF" else 1e-12
        return same_kind and np.allclose(a, b, rtol=places, atol=places, equal_nan=True)
    return a == b or (a != a and b != b)


def plainly(function, *args, **kwargs):
    """What the plain function gives, without warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def answers(tailored, *args, **kwargs):
    """Calls a tailored function as the plain one; whether native code answered."""
    mine, theirs = copy.deepcopy((args, kwargs)), (args, kwargs)
    expected = plainly(tailored.__wrapped__, *theirs[0], **theirs[1])
    before = hits(tailored)
    found = tailored(*mine[0], **mine[1])
    assert is_same(found, expected), f"{found!r}\nis not\n{expected!r}"
    assert is_same(mine, theirs), "arguments were left in another state"
    return hits(tailored) > before


def wait():
    """Until the compiler behind the calls has nothing left to do."""
    assert WORKER.wait(60)


def count(kind, function):
    """The events of a kind about a function since the ring began."""
    return len(events.recent(kind, function))


def until(condition, seconds=20.0):
    """Waits for something that another thread brings about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def settle(tailored, *args, calls=200):
    """Calls so often that a race is over."""
    for _ in range(calls):
        tailored(*args)


def slower(monkeypatch, tailored, seconds):
    """Makes native code slow, and the plain function as it is."""
    for record in tailored._tiers.records.values():
        for built in record.built:
            real = built.forced

            def forced(*values, real=real):
                time.sleep(seconds)
                return real(*values)

            monkeypatch.setattr(built, "forced", forced)


def in_process(tmp_path, code, **environment):
    """What a program prints, run by a Python of its own; it must end well."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(code))
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, env=env
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
