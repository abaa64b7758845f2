"""dispatch/plans.py: a second process knows what the first was refused, and looks again."""

from __future__ import annotations

import numpy as np
import pytest
from api_kit import native
from plans_kit import first_call

X = np.linspace(-1.0, 2.0, 60).reshape(5, 12)
REFUSED = """
    import numpy as np

    def power(z, k):
        return np.array([complex(v) ** k for v in z.tolist()])

    FLAG = True

    def f(x, n):
        y = x * 2
        for i in range(n):
            if x[i] > 0.5 and FLAG:
                y = y + power(x, i).real
        return y
"""


def test_a_second_process_knows_what_was_refused(process, monkeypatch):
    first = process(REFUSED)
    assert first_call(first.f, X[0], 3) == "refused"
    [told] = first_reasons(first, X[0], 3)

    def fail(*_):
        raise AssertionError("captured once more")

    second = process(REFUSED)
    with monkeypatch.context() as patch:
        patch.setattr("tailorbird.pipeline.build_variant", fail)
        assert first_call(second.f, X[0], 3) == "refused"
        assert first_reasons(second, X[0], 3) == [told]


def first_reasons(module, *args):
    return native(module.f).explain(*args).reasons


@pytest.mark.parametrize(
    "change", [("FLAG = True", "FLAG = False"), ("** k for v", "* 2 for v"), ("* 2\n", "* 3\n")]
)
def test_what_a_refusal_relied_on_is_looked_at_again(process, monkeypatch, change):
    asked = []
    assert first_call(process(REFUSED).f, X[0], 3) == "refused"
    from tailorbird import pipeline

    build = pipeline.build_variant
    monkeypatch.setattr(pipeline, "build_variant", lambda *a: asked.append(1) or build(*a))
    assert change[0] in REFUSED
    first_call(process(REFUSED.replace(*change)).f, X[0], 3)
    assert asked


def test_a_refusal_of_one_call_is_not_kept(process):
    text = "import numpy as np\n\ndef f(x, y):\n    return x + y\n"
    with pytest.raises(ValueError):
        native(process(text).f)(X[0], X[0, :5])
    assert first_call(process(text).f, X[0], X[1]) == "compiled"
