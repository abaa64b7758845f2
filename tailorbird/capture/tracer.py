"""The state of one capture: the graph so far, the heap, and what is assumed.

In: operations on abstract values. Out: nodes in `region`, contents of buffers, guards and statics.

Invariants:
- `operand` is the only way from an abstract value to an operand; it reads the buffer's content now.
- `stack` holds the operands of every expression under evaluation: they are roots of the heap.
- A shape is decided here (`broadcast`, `same`), so that every size that a type relies on is proved,
  unified or guarded.
- Nothing here runs user code, and nothing changes a live argument.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from tailorbird.capture.assume import Assumptions
from tailorbird.capture.registry import EXPRESSIONS
from tailorbird.capture.source import Source
from tailorbird.capture.values import (
    Arr,
    Buffer,
    Frame,
    Scal,
    counts,
    exact,
    is_static,
    kind_name,
    writes_once,
)
from tailorbird.errors import Refused
from tailorbird.ir.expr import Dim, Expr, Sym, divide_exactly, symbol
from tailorbird.ir.node import Node, Operand, Region, Value, View, operand_key, type_of
from tailorbird.ir.promote import refuse_by_value
from tailorbird.ir.shapes import infer
from tailorbird.ir.types import SUPPORTED, Type
from tailorbird.reasons import Why, why

MOST_NODES = 4000
MOST_STEPS = 20_000
MOST_BODIES = 150
LONGEST_UNROLLED = 16
RESERVED = frozenset(("min", "max", "mod", "pow", "floordiv", "ints", "given", "return", "final"))

Shape = tuple[Dim, ...]


class Tracer:
    """One capture under way."""

    def __init__(self, name: str, lends: bool = True) -> None:
        self.name = name
        self.lends = lends  # whether loops may have copies of arrays that others see
        self.assume = Assumptions()
        self.region = Region()
        self.parameters: list[Value] = []
        self.sources: list[Source] = []
        self.ints: list[str] = []
        self.int_sources: list[Source] = []
        self.statics: dict[Source, Any] = {}
        self.looked: dict[tuple[str, str], Any] = {}  # parts of libraries, by module and name
        self.absent: dict[Source, None] = {}  # where a global would hide a builtin
        self.unkept = ""  # why another process cannot tell whether this capture holds there
        self.constants: list[np.ndarray] = []
        self.reasons: list[Why] = []
        self.lifted: dict[Source, Any] = {}
        self.by_identity: dict[int, Source] = {}
        self.live: dict[Value | str, Any] = {}
        self.mask_sizes: dict[Region, list[tuple[Value, Expr]]] = {}
        self.masks: dict[Sym, Value] = {}  # by the size of what they pick
        self.inside: set[tuple[Region, Value, Dim]] = set()  # indices known to be in range
        self.frames: list[Frame] = []
        self.file = ""
        self.line = 0
        self.caller: tuple[str, int] | None = None  # where the user called what is read of NumPy
        self.steps = 0
        self.stack: list[Any] = []
        self.loose: dict[Value, tuple[Type, ...]] = {}
        self.frozen: list[Any] = []
        self.lenders: list[Buffer] = []  # of which loops had copies
        self.bodies = 0
        self.learned: dict[ast.AST, Any] = {}
        self.tagged: dict[ast.AST, Any] = {}  # by loop: names that were one of several arrays
        self.refused: dict[Why, int] = {}  # how often a loop was, and why
        self._buffers: list[ref[Buffer]] = []
        self._names: set[str] = set()
        self._loop_names: set[str] = set()
        self._bound = 0
        self._sizes = 0
        self._fresh = 0

    # refusing

    def refuse(self, code: str, **details: Any) -> NoReturn:
        """Leaves the capture, with the reason and the user's line."""
        file, line = self.caller or (self.file, self.line)
        raise Refused(why(code, file=file, line=line, **details))

    def raises(self, error: str) -> NoReturn:
        """Plain NumPy or Python raises here; it shall do so itself."""
        self.refuse("numpy_raises", error=error)

    # names and symbols

    def unique(self, wanted: str) -> str:
        """A name for a parameter that no other has and that is an identifier."""
        base = "".join(c if c.isalnum() else "_" for c in wanted).strip("_") or "x"
        while "__" in base:
            base = base.replace("__", "_")
        looks_like_size = base[0] in "nkv" and base[1:].isdigit()
        if base[0].isdigit() or base in RESERVED or looks_like_size:
            base += "_"
        name = base
        count = 1
        while name in self._names or name in self._loop_names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    def new_size(self, hint: int) -> Expr:
        size = symbol(f"n{self._sizes}")
        self._sizes += 1
        self.assume.hints[Sym(f"n{self._sizes - 1}")] = hint
        return size

    def new_fresh(self) -> Expr:
        """A size that is known only at run time."""
        self._fresh += 1
        return symbol(f"k{self._fresh}", "fresh")

    def new_loop_variable(self, wanted: str) -> Sym:
        """A symbol for a loop, named after its target; no loop around it has the same."""
        base = wanted if wanted.isidentifier() and not wanted.startswith("_") else "i"
        if base in RESERVED or (base[0] in "nkv" and base[1:].isdigit()):
            base += "_"
        name, count = base, 1
        while name in self._names or Sym(name, "loop") in self.assume.ends:
            count += 1
            name = f"{base}_{count}"
        self._loop_names.add(name)
        return Sym(name, "loop")

    def bound(self, value: Value) -> Expr:
        """The exact integer that a value is at run time, from here to the end of the region."""
        key = ("bind", id(value))
        region: Region | None = self.region
        while region is not None:
            if key in region._seen:
                return symbol(region._seen[key].attrs["symbol"], "value")
            region = region.parent
        self._bound += 1
        name = f"v{self._bound}"
        node = Node("bind", [value], {"symbol": name}, [], line=self.place())
        self.region._seen[key] = self.region.append(node)
        least = 0 if value.type.dtype.kind == "u" or counts(value) else None
        self.assume.bound(Sym(name, "value"), least, None)
        return symbol(name, "value")

    def counters(self) -> tuple[int, ...]:
        return self._fresh, self._bound, self._sizes

    def reset_counters(self, kept: tuple[int, ...]) -> None:
        """Names of an abandoned attempt are free again; sizes of arguments stay."""
        self._fresh, self._bound, _ = kept

    # the heap

    def buffer(self, content: Value, argument: Value | None = None) -> Buffer:
        """A new buffer, known to `buffers` as long as something refers to it."""
        made = Buffer(content, argument)
        self._buffers.append(ref(made))
        return made

    def buffers(self) -> list[Buffer]:
        """The buffers that something refers to, oldest first."""
        found = [b for b in (r() for r in self._buffers) if b is not None]
        if len(found) < len(self._buffers):
            self._buffers = [ref(b) for b in found]
        return found

    # evaluating

    def evaluate(self, node: ast.AST, frame: Frame) -> Any:
        """The abstract value of an expression."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.refuse("budget", name=self.name)
        evaluator = EXPRESSIONS.get(type(node))
        if evaluator is None:
            self.refuse("unsupported_syntax", name=type(node).__name__)
        depth = len(self.stack)
        value = evaluator(self, node, frame)
        del self.stack[depth:]
        self.stack.append(value)
        return value

    # nodes

    def emit(
        self, op: str, inputs: Sequence[Operand], attrs: dict[str, Any] | None, type: Type
    ) -> Value:
        """The result of a pure node."""
        if len(self.region.nodes) >= MOST_NODES or self.bodies > MOST_BODIES:
            self.refuse("budget", name=self.name)
        return self.region.add(op, inputs, attrs, type, self.place())

    def place(self) -> str:
        file, line = self.caller or (self.file, self.line)
        return f"{os.path.basename(file)}:{line}"

    def check(self, x: Operand, rel: str) -> None:
        """Leaves for plain Python at run time unless `x rel 0`."""
        key = ("check", rel, operand_key(x))
        region: Region | None = self.region
        while region is not None:
            if key in region._seen:
                return
            region = region.parent
        node = Node("check", [x], {"rel": rel}, [], line=self.place())
        self.region._seen[key] = self.region.append(node)
        if isinstance(x, Expr) and rel in (">=", "=="):
            self.assume.suppose(x)
            if rel == "==":
                self.assume.suppose(-x)

    def supported(self, dtype: Any, name: str = "a value") -> np.dtype:
        """The dtype, if it is one that is compiled."""
        found = np.dtype(dtype)
        if found.hasobject:
            self.refuse("object_array", name=name)
        if found not in SUPPORTED or not found.isnative:
            self.refuse("unsupported_dtype", name=name, dtype=found)
        return found

    # reading

    def operand(self, x: Any) -> Operand:
        """What x is as an operand now."""
        if isinstance(x, Arr):
            return self.read(x)
        if isinstance(x, Scal):
            return x.value
        if isinstance(x, Expr):
            return self.assume.canon(x)
        if isinstance(x, bool):
            return np.bool_(x)
        if isinstance(x, (int, float, complex)):
            return x
        if isinstance(x, np.generic):
            self.supported(x.dtype)
            return x
        if isinstance(x, (list, tuple)):
            from tailorbird.capture.build import array_of

            return self.read(array_of(self, x))
        self.refuse("unsupported_type", name="an operand", type=kind_name(x))

    def read(self, x: Arr) -> Value:
        """The content that a reference shows now."""
        if x.buffer.choice is not None:
            from tailorbird.capture.either import read

            return read(self, x)
        content = self.content(x.buffer)
        if x.view is None:
            return content
        return self.emit("read", [content], {"view": x.view}, Type(x.dtype, x.shape))

    def content(self, buffer: Buffer) -> Value:
        """The content of a buffer now; one with a base follows it."""
        if buffer.base is None:
            return buffer.content
        from tailorbird.capture.derived import content

        return content(self, buffer, buffer.base)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        if value.type.shape == shape:
            return value
        node = value.node
        if node is not None and node.op == "reshape":
            return self.reshaped(node.inputs[0], shape)  # type: ignore[arg-type]
        return self.emit("reshape", [value], {"shape": shape}, Type(value.type.dtype, shape))

    def inferred(self, op: str, inputs: Sequence[Operand], attrs: dict[str, Any]) -> Value:
        """The result of an op whose sizes have been made to agree; its type by the shape rules."""
        refuse_by_value(op, [type_of(x) for x in inputs])
        kind = infer(op, inputs, attrs, lambda a, b: self.assume.canon(a - b) == 0)
        shape = tuple(map(self.assume.canon, kind.shape))
        return self.emit(op, inputs, attrs, Type(self.supported(kind.dtype), shape))

    # making

    def array(self, content: Value, contiguous: bool = False) -> Arr:
        """A new array object with this content."""
        buffer = self.buffer(content)
        buffer.contiguous = contiguous
        return Arr(buffer)

    def result(self, value: Value) -> Arr | Scal:
        """What an operation gives: an array, or a scalar at rank 0."""
        return self.array(value) if value.type.shape else Scal(value)

    def view(self, x: Arr, view: View) -> Arr:
        """A new reference to a part of what x shows."""
        return x.through(view)

    # writing

    def write(self, x: Arr, value: Operand) -> None:
        """Makes x show value, whose type must be x's own or a scalar of its dtype."""
        buffer = x.buffer
        if buffer.choice is not None:
            from tailorbird.capture.either import write

            write(self, x, value)
            return
        if not buffer.may_be_written:
            self.raises("ValueError: assignment destination is read-only")
        if buffer.root.lent or buffer.root in self.lenders:
            self.refuse("lent_array", name="written")
        if x.view is not None and not writes_once(x.view):
            self.raises("ValueError: assignment destination is read-only")
        if buffer.base is None:
            buffer.content = self._written(x, value)
            return
        from tailorbird.capture import derived

        if buffer.part:
            derived.write_part(self, x, buffer.base.through(x.view), value)
        else:
            derived.write(self, buffer, buffer.base, self._written(x, value))

    def _written(self, x: Arr, value: Operand) -> Value:
        buffer = x.buffer
        content = self.content(buffer)
        shape = type_of(value).shape
        if x.view is None:
            if isinstance(value, Value) and shape == buffer.type.shape:
                return value
            attrs = {"shape": buffer.type.shape, "dtype": buffer.type.dtype}
            return self.emit("full", [value], attrs, buffer.type)
        return self.emit("write", [content, value], {"view": x.view}, buffer.type)

    # integers

    def integer(self, x: Any, what: str = "an index") -> Dim:
        """An exact integer: a Python or NumPy int, a symbolic one, or a scalar made from one."""
        if isinstance(x, bool):
            return int(x)
        if isinstance(x, (int, Expr)):
            return self.assume.canon(x)
        if isinstance(x, np.integer):
            return int(x)
        if isinstance(x, Scal):
            found = exact(x.value)
            if found is not None:
                return self.assume.canon(found)
        if isinstance(x, (Scal, Arr)):
            if x.dtype.kind in "iu" and not x.shape:
                value = self.operand(x)
                assert isinstance(value, Value)
                self.definite(value, what)
                return self.bound(value)
            self.raises("TypeError: an integer is required")
        index = getattr(type(x), "__index__", None)
        if index is None:
            self.raises(f"TypeError: {kind_name(x)} is not an integer")
        self.refuse("unsupported_type", name=what, type=kind_name(x))

    def concrete(self, x: Any, what: str = "a value") -> Any:
        """A value the code needs to know: sizes and ints are specialised under guards."""
        if isinstance(x, Expr):
            value = self.assume.pin(x)
            if value is None:
                self.refuse("data_dependent_shape", name=what)
            return value
        if isinstance(x, Scal):
            from tailorbird.capture.settle import settled

            found = settled(self, x)
            if found is None:
                self.refuse("data_dependent_value", name=what)
            return found
        if isinstance(x, Arr):
            self.refuse("data_dependent_value", name=what)
        if isinstance(x, (tuple, list)):
            return type(x)(self.concrete(item, what) for item in x)
        if isinstance(x, slice):
            return slice(*(self.concrete(part, what) for part in (x.start, x.stop, x.step)))
        if not is_static(x):
            self.refuse("unsupported_type", name=what, type=kind_name(x))
        return x

    def at_least(self, x: Dim, least: Dim) -> bool:
        """Is x >= least? Decided, under a guard if need be; or checked at run time, then it is."""
        difference = self.assume.canon(x - least)
        answer = self.assume.holds(difference)
        if answer is None:
            from tailorbird.capture.masks import decided

            answer = decided(self, difference)
        if answer is None:
            self.check(difference, ">=")
        return answer is not False

    def definite(self, value: Operand, what: str) -> None:
        """Refuses a scalar that is of one type or another, by the path that was taken."""
        if isinstance(value, Value) and value in self.loose:
            self.refuse("promotion", name=f"{what}, a scalar of one type or another,")

    def same(self, a: Dim, b: Dim) -> bool:
        """Is a == b? Equal sizes are one symbol from here on."""
        answer = self.assume.equal(a, b)
        if answer is None:
            self.refuse("unknown_size", name=f"{a} == {b}")
        return answer

    def equal(self, a: Dim, b: Dim) -> bool:
        """Is a == b, as a question of the program's? Decided, under a guard if need be."""
        answer = self.assume.agrees(a, b)
        if answer is None:
            self.refuse("unknown_size", name=f"{a} == {b}")
        return answer

    # shapes

    def shape_of(self, x: Any) -> Shape:
        return tuple(map(self.assume.canon, x.shape))

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        """The shape of operands together, by NumPy's rule."""
        wide = [s for s in shapes if s]
        if not wide:
            return ()
        first = wide[0]
        if all(s == first for s in wide):
            return tuple(map(self.assume.canon, first))
        rank = max(map(len, wide))
        dims = []
        for axis in range(rank):
            dims.append(self.together(s[axis - rank] for s in wide if axis - rank >= -len(s)))
        return tuple(self.assume.canon(d) for d in dims)

    def together(self, dims: Iterable[Dim]) -> Dim:
        """The size of sizes that meet on one axis."""
        total: Dim = 1
        for dim in dims:
            total = self._meet(total, self.assume.canon(dim))
        return total

    def _meet(self, a: Dim, b: Dim) -> Dim:
        a = self.assume.canon(a)
        if b == 1 or a == b:
            return a
        if a == 1:
            return b
        x, y = self.assume.hint(a), self.assume.hint(b)
        if x is None or y is None:
            if self.assume.equal(a, b) is False:
                self.raises(f"ValueError: sizes {a} and {b} do not broadcast")
            self.checked_equal(a, b)
            return a
        if x == y:
            self.same(a, b)
            return a
        if x == 1 and self.same(a, 1):
            return b
        if y == 1 and self.same(b, 1):
            return a
        self.raises(f"ValueError: sizes {x} and {y} do not broadcast")

    def checked_equal(self, a: Dim, b: Dim) -> None:
        """Sizes that are known only at run time are equal, or the graph is left."""
        difference = self.assume.canon(a - b)
        facts = {self.assume.canon(fact) for fact in self.assume.local}
        if isinstance(difference, Expr) and not {difference, -difference} <= facts:
            self.check(difference, "==")

    def quotient(self, total: Dim, part: Dim) -> Dim:
        """total / part where NumPy needs it exact; a size may be solved for that."""
        exactly = divide_exactly(total, part)
        if exactly is not None:
            return exactly
        x, y = self.assume.hint(total), self.assume.hint(part)
        if x is None or y is None:
            self.refuse("unknown_size", name=f"{total} / {part}")
        if y == 0 or x % y:
            self.raises(f"ValueError: cannot reshape {x} elements into parts of {y}")
        return self.assume.quotient(total, part)
