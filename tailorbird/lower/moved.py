"""Expressions of a nest at other positions: axes under other names, the variable of a loop as an
axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tailorbird.dataclass import replace
from tailorbird.fuse.flow import Position
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.lower.kernel import Axis, Ex, Index, Load, Nest, Op, Size, Stage, Store
from tailorbird.lower.rebuild import Rebuilt
from tailorbird.lower.steps import Loop


def mentions(x: Dim, var: Sym) -> bool:
    return isinstance(x, Expr) and var in x.symbols()


class Moved(ABC):
    """Expressions of a nest at other positions."""

    def stages(self, nest: Nest) -> list[Stage]:
        rebuilt = Rebuilt(self.one)
        stages = [rebuilt.stage(stage) for stage in nest.stages]
        for stage in stages:
            stage.head[:] = map(self.store, stage.head)
            stage.stores[:] = map(self.store, stage.stores)
            stage.turns = None if stage.turns is None else self.axis(stage.turns)
        return stages

    def store(self, x: Store) -> Store:
        terms = tuple((t, self.fixed(stride)) for t, stride in x.computed)
        index = tuple(map(self.position, x.index))
        return replace(x, at=self.position(x.at), computed=terms, index=index)

    def one(self, x: Ex) -> Ex:
        if isinstance(x, Load):
            terms = tuple((t, self.fixed(stride)) for t, stride in x.computed)
            index = tuple(map(self.position, x.index))
            return replace(x, at=self.position(x.at), computed=terms, index=index)
        if isinstance(x, Index):
            return self.along(x)
        return self.size(x) if isinstance(x, Size) else x

    def axis(self, x: Axis) -> Axis:
        return x

    @abstractmethod
    def position(self, p: Position) -> Position:
        """Where that is now."""

    def fixed(self, stride: Dim) -> Dim:
        return stride

    def along(self, x: Index) -> Ex:
        return x

    def size(self, x: Size) -> Ex:
        return x


class Renamed(Moved):
    """Axes under other names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def position(self, p: Position) -> Position:
        axes = tuple((self.names.get(name, name), stride) for name, stride in p.axes)
        return replace(p, axes=axes)

    def along(self, x: Index) -> Ex:
        return Index(self.names.get(x.axis, x.axis))

    def axis(self, x: Axis) -> Axis:
        return Axis(self.names.get(x.name, x.name), x.extent)


class NotAffine(Exception):
    """An index is no sum of multiples of the variable."""


class Unrolled(Moved):
    """The variable of a loop as its start and so many steps along an axis."""

    def __init__(self, loop: Loop, axis: Axis) -> None:
        self.loop = loop
        self.turns = axis

    def split(self, x: Dim) -> tuple[Dim, Dim]:
        """x where the axis is 0, and how far one step along it moves x."""
        var = self.loop.var
        if isinstance(x, int) or var not in x.symbols():
            return x, 0
        rest: Dim = 0
        times: Dim = 0
        for monomial, c in x.terms:
            others = list(monomial)
            if var in others:
                others.remove(var)
                times = times + Expr(((tuple(others), c),)) if others else times + c
            else:
                rest = rest + Expr(((monomial, c),)) if monomial else rest + c
        if mentions(times, var) or mentions(rest, var):
            raise NotAffine
        return rest + times * self.loop.start, times * self.loop.step

    def position(self, p: Position) -> Position:
        offset, step = self.split(p.offset)
        axes = tuple((name, self.fixed(stride)) for name, stride in p.axes)
        if step != 0:
            axes = ((self.turns.name, step), *axes)
        return Position(offset, axes, p.terms)

    def fixed(self, stride: Dim) -> Dim:
        if mentions(stride, self.loop.var):
            raise NotAffine
        return stride

    def size(self, x: Size) -> Ex:
        offset, step = self.split(x.dim)
        if step == 0:
            return x
        turned: Ex = Index(self.turns.name)
        if step != 1:
            turned = Op("multiply", (turned, Size(step)), "i64")
        return turned if offset == 0 else Op("add", (turned, Size(offset)), "i64")
