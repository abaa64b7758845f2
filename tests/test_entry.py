"""The text of entries: what is tested together, and before what."""

from __future__ import annotations

import numpy as np
import pytest
from api_kit import answers, hits, native

from tailorbird.dispatch.text import Text
from tailorbird.emit.builder import Module
from tailorbird.ir.expr import Sym, apply, symbol

PAIRS = {
    "in front": lambda base: (base[:10], base[10:20]),
    "behind": lambda base: (base[10:20], base[:10]),
    "in columns": lambda base: (base.reshape(6, 4)[:3].T, base.reshape(6, 4)[3:].T),
    "without elements": lambda base: (base[:0], base[:0]),
}


def started():
    t = Text(Module(False))
    t.expect("%a")
    t.expect("%b")
    return t


def branches(t):
    return [line.split()[2] for line in t.lines if line.startswith("  br i1")]


def test_what_is_expected_is_one_branch_in_front_of_what_is_done():
    t = started()
    t.field("%x", 8, "i64")
    assert not branches(t)
    t.do("store i64 0, ptr %x")
    (both,) = branches(t)
    assert f"  {both.rstrip(',')} = and i1 %a, %b" in t.lines
    at = [k for k, line in enumerate(t.lines) if "br i1" in line or "store" in line]
    assert "br i1" in t.lines[at[0]]
    assert "store" in t.lines[at[1]]
    assert not t.expected


@pytest.mark.parametrize("otherwise", ["", "plain"])
def test_a_requirement_tests_what_is_expected(otherwise):
    t = started()
    t.require("%c", otherwise)
    assert len(branches(t)) == (2 if otherwise else 1)
    assert not t.expected


@pytest.mark.parametrize(
    "act",
    [
        lambda t: t.reg("sdiv i64 %n, %m"),
        lambda t: t.call("tb_map", "i32"),
        lambda t: t.call("tb_Py_DecRef", "void"),
        lambda t: t.op_pow("%n", "%m"),
    ],
)
def test_nothing_runs_on_what_is_not_tested(act):
    t = started()
    act(t)
    assert len(branches(t)) == 1


def test_parts_of_sizes_need_no_check_and_parts_of_integers_do():
    for kind, count in (("size", 1), ("int", 2)):
        t = Text(Module(False))
        t.symbols = {Sym("n", kind): "%n", Sym("m"): "%m"}
        t.size(apply("floordiv", symbol("n", kind), symbol("m")) * symbol("m") * 3)
        t.settle()
        assert len(branches(t)) == count, kind


@pytest.mark.parametrize("case", PAIRS)
def test_arrays_that_lie_side_by_side_are_native(case):
    def doubled(x, y):
        x[...] = y * 2

    tailored = native(doubled)
    for calls in (1, 2):
        answers(tailored, *PAIRS[case](np.arange(24.0)))
        assert hits(tailored) == calls
