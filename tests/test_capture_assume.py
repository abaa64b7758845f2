"""What is assumed about sizes: proofs, guards, unification; and how functions are read."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from capture_kit import captured, run_captured, same

from tailorbird.capture.assume import Assumptions
from tailorbird.capture.source import read_function
from tailorbird.errors import GuardMissed, Refused
from tailorbird.ir.expr import Sym, apply, symbol

N, M, K = symbol("n0"), symbol("n1"), symbol("k", "int")


def assumptions(n=5, m=4, k=3) -> Assumptions:
    found = Assumptions()
    found.hints = {Sym("n0"): n, Sym("n1"): m, Sym("k", "int"): k}
    return found


def guards(a: Assumptions) -> list[str]:
    return [str(g) for g in a.owed()]


def test_sizes_are_never_negative():
    a = assumptions()
    assert a.holds(N * M + 3) is True
    assert a.holds(apply("floordiv", N, 2)) is True
    assert a.holds(apply("max", N - 9, 0)) is True
    assert guards(a) == []


def test_what_is_not_proved_is_guarded():
    a = assumptions()
    assert a.holds(N - 2) is True
    assert a.holds(N - 9) is False
    assert a.holds(K) is True
    assert guards(a) == ["n0-2>=0", "-n0+8>=0", "k>=0"]


def test_a_guard_is_a_fact_for_later_proofs():
    a = assumptions()
    assert a.holds(N - 3) is True
    assert a.proved(N - 1)
    assert not a.proved(N - 4)


def test_implied_guards_are_dropped():
    a = assumptions()
    for least in (1, 2, 3):
        assert a.holds(N - least) is True
    assert a.holds(2 * N - 6) is True
    assert guards(a) == ["n0-3>=0"]


def test_equal_sizes_become_one_symbol():
    a = assumptions(n=4, m=4)
    assert a.equal(N, M) is True
    assert a.canon(M + 1) == N + 1
    assert guards(a) == []


def test_an_integer_argument_is_compared_at_each_call():
    a = assumptions(n=3, k=3)
    assert a.equal(N, K) is True
    assert a.canon(K) == N
    assert guards(a) == ["k-n0==0"]


def test_different_sizes_need_a_guard_only_if_not_proved():
    a = assumptions()
    assert a.equal(N, N + 1) is False
    assert guards(a) == []
    assert a.equal(N, M) is False
    assert guards(a) == ["n0-n1!=0"]


def test_a_quotient_times_its_part_is_the_total():
    a = assumptions(n=6)
    half = a.quotient(N, 2)
    assert a.canon(half * 2) == N
    assert guards(a) == ["mod(n0,2)==0"]


def test_nobody_knows_a_size_of_the_run():
    a = assumptions()
    fresh = symbol("k1", "fresh")
    assert a.equal(fresh, N) is None
    assert a.holds(fresh - 1) is None
    assert a.holds(fresh) is True


def test_pinned_sizes_are_numbers_in_the_types():
    c = captured(lambda x: [row * 2 for row in x], [np.ones((3, 5))])
    assert str(c.graph.parameters[0].type) == "f64[3,n1]"
    with pytest.raises(GuardMissed):
        run_captured(c, lambda x: x, [np.ones((4, 5))])


def test_equal_sizes_show_in_the_types():
    c = captured(lambda x, y: x + y, [np.ones((3, 4)), np.ones((3, 4))])
    assert [str(p.type) for p in c.graph.parameters] == ["f64[n0,n1]", "f64[n0,n1]"]
    assert c.graph.guards == []


def test_a_size_of_one_is_specialised_only_where_it_is_stretched():
    c = captured(lambda x, y: x + y, [np.ones((3, 1)), np.ones((1, 4))])
    assert [str(p.type) for p in c.graph.parameters] == ["f64[n0,1]", "f64[1,n3]"]
    c = captured(lambda x: x * 2, [np.ones((3, 1))])
    assert str(c.graph.parameters[0].type) == "f64[n0,n1]"


# Reading functions


def test_two_lambdas_on_one_line():
    f, g = (lambda x: x + 1), (lambda x: x * 2)
    for function in (f, g):
        c = captured(function, [np.ones(3)])
        assert same(function(np.ones(3)), run_captured(c, function, [np.ones(3)]))


def decorate(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) * 10

    return wrapper


@decorate
def decorated(x):
    return x + 1


def test_a_wrapper_is_read_and_not_what_it_wraps():
    c = captured(decorated, [np.ones(3)])
    assert same(decorated(np.ones(3)), run_captured(c, decorated, [np.ones(3)]))


def test_a_file_that_changed_is_no_source(tmp_path):
    import importlib.util
    import linecache

    path = tmp_path / "changing.py"
    path.write_text("def f(x):\n    return x + 1\n")
    spec = importlib.util.spec_from_file_location("changing", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("# moved\n\n\ndef g(x, y):\n    return x * y.sum()\n")
    linecache.checkcache()
    with pytest.raises(Refused) as caught:
        read_function(module.f)
    assert caught.value.why.code == "no_source"
