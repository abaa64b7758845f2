"""What a hunt takes for noise, and that a wrong answer of the same kind is still found.

Each test is a statement of the hunt, an answer that is right and one that is wrong.
"""

from __future__ import annotations

import copy
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy import special

from tailorbird.ir.promote import LEGACY
from tests import hunt
from tests.hunt_compare import Noise, Outcome, difference, run
from tests.hunt_programs import Builder, load
from tests.hunt_rows import Row
from tests.hunt_values import Spec

RUNS = 8


def found(text: str, exactness: str, x: np.ndarray, answer: Any) -> str:
    """What is said of this answer to a statement about the array x."""
    builder = Builder(Random(0), [Spec("x", x.dtype.str[1:], x.shape)])
    assert builder.add(Row(text, exactness))
    program = builder.finish()

    def outcome(source: str, **names: Any) -> Outcome:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return run(load(source, **names), {"x": copy.deepcopy(x)})

    plain = outcome(program.source)
    noise = [outcome(program.noisy, **Noise(k).names) for k in range(RUNS)]
    wanted = plain.result[0] if isinstance(plain.result, tuple) else plain.result
    answer = np.asarray(answer, wanted.dtype)[()]
    other = Outcome((answer,) if isinstance(plain.result, tuple) else answer, None, {"x": x})
    return difference(plain, other, lambda: noise)


def test_a_narrow_product_inside_a_wide_result_is_rounded_as_what_it_is():
    text = "scaled({a}, {a}, plus=np.float64(0.25))"
    x = np.array([-4.7182810e06 - 6.8114781e05j, 1.5 + 0.7j], np.complex64)
    once = (x.astype(complex) ** 2).astype(np.complex64) + np.float64(0.25)
    ulp = np.finfo(np.float32).eps
    near, far = 1 + 2 * ulp, 1 + 200 * ulp
    assert not found(text, "exact", x, once * near)
    assert found(text, "exact", x, once * far)
    assert found(text, "exact", x.astype(complex), once * near)
    assert found(text, "exact", x.real.copy(), once.real.astype(np.float32) * np.float32(near))


def test_what_overflows_inside_a_function_of_scipy_is_not_what_its_result_is():
    x = np.array([-98.125, -88.5, -3, 90], np.float32)
    exact = special.expit(x.astype(float)).astype(np.float32)
    assert exact[0] and not special.expit(x)[0]
    assert not found("special.expit({a})", "near", x, exact)
    for k, wrong in ((0, 1e-38), (0, 0.5), (2, exact[2] * 1.0001), (3, 0.9999)):
        answer = exact.copy()
        answer[k] = wrong
        assert found("special.expit({a})", "near", x, answer), (k, wrong)


def test_noise_around_zero_is_no_excuse_for_another_number():
    x = np.array([2.0, -1.5])
    right = x * (2 + 0j)
    assert not found("{a} * (2+0j)", "exact", x, right)
    assert not found("{a} * (2+0j)", "exact", x, right * (1 + 2e-16))
    assert found("{a} * (2+0j)", "exact", x, right + 1e-3j)
    x = np.array([0.1, 0.2, -0.3])
    assert found("{a}.sum()", "sum", x, 1e-9)
    assert not found("{a}.sum()", "sum", x, 0.0)


@pytest.mark.skipif(LEGACY, reason="NumPy 1.26 has no np.trapezoid")
def test_sums_of_floats_that_integers_become_are_rounded_as_such():
    x = np.array([2**62, 3, -(2**62), 5, 7])
    wanted = float(np.trapezoid(x, dx=0.1))
    assert not found("np.trapezoid({a}, dx=0.1)", "sum", x, wanted + 64)
    assert found("np.trapezoid({a}, dx=0.1)", "sum", x, wanted + 1e6)
    assert found("np.trapezoid({a}, dx=0.1)", "sum", x[1::2].copy(), 0.4 + 1e-12)


def test_how_many_elements_are_picked_counts_where_noise_does_not_change_it():
    three, four = (Outcome((np.ones(n),), None, {}) for n in (3, 4))
    assert "shape (3,) became (4,)" in difference(three, four, lambda: [three, three])
    assert difference(three, four, lambda: [three, four]) == ""


def test_the_sign_of_a_zero_counts_where_noise_does_not_change_it():
    x = np.array([0.0, -0.0, 1.0])
    right = np.expm1(x)
    assert not found("np.expm1({a})", "near", x, right)
    assert found("np.expm1({a})", "near", x, [0.0, 0.0, right[2]])


def test_a_call_that_numpy_needs_long_for_is_passed_over(monkeypatch):
    program, calls = hunt.draw(1, 2)
    monkeypatch.setattr(hunt, "difference", lambda *_: "another answer")
    assert hunt.check(program, calls).failure == "another answer"
    monkeypatch.setattr(hunt, "SLOW", -1.0)
    assert not hunt.check(program, calls).failure


def test_lapack_has_noise_of_its_own_and_no_wider_type():
    x = np.random.default_rng(1).random((3, 3))
    text = "np.linalg.cholesky({m} @ {m}.T + 9 * np.eye({m}.shape[-2]))"
    right = np.linalg.cholesky(x @ x.T + 9 * np.eye(3))
    assert not found(text, "sum", x, right * (1 + 1e-15))
    assert found(text, "sum", x, right * (1 + 1e-12))
