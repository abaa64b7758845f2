"""What a program is made of: buffers, and steps that run one after another.

A step is a nest of loops (`kernel.py`), a matrix product, a routine of LAPACK, a check that may
leave for plain Python, a size that gets its value, a call of Python, or control flow: loops and
branches over such steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from tailorbird.dataclass import dataclass, field, replace
from tailorbird.ir.expr import Dim, Sym, apply, symbol
from tailorbird.ir.node import Graph, Node, Operand, Value
from tailorbird.ir.scope import bare
from tailorbird.lower.kernel import Buffer, Nest, c_strides, f_strides


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory for BLAS: where it starts, whether it lies transposed, its leading
    dimension.
    """

    buffer: Buffer
    offset: Dim
    transposed: bool
    leading: Dim
    batch: tuple[Dim, ...]


def widened(m: Matrix, shape: tuple[Dim, ...], batch: tuple[Dim, ...]) -> Matrix:
    """Batch strides aligned with the result's batch: 0 where the operand is broadcast."""
    own = shape[:-2]
    strides = tuple(0 if d == 1 else s for d, s in zip(own, m.batch, strict=True))
    missing = (0,) * (len(batch) - len(own))
    return Matrix(m.buffer, m.offset, m.transposed, m.leading, missing + strides)


@dataclass
class Gemm:
    """out[b] = a[b] @ b[b] for every b of the batch; `sparse` says that a may be mostly zeros."""

    a: Matrix
    b: Matrix
    out: Matrix
    m: Dim
    n: Dim
    k: Dim
    batch: tuple[Dim, ...]
    sparse: bool = False


@dataclass
class Factor:
    """A routine of LAPACK for every matrix of a batch of `count`.

    `matrices` follow each other without gaps, each column by column, and are overwritten; `vectors`
    hold what else it gives for each of them. `order` is the number of rows, `columns` those of the
    last of the matrices.
    """

    op: str
    matrices: tuple[Buffer, ...]
    vectors: tuple[Buffer, ...]
    order: Dim
    columns: Dim
    count: Dim

    @property
    def ty(self) -> str:
        return self.matrices[0].ty

    @property
    def work(self) -> Dim:
        return self.count * self.order * self.order * self.columns


def taller(step: Gemm) -> Gemm:
    """The same product with as much of the batch as can be taken for rows: where b does not change
    with it, and the matrices of a and of the result follow each other in memory as their rows do.
    """
    while step.batch and step.b.batch[-1] == 0:
        if any(x.transposed or x.batch[-1] != step.m * x.leading for x in (step.a, step.out)):
            break
        a, b, out = (replace(x, batch=x.batch[:-1]) for x in (step.a, step.b, step.out))
        rows = step.m * step.batch[-1]
        step = replace(step, a=a, b=b, out=out, m=rows, batch=step.batch[:-1])
    return step


@dataclass
class PythonCall:
    """An opaque call: operands are arrays or scalars, results come back as fresh arrays. Inside of
    loops and branches they are copied to where they belong, and it binds the sizes `binds`.
    """

    node: Node
    operands: list[Buffer | Operand]
    outputs: list[Buffer]
    binds: list[Sym] = field(default_factory=list)


@dataclass
class Check:
    """Leaves for plain Python unless the bool in a buffer is true."""

    buffer: Buffer


@dataclass
class Bind:
    """A symbol that is known only now gets its value: the i64 in a buffer of one element, made from
    an integer of `dtype`.
    """

    symbol: Sym
    buffer: Buffer
    dtype: str = "i64"


@dataclass
class Loop:
    """The body for every value of a variable; after a turn that sets `until` no other comes.
    `independent` turns may run in any order; `divided` is what one of them is reckoned to cost
    where threads may share them. Where it `comes_back` its turns may be done for blocks of points.
    """

    var: Sym
    start: Dim
    stop: Dim
    step: int
    body: list[ProgramStep]
    until: Buffer | None = None
    independent: bool = False
    divided: int = 0
    comes_back: bool = False


@dataclass
class While:
    """The body as long as the test leaves `flag` set."""

    test: list[ProgramStep]
    flag: Buffer
    body: list[ProgramStep]


@dataclass
class Branch:
    """One of two lists of steps."""

    flag: Buffer
    arms: tuple[list[ProgramStep], list[ProgramStep]]


@dataclass
class Control:
    """Loops and branches with what stands around them, as one function; Python is only called.

    `cells` are the scalars that nobody else sees.
    """

    name: str
    steps: list[ProgramStep]
    cells: list[Buffer] = field(default_factory=list)


@dataclass
class Sweep:
    """Two nests over one array, block by block of its rows; `down` is the one of them that folds
    down the rows.
    """

    nests: tuple[Nest, Nest]
    down: Nest

    @property
    def along(self) -> Nest:
        """The one that runs along each row."""
        return self.nests[0] if self.down is self.nests[1] else self.nests[1]

    @property
    def name(self) -> str:
        return f"{self.along.name}.{self.down.name}"


ProgramStep = (
    Nest | Gemm | Factor | PythonCall | Check | Bind | Loop | While | Branch | Control | Sweep
)


def inner_steps(steps: Sequence[ProgramStep]) -> Iterator[ProgramStep]:
    """Every step, with those inside loops and branches, in order."""
    for step in steps:
        yield step
        for inside in bodies(step):
            yield from inner_steps(inside)


def bodies(step: ProgramStep) -> tuple[list[ProgramStep], ...]:
    """The lists of steps that a step holds."""
    if isinstance(step, Control):
        return (step.steps,)
    if isinstance(step, Loop):
        return (step.body,)
    if isinstance(step, Sweep):
        return (list(step.nests),)
    if isinstance(step, While):
        return (step.test, step.body)
    return step.arms if isinstance(step, Branch) else ()


@dataclass
class Program:
    """What is compiled: parameters with their layouts, buffers, steps in order, and results."""

    graph: Graph
    layouts: tuple[str, ...]
    parameters: dict[Value, Buffer]
    scalars: dict[Value, str]
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[ProgramStep] = field(default_factory=list)
    results: Any = None  # graph.results with values replaced by buffers

    def temporary(self, ty: str, shape: tuple[Dim, ...]) -> Buffer:
        """One more buffer; a size that comes out negative is none."""
        shape = tuple(d if _is_size(d) else apply("max", d, 0) for d in shape)
        taken = {b.name for b in self.buffers}
        name = next(x for k in count() if (x := f"t{k}") not in taken)
        self.buffers.append(Buffer(name, ty, shape, c_strides(shape), "temp"))
        return self.buffers[-1]


def _is_size(x: Dim) -> bool:
    """Whether a dimension is that of some array."""
    known = bare(x)
    return isinstance(x, int) or (known is not None and known.kind == "size")


def parameter_strides(position: int, shape: tuple[Dim, ...], layout: str) -> tuple[Dim, ...]:
    """Element strides of an argument: `C`, `F`, or `S` and the axis of unit stride (or `-`)."""
    if layout == "C":
        return c_strides(shape)
    if layout == "F":
        return f_strides(shape)
    unit = layout[1:]
    return tuple(
        1 if str(k) == unit else symbol(f"s{position}_{k}", "stride") for k in range(len(shape))
    )
