"""Checks that a graph keeps the invariants of `node.py`, between stages and after parsing.

In: a graph. Out: nothing, or `VerifyError` with what is wrong, the line of the graph's text that
shows it, and a caret. Checked: every operand is defined before its use and in scope; every symbol
is known where it is used and has one kind; each op has its operands and attributes; types are what
`shapes.infer` says; views fit their base; regions take and yield what their op carries; results and
finals are values of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tailorbird.errors import Refused, VerifyError
from tailorbird.ir.expr import Dim, Expr, Sym, apply, replace_product
from tailorbird.ir.node import (
    Argument,
    Graph,
    Node,
    Operand,
    Region,
    Static,
    Value,
    View,
    leaves,
    type_of,
)
from tailorbird.ir.ops import ACCUMULATED, OPS
from tailorbird.ir.scope import bare
from tailorbird.ir.shapes import broadcast, infer_all
from tailorbird.ir.show import PLAIN_NAME, REGIONS, show_lines
from tailorbird.ir.signature import SIGNATURES
from tailorbird.ir.types import SUPPORTED, Type

KINDS = "biufc"  # a weak result may be of a later kind than NumPy's: Python's 2 ** -1 is 0.5


def verify(graph: Graph) -> Graph:
    """The graph itself, if it is sound; else raises `VerifyError`."""
    _Verifier(graph).graph_is_sound()
    return graph


class _Verifier:
    """One walk in program order, with the values and symbols known so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: set[Value] = set()
        self.symbols: dict[str, str] = {}

    def fail(self, message: str, node: Node | None = None, mark: str = "") -> NoReturn:
        """Raises with the line that shows the node (or holds the mark), and a caret."""
        shown = show_lines(self.graph)
        found = [text for text, of in shown if (of is node if node else mark and mark in text)]
        line = found[0] if found else shown[0][0]
        after = line.find(" = ") + 1 if node else 0
        places = [line.find(word, after) for word in (mark, node.op if node else "") if word]
        column = next((place for place in places if place >= 0), 0)
        raise VerifyError(f"{message}\n    {line}\n    {' ' * column}^")

    # The graph

    def graph_is_sound(self) -> None:
        graph = self.graph
        for name in graph.ints:
            self.name_is_plain(name)
            self.learn(Sym(name, "int"))
        self.parameters_are_sound(graph.parameters)
        for guard in graph.guards:
            self.symbols_are_known(guard.expr, mark=str(guard))
        self.region_is_sound(graph.body)
        for leaf in leaves(graph.results):
            if not isinstance(leaf, Static) and leaf is not None:
                self.leaf_is_sound(leaf)
        for parameter, value in graph.finals.items():
            self.final_is_sound(parameter, value)

    def name_is_plain(self, name: str) -> None:
        if not PLAIN_NAME.match(name):
            self.fail(f"{name!r} is no name for an integer", mark=name)

    def learn(self, sym: Sym, node: Node | None = None) -> None:
        if self.symbols.setdefault(sym.name, sym.kind) != sym.kind:
            known = self.symbols[sym.name]
            self.fail(f"the symbol {sym} is both {known} and {sym.kind}", node, str(sym))

    def parameters_are_sound(self, parameters: Sequence[Value]) -> None:
        for value in parameters:
            for sym in filter(None, map(bare, value.type.shape)):
                if sym.name not in self.symbols and sym.kind != "size":
                    self.fail(f"{sym} is {sym.kind}, but a parameter shows it", mark=str(sym))
        self.define(parameters, None)

    def leaf_is_sound(self, leaf: Any) -> None:
        if isinstance(leaf, Argument):
            if leaf.parameter not in self.graph.parameters:
                self.fail("an argument that is no parameter", mark="return")
        else:
            self.operand_is_known(leaf, None, "return")

    def final_is_sound(self, parameter: Value, value: Value) -> None:
        if parameter not in self.graph.parameters:
            self.fail("only a parameter has a final value", mark="final")
        self.operand_is_known(value, None, "final")
        if parameter.type != value.type:
            self.fail(f"{parameter.type} cannot end as {value.type}", mark="final")

    # Names

    def define(self, values: Iterable[Value], node: Node | None) -> None:
        """Makes values known, with the symbols that their types bind."""
        values = list(values)
        for value in values:
            for sym in filter(None, map(bare, value.type.shape)):
                if sym.kind in ("size", "fresh") and (sym.kind == "fresh" or node is None):
                    self.learn(sym, node)
        for value in values:
            for dim in value.type.shape:
                self.symbols_are_known(dim, node, value.type)
            if value.type.dtype not in SUPPORTED:
                self.fail(f"no dtype {value.type.dtype}", node)
            self.values.add(value)

    def symbols_are_known(self, x: Any, node: Node | None = None, mark: object = "") -> None:
        for sym in _symbols(x):
            if self.symbols.get(sym.name) != sym.kind:
                known = self.symbols.get(sym.name)
                what = f"is {known} here, not {sym.kind}" if known else "has no value here"
                self.fail(f"the {sym.kind} symbol {sym} {what}", node, str(mark))

    def operand_is_known(self, x: Operand, node: Node | None, mark: str = "") -> None:
        if isinstance(x, Value):
            if x not in self.values:
                self.fail("an operand is not defined before, or out of scope", node, mark)
        elif isinstance(x, Expr):
            self.symbols_are_known(x, node, x)
        elif not isinstance(x, bool | int | float | complex | np.generic):
            self.fail(f"{x!r} is no operand", node, mark)

    # Nodes

    def region_is_sound(self, region: Region) -> None:
        for node in region.nodes:
            self.node_is_sound(node)
            self.define(node.outputs, node)

    def node_is_sound(self, node: Node) -> None:
        if node.op not in OPS:
            self.fail(f"no op {node.op!r}", node)
        for x in node.inputs:
            self.operand_is_known(x, node)
        self.signature_fits(node)
        if len(node.regions) != len(REGIONS.get(node.op, ())):
            self.fail(f"{node.op} with {len(node.regions)} regions", node)
        if node.op in SPECIAL:
            SPECIAL[node.op](self, node)
        else:
            self.types_are_inferred(node)

    def sizes_agree(self, a: Type, b: Type) -> bool:
        """Whether types differ only in sizes that are equal because a guard says what divides."""
        if (a.dtype, a.weak, a.rank) != (b.dtype, b.weak, b.rank):
            return False
        return all(self._by_division(x - y) == 0 for x, y in zip(a.shape, b.shape))

    def _by_division(self, x: Dim) -> Dim:
        """x with `e // k * k` written as `e - r` where a guard says that e % k is r."""
        for guard in self.graph.guards:
            if guard.rel != "==" or isinstance(guard.expr, int):
                continue
            for sym in sorted(guard.expr.symbols(), key=str):
                rest = apply("mod", *sym.args) - guard.expr if sym.name == "mod" else None
                if isinstance(rest, int):
                    total, part = sym.args
                    x = replace_product(x, apply("floordiv", total, part) * part, total - rest)
        return x

    def signature_fits(self, node: Node) -> None:
        wanted = SIGNATURES[node.op]
        if not wanted.least <= len(node.inputs) <= wanted.most:
            self.fail(f"{node.op} does not take {len(node.inputs)} operands", node)
        for name in wanted.must:
            if name not in node.attrs:
                self.fail(f"{node.op} needs the attribute {name}", node)
        for name, x in node.attrs.items():
            if name not in wanted.must + wanted.may:
                self.fail(f"{node.op} has no attribute {name}", node, name)
            if not (node.op in ("compress", "extent") and name == "size"):
                self.symbols_are_known(x, node, name)

    def types_are_inferred(self, node: Node) -> None:
        EXTRA.get(node.op, _nothing)(self, node)
        if OPS[node.op].kind == "reduce":
            self.axes_fit(node, node.attrs["axis"])
        try:
            wanted = infer_all(node.op, node.inputs, node.attrs)
        except (Refused, LookupError, TypeError, ValueError) as error:
            self.fail(f"{node.op} cannot take these operands: {error}", node)
        if len(node.outputs) != len(wanted):
            self.fail(f"{node.op} has {len(wanted)} results, not {len(node.outputs)}", node)
        for value, inferred in zip(node.outputs, wanted):
            declared = value.type
            same = declared == inferred or self.sizes_agree(declared, inferred)
            if not same and not _is_weak_form(node, declared, inferred):
                self.fail(f"the type is {declared}, but {node.op} gives {inferred}", node)

    def axes_fit(self, node: Node, axes: Sequence[int]) -> None:
        rank = type_of(node.inputs[0]).rank
        if len(set(axes)) != len(axes) or any(not 0 <= axis < rank for axis in axes):
            self.fail(f"the axes {axes} are not in rank {rank}", node)

    def view_fits(self, node: Node) -> None:
        view: View = node.attrs["view"]
        rank = type_of(node.inputs[0]).rank
        if len(view.dims) != rank:
            self.fail(f"a view of rank {len(view.dims)} on a base of rank {rank}", node, "[")
        for _, _, axis in view.dims:
            if axis is not None and not 0 <= axis < len(view.shape):
                self.fail(f"the view has no result axis {axis}", node, "[")

    def write_fits(self, node: Node) -> None:
        self.view_fits(node)
        view: View = node.attrs["view"]
        axes = [axis for _, _, axis in view.dims if axis is not None]
        missing = [k for k, dim in enumerate(view.shape) if k not in axes and dim != 1]
        if missing or len(set(axes)) != len(axes):
            self.fail("a write through a view that repeats or crosses elements", node)
        self.broadcasts(node, type_of(node.inputs[1]), view.shape)

    def broadcasts(self, node: Node, value: Type, shape: Sequence[Dim]) -> None:
        extra = len(value.shape) - len(shape)
        shown = value.shape[max(extra, 0) :]
        try:
            fits = broadcast([shown, tuple(shape)]) == tuple(shape)
        except Refused:
            fits = False
        if not fits or any(dim != 1 for dim in value.shape[: max(extra, 0)]):
            self.fail(f"{value} does not broadcast to the window {list(map(str, shape))}", node)

    def mask_fits(self, node: Node) -> None:
        mask = type_of(node.inputs[1])
        if mask.dtype.kind != "b" or mask.shape != type_of(node.inputs[0]).shape[: mask.rank]:
            self.fail(f"{mask} is no mask for this base", node)

    def indices_fit(self, node: Node) -> None:
        indices = node.inputs[1:-1] if node.op == "scatter" else node.inputs[1:]
        axes = node.attrs.get("axes", tuple(range(len(indices))))
        if len(axes) != len(indices):
            self.fail(f"{len(indices)} indices on {len(axes)} axes", node)
        self.axes_fit(node, axes)
        if any(type_of(x).dtype.kind not in "iu" for x in indices):
            self.fail("an index that is not an integer", node)
        op = node.attrs.get("op", "add")
        extreme = op in ("maximum", "minimum") and node.result.type.dtype.kind == "c"
        if op not in ACCUMULATED or extreme:
            self.fail("an op that does not accumulate", node, "op=")

    # Regions

    def loop_fits(self, node: Node) -> None:
        bounds, carried = node.inputs[:3], node.inputs[3:]
        if any(type_of(x).dtype.kind not in "iu" or type_of(x).rank for x in bounds):
            self.fail("a loop over something that is not integers", node)
        self.name_is_plain(node.attrs["var"])
        if node.attrs["var"] in self.symbols:
            self.fail(f"the loop variable hides another {node.attrs['var']}", node)
        flags = [Type(np.dtype(bool))] if node.attrs.get("stops") else []
        (body,) = node.regions
        self.carrying_fits(node, body, carried, flags, loop=node.attrs["var"])
        self.results_fit(node, [value.type for value in body.parameters])

    def while_fits(self, node: Node) -> None:
        test, body = node.regions
        self.carrying_fits(node, test, node.inputs, None)
        self.carrying_fits(node, body, node.inputs, [])
        self.results_fit(node, [value.type for value in body.parameters])

    def carrying_fits(
        self,
        node: Node,
        region: Region,
        carried: Sequence[Operand],
        flags: list[Type] | None,
        loop: str = "",
    ) -> None:
        """A region takes what is carried and yields the next, or a condition if `flags` is None."""
        outside = set(self.values), dict(self.symbols)
        if loop:
            self.symbols[loop] = "loop"
        types = [value.type for value in region.parameters]
        self.types_fit(node, [type_of(x) for x in carried], types, "enters")
        self.inner_is_sound(node, region)
        found = [type_of(x) for x in region.yields]
        if flags is None:
            self.condition_fits(node, found)
        else:
            self.types_fit(node, found[: len(types)], types, "is yielded for", outside[1])
            if len(found) != len(types) + len(flags):
                self.fail(f"{len(found)} yields for {len(types)} carried values", node)
            self.condition_fits(node, found[len(types) :] or [Type(np.dtype(bool))])
        self.values, self.symbols = outside

    def inner_is_sound(self, node: Node, region: Region) -> None:
        self.define(region.parameters, node)
        self.region_is_sound(region)
        for x in region.yields:
            self.operand_is_known(x, node)

    def condition_fits(self, node: Node, found: Sequence[Type]) -> None:
        if len(found) != 1 or found[0].rank:
            self.fail(f"{node.op} needs one scalar condition", node)

    def branch_fits(self, node: Node) -> None:
        self.condition_fits(node, [type_of(node.inputs[0])])
        for region in node.regions:
            outside = set(self.values), dict(self.symbols)
            self.inner_is_sound(node, region)
            self.values, self.symbols = outside
            self.results_fit(node, [type_of(x) for x in region.yields])

    def results_fit(self, node: Node, types: Sequence[Type]) -> None:
        self.types_fit(node, types, [value.type for value in node.outputs], "becomes")

    def types_fit(
        self,
        node: Node,
        found: Sequence[Type],
        into: Sequence[Type],
        how: str,
        known: Mapping[str, str] | None = None,
    ) -> None:
        """Values of some types become values of others: equal, but for sizes that are bound new."""
        symbols = self.symbols if known is None else known
        if len(found) != len(into):
            self.fail(f"{len(found)} values where {len(into)} are wanted", node)
        for a, b in zip(found, into):
            same = a.dtype == b.dtype and a.weak == b.weak and a.rank == b.rank
            pairs = zip(a.shape, b.shape)
            if not same or not all(x == y or _is_new(y, symbols) for x, y in pairs):
                self.fail(f"{a} {how} {b}", node)

    def check_fits(self, node: Node) -> None:
        if node.outputs or node.attrs["rel"] not in ("==", "!=", ">="):
            self.fail("check has no result and compares by ==, != or >=", node)

    def bind_fits(self, node: Node) -> None:
        name = node.attrs["symbol"]
        found = type_of(node.inputs[0])
        if node.outputs or found.dtype.kind not in "iu" or found.rank:
            self.fail(f"bind gives a name to one integer, not to {found}", node)
        self.name_is_plain(name)
        if name in self.symbols:
            self.fail(f"the bound symbol hides another {name}", node, name)
        self.learn(Sym(name, "value"), node)

    def call_fits(self, node: Node) -> None:
        if ":" not in node.attrs["function"]:
            self.fail("a function is written 'module:name'", node, "function")
        if len(node.outputs) != 1 and not node.attrs.get("many"):
            self.fail("a call with several results says `many`", node)


def _nothing(verifier: _Verifier, node: Node) -> None:
    pass


SPECIAL = {
    "loop": _Verifier.loop_fits,
    "while": _Verifier.while_fits,
    "branch": _Verifier.branch_fits,
    "check": _Verifier.check_fits,
    "bind": _Verifier.bind_fits,
    "call": _Verifier.call_fits,
}
EXTRA = {
    "read": _Verifier.view_fits,
    "write": _Verifier.write_fits,
    "write_mask": _Verifier.mask_fits,
    "compress": _Verifier.mask_fits,
    "gather": _Verifier.indices_fit,
    "scatter": _Verifier.indices_fit,
}


def _is_weak_form(node: Node, declared: Type, inferred: Type) -> bool:
    """Whether a type is the Python scalar that the same operation on Python scalars gives."""
    if not declared.weak or declared.rank or inferred.rank:
        return False
    if node.op == "cast":
        return declared.dtype == inferred.dtype
    later = KINDS.index(declared.dtype.kind) >= KINDS.index(inferred.dtype.kind)
    return later and all(type_of(x).weak for x in node.inputs)


def _is_new(dim: Dim, known: Mapping[str, str]) -> bool:
    """Whether a dimension is a symbol that gets its value here."""
    sym = bare(dim)
    return sym is not None and sym.kind == "fresh" and sym.name not in known


def _symbols(x: Any) -> Iterator[Sym]:
    """The symbols in anything that can be an attribute or a dimension; functions are not named."""
    if isinstance(x, Expr):
        yield from (sym for sym in x.symbols() if sym.kind != "op")
    elif isinstance(x, tuple | list):
        for part in x:
            yield from _symbols(part)
    elif isinstance(x, View):
        yield from _symbols(x.dims + x.shape)
