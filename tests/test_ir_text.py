"""The text of a graph: it comes back bit for bit, and what is wrong is shown with a caret."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tailorbird.errors import GuardMissed, ParseError, VerifyError
from tailorbird.ir.expr import apply, symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import (
    Graph,
    Slot,
    Static,
    Value,
    View,
    identity_view,
    leaves,
    operand_key,
)
from tailorbird.ir.parse import INTERNED, intern, parse
from tailorbird.ir.show import show
from tailorbird.ir.types import LONG, Type
from tailorbird.ir.verify import verify
from tailorbird.rewrite.walk import rebuild

N0, N1, K = symbol("n0"), symbol("n1"), symbol("k", "int")

EVERY_FORM = """graph 'a<lambda>'(%A: f64[n0,n1], %m: b1[n0], %s: py_f64; ints k, T)
  given T-2>=0, floordiv(n0,2)-1!=0, min(n0,max(n1,3))-mod(k,2)==0
  %0: f64[n0] = read %A[0:n0, k]   # a.py:3
  %A.3: f64[n0,n1], %3: py_f64 = loop t in 1:T:1, %A, 0.0 {stops}   # a.py:4
    do (%A.1: f64[n0,n1], %1: py_f64)
      %A.2: f64[n0,n1] = write %A.1[t, n1-1:-1:-1] <- 2.5
      %2: b1 = greater %s, -0.0
      yield %A.2, 1.5, %2
  %4: f64[k1] = compress %0, %m {size=k1}
  %5: f64, %6: i64[k2] = call %4, k {function='m:f', many, template=((slot(0), k), (('a', 'b'),))}
  %7: f64[2] = full f32(0.10000000149011612) {dtype=f64, shape=(2,)}
  %8: b1 = any %m {axis=(0,)}
  %10: f64 = branch %8
    then
      %9: f64 = sum %7 {axis=(0,), keepdims=False}
      yield %9
    else
      yield f64(0.0)
  %14: py_i64 = while 3
    test (%11: py_i64)
      %12: b1 = less %11, k
      yield %12
    do (%13: py_i64)
      yield %13
  check -2*T*k+k {rel='=='}
  %15: f64[n1,n0,4] = read %A[0:n0 @1, 0:n1 @0, *4 @2]
  return ([%A.3, k+1, static({'a': (1,), 'b': 'x'})], {'q': argument(%A)}, complex(1.0, -0.0))
  final %A := %A.3
"""


def test_every_form_comes_back():
    graph = verify(parse(EVERY_FORM))
    assert show(graph) == EVERY_FORM


def same_region(a, b, pairs):
    """Two regions are the same node for node; `pairs` maps the values of one to the other's."""
    pairs.update(zip(a.parameters, b.parameters))
    assert [v.type for v in a.parameters] == [v.type for v in b.parameters]
    assert len(a.nodes) == len(b.nodes)
    for x, y in zip(a.nodes, b.nodes):
        assert (x.op, x.attrs, x.line) == (y.op, y.attrs, y.line)
        assert [v.type for v in x.outputs] == [v.type for v in y.outputs]
        same_operands(x.inputs, y.inputs, pairs)
        for inner, other in zip(x.regions, y.regions, strict=True):
            same_region(inner, other, pairs)
        pairs.update(zip(x.outputs, y.outputs))
    same_operands(a.yields, b.yields, pairs)


def same_operands(a, b, pairs):
    keys = [id(pairs[x]) if isinstance(x, Value) else operand_key(x) for x in a]
    assert keys == [operand_key(x) for x in b]


def test_parsing_gives_the_same_structure():
    a, b = parse(EVERY_FORM), parse(show(parse(EVERY_FORM)))
    assert a is not b
    assert (a.name, a.ints, a.guards) == (b.name, b.ints, b.guards)
    pairs = dict(zip(a.parameters, b.parameters))
    same_region(a.body, b.body, pairs)
    for x, y in zip(leaves(a.results), leaves(b.results)):
        assert y is pairs[x] if isinstance(x, Value) else type(x) is type(y)
    assert {pairs[k]: pairs[v] for k, v in a.finals.items()} == b.finals


def test_an_interned_graph_is_what_its_text_parses_to():
    graph = parse(EVERY_FORM)
    assert intern(graph) is graph
    assert parse(show(graph)) is graph
    assert intern(parse(show(graph))) is graph
    del graph
    gc.collect()
    assert EVERY_FORM not in INTERNED


def test_source_lines_can_be_left_out():
    text = show(parse(EVERY_FORM), lines=False)
    assert "#" not in text
    assert show(parse(text)) == text


def test_names_follow_the_structure_not_the_history():
    graph = Graph("f", [Value(Type(np.dtype("f8"), (N0,)), name="self.w[0]")])
    x = graph.parameters[0]
    first = graph.body.add("sqrt", [x], {}, x.type)
    first.name = "whatever"
    graph.results = first
    assert show(graph).splitlines()[1:] == ["  %0: f64[n0] = sqrt %self.w_0_", "  return %0"]
    assert show(parse(show(graph))) == show(graph)


def test_parameters_of_one_name_are_told_apart():
    t = Type(np.dtype("f8"))
    graph = Graph("f", [Value(t, name="x"), Value(t, name="x"), Value(t), Value(t, name="0")])
    graph.results = tuple(graph.body.add("sqrt", [v], {}, t) for v in graph.parameters)
    text = show(graph)
    assert text.startswith("graph f(%x: f64, %x.1: f64, %arg2: f64, %0: f64)")
    assert show(parse(text)) == text


VIEWS = [
    identity_view((N0, N1)),
    identity_view(()),
    View(((1, 1, 0), (N1 - 1, -1, 1)), (N0 - 2, N1)),
    View(((0, 1, 1), (0, 1, 0)), (N1, N0)),
    View(((0, 1, 0), (0, 1, 0)), (N0,)),
    View(((K, 0, None), (0, 2, 0)), (apply("floordiv", N1 + 1, 2),)),
    View(((0, 1, 1), (0, 1, 3)), (1, N0, 5, N1, 1)),
    View(((0, 1, 3), (0, 1, 1)), (1, N1, 5, N0, 1)),
    View(((0, 0, 0), (0, K, 1)), (N0, N1)),
    View(((0, K + 1, 0), (3, 0, None)), (N0,)),
    View(((2, 3, 0), (0, 1, None)), (4,)),
]


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_views_come_back(view):
    base = Value(Type(np.dtype("f4"), (N0, N1)[: len(view.dims)]), name="x")
    graph = Graph("f", [base], ints=["k"])
    graph.body.add("read", [base], {"view": view}, Type(base.type.dtype, view.shape))
    again = parse(show(graph)).body.nodes[0]
    assert again.attrs["view"] == view


LITERALS = [
    *(0.0, -0.0, 1e300, 1e-5, 5e-324, 0.1, float("inf"), float("-inf"), float("nan")),
    *(True, False, 3, -(2**70), 1j, complex(-0.0, float("nan")), complex("inf")),
    *(dtype.type(1) for dtype in LONG.values()),
    *(
        np.float32(0.1),
        np.float64(np.nan),
        -np.float32(np.nan),
        np.int8(-128),
        np.uint64(2**64 - 1),
    ),
    *(np.complex64(0.1 - 0.2j), np.bool_(False)),
]


@pytest.mark.parametrize("x", LITERALS, ids=lambda x: f"{type(x).__name__}-{x}")
def test_literals_come_back_to_the_last_bit(x):
    graph = Graph("f")
    graph.results = (x, Static(x))
    found, static = parse(show(graph)).results
    for y in (found, static.value):
        assert type(y) is type(x)
        assert repr(y) == repr(x)
        if not isinstance(x, int):
            assert np.asarray(y).tobytes() == np.asarray(x).tobytes()


STATICS = [
    *(None, 'it\'s "so"\n\\', (), (1,), [1, (2, [3])], {"a": {"b": None}, 1: 2.5}, Ellipsis),
    *(slice(None, 3), slice(1, None, -1), np.dtype("f4"), np.float32, float, bool, (N0 + K, "s")),
    *((Slot(1), "x"), ("nan", "inf")),
]


@pytest.mark.parametrize("x", STATICS, ids=repr)
def test_static_values_come_back(x):
    graph = Graph("f", [Value(Type(np.dtype("f4"), (N0,)), name="x")], ints=["k"])
    graph.results = [Static(x)]
    assert parse(show(graph)).results == [Static(x)]


def test_what_text_cannot_carry_is_shown_but_not_read():
    graph = Graph("f", results=Static(object))
    assert "opaque(" in show(graph)
    with pytest.raises(ParseError, match="nothing that text can carry"):
        parse(show(graph))


def test_ints_may_be_called_like_anything():
    names = ["f32", "nan", "inf", "min", "dtype", "read", "yield1", "by", "a.b"]
    text = (
        f"graph f(%x: f32[nan]; ints {', '.join(names)})\n  return (f32+min, [nan, inf], dtype)\n"
    )
    assert show(verify(parse(text))) == text


HEAD = "graph f(%x: f64[n0])\n"
BROKEN = [
    ("grape f()", "expected 'graph'", 1, 1),
    ("graph f(%x: f99[n0])\n", "no dtype 'f99'", 1, 13),
    (HEAD + "  %0: f64 = frob %x\n", "no op 'frob'", 2, 13),
    (HEAD + "  %0: f64 = sqrt %y\n", "%y is not defined", 2, 18),
    (HEAD + "  %x: f64 = sqrt %x\n", "defined twice", 2, 3),
    (HEAD + "  %0: f64 = sqrt %x $\n", "'$' is no part of a graph", 2, 21),
    (HEAD + "  %0: f64 = sqrt %x\n", "expected a name, found the end of the text", 3, 1),
    (HEAD + "  given n0>0\n", "", 2, 11),
    (HEAD + "  given n0>=1\n", "compares with 0", 2, 14),
    (HEAD + "  %0: f64 = read %x[0:3:2]\n", "does not divide", 2, 26),
    (HEAD + "  %0: f64 = read %x[0:3 @1]\n", "leaves out a result axis", 2, 20),
    (HEAD + "  %0: f64 = loop i in 0:3:1\n  return 1\n", "expected 'do'", 3, 3),
    (HEAD + "  return 1\nmore\n", "expected the end", 3, 1),
    (HEAD + "  return floordiv(1,0)\n", "ZeroDivisionError", 2, 23),
    (HEAD + "  return pow(9,99999999)\n", "exponent", 2, 25),
    (HEAD + f"  return {'(' * 5000}\n", "RecursionError", 2, 0),
    (HEAD + f"  return {'9' * 5000}\n", "ValueError", 2, 0),
    (HEAD + "  return u8(nan)\n", "", 2, 0),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case[1] or case[0][-14:].strip())
def test_broken_text_is_shown_with_a_caret(case):
    text, message, line, column = case
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.line == line
    assert not column or caught.value.column == column


UNSOUND = [
    ("read gives f64[n0]", "%0: f64[n0] = read", "%0: f32[n0] = read"),
    ("rank 1 on a base of rank 2", "[0:n0, k]", "[0:n0]"),
    ("needs the attribute size", " {size=k1}", ""),
    ("has no attribute sizes", "{size=k1}", "{size=k1, sizes=2}"),
    ("3 yields for 1 carried", "yield %13", "yield %13, 1, 2"),
    ("py_f64 is yielded for py_i64", "yield %13", "yield 2.0"),
    ("py_i64 becomes py_f64", "%14: py_i64", "%14: py_f64"),
    ("f64[2] becomes f64", "yield %9", "yield %7"),
    ("symbol q has no value here", "%s, -0.0", "%s, q"),
    ("symbol t has no value here", "-2*T*k+k", "t"),
    ("does not broadcast", "<- 2.5", "<- %0"),
    ("out of scope", "[%A.3, k+1", "[%A.2, k+1"),
    ("hides another", "loop t in", "loop k in"),
    ("not integers", "in 1:T:1", "in 1:T:%s"),
    ("1 values where 2 are wanted", "1:T:1, %A, 0.0", "1:T:1, %A"),
    ("compares by", "'=='", "'<'"),
    ("written 'module:name'", "'m:f'", "'f'"),
    ("several results says `many`", " many,", ""),
    ("no mask for this base", "compress %0, %m", "compress %A, %0"),
    ("not take 2 operands", "sum %7", "sum %7, %7"),
    ("not in rank 1", "sum %7 {axis=(0,)", "sum %7 {axis=(1,)"),
    ("cannot end as", "final %A := %A.3", "final %A := %0"),
    ("only a parameter", "final %A := %A.3", "final %0 := %0"),
    ("repeats or crosses", "write %A.1[t, n1-1:-1:-1]", "write %A.1[t, t, *5]"),
    ("one scalar condition", "branch %8", "branch %m"),
]


@pytest.mark.parametrize("case", UNSOUND, ids=lambda case: case[0])
def test_unsound_graphs_are_shown_with_a_caret(case):
    message, old, new = case
    assert EVERY_FORM.count(old) >= 1
    with pytest.raises(VerifyError) as caught:
        verify(parse(EVERY_FORM.replace(old, new)))
    assert message in str(caught.value).splitlines()[0]
    assert str(caught.value).splitlines()[-1].strip() == "^"


def test_an_operand_of_another_graph_is_found():
    t = Type(np.dtype("f8"))
    graph = Graph("f", [Value(t, name="x")])
    graph.results = graph.body.add("sqrt", [Value(t, name="stranger")], {}, t)
    with pytest.raises(VerifyError, match="not defined before"):
        verify(graph)


def test_a_symbol_of_two_kinds_is_found():
    t = Type(np.dtype("f8"), (symbol("k", "fresh"),))
    graph = Graph("f", [Value(Type(np.dtype("f8"), (N0,)), name="x")], ints=["k"])
    attrs = {"shape": t.shape, "dtype": t.dtype}
    graph.results = graph.body.add("full", [1.0], attrs, t)
    with pytest.raises(VerifyError, match="fresh symbol k is int here"):
        verify(graph)


def test_a_size_that_no_parameter_shows_is_found():
    graph = Graph("f", [Value(Type(np.dtype("f8"), (2 * N0,)), name="x")], results=None)
    with pytest.raises(VerifyError, match="n0 has no value"):
        verify(graph)


BOUND = """graph pick(%A: f64[n0], %i: u64[n1])
  %0: u64 = read %i[0]
  bind v1 = %0
  check n0-v1-1 {rel='>='}
  %A.3: f64[n0] = loop k in 0:v1:1, %A
    do (%A.1: f64[n0])
      %1: f64 = read %A.1[mod(-k+v1,n0)]
      %A.2: f64[n0] = write %A.1[k] <- %1
      yield %A.2
  return (%A.3, v1+1)
"""


def test_a_bound_integer_is_a_symbol_to_the_end_of_its_region():
    graph = verify(parse(BOUND))
    assert show(graph) == BOUND
    x = np.arange(4.0)
    found, count = run(graph, [x, np.array([3, 0], "u8")])
    assert found.tolist() == [3.0, 2.0, 2.0, 3.0]
    assert count == 4
    with pytest.raises(GuardMissed, match="check"):
        run(graph, [x, np.array([4], "u8")])
    with pytest.raises(GuardMissed, match="beyond int64"):
        run(graph, [x, np.array([2**63], "u8")])
    pruned = show(rebuild(graph, {}))
    assert pruned == BOUND


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("bind v1 = %0", "bind n0 = %0", "hides another"),
        ("bind v1 = %0", "bind v1 = %i", "one integer"),
        ("bind v1 = %0\n", "", "v1"),
    ],
)
def test_what_bind_must_not_do(old, new, match):
    with pytest.raises(VerifyError, match=match):
        verify(parse(BOUND.replace(old, new)))
