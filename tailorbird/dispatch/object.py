"""The callable that a user holds: a heap type with a vectorcall slot, made at run time.

In: a class whose methods and properties the callable shall have; per instance a `Table` of
parameter names, defaults, native entries and a fallback. Out: objects that call like builtins.

    call -> stub (IR) -> entry 1 -> entry 2 -> ... -> plain function, or fallback (Python)

Invariants:
- `abi.check()` has passed before a type is made.
- A table is C memory. It and all it points to is kept by the object that it was installed in until
  that object dies, so a call that still runs in an old table is safe. Installing is one pointer
  store.
- The objects take part in garbage collection, can be weakly referenced, have a `__dict__`, and
  bind as methods; the type cannot be subclassed or instantiated from Python.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tailorbird.assemble import build, jit, process, symbols
from tailorbird.dispatch import abi, entries_ir, errstate, stub_ir
from tailorbird.errors import Refused
from tailorbird.reasons import why

TYPE_NAME = b"tailorbird.Tailored"
NO_DEFAULT: Any = type("NoDefault", (), {"__repr__": lambda self: "NO_DEFAULT"})()
PER_TYPE = ("__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__")

# typeslots.h
TP_CALL, TP_CLEAR, TP_DEALLOC, TP_DESCR_GET = 50, 51, 52, 54
TP_TRAVERSE, TP_MEMBERS, TP_GETSET = 71, 72, 73
# object.h: DISALLOW_INSTANTIATION, HAVE_VECTORCALL, HAVE_GC, METHOD_DESCRIPTOR, DEFAULT
FLAGS = 1 << 7 | 1 << 11 | 1 << 14 | 1 << 17 | 1 << 18
# structmember.h
T_PYSSIZET, READONLY = 19, 1

Entry = tuple[int, int, object]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _GetSet(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    ]


class _Fields(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in stub_ir.FIELDS]


class Table:
    """What one call consults: parameters, defaults, entries in the order they are tried, and who
    answers when none does: the plain function while `rest` lasts, else the fallback.

    `entries` are (address of `ptr fn(ptr self, ptr args, ptr ctx)`, address of ctx, what to keep
    alive). `defaults` belong to the last parameters, as in `function.__defaults__`; NO_DEFAULT
    leaves a gap. At most `positional` arguments may come by position, and the first
    `positional_only` may come no other way. `rest` is a count that tables may share.
    """

    __slots__ = ("_arrays", "_fields", "defaults", "entries", "fallback", "names", "plain", "rest")

    def __init__(
        self,
        names: Sequence[str],
        defaults: Sequence[object],
        fallback: Callable[..., object],
        entries: Iterable[Entry] = (),
        positional: int | None = None,
        positional_only: int = 0,
        plain: Callable[..., object] | None = None,
        rest: ctypes.c_int64 | None = None,
    ) -> None:
        self.names = tuple(sys.intern(name) for name in names)
        gap = (NO_DEFAULT,) * (len(self.names) - len(defaults))
        self.defaults = gap + tuple(defaults)
        self.fallback = fallback
        self.entries = tuple(entries)
        self.plain = plain
        self.rest = ctypes.c_int64(0) if rest is None else rest
        words = [word for address, ctx, _ in self.entries for word in (address, ctx)]
        values = [0 if value is NO_DEFAULT else id(value) for value in self.defaults]
        self._arrays = tuple(map(_words, ([id(name) for name in self.names], values, words)))
        name_array, default_array, entry_array = map(ctypes.addressof, self._arrays)
        self._fields = _Fields(
            parameters=len(self.names),
            positional=len(self.names) if positional is None else positional,
            positional_only=positional_only,
            names=name_array,
            defaults=default_array,
            fallback=id(fallback),
            entry_count=len(self.entries),
            entries=entry_array,
            plain=id(plain),
            rest=ctypes.addressof(self.rest),
        )

    @property
    def address(self) -> int:
        """Where the stub finds this table."""
        return ctypes.addressof(self._fields)


def make_type(methods: type) -> type:
    """A new callable type with the methods, properties and docstring of `methods`.

    Raises Refused where native callables cannot be made.
    """
    assert "__call__" not in vars(methods), "calls are the stub's"
    kind = _bare_type()
    for name, value in vars(methods).items():
        if name not in PER_TYPE:
            setattr(kind, name, value)
    return kind


def new(kind: type) -> Any:
    """A new instance; it can be called once a table is installed."""
    obj = _allocate()(kind, 0)
    owner: list[Table] = []
    _immortal(owner)  # the reference that the instance holds, and gives up when it dies
    _word(obj, abi.CALL_OWNER).value = id(owner)
    _word(obj, abi.CALL_VECTORCALL).value = _library().address("call")
    return obj


@functools.cache
def _allocate() -> Any:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)
    return prototype(process.resolve_one("tb_PyType_GenericAlloc"))


def install(obj: Any, table: Table) -> None:
    """Let calls of `obj` consult `table` from now on."""
    _owner(obj).append(table)
    _word(obj, abi.CALL_TABLE).value = table.address


def installed(obj: Any) -> Table | None:
    """The table that calls of `obj` consult now."""
    tables = _owner(obj)
    return tables[-1] if tables else None


def _owner(obj: Any) -> list[Table]:
    address = _word(obj, abi.CALL_OWNER).value
    assert address, "not an object that `new` made"
    owner: list[Table] = ctypes.cast(address, ctypes.py_object).value
    return owner


def _word(obj: Any, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(obj) + offset)


def _words(values: list[int]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def _immortal(value: object) -> Any:
    """The same object, with a reference that nobody here gives up."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


@functools.cache
def _library() -> jit.Library:
    """The stub, built once: it is linked with NumPy's objects, so it is never unloaded."""
    abi.check()
    if not errstate.check():
        raise Refused(why("abi_mismatch", name="np.errstate"))
    own = errstate.symbols()
    exports = (*stub_ir.EXPORTS, *entries_ir.EXPORTS)

    def resolve(names: Iterable[str]) -> dict[str, int]:
        return {name: own.get(name) or symbols.resolve_one(name) for name in names}

    library = build.build(stub_ir.ir(), exports, resolve, name="stub")
    library.make_permanent()
    if library.compiled:  # the first time on a machine: no call shall wait for the rest
        symbols.resolve(("tb_parfor", "tb_new_large"))
    return library


def is_first() -> bool:
    """Whether this is the first process on this machine: nothing was there before."""
    return _library().compiled


def entry_address(name: str) -> int:
    """Where one of the entries is that are not a variant's own (`entries_ir.py`)."""
    return _library().address(name)


def _bare_type() -> type:
    """PyType_FromSpec; what it was made from is kept for good, as descriptors point there."""
    library = _library()
    slots = {
        TP_CALL: process.resolve_one("tb_PyVectorcall_Call"),
        TP_CLEAR: library.address("clear"),
        TP_DEALLOC: library.address("dealloc"),
        TP_DESCR_GET: library.address("descr_get"),
        TP_TRAVERSE: library.address("traverse"),
        TP_MEMBERS: ctypes.addressof(_members()),
        TP_GETSET: ctypes.addressof(_getset()),
        0: None,
    }
    rows = [_Slot(slot, function) for slot, function in slots.items()]
    array = _immortal((_Slot * len(rows))(*rows))
    spec = _immortal(_Spec(TYPE_NAME, abi.CALL_SIZE, 0, FLAGS, array))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
    kind: type = prototype(process.resolve_one("tb_PyType_FromSpec"))(ctypes.addressof(spec))
    return kind


@functools.cache
def _members() -> Any:
    offsets = {
        b"__vectorcalloffset__": abi.CALL_VECTORCALL,
        b"__dictoffset__": abi.CALL_DICT,
        b"__weaklistoffset__": abi.CALL_WEAKREFS,
    }
    rows = [_Member(name, T_PYSSIZET, offset, READONLY, None) for name, offset in offsets.items()]
    return _immortal((_Member * (len(rows) + 1))(*rows))


@functools.cache
def _getset() -> Any:
    get = process.resolve_one("tb_PyObject_GenericGetDict")
    put = process.resolve_one("tb_PyObject_GenericSetDict")
    return _immortal((_GetSet * 2)(_GetSet(b"__dict__", get, put, None, None)))
