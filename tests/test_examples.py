"""Programs as people write them, plain and tailored: the same answers and the same arguments.

Integers and truths are compared bit by bit, floats up to 1e-10 of the largest magnitude; chaotic
programs at their smallest size. What is not compiled yet runs plain, and must be right as well.
"""

from __future__ import annotations

import ast
import copy
from pathlib import Path

import numpy as np
import pytest

import examples
import tailorbird as tb
from examples.__main__ import line, measure
from tailorbird import knobs

CLOSE = 1e-10
CALLS = 7
NAMES = examples.names()


def check(place, plain, found):
    """Structure, types and values."""
    if isinstance(plain, (tuple, list)):
        assert type(found) is type(plain) and len(found) == len(plain), place
        for k, (a, b) in enumerate(zip(plain, found)):
            check(f"{place}[{k}]", a, b)
        return
    assert type(found) is type(plain), f"{place}: {type(plain)} became {type(found)}"
    if plain is None:
        return
    a, b = np.asarray(plain), np.asarray(found)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), place
    if a.dtype.kind not in "fc":
        np.testing.assert_array_equal(b, a, place)
        return
    scale = np.max(np.abs(a[np.isfinite(a)]), initial=0.0)
    np.testing.assert_allclose(b, a, rtol=0, atol=CLOSE * scale, err_msg=place)


def run(call, made):
    """What a call returns, and its arguments afterwards."""
    arguments = copy.deepcopy(made)
    return call(*arguments), arguments


@pytest.mark.parametrize("name", NAMES)
def test_tailored_is_plain(name):
    example = examples.load(name)
    tailored = tb.tailor(example.main, background=False)
    for scale in (1,) if example.chaotic else (1, 2, 3):
        made = example.make_arguments(scale)
        plain = run(example.main, made)
        for call in range(CALLS):
            check(f"{name} at {scale}, call {call}", plain, run(tailored, made))


@pytest.mark.parametrize("name", NAMES)
def test_native_code_is_plain_where_it_is_slower_too(name):
    example = examples.load(name)
    made = example.make_arguments(1)
    plain = run(example.main, made)
    with knobs.scope(race=False):
        tailored = tb.tailor(example.main, background=False)
        for call in range(2):
            check(f"{name}, call {call}", plain, run(tailored, made))


@pytest.mark.parametrize("name", NAMES)
def test_switched_off_is_plain(name):
    example = examples.load(name)
    made = example.make_arguments(1)
    tailored = tb.tailor(example.main, background=False)
    with knobs.scope(plain=True):
        check(name, run(example.main, made), run(tailored, made))
    assert tailored.variants == []


@pytest.mark.parametrize("name", NAMES)
def test_programs_are_what_they_should_be(name):
    example = examples.load(name)
    assert len(example.about) > 20
    check(name, example.make_arguments(2), example.make_arguments(2))
    with open(example.main.__code__.co_filename) as file:
        tree = ast.parse(file.read())
    imported = {n.names[0].name for n in ast.walk(tree) if isinstance(n, ast.Import)}
    assert imported == {"numpy"} and not any(isinstance(n, ast.ImportFrom) for n in ast.walk(tree))


def test_the_corpus_is_large():
    assert len(NAMES) >= 30


def test_the_listing_says_who_answers():
    found = measure(examples.load("heat"), 1, seconds=0.0)
    assert found.name == "heat" and found.plain > 0 and found.tailored > 0
    assert line(found, why=True).startswith("heat")
    assert found.whole or found.reasons


@pytest.mark.parametrize("name", NAMES)
def test_the_page_lists_every_program(name):
    page = Path(__file__).resolve().parent.parent / "docs" / "examples.md"
    assert f"| `{name}` | {examples.load(name).about.rstrip('.')} |" in page.read_text()
