"""Modules that stand for processes: what the disk remembers is all they share."""

from __future__ import annotations

import copy
import importlib.util
import linecache
import sys
import textwrap

import numpy as np
from api_kit import is_same, native, plainly

from tailorbird import events


class Processes:
    """`start(text)` is a module of that text, as a process that starts now would have it."""

    def __init__(self, folder):
        self.folder = folder
        self.names = []

    def start(self, text, name="program"):
        path = self.folder / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        linecache.checkcache()
        spec = importlib.util.spec_from_file_location(f"plans_{name}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        self.names.append(spec.name)
        code = compile(path.read_text(), str(path), "exec")
        exec(code, vars(module))
        events.clear()
        return module

    def end(self):
        for name in self.names:
            sys.modules.pop(name, None)


def first_call(function, *args):
    """The first call of a function: how it was built. The answer must be plain Python's."""
    tailored = native(function)
    for _ in range(2):
        before, theirs = copy.deepcopy(args), copy.deepcopy(args)
        assert is_same(tailored(*args), plainly(function, *theirs))
        assert is_same(args, theirs)
        for x, y in zip(args, before):
            if isinstance(x, np.ndarray):
                x[...] = y
    built = [e.kind for e in events.recent() if e.kind in ("restored", "compiled", "refused")]
    events.clear()
    return built[-1] if built else ""
