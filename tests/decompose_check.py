"""What the tests of decomposing share: graphs of one node, and the check of what becomes of them.

`check` decomposes a graph and asserts that only core ops remain, that the verifier passes, that the
old graph is as it was, that decomposing again changes nothing, and that the interpreter computes
the same for both: bit for bit (the sign of zero too), or within a few ulp where `exact` is off.
"""

from __future__ import annotations

import numpy as np

from tailorbird.ir.expr import symbol
from tailorbird.ir.interp import run
from tailorbird.ir.node import Graph, Value, type_of
from tailorbird.ir.shapes import infer
from tailorbird.ir.show import show
from tailorbird.ir.types import Type
from tailorbird.ir.verify import verify
from tailorbird.rewrite.decompose import decompose

GONE = {
    *("mean", "var", "std", "count_nonzero", "positive", "fabs", "square", "degrees", "radians"),
    *("float_power", "expit", "logical_xor", "linspace", "dot", "einsum"),
}
WHOLE_GONE = {"isnan", "isinf", "isfinite", "signbit", "floor", "ceil", "trunc", "rint"}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 7.0, 700.0, -700.0, np.nan, np.inf, -np.inf]


def values(shape, dtype, seed=0):
    """An array of small numbers, zeros among them."""
    draw = np.random.default_rng([seed, *shape])
    x = draw.integers(-4, 5, shape) * draw.choice([1, 1, 0.37], shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * draw.integers(-3, 4, shape)
    return np.abs(x).astype(dtype) if np.dtype(dtype).kind == "u" else x.astype(dtype)


def special(dtype):
    """Numbers that functions treat apart."""
    kind = np.dtype(dtype).kind
    if kind in "biu":
        limits = [True] if kind == "b" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
        return np.array([0, 1, *limits], dtype=dtype)
    if kind == "f":
        return np.array(SPECIAL, dtype=dtype)
    return np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], dtype=dtype)


def type_like(x):
    """The type of a value with a symbol for each size; equal sizes share one, 1 stays 1."""
    if not isinstance(x, np.ndarray | np.generic):
        return type_of(x)
    return Type(x.dtype, tuple(1 if n == 1 else symbol(f"n{n}") for n in x.shape))


def one_node(op, arguments, attrs):
    """The graph of one op on parameters."""
    parameters = [Value(type_like(x), name=f"x{k}") for k, x in enumerate(arguments)]
    graph = Graph(op, parameters)
    graph.results = graph.body.add(op, parameters, attrs, infer(op, parameters, attrs), "f.py:1")
    return graph


def is_core(node):
    """Whether fusing and code generation know this node."""
    dtypes = [type_of(x).dtype for x in node.inputs]
    result = node.outputs[0].type.dtype if node.outputs else None
    if node.op in GONE or (node.op in WHOLE_GONE and dtypes[0].kind in "biu"):
        return False
    if node.op in ("any", "all", "where", "logical_and", "logical_or", "logical_not"):
        return dtypes[0].kind == "b"
    if node.op in ("sum", "prod", "cumsum", "cumprod"):
        return dtypes[0] == result
    if node.op in ("conjugate", "real", "imag"):
        return dtypes[0].kind == "c"
    if node.op == "reciprocal":
        return result.kind in "iuc"
    if node.op == "matmul":
        ranks = [type_of(x).rank for x in node.inputs]
        return result.kind in "fc" and set(dtypes) == {result} and min(ranks) > 1
    return True


def check(graph, arguments, exact=True, rtol=8):
    """Decomposes, checks the form, and compares what both graphs compute."""
    before = show(graph)
    verify(graph)
    found = decompose(graph)
    verify(found)
    text = show(found)
    assert show(graph) == before
    assert [n for n in found.body.walk() if not is_core(n)] == [], text
    assert show(decompose(found)) == text
    agree(run(graph, arguments), run(found, arguments), exact, rtol, text)
    return found


def agree(expected, got, exact, rtol, text):
    expected, got = np.asarray(expected), np.asarray(got)
    assert expected.dtype == got.dtype and expected.shape == got.shape, text
    if exact or expected.dtype.kind in "biu":
        bits = [parts(x) for x in (expected, got)]
        np.testing.assert_array_equal(*bits, err_msg=text)
        np.testing.assert_array_equal(*(sign(x) for x in bits), err_msg=text)
        return
    scale = rtol * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(parts(got), parts(expected), rtol=scale, atol=scale, err_msg=text)


def parts(x):
    return np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x


def sign(x):
    return np.where(np.isnan(x), False, np.signbit(x))


def ops(graph):
    return [node.op for node in graph.body.walk()]
