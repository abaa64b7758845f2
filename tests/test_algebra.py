"""Products in the cheapest order: what is computed, how, and when it is left as written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailorbird import knobs
from tests.api_kit import hits, is_same, native, plainly

RNG = np.random.default_rng(11)
N = 90
A, B, S = RNG.normal(size=(N, N + 5)), RNG.normal(size=(N + 5, N + 9)), RNG.normal(size=(N + 5, N))
V, D, W = RNG.normal(size=N + 9), RNG.normal(size=N), RNG.normal(size=(N + 5, 4))

# (function, arguments, products of matrices that are left, whether it is checked to be finite)
RULES = {
    "chain": (lambda a, b, v: a @ b @ v, (A, B, V), 0, True),
    "long chain": (lambda a, b, w: a.T @ a @ b @ b.T @ w, (A, B, W), 4, True),
    "sum of rows": (lambda a, b: np.sum(a @ b, axis=1), (A, B), 0, True),
    "sum of columns": (lambda a, b: (a @ b).sum(0), (A, B), 0, True),
    "sum of all": (lambda a, b: (a @ b).sum(), (A, B), 0, True),
    "mean": (lambda a, b: np.mean(a @ b, axis=0), (A, B), 0, True),
    "trace": (lambda a, b: np.trace(a @ b), (A, S), 0, False),
    "diagonal": (lambda a, b: np.diagonal(a @ b).copy(), (A, S), 0, False),
    "diag of a product": (lambda a, b: np.diag(a @ b), (A, S), 0, False),
    "scaled rows": (lambda d, a: np.diag(d) @ a, (D, A), 0, True),
    "scaled columns": (lambda a, d: a.T @ np.diag(d), (A, D), 0, True),
    "weighted": (lambda a, d, w: a.T @ np.diag(d) @ a @ w, (A, D, W), 2, True),
    "one row": (lambda a, b: (a @ b)[3], (A, B), 0, False),
    "last column": (lambda a, b: (a @ b)[:, -1], (A, B), 0, False),
    "one element": (lambda a, b: (a @ b)[3, 4], (A, B), 0, False),
    "some columns": (lambda a, b: (a @ b)[:, 2:50:7], (A, B), 1, False),
    "backwards": (lambda a, b: (a @ b)[20:3:-5], (A, B), 1, False),
    "transposed": (lambda a, b, v: (a @ b).T[:, 0] + v, (A, B, V), 0, False),
    "dot": (lambda a, b, v: a.dot(b).dot(v), (A, B, V), 0, True),
}


def counted(text):
    """Products of matrices that run where the result is finite."""
    lines, inside = [], False
    for line in text.splitlines():
        inside = line.strip() == "else" or (inside and line.startswith(" " * 6))
        lines += [] if inside else [line]
    return sum("= matmul" in line or "= dot" in line for line in lines)


@pytest.mark.parametrize("name", RULES)
def test_the_cheapest_order(name):
    function, args, left, checked = RULES[name]
    tailored = native(function)
    assert is_same(tailored(*args), function(*args)) and hits(tailored) == 1
    graph = tailored.explain(*args).graph
    assert counted(graph) == left, graph
    assert ("isfinite" in graph) == checked
    assert "in another order than written" in str(tailored.explain(*args))
    for kept in (native(function, exact=True), tailored):
        with knobs.scope(off=() if kept is not tailored else ("algebra",)):
            made = kept if kept is not tailored else native(function)
            assert is_same(made(*args), function(*args))
            assert "in another order" not in str(made.explain(*args))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_as_written(name, bad):
    function, args, _, checked = RULES[name]
    tailored = native(function)
    tailored(*args)
    for k in range(len(args)):
        for at in (0, args[k].size // 2, args[k].size - 1):
            changed = [x.copy() for x in args]
            changed[k].flat[at] = bad
            if bad == 1e300 and checked:  # sums that overflow may do so in any order
                changed = [x * 1e8 for x in changed]
            assert is_same(tailored(*changed), plainly(function, *changed)), (k, at)
    assert hits(tailored) == 1 + 3 * len(args), "native code has both orders"


def test_zeros_have_the_sign_that_a_sum_has():
    function = RULES["scaled rows"][0]
    d, a = np.full(N, -1.0), np.zeros((N, N))
    assert not np.signbit(function(d, a)).any()
    assert not np.signbit(native(function)(d, a)).any()


@pytest.mark.parametrize("n", [0, 1])
def test_sizes_that_it_was_not_made_for(n):
    for name in ("chain", "sum of rows", "trace", "scaled rows", "dot"):
        function, args, _, _ = RULES[name]
        tailored = native(function)
        tailored(*args)
        small = [np.ones((n,) * x.ndim) for x in args]
        assert is_same(tailored(*small), plainly(function, *small)), name


def used_twice(a, b, v):
    c = a @ b
    return c @ v, c


def small(a, b, v):
    return a @ b @ v


def cheap_already(a, b):
    return (a @ b).T


def integers(a, b, v):
    return a @ b @ v


def test_what_is_left_as_written():
    assert "in another order" not in str(native(used_twice).explain(A, B, V))
    assert "in another order" not in str(native(cheap_already).explain(A, B))
    few = np.ones((4, 4))
    assert "in another order" not in str(native(small).explain(few, few, few[0]))
    whole = [np.ones(x.shape, int) for x in (A, B, V)]
    assert "in another order" not in str(native(integers).explain(*whole))
    assert is_same(native(used_twice)(A, B, V), used_twice(A, B, V))


LETTERS = "abcde"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_chain(data):
    """Products, transposes, sums, parts and diagonals as they come."""
    count = data.draw(st.integers(2, 4))
    sizes = [data.draw(st.sampled_from([1, 3, 40, 70])) for _ in range(count + 1)]
    args, text = [], []
    for k in range(count):
        turned = data.draw(st.booleans())
        shape = (sizes[k + 1], sizes[k]) if turned else (sizes[k], sizes[k + 1])
        args.append(RNG.integers(-4, 5, shape).astype("f8"))
        text.append(LETTERS[k] + (".T" if turned else ""))
    body = text[0]
    for x in text[1:]:
        body = f"({body} @ {x})"
    ends = [
        ".sum(axis=0)",
        ".sum(axis=1)",
        ".sum()",
        ".T",
        "[0]",
        "[:, 0]",
        "[-1:, ::2]",
        ".copy()",
    ]
    ends += [".trace()", ".mean(axis=1)", f" @ np.ones({sizes[-1]})"]
    body = f"({body}{data.draw(st.sampled_from(ends))})"
    names = ", ".join(LETTERS[:count])
    function = _compiled(f"def chain({names}):\n    return {body} * 1.0\n")
    tailored = native(function)
    found = tailored(*args)
    assert np.array_equal(found, function(*args)), body


def _compiled(text):
    import linecache

    place = f"<chain {hash(text)}>"
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    space = {"np": np}
    exec(compile(text, place, "exec"), space)
    return space["chain"]
