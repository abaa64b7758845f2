"""The form kernels take: index expressions over loop axes, inside nests of stages.

A `Nest` loops over its `rows`; for every row it runs its `stages` in order. A stage loops over the
inner axes and, at each point, stores and folds; a fold leaves one scalar a row in a cell that later
stages read. Everything a loop needs to know about memory is a `Position`: element offset = constant
+ sum of axis * stride, all exact integer expressions, so that contiguity, broadcasting and
collapsing of axes are questions about algebra and not about shapes. Indices that are computed (a
gather, a wrapped or clamped index) come as expressions in `Load.computed`.

Complex values are pairs of real expressions from here on; see `complex.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailorbird.dataclass import dataclass, field
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim

SIZES = {
    "b1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4,
    "i64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip
PART = {"c64": "f32", "c128": "f64"}


@dataclass(frozen=True)
class Axis:
    """A loop axis: its name and how many points it has."""

    name: str
    extent: Dim


@dataclass(eq=False)
class Buffer:
    """Memory and how it is looked at; two buffers of one name are two looks at the same memory.

    `role` is param, result, array (a NumPy array held during the call), returned (an array that
    Python gave back) or temp (in the arena).
    """

    name: str
    ty: str
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]  # in elements
    role: str
    room: Dim | None = None  # elements to make room for, where the size changes in a loop

    @property
    def size(self) -> Dim:
        total: Dim = 1
        for d in self.shape:
            total = total * d
        return total


def c_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Element strides of a C-contiguous array; an axis that is empty steps as one of one element,
    so that a stride of 0 always means that the same element is seen again.
    """
    strides: list[Dim] = []
    step: Dim = 1
    for d in reversed(shape):
        strides.append(step)
        step = step if d == 0 else step * d
    return tuple(reversed(strides))


def f_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Element strides of a Fortran-contiguous array."""
    return tuple(reversed(c_strides(tuple(reversed(shape)))))


class Ex:
    """An expression at one point of a nest; `ty` is its scalar type."""

    __slots__ = ()
    ty: str


@dataclass(frozen=True)
class Const(Ex):
    """A number. Kept as text so that -0.0, 0.0, 1 and True stay apart as keys."""

    text: str
    ty: str

    @property
    def value(self) -> float | int:
        return float(self.text) if self.ty in ("f32", "f64") else int(self.text)


def const(value: Any, ty: str) -> Const:
    """A constant of a type, converted as NumPy would."""
    if ty in ("f32", "f64"):
        with np.errstate(over="ignore"):
            rounded = np.float32(value) if ty == "f32" else value
        return Const(repr(float(rounded)), ty)
    return Const(str(int(value)), ty)


@dataclass(frozen=True)
class Size(Ex):
    """An exact integer known when the call begins."""

    dim: Dim
    ty: str = "i64"


@dataclass(frozen=True)
class Scalar(Ex):
    """A scalar argument, or part 0/1 of a complex one."""

    name: str
    ty: str


@dataclass(frozen=True)
class Index(Ex):
    """The position along an axis."""

    axis: str
    ty: str = "i64"


@dataclass(frozen=True)
class Cell(Ex):
    """The result of a fold of an earlier stage of the same row."""

    name: str
    ty: str


@dataclass(frozen=True, eq=False)
class Op(Ex):
    """A map: arithmetic, comparison, select, cast or function; `op` is an op of the graph or a
    name in `emit/ops.py`.
    """

    op: str
    args: tuple[Ex, ...]
    ty: str


@dataclass(frozen=True, eq=False)
class Load(Ex):
    """An element of a buffer; `part` picks the real (0) or imaginary (1) half of a complex one."""

    buffer: Buffer
    at: Position
    ty: str
    part: int = -1
    computed: tuple[tuple[Ex, Dim], ...] = ()
    index: tuple[Position, ...] = ()  # the same place, axis by axis of the buffer


@dataclass(frozen=True)
class Store:
    """buffer[at] = value (two values for a complex buffer), where the mask is set if there is one;
    `computed` is added to where, as in a load.
    """

    buffer: Buffer
    at: Position
    value: tuple[Ex, ...]
    computed: tuple[tuple[Ex, Dim], ...] = ()
    mask: Ex | None = None
    index: tuple[Position, ...] = ()  # the same place, axis by axis of the buffer

    @property
    def roots(self) -> tuple[Ex, ...]:
        """Every expression that it needs."""
        more = () if self.mask is None else (self.mask,)
        return (*self.value, *(x for x, _ in self.computed), *more)


@dataclass(frozen=True)
class Fold:
    """cell = op over the stage's points, or over those where the mask is set if there is one;
    `argmin` and `argmax` fold (value, position) and leave the position.
    """

    cell: Cell
    op: str
    value: Ex
    position: Ex | None = None
    mask: Ex | None = None

    @property
    def roots(self) -> tuple[Ex, ...]:
        """Every expression that it needs."""
        return (self.value, *(x for x in (self.position, self.mask) if x is not None))


def identity(op: str, ty: str, scan: bool = False) -> float | int:
    """What a fold starts from. As NumPy's, a sum of -0.0 is 0.0, and a running sum keeps it."""
    if op == "sum":
        return -0.0 if scan and ty[0] == "f" else 0
    if op == "prod":
        return 1
    if op in ("any", "all"):
        return int(op == "all")
    largest = op in ("min", "argmin")
    if ty[0] == "f":
        return math.inf if largest else -math.inf
    bits = 1 if ty == "b1" else 8 * SIZES[ty]
    if ty[0] == "i":
        return 2 ** (bits - 1) - 1 if largest else -(2 ** (bits - 1))
    return 2**bits - 1 if largest else 0


@dataclass
class Stage:
    """`head` stores, once a row; then loops over the nest's inner axes, with `folds` and `stores`
    at every point. `first` is computed there before them: long expressions piece by piece.
    `turns` is the axis instead, in order, where the stage is a loop of the program.
    """

    head: list[Store] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    first: list[Ex] = field(default_factory=list)
    turns: Axis | None = None

    @property
    def loops(self) -> bool:
        return bool(self.stores or self.folds)


@dataclass
class Schedule:
    """How a nest runs: the vector axis, lanes, vectors in flight, and the work below which one
    thread is enough.
    """

    vector: str = ""
    width: int = 1
    unroll: int = 1
    cost: int = 1  # rough instructions a point, for the thread threshold
    owes: Dim | None = None  # not negative for sizes that this schedule is meant for
    together: int = 1  # rows that run at the same time, where lanes follow an inner axis
    ahead: bool = False  # the last stage fetches what the first one of the next rows reads
    past: bool = False  # stores go to memory past the caches, which would not keep them
    backward: bool = False  # chunks of a fold from the last one: what was read last is in the cache

    def __str__(self) -> str:
        if not self.vector:
            return "scalar"
        rows = f", {self.together} rows" if self.together > 1 else ""
        ahead = ", reading ahead" if self.ahead else ""
        past = ", past the caches" if self.past else ""
        return f"vector {self.vector} x{self.width} unroll {self.unroll}{rows}{ahead}{past}"


@dataclass
class Nest:
    """`rows` are independent; `inner` are folded or mapped inside a row."""

    name: str
    rows: list[Axis]
    inner: list[Axis]
    stages: list[Stage]
    schedule: Schedule = field(default_factory=Schedule)
    nodes: list[str] = field(default_factory=list)  # the graph ops it came from, for explain
    scan: bool = False  # the stage's stores see the folds as they run; or a move, in order
    packs: bool = False  # what the masks of its stores pick goes one after another
    only_if: list[Dim] = field(default_factory=list)  # nothing is read where one is not positive
    swept: bool = False  # folds down an array that another nest runs along at the same time
    divided: Axis | None = None  # the axis over which threads share a nest inside loops

    @property
    def turns(self) -> bool:
        """Whether a stage is a loop of the program: in order, point by point."""
        return any(stage.turns is not None for stage in self.stages)
