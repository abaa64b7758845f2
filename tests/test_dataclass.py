"""Our own `dataclass` does what the standard one does, for what is used of it."""

import dataclasses

import pytest

from tailorbird import dataclass as own

KINDS = ({}, {"frozen": True}, {"eq": False}, {"frozen": True, "eq": False}, {"repr": False})


def make(module, **kind):
    @module.dataclass(**kind)
    class Base:
        x: int
        y: str = "y"

    @module.dataclass(**kind)
    class Point(Base):
        z: list = module.field(default_factory=list)
        note: str = module.field(default="", compare=False, repr=False)

    return Point


BOTH = [pytest.param((make(own, **k), make(dataclasses, **k)), id=str(k)) for k in KINDS]


@pytest.mark.parametrize("both", BOTH)
def test_objects_are_made_alike(both):
    for make_one in (
        lambda cls: cls(1),
        lambda cls: cls(1, "a", [2]),
        lambda cls: cls(z=[3], x=0, note="n"),
    ):
        mine, standard = map(make_one, both)
        assert vars(mine) == vars(standard)
        assert mine.z is not make_one(both[0]).z or mine.z == [2]
    for wrong in (lambda cls: cls(), lambda cls: cls(1, w=2), lambda cls: cls(1, x=2)):
        for cls in both:
            with pytest.raises(TypeError, match="__init__"):
                wrong(cls)


@pytest.mark.parametrize("both", BOTH)
def test_objects_compare_and_show_alike(both):
    for cls in both:
        a, b, other = cls(1, note="a"), cls(1, note="b"), cls(2)
        assert (a == b) == (standard_equal(both[1])), "note does not count"
        assert a != other
        assert a != (1, "y", [])
    shows = [repr(cls(1, "q", [cls(2)])) for cls in both]
    assert (shows[0] == shows[1]) or both[0].__repr__ is object.__repr__


def standard_equal(cls):
    return cls(1) == cls(1)


@pytest.mark.parametrize("module", (own, dataclasses), ids=("own", "standard"))
def test_frozen_objects_have_a_hash(module):
    @module.dataclass(frozen=True)
    class Key:
        name: str
        size: int = 0

    @module.dataclass
    class Open:
        name: str

    @module.dataclass(frozen=True)
    class Empty:
        pass

    @module.dataclass(frozen=True)
    class Kept:
        name: str

        def __hash__(self):
            return 7

    assert hash(Key("a")) == hash(Key("a", 0))
    assert len({Key("a"), Key("a", 0), Key("a", 1)}) == 2
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())
    assert hash(Kept("x")) == 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open("a"))


@pytest.mark.parametrize("module", (own, dataclasses), ids=("own", "standard"))
def test_replace_gives_another_object(module):
    cls = make(module)
    first = cls(1, "a", [2], "n")
    second = module.replace(first, x=5)
    assert (second.x, second.y, second.z, second.note) == (5, "a", [2], "n")
    assert second.z is first.z and first.x == 1
    with pytest.raises(TypeError):
        module.replace(first, w=1)


def test_an_object_is_finished_by_post_init():
    @own.dataclass(frozen=True)
    class Doubled:
        x: int
        twice: int = own.field(default=0, compare=False)

        def __post_init__(self):
            object.__setattr__(self, "twice", 2 * self.x)

    assert Doubled(4).twice == 8
    assert Doubled(4) == Doubled(4, 3)


@pytest.mark.parametrize("module", (own, dataclasses), ids=("own", "standard"))
def test_what_a_class_defines_itself_stays(module):
    @module.dataclass(frozen=True)
    class Told:
        text: str

        def __repr__(self):
            return self.text

        def __eq__(self, other):
            return self.text == other

    assert repr(Told("hello")) == "hello"
    assert Told("hello") == "hello"


def test_an_object_that_holds_itself_can_be_shown():
    @own.dataclass
    class Ring:
        to: object = None

    ring = Ring()
    ring.to = ring
    assert repr(ring).endswith("Ring(to=...)")


def test_making_a_class_compiles_nothing(monkeypatch):
    def refuse(*_):
        raise AssertionError("a function was written as text")

    with monkeypatch.context() as patch:
        patch.setattr(own, "exec", refuse, raising=False)
        cls = make(own, frozen=True)
    assert cls(1).x == 1
