"""The specifications in tests/spec, and the README's example: text by text and number by number."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from api_kit import answers, is_same, native, plainly
from spec_kit import bless as rewrite_blocks
from spec_kit import found_for, load, read_cases, texts_of

from tailorbird import knobs
from tailorbird.capture import capture
from tailorbird.errors import Refused
from tailorbird.ir.interp import run
from tailorbird.rewrite.decompose import decompose

ROOT = Path(__file__).resolve().parent.parent
SPECS = sorted((Path(__file__).parent / "spec").glob("*.md"))
CASES = [case for file in SPECS for case in read_cases(file)]
BEGIN, END = "<!-- stages:begin", "<!-- stages:end -->"


def name_of(case):
    return f"{case.file.stem}: {case.title}"


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
def test_stages_give_what_the_spec_says(file, bless):
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("the texts are those of NumPy 2; 1.26 adds checks of values")
    changes = []
    for case in read_cases(file):
        texts = texts_of(*load(case))
        for block in case.expected:
            found = found_for(block, texts)
            if found is None or found == block.text:
                continue
            if not bless:
                assert found == block.text, f"{name_of(case)}; pytest --bless rewrites it"
            changes.append((block, found))
    if changes:
        rewrite_blocks(file, changes)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_interpreter_and_native_code_agree_with_numpy(case):
    function, args, kwargs = load(case)
    tailored = native(function)
    names = tailored._tiers.names
    bound = dict(zip(names, tailored._tiers.binder(*args, **kwargs)))
    if case.only("refused") is not None:
        with pytest.raises(Refused):
            capture(function, bound)
        assert not answers(tailored, *args, **kwargs)
        return
    with knobs.scope(strict=True):
        assert answers(tailored, *args, **kwargs)
        assert answers(tailored, *args, **kwargs)
    captured = capture(function, bound)
    values, theirs = tuple(bound.values()), copy.deepcopy(tuple(bound.values()))
    expected = plainly(function, *theirs)
    for graph in (captured.graph, decompose(captured.graph)):
        mine = copy.deepcopy(values)
        by_name = dict(zip(names, mine))
        leaves = [s.find(function, by_name, captured.constants) for s in captured.sources]
        assert is_same(run(graph, leaves), expected)
        assert is_same(mine, theirs)


def example():
    """The README's example as tests/spec/readme.md has it: all but the title and its paragraph."""
    text = (Path(__file__).parent / "spec" / "readme.md").read_text()
    return text.partition("<!-- the example -->\n")[2]


def test_the_example_of_the_readme(bless):
    file = ROOT / "README.md"
    before, begin, rest = file.read_text().partition(BEGIN)
    note, _, _ = rest.partition("\n")
    found, end, after = rest.partition("\n")[2].partition(END)
    assert begin
    assert end
    expected = example()
    if bless and found != expected:
        file.write_text(before + begin + note + "\n" + expected + end + after)
    elif not bless:
        assert found == expected, "pytest --bless copies it from tests/spec/readme.md"
