"""Specifications in Markdown: read, run, compared, and rewritten when blessed.

A case is a heading with blocks under it:

    ```python            the function; `np` and `math` are there
    ```call              one call of it; f32[4,6] and the like are arrays of ordinary values
    ```graph capture     what a stage must give: graph, plan, kernels, llvm or asm, and its name
    ```refused           or the reason why the function stays plain

`at=/pattern/+n` after a stage's name shows n lines from the first that matches. Text is made for
AVX2, so that it is the same on every machine; assembly is compared only with the LLVM it names
(`llvm=22`).
"""

from __future__ import annotations

import linecache
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from capture_kit import draw

import tailorbird as tb
from tailorbird import knobs
from tailorbird.assemble.target import llvm_binding
from tailorbird.errors import Refused
from tailorbird.ir.types import LONG
from tailorbird.pipeline import run_stages

FENCE = "```"
TARGET = "haswell"
AT = re.compile(r"at=/(.*)/\+(\d+)")
LLVM = re.compile(r"llvm=(\d+)")
LANGUAGES = ("graph", "plan", "kernels", "llvm", "asm")


@dataclass
class Block:
    """A fenced block: its info string, its text, and the lines of the file that hold the text."""

    info: str
    text: str
    first: int
    last: int

    @property
    def words(self):
        return self.info.split()


@dataclass
class Case:
    """One function, one call, and what each stage must give."""

    file: Path
    title: str
    blocks: list[Block] = field(default_factory=list)

    def only(self, language):
        found = [b for b in self.blocks if b.words[0] == language]
        return found[0] if found else None

    @property
    def expected(self):
        return [b for b in self.blocks if b.words[0] in (*LANGUAGES, "refused")]


class Arrays:
    """`f32[4,6]`: an array of that dtype and shape, the same each time."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __getitem__(self, shape):
        return draw(self.dtype, shape, np.random.default_rng(0))


def read_cases(file):
    """The cases of a file, one for each heading that has a function under it."""
    cases = []
    block = None
    for number, line in enumerate(file.read_text().splitlines()):
        if block is not None:
            if line == FENCE:
                block.last = number
                block = None
            else:
                block.text += line + "\n"
        elif line.startswith("#"):
            cases.append(Case(file, line.lstrip("# ")))
        elif line.startswith(FENCE):
            block = Block(line.removeprefix(FENCE), "", number + 1, number + 1)
            cases[-1].blocks.append(block)
    return [case for case in cases if case.only("python") is not None]


def load(case):
    """The function of a case and the arguments of its call."""
    source = case.only("python").text
    name = re.search(r"^def (\w+)", source, re.MULTILINE)[1]
    file = f"{name}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"np": np, "math": math, "__name__": "spec"}
    exec(compile(source, file, "exec"), scope)
    function = scope[name]
    names = {short: Arrays(dtype) for short, dtype in LONG.items()}
    seen = []
    recorder = {name: lambda *args, **kwargs: seen.append((args, kwargs))}
    exec(case.only("call").text, {**scope, **names, **recorder})
    return function, *seen[0]


def texts_of(function, args, kwargs):
    """The text of every stage, or of the refusal."""
    tailored = tb.tailor(function)
    names = tailored._tiers.names
    bound = dict(zip(names, tailored._tiers.binder(*args, **kwargs)))
    found = {}
    try:
        with knobs.scope(target=TARGET, strict=True, cache=False):
            run_stages(function, bound, names, texts=found)
    except Refused as refused:
        found["refused"] = f"{refused.why}\n"
    return found


def excerpt(info, text):
    """The part of a stage's text that a block shows."""
    at = AT.search(info)
    lines = text.rstrip().splitlines()
    if at is not None:
        first = next(k for k, line in enumerate(lines) if re.search(at[1], line))
        lines = lines[first : first + int(at[2])]
    return "".join(line.rstrip() + "\n" for line in lines)


def found_for(block, texts):
    """What a block should hold, or None where another LLVM would write other assembly."""
    wanted = LLVM.search(block.info)
    if wanted is not None and int(wanted[1]) != llvm_binding().llvm_version_info[0]:
        return None
    stage = block.words[0] if block.words[0] == "refused" else block.words[1]
    return excerpt(block.info, texts.get(stage, texts.get("refused", "")))


def bless(file, changes):
    """Rewrites blocks of a file, the last first, so that line numbers stay right."""
    lines = file.read_text().splitlines()
    for block, text in sorted(changes, key=lambda change: -change[0].first):
        lines[block.first : block.last] = text.splitlines()
    file.write_text("\n".join(lines) + "\n")
