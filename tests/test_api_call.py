"""How a tailored function is called: binding, methods, containers, identity."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import functools
import gc
import inspect
import pickle
import weakref

import numpy as np
import pytest
from api_kit import answers, hits, is_same, native, wait

import tailorbird as tb
from tailorbird.errors import UsageError

X = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
Y = np.linspace(1.0, 2.0, 12).reshape(3, 4)


# Signatures


def plain_two(x, y):
    return x * y - x


def with_default(x, k=2.0, y=None):
    return x * k if y is None else x * k + y


def positional_only(x, y, /, k=1.0):
    return x * y + k


def keyword_only(x, *, k=2.0, y):
    return x * k - y


def starred(x, *rest, k=1.0, **named):
    return x * rest[0] * k + named["b"]


def array_default(x, w=np.arange(4.0)):  # noqa: B008 - a default that is an array
    return x * w


CALLS = [
    (plain_two, (X, Y), {}),
    (plain_two, (X,), {"y": Y}),
    (plain_two, (), {"y": Y, "x": X}),
    (with_default, (X,), {}),
    (with_default, (X, 3.0), {}),
    (with_default, (X,), {"y": Y}),
    (with_default, (X,), {"y": Y, "k": 0.5}),
    (positional_only, (X, Y), {}),
    (positional_only, (X, Y), {"k": 4.0}),
    (keyword_only, (X,), {"y": Y}),
    (keyword_only, (X,), {"k": 3.0, "y": Y}),
    (starred, (X, Y), {"b": X}),
    (starred, (X, Y, 5), {"b": X, "k": 2.0, "c": "unused"}),
    (array_default, (X,), {}),
    (array_default, (X,), {"w": Y}),
]


@pytest.mark.parametrize("function, args, kwargs", CALLS)
def test_arguments_bind_as_in_python(function, args, kwargs):
    tailored = native(function)
    assert answers(tailored, *args, **kwargs), "the first call, through the dispatcher"
    assert answers(tailored, *args, **kwargs), "later calls, through the table"


WRONG = [
    (plain_two, (), {}),
    (plain_two, (X,), {}),
    (plain_two, (X, Y, X), {}),
    (plain_two, (X, Y), {"y": Y}),
    (plain_two, (X, Y), {"z": Y}),
    (positional_only, (X,), {"y": Y}),
    (keyword_only, (X, Y), {}),
    (keyword_only, (X,), {}),
    (starred, (), {}),
    (starred, (X,), {"x": X}),
]


@pytest.mark.parametrize("function, args, kwargs", WRONG)
def test_wrong_calls_raise_what_python_raises(function, args, kwargs):
    tailored = native(function)
    with pytest.raises(TypeError) as expected:
        function(*args, **kwargs)
    for _ in range(2):
        with pytest.raises(TypeError) as found:
            tailored(*args, **kwargs)
        assert str(found.value) == str(expected.value)
        with pytest.raises(TypeError):
            tailored.explain(*args, **kwargs) if args or kwargs else tailored.warm()


def test_a_wrong_call_is_still_wrong_once_compiled():
    tailored = native(plain_two)
    assert answers(tailored, X, Y)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        tailored(X)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        tailored(X, Y, X)


# Methods


class Layer:
    """A class whose methods are tailored."""

    def __init__(self, w, b, slope=0.1):
        self.w = w
        self.b = b
        self.slope = slope

    @tb.tailor(background=False)
    def forward(self, x):
        """One step."""
        y = x @ self.w + self.b
        return np.where(y > 0, y, self.slope * y)

    @staticmethod
    @tb.tailor(background=False)
    def scale(x, k=2.0):
        return x * k

    @tb.tailor(background=False)
    @staticmethod
    def shift(x, k=1.0):
        return x + k

    @classmethod
    @tb.tailor(background=False)
    def twice(cls, x):
        return cls.scale(x) * 2

    @tb.tailor(background=False)
    @classmethod
    def thrice(cls, x):
        return x * 3

    @property
    @tb.tailor(background=False)
    def norm(self):
        return np.sqrt((self.w * self.w).sum())


def layer():
    return Layer(np.ones((4, 2)), np.arange(2.0))


def expected_forward(self, x):
    y = x @ self.w + self.b
    return np.where(y > 0, y, self.slope * y)


def test_methods_bind_like_functions():
    one = layer()
    assert one.forward.__self__ is one
    for _ in range(20):
        assert is_same(one.forward(X), expected_forward(one, X))
        assert is_same(Layer.forward(one, X), expected_forward(one, X))
        assert is_same(one.forward(x=X), expected_forward(one, X))
    assert hits(Layer.forward)


def test_attributes_that_change_are_seen():
    one = layer()
    one.forward(X)
    for change in range(30):
        one.w = np.full((4, 2), 1.0 + change)
        one.slope = change / 7
        assert is_same(one.forward(X), expected_forward(one, X))
    one.w = np.ones((4, 2), np.float32)
    assert is_same(one.forward(X), expected_forward(one, X))
    one.w *= 3
    assert is_same(one.forward(X), expected_forward(one, X))
    del one.slope
    with pytest.raises(AttributeError, match="slope"):
        one.forward(X)


def test_static_and_class_methods():
    one = layer()
    for _ in range(12):
        for owner in (one, Layer):
            assert is_same(owner.scale(X), X * 2.0)
            assert is_same(owner.scale(X, k=3.0), X * 3.0)
            assert is_same(owner.shift(X), X + 1.0)
            assert is_same(owner.twice(X), X * 4.0)
            assert is_same(owner.thrice(X), X * 3)
        assert is_same(one.norm, np.sqrt(8.0))


def test_a_subclass_has_its_own_attributes():
    class Wider(Layer):
        def __init__(self):
            super().__init__(np.full((4, 5), 0.5), np.zeros(5), 0.2)

    for one in (layer(), Wider(), layer(), Wider()):
        for _ in range(6):
            assert is_same(one.forward(X), expected_forward(one, X))


# Containers


@dataclasses.dataclass
class Parameters:
    w: np.ndarray
    rate: float
    steps: int = 2
    mode: str = "add"


def from_dict(p, x):
    return p["w"] * x + p["b"]["inner"]


def from_tuple(pair, x):
    a, (b, c) = pair
    return a * x + b - c


def from_list(items, x):
    total = x * 0.0
    for item in items:
        total = total + item * x
    return total


def from_dataclass(p, x):
    y = x * p.rate
    for _ in range(p.steps):
        y = y + p.w
    return y if p.mode == "add" else -y


def into_dict(x, y):
    return {"sum": x + y, "both": [x * y, (x - y, 2.0)], "n": x.shape[0], "name": "ok", "no": None}


CONTAINERS = [
    (from_dict, ({"w": X, "b": {"inner": Y}}, X)),
    (from_tuple, ((X, (Y, 2.0)), X)),
    (from_list, ([X, Y, Y], X)),
    (from_dataclass, (Parameters(Y, 0.5), X)),
    (into_dict, (X, Y)),
]


@pytest.mark.parametrize("function, args", CONTAINERS)
def test_containers_of_arrays(function, args):
    tailored = native(function)
    assert answers(tailored, *args)
    assert answers(tailored, *args)


def test_changed_containers_are_seen():
    p = {"w": X.copy(), "b": {"inner": Y}}
    tailored = native(from_dict)
    answers(tailored, p, X)
    p["w"] = X * 2
    assert answers(tailored, p, X)
    p["b"] = {"inner": X, "more": Y}
    answers(tailored, p, X)
    del p["w"]
    with pytest.raises(KeyError):
        tailored(p, X)
    items = [X, Y]
    summed = native(from_list)
    for _ in range(5):
        answers(summed, items, X)
        items.append(Y)
    settings = Parameters(Y, 0.5)
    stepped = native(from_dataclass)
    for steps, mode in [(2, "add"), (3, "add"), (3, "sub"), (0, "".join(["a", "dd"]))]:
        settings.steps, settings.mode = steps, mode
        answers(stepped, settings, X)
        answers(stepped, settings, X)


def test_fresh_containers_are_returned():
    tailored = native(into_dict)
    first, second = tailored(X, Y), tailored(X, Y)
    assert first is not second
    assert first["both"] is not second["both"]
    assert not np.shares_memory(first["sum"], second["sum"])


# Identity


async def waits(x):
    return x


def test_what_wraps_copies_is_kept():
    tailored = native(plain_two)
    assert tailored.__wrapped__ is plain_two
    assert (tailored.__name__, tailored.__qualname__) == ("plain_two", "plain_two")
    assert tailored.__module__ == __name__
    assert Layer.forward.__doc__ == "One step."
    assert inspect.signature(tailored) == inspect.signature(plain_two)
    assert inspect.signature(layer().forward) == inspect.signature(lambda x: x)
    assert callable(tailored)
    assert repr(tailored) == "<tailored plain_two>"
    assert tailored.__code__ is plain_two.__code__
    assert inspect.getsource(tailored) == inspect.getsource(plain_two)
    assert inspect.iscoroutinefunction(tb.tailor(waits))
    assert not inspect.iscoroutinefunction(tailored)
    tailored.note = "mine"
    assert tailored.note == "mine"


def documented(x):
    """Doubles.

    >>> import numpy as np
    >>> documented(np.arange(3.0))
    array([0., 2., 4.])
    """
    return x * 2


def test_doctests_are_found():
    found = doctest.DocTestFinder().find(tb.tailor(documented), "documented", module=False)
    assert [len(test.examples) for test in found] == [2]


@tb.tailor(background=False)
def pickled(x):
    return x + 1


def test_pickling_and_copying():
    assert pickle.loads(pickle.dumps(pickled)) is pickled
    assert copy.copy(pickled) is pickled
    assert copy.deepcopy([pickled])[0] is pickled
    other = tb.tailor(plain_two, deterministic=True)
    again = pickle.loads(pickle.dumps(other))
    assert again.__wrapped__ is plain_two
    assert again._options == {"deterministic": True}
    assert is_same(again(X, Y), plain_two(X, Y))
    bound = pickle.loads(pickle.dumps(layer())).forward
    assert is_same(bound(X), expected_forward(layer(), X))


def test_weak_references_and_use_as_a_key():
    tailored = native(plain_two)
    dead = weakref.ref(tailored)
    assert {tailored: 1}[tailored] == 1
    assert tailored == tailored
    assert tailored != native(plain_two)
    del tailored
    wait()
    gc.collect()
    assert dead() is None


def test_functions_that_take_functions():
    tailored = native(plain_two)
    partial = functools.partial(tailored, X)
    assert is_same(partial(Y), plain_two(X, Y))
    assert is_same(partial(y=Y), plain_two(X, Y))
    assert is_same(list(map(tailored, [X, Y], [Y, X])), [plain_two(X, Y), plain_two(Y, X)])
    assert is_same(functools.reduce(tailored, [X, Y, X]), plain_two(plain_two(X, Y), X))


def test_tailoring_twice_is_tailoring_once():
    once = tb.tailor(plain_two)
    twice = tb.tailor(once, background=False)
    assert twice.__wrapped__ is plain_two
    assert answers(native(twice), X, Y)


def test_options_that_do_not_exist():
    with pytest.raises(UsageError, match=r"no option 'bckground'.*background"):
        tb.tailor(plain_two, bckground=False)
    with pytest.raises(UsageError, match="no device 'tpu'"):
        tb.tailor(plain_two, device="tpu")
    with pytest.raises(UsageError, match="not callable"):
        tb.tailor(3)


@pytest.mark.parametrize("function", [abs, np.sin, functools.partial(plain_two, X), int, X.sum])
def test_what_is_not_a_function_stays_plain_with_a_reason(function):
    tailored = tb.tailor(function)
    argument = Y if function is not int else 3.7
    arguments = () if function == X.sum else (argument,)
    assert is_same(tailored(*arguments), function(*arguments))
    assert tailored.variants == []
    assert tailored.warm() is tailored
    assert "which is not compiled" in str(tailored.explain())
    assert tailored.__wrapped__ is function
