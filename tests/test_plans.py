"""dispatch/plans.py: a second process starts from what the first found out, and never wrongly.

A module that is written and loaded anew stands for a process: its functions are new objects, and
nothing but the disk remembers them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from api_kit import ROOT, hits, is_same, native, plainly
from plans_kit import first_call

from tailorbird import events, knobs
from tailorbird.assemble import objects
from tailorbird.dispatch import marks, packing, plans

X = np.linspace(-1.0, 2.0, 60).reshape(5, 12)
FUNCTION = "import numpy as np\n\ndef f(x, *more):\n    return np.tanh(x) * 2 + len(more)\n"


def test_a_second_process_restores(process):
    assert first_call(process(FUNCTION).f, X) == "compiled"
    assert first_call(process(FUNCTION).f, X) == "restored"


def test_the_knob_switches_plans_off(process, monkeypatch):
    first_call(process(FUNCTION).f, X)
    with knobs.scope(plans=False):
        assert first_call(process(FUNCTION).f, X) == "compiled"
    with knobs.scope(show="emit"):
        assert first_call(process(FUNCTION).f, X) == "compiled"


PROGRAM = """
    import numpy as np
    import math

    SCALE = True
    NAMES = ("a", "b")
    RATE = 0.5

    class Layer:
        kind = "tanh"
        def __init__(self, w):
            self.w = w
        @property
        def twice(self):
            return self.w * 2
        def run(self, x):
            return np.tanh(x) + self.twice

    def inner(x, k=3):
        return x * k

    def helper(x):
        return inner(x) + (1 if SCALE else 2)

    def make(flag):
        def f(x):
            y = helper(x) + RATE if flag else helper(x)
            return Layer(1.0).w + y if False else y + abs(x) + len(NAMES)
        return f

    layer = Layer(2.0)

    def g(x):
        return layer.run(x)

    f = make(True)
"""


CHANGES = {
    "the function": ("abs(x) + len(NAMES)", "abs(x) - len(NAMES)"),
    "a constant": ("+ len(NAMES)", "+ len(NAMES) + 1"),
    "a static global": ("SCALE = True", "SCALE = False"),
    "the length of a tuple": ('("a", "b")', '("a", "b", "c")'),
    "a helper": ("(1 if SCALE else 2)", "(3 if SCALE else 2)"),
    "a helper's helper": ("return x * k", "return x - k"),
    "a cell": ("f = make(True)", "f = make(False)"),
    "a builtin that is hidden": ("RATE = 0.5", "RATE = 0.5\n    abs = np.sign"),
    "a builtin hidden by a helper": ("RATE = 0.5", "RATE = 0.5\n    len = sum"),
    "a line above": ("import math", "import math\n\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_capture_read_is_looked_at_again(process, change):
    old, new = CHANGES[change]
    assert old in PROGRAM
    if new.endswith("sum"):
        new = "RATE = 0.5\n    def len(x): return 7"
    assert first_call(process(PROGRAM).f, X) == "compiled"
    assert first_call(process(PROGRAM).f, X) == "restored"
    assert first_call(process(PROGRAM.replace(old, new)).f, X) == "compiled"
    assert first_call(process(PROGRAM).f, X) == "restored"


VALUES = {
    "a number in a global": ("RATE = 0.5", "RATE = 0.25"),
    "a default of a helper": ("k=3", "k=4"),
    "an attribute of an object": ("Layer(2.0)", "Layer(5.0)"),
}


@pytest.mark.parametrize("change", VALUES)
@pytest.mark.parametrize("name", ("f", "g"))
def test_inputs_are_inputs(process, change, name):
    """Such values are taken at each call, or guarded; either way the answer is the new one's."""
    old, new = VALUES[change]
    first_call(getattr(process(PROGRAM), name), X)
    assert first_call(getattr(process(PROGRAM.replace(old, new)), name), X)


CLASS_CHANGES = {
    "a method": ("np.tanh(x) + self", "np.exp(x) + self"),
    "a property": ("self.w * 2", "self.w * 3"),
    "an attribute that becomes a property": (
        "    @property",
        "    w = property(lambda self: 9.0, lambda self, x: None)\n        @property",
    ),
    "a class attribute": ('kind = "tanh"', 'kind = "exp"'),
    "a base": ("class Layer:", "class Base:\n        pass\n\n    class Layer(Base):"),
}


@pytest.mark.parametrize("change", CLASS_CHANGES)
def test_classes_are_all_they_hold(process, change):
    old, new = CLASS_CHANGES[change]
    assert old in PROGRAM
    assert first_call(process(PROGRAM).g, X) == "compiled"
    assert first_call(process(PROGRAM).g, X) == "restored"
    assert first_call(process(PROGRAM.replace(old, new)).g, X) == "compiled"


def test_arguments_of_another_kind_have_plans_of_their_own(process):
    others = [X.astype(np.float32), X.T, X[0], X[:, ::2], np.zeros((0, 3)), X.astype(int)]
    for x in (X, *others):
        assert first_call(process(FUNCTION).f, x) == "compiled"
    for x in (X, *others):
        assert first_call(process(FUNCTION).f, x) == "restored"


def test_guards_choose_between_plans(process):
    text = """
        import numpy as np
        def f(x, y, n):
            return (x + y).sum(axis=n)
    """
    calls = [(X, X, 1), (X, X[:1], 1), (X, X, 0), (X[:1], X, 0)]
    kinds = [first_call(process(text).f, *args) for args in calls]
    assert kinds == ["compiled"] * 4
    kinds = [first_call(process(text).f, *args) for args in reversed(calls)]
    assert kinds == ["restored"] * 4
    program = native(process(text).f)
    for args in calls * 2:
        assert is_same(program(*args), plainly(process(text).f, *args))


def test_versions_are_part_of_the_key(process, monkeypatch):
    first_call(process(FUNCTION).f, X)
    for place, name in ((np, "__version__"), (plans.platform, "python_version")):
        with monkeypatch.context() as m:
            m.setattr(place, name, "0.0" if place is np else lambda: "0.0")
            assert first_call(process(FUNCTION).f, X) == "compiled"
    with monkeypatch.context() as m:
        m.setattr(plans, "own_state", lambda: "edited")
        assert first_call(process(FUNCTION).f, X) == "compiled"
    with knobs.scope(target="haswell"):
        assert first_call(process(FUNCTION).f, X) == "compiled"
    assert first_call(process(FUNCTION).f, X) == "restored"


def test_a_patched_library_is_another(process, monkeypatch):
    first_call(process(FUNCTION).f, X)
    tanh = np.tanh
    monkeypatch.setattr(np, "tanh", lambda x: tanh(x) + 1)
    assert first_call(process(FUNCTION).f, X) != "restored"
    monkeypatch.setattr(np, "tanh", np.sinh)
    assert first_call(process(FUNCTION).f, X) == "compiled"


def plan_files(tmp_path):
    """The files of the cache that hold plans."""
    return [p for p in (tmp_path / "cache").glob("*.tbo") if b'"plans"' in p.read_bytes()]


@pytest.mark.parametrize("damage", ("cut", "flipped", "empty", "foreign", "of another key"))
def test_damaged_files_are_no_plans(process, tmp_path, damage):
    first_call(process(FUNCTION).f, X)
    (path,) = plan_files(tmp_path)
    data = path.read_bytes()
    if damage == "of another key":
        first_call(process(FUNCTION).f, X.astype(np.float32))
        (other,) = [p for p in plan_files(tmp_path) if p != path]
        path.write_bytes(other.read_bytes())
    elif damage == "foreign":
        elsewhere = objects.ObjectCache(tmp_path / "elsewhere")
        elsewhere.put("key", objects.Entry(b"", {"plans": []}))
        path.write_bytes(elsewhere.path("key").read_bytes())
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"cut": data[:middle], "flipped": flipped, "empty": b""}[damage])
    assert first_call(process(FUNCTION).f, X) == "compiled"
    assert events.recent("cache_refused") == []  # cleared with the call
    assert first_call(process(FUNCTION).f, X) == "restored"


def signed(module, change):
    """Changes the plans of a call, signed as our own."""
    cache = objects.default_cache()
    key = plans.key_for(module.f, {"x": X, "more": ()})
    found = cache.get(key)
    meta = json.loads(json.dumps(found.meta))
    change(meta)
    cache.put(key, objects.Entry(b"", meta))


def test_odd_plans_are_no_plans(process):
    """Even with a good signature: another version of us, or a bug, may have written them."""
    first_call(process(FUNCTION).f, X)
    names = list(plans._plans(objects.default_cache().get(key_of(process)))[0])
    assert len(names) > 10
    for name in names:
        for odd in ([], {}, "odd", -1, None, [[["odd", 1]]]):
            module = process(FUNCTION)
            signed(module, lambda meta, n=name, o=odd: meta["plans"][0].__setitem__(n, o))
            assert first_call(module.f, X) in ("compiled", "restored"), (name, odd)
    for odd in (None, 3, "x", [None], [[]], [{}]):
        module = process(FUNCTION)
        signed(module, lambda meta, o=odd: meta.__setitem__("plans", o))
        assert first_call(module.f, X) == "compiled"


def key_of(process):
    return plans.key_for(process(FUNCTION).f, {"x": X, "more": ()})


def test_a_lost_object_is_compiled_again(process, tmp_path):
    first_call(process(FUNCTION).f, X)
    for path in set((tmp_path / "cache").glob("*.tbo")) - set(plan_files(tmp_path)):
        path.unlink()
    assert first_call(process(FUNCTION).f, X) == "compiled"
    assert first_call(process(FUNCTION).f, X) == "restored"


def test_a_disk_that_takes_nothing(process, monkeypatch):
    def full(path, data):
        raise OSError("no space left")

    process(FUNCTION)
    objects.default_cache()
    with monkeypatch.context() as m:
        m.setattr(objects, "_write", full)
        assert first_call(process(FUNCTION).f, X) == "compiled"
    assert first_call(process(FUNCTION).f, X) == "compiled"
    assert first_call(process(FUNCTION).f, X) == "restored"


MANY = {
    "results in containers": "return {'a': x + 1, 'b': [x * 2, (x.sum(), 3, None)]}",
    "constants": "return x + np.array([1.0, 2.0, 3.0] * 4) + np.linspace(0, 1, 12)",
    "opaque calls": "return np.sort(x, axis=1) + np.linalg.norm(x)",
    "fresh sizes": "return x[x > 0] * 2",
    "written arguments": "x[1:] = x[:-1] + 1",
    "loops": "for i in range(x.shape[0]):\n            x[i] += i\n        return x.sum(axis=0)",
    "scalars": "return float(x.max()), x.dtype, x.shape, np.float32(1.5), -0.0, float('nan')",
    "branches": "return x + 1 if x[0, 0] > 0 else x - 1",
    "imports inside": "import math\n        return x * math.pi + np.pi",
    "written functions": "return np.histogram(x, 5)[0], np.interp(x, x[0], x[1])",
    "products": "return x @ x.T",
    "integers": "return np.arange(x.shape[1]) + x.shape[0] // 2",
}


@pytest.mark.parametrize("what", MANY)
def test_restored_code_answers_as_plain_code_does(process, what):
    text = f"import numpy as np\n\n\ndef f(x):\n        {MANY[what]}\n"
    assert first_call(process(text).f, X.copy()) == "compiled"
    assert first_call(process(text).f, X.copy()) == "restored"
    module = process(text)
    restored = native(module.f)
    mine, theirs = X * 3, X * 3
    assert is_same(restored(mine), plainly(module.f, theirs))
    assert is_same(mine, theirs) and hits(restored) == 1


def test_what_is_the_same_object_is_looked_at_again(process):
    """Two functions, or two classes, of one text have one mark."""
    text = """
        import numpy as np
        def make():
            class Kind:
                scale = 2.0
            return Kind
        def twin():
            return lambda x: x
        one, first = make(), twin()
        other, second = one, first
        thing = one()
        def f(x):
            y = x + 1 if first is second else x - 1
            return y * 2 if isinstance(thing, other) else y
    """
    assert first_call(process(text).f, X) == "compiled"
    assert first_call(process(text).f, X) == "restored"
    for old, new in (("= one, first", "= make(), first"), ("= one, first", "= one, twin()")):
        assert first_call(process(text.replace(old, new)).f, X) == "compiled"


def test_what_compares_objects_by_identity_is_not_kept(process):
    text = """
        import numpy as np
        class Kind:
            pass
        one = Kind()
        other = one
        def f(x):
            return x + 1 if one is other else x - 1
    """
    assert first_call(process(text).f, X) == "compiled"
    assert first_call(process(text).f, X) == "compiled"
    assert first_call(process(text.replace("other = one", "other = Kind()")).f, X) == "compiled"
    asked = "import numpy as np\ndef f(x):\n    return x + (hash('a') % 7)\n"
    assert first_call(process(asked).f, X) == "compiled"
    assert first_call(process(asked).f, X) == "compiled"


def test_a_restored_variant_can_be_explained(process):
    text = "import numpy as np\ndef f(x, w):\n    return np.exp(x @ w).sum(axis=0)\n"
    said = []
    for kind in ("compiled", "restored"):
        program = native(process(text).f)
        program(X, X.T)
        assert events.recent(kind)
        (variant,) = program.variants
        lines = str(program.explain(X, X.T)).splitlines()
        said.append([line for line in lines if "restored" not in line and "capture" not in line])
        said.append([variant.groups, variant.guards, variant.ir, repr(variant)])
    assert said[0] == said[2] and said[1] == said[3]


def test_packed_values_come_back():
    values = [
        None, True, 3, -(2**70), "x", 1.5, -0.0, float("inf"), 1 - 2j, b"ab", (1, ("a",)), [1, [2]],
        slice(1, None, (2,)), Ellipsis, np.dtype("f4"), np.float32(0.1), np.bool_(True), np.int8,
        float, np.complex128(1j),
    ]  # fmt: skip
    for x in values:
        back = packing.unpacked(json.loads(json.dumps(packing.packed(x))))
        assert type(back) is type(x) and repr(back) == repr(x)
    for x in (object(), {1: 2}, np.dtype("M8[s]"), np.zeros(2)):
        with pytest.raises(marks.Unmarked):
            packing.packed(x)


def test_marks_tell_values_apart():
    values = [
        0, False, 0.0, -0.0, None, "0", b"0", (0,), (False,), slice(0), range(3), np.float32(0),
        np.float64(0), np.dtype("f4"), np.dtype(">f4"), np.float32, float, np.add, np.sin, np, abs,
        np.linalg, np.linalg.norm, frozenset((1,)), frozenset((2,)), first_call, native, marks.mark,
    ]  # fmt: skip
    found = [json.dumps(marks.mark(x)) for x in values]
    assert len(set(found)) == len(values)
    for x in (np.frompyfunc(abs, 1, 1), np.random.default_rng(), object(), np.dtype("O"), [1]):
        with pytest.raises(marks.Unmarked):
            marks.mark(x)


SCRIPT = """
    import sys
    import numpy as np
    import tailorbird as tb
    from tailorbird import events

    def f(x, y):
        return np.tanh(x) * y + np.arange(x.shape[1])

    x = np.linspace(0, 1, 600).reshape(20, 30)
    g = tb.tailor(f, background=False)
    assert np.allclose(g(x, 2.0), f(x, 2.0), rtol=1e-13)
    built = [e.kind for e in events.recent() if e.kind in ("restored", "compiled")]
    print(built, "tailorbird.capture.trace" in sys.modules)
"""


def test_processes_at_once_and_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILOR_PLANS", "1")
    monkeypatch.setenv("TAILOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def start():
        command = [sys.executable, str(script)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    both = [start(), start()]
    assert all(p.communicate()[0].startswith("[") and p.returncode == 0 for p in both)
    last = start()
    assert last.communicate()[0].strip() == "['restored'] False"
