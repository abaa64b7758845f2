"""Expressions: one function for each kind of syntax node.

In: a syntax node and the activation it stands in. Out: an abstract value. What does not depend on
array data is computed; what does is recorded in the graph.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tailorbird.capture.arith import (
    BINARY,
    UNARY,
    binary,
    concretely,
    condition,
    negated,
    truth,
    unary,
)
from tailorbird.capture.branches import select
from tailorbird.capture.call import call
from tailorbird.capture.containers import item_of, iterate
from tailorbird.capture.heap import arrays, is_choice
from tailorbird.capture.lift import lift
from tailorbird.capture.objects import attribute_of
from tailorbird.capture.registry import evaluates
from tailorbird.capture.source import Source, is_text, text_of
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import (
    Arr,
    Code,
    Frame,
    LocalFunction,
    Obj,
    Poison,
    Scal,
    is_static,
    kind_name,
)
from tailorbird.ir.node import Value

MISSING = object()


def shown(node: ast.AST) -> str:
    """The user's own text for a node, for reasons."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


# Names


@evaluates(ast.Constant)
def _constant(t: Tracer, node: Any, frame: Frame) -> Any:
    return node.value


@evaluates(ast.Name)
def _name(t: Tracer, node: Any, frame: Frame) -> Any:
    found = frame.names.get(node.id, MISSING)
    if found is MISSING:
        return look_up(t, node.id, frame)
    return readable(t, found) if type(found) is Poison else found


def readable(t: Tracer, x: Any) -> Any:
    """A name's value, if it has one here."""
    if isinstance(x, Poison):
        t.refuse("joined_value", name=x.reason)
    return x


def look_up(t: Tracer, name: str, frame: Frame) -> Any:
    """A name that is not bound in this activation: from around it, a closure, globals, builtins."""
    if name in frame.text.locals:
        t.raises(f"UnboundLocalError: {name}")
    found = frame.lifted.get(name, MISSING)
    if found is not MISSING:
        return found
    if frame.outer is not None:
        inside = frame.outer.names.get(name, MISSING)
        return look_up(t, name, frame.outer) if inside is MISSING else readable(t, inside)
    found = _from_outside(t, name, frame)
    frame.lifted[name] = found
    return found


def _from_outside(t: Tracer, name: str, frame: Frame) -> Any:
    code = getattr(frame.function, "__code__", None)
    if code is not None and name in code.co_freevars:
        return _from_cell(t, name, frame)
    if name in frame.globals and is_text(frame.globals.get("__name__")):
        t.looked[frame.globals["__name__"], name] = frame.globals[name]
        return frame.globals[name]
    if name in frame.globals:
        return lift(t, _global_source(t, name, frame), frame.globals[name])
    if hasattr(builtins, name):
        t.absent[_global_source(t, name, frame)] = None
        t.looked["builtins", name] = getattr(builtins, name)
        return getattr(builtins, name)
    t.raises(f"NameError: {name}")


def _from_cell(t: Tracer, name: str, frame: Frame) -> Any:
    place = frame.function.__code__.co_freevars.index(name)
    cell = frame.function.__closure__[place]
    try:
        live = cell.cell_contents
    except ValueError:
        t.raises(f"NameError: {name}")
    if frame.source is None:
        return lift(t, Source(("cell", name)), live)
    source = frame.source.attr("__closure__").item(place).attr("cell_contents")
    return lift(t, source, live)


def _global_source(t: Tracer, name: str, frame: Frame) -> Source:
    if frame.globals is t.frames[0].globals:
        return Source(("global", name))
    module = sys.modules.get(frame.globals.get("__name__", ""))
    if module is not None and vars(module) is frame.globals:
        return Source(("module", module.__name__, name))
    assert frame.source is not None, "only the captured function has no path"
    return frame.source.attr("__globals__").item(name)


# Operators


@evaluates(ast.BinOp)
def _binop(t: Tracer, node: Any, frame: Frame) -> Any:
    left = t.evaluate(node.left, frame)
    right = t.evaluate(node.right, frame)
    t.line = node.lineno
    return binary(t, BINARY[type(node.op)], left, right)


@evaluates(ast.UnaryOp)
def _unary(t: Tracer, node: Any, frame: Frame) -> Any:
    x = t.evaluate(node.operand, frame)
    if isinstance(node.op, ast.Not):
        test = condition(t, x, shown(node.operand))
        if isinstance(test, Value):
            return negated(t, test)
        return not test
    return unary(t, UNARY[type(node.op)], x)


@evaluates(ast.Compare)
def _compare(t: Tracer, node: Any, frame: Frame) -> Any:
    return _compare_from(t, node, 0, t.evaluate(node.left, frame), frame)


def _compare_from(t: Tracer, node: Any, k: int, left: Any, frame: Frame) -> Any:
    """A chain of comparisons from the k-th on; what stands behind a false one is not evaluated."""
    right = t.evaluate(node.comparators[k], frame)
    result = _compared(t, node.ops[k], left, right)
    if k + 1 == len(node.ops):
        return result
    return _both(t, result, shown(node), lambda: _compare_from(t, node, k + 1, right, frame))


def _both(t: Tracer, x: Any, what: str, rest: Callable[[], Any]) -> Any:
    """`x and rest()`."""
    test = condition(t, x, what)
    if isinstance(test, Value):
        return select(t, t.frames[-1], test, rest, lambda: _known(x, False))
    return rest() if test else x


def _either(t: Tracer, x: Any, what: str, rest: Callable[[], Any]) -> Any:
    """`x or rest()`."""
    test = condition(t, x, what)
    if isinstance(test, Value):
        return select(t, t.frames[-1], test, lambda: _known(x, True), rest)
    return x if test else rest()


def _known(x: Any, truth: bool) -> Any:
    """x where its truth is known: a bool is then a constant."""
    if not isinstance(x, Scal) or x.dtype.kind != "b":
        return x
    return truth if x.type.weak else np.bool_(truth)


def _compared(t: Tracer, op: ast.AST, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Is | ast.IsNot):
        if any(side.buffer.root.lent for side in arrays((left, right))):
            t.refuse("lent_array", name="compared by `is`")
        if left is not right and any(is_choice(x) for x in (left, right)):
            t.refuse("joined_value", name="one of two arrays, compared by `is`,")
        return identical(t, left, right) == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        return contains(t, right, left) == isinstance(op, ast.In)
    if left is None or right is None or isinstance(left, (Code, Obj)):
        return _compared_by_identity(t, op, left, right)
    return binary(t, BINARY[type(op)], left, right)


def _compared_by_identity(t: Tracer, op: ast.AST, left: Any, right: Any) -> bool:
    """`==` of None, functions and objects that do not define it themselves."""
    for x in (left, right):
        plain: Any = object.__eq__
        own = isinstance(x, Obj) and type(x.live).__eq__ is not plain
        if own or isinstance(x, (Arr, Scal)) or not isinstance(op, ast.Eq | ast.NotEq):
            t.refuse("unsupported_type", name="a comparison", type=kind_name(x))
    return identical(t, left, right) == isinstance(op, ast.Eq)


def identical(t: Tracer, a: Any, b: Any) -> bool:
    """`a is b`: each abstract value of data is one object."""
    if isinstance(a, (Obj, Code)) and isinstance(b, (Obj, Code)):
        if isinstance(a, Obj):
            t.unkept = "two objects were compared by identity"
        return a.live is b.live
    return a is b


def contains(t: Tracer, container: Any, x: Any) -> bool:
    if isinstance(container, (Arr, Scal)):
        t.refuse("data_dependent_value", name="a membership test")
    if isinstance(container, dict):
        return concretely(t, lambda key: key in container, t.concrete(x))
    if not is_static(container):
        return any(
            item is x or truth(t, _compared(t, ast.Eq(), item, x), "membership")
            for item in container
        )
    return concretely(t, lambda items, key: key in items, container, t.concrete(x))


@evaluates(ast.BoolOp)
def _boolop(t: Tracer, node: Any, frame: Frame) -> Any:
    step = _either if isinstance(node.op, ast.Or) else _both

    def from_(k: int) -> Any:
        x = t.evaluate(node.values[k], frame)
        if k + 1 == len(node.values):
            return x
        return step(t, x, shown(node.values[k]), lambda: from_(k + 1))

    return from_(0)


@evaluates(ast.IfExp)
def _ifexp(t: Tracer, node: Any, frame: Frame) -> Any:
    test = condition(t, t.evaluate(node.test, frame), shown(node.test))
    if isinstance(test, Value):
        arms = (lambda: t.evaluate(node.body, frame)), (lambda: t.evaluate(node.orelse, frame))
        return select(t, t.frames[-1], test, *arms)
    return t.evaluate(node.body if test else node.orelse, frame)


# Parts


@evaluates(ast.Attribute)
def _attribute(t: Tracer, node: Any, frame: Frame) -> Any:
    return attribute_of(t, t.evaluate(node.value, frame), node.attr)


@evaluates(ast.Subscript)
def _subscript(t: Tracer, node: Any, frame: Frame) -> Any:
    x = t.evaluate(node.value, frame)
    key = t.evaluate(node.slice, frame)
    t.line = node.lineno
    return item_of(t, x, key)


@evaluates(ast.Slice)
def _slice(t: Tracer, node: Any, frame: Frame) -> slice:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if p is None else t.evaluate(p, frame) for p in parts))


# Displays


def items_of(t: Tracer, nodes: list[ast.expr], frame: Frame) -> list[Any]:
    """The values of a list of expressions, with stars opened."""
    found: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            found.extend(iterate(t, t.evaluate(node.value, frame), shown(node.value)))
        else:
            found.append(t.evaluate(node, frame))
    return found


@evaluates(ast.Tuple)
def _tuple(t: Tracer, node: Any, frame: Frame) -> tuple[Any, ...]:
    return tuple(items_of(t, node.elts, frame))


@evaluates(ast.List)
def _list(t: Tracer, node: Any, frame: Frame) -> list[Any]:
    return items_of(t, node.elts, frame)


@evaluates(ast.Set)
def _set(t: Tracer, node: Any, frame: Frame) -> set[Any]:
    return concretely(t, set, [t.concrete(x) for x in items_of(t, node.elts, frame)])


@evaluates(ast.Dict)
def _dict(t: Tracer, node: Any, frame: Frame) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values):
        x = t.evaluate(value, frame) if key is None else None
        if key is not None:
            name = t.concrete(t.evaluate(key, frame), "a key")
            found[name] = t.evaluate(value, frame)
        elif isinstance(x, dict):
            found.update(x)
        else:
            t.refuse("unsupported_type", name=shown(value), type=kind_name(x))
    return found


@evaluates(ast.JoinedStr)
def _joined(t: Tracer, node: Any, frame: Frame) -> str:
    return "".join(str(t.evaluate(part, frame)) for part in node.values)


@evaluates(ast.FormattedValue)
def _formatted(t: Tracer, node: Any, frame: Frame) -> str:
    x = t.concrete(t.evaluate(node.value, frame), shown(node.value))
    spec = "" if node.format_spec is None else t.evaluate(node.format_spec, frame)
    changes: dict[int, Any] = {-1: lambda v: v, 115: str, 114: repr, 97: ascii}
    change = changes[node.conversion]
    return concretely(t, lambda v: format(change(v), spec), x)


@evaluates(ast.NamedExpr)
def _walrus(t: Tracer, node: Any, frame: Frame) -> Any:
    x = t.evaluate(node.value, frame)
    owner = frame
    while owner.text.name == COMPREHENSION and owner.outer is not None:
        owner = owner.outer
    owner.names[node.target.id] = x
    return x


# Calls and functions


@evaluates(ast.Call)
def _call(t: Tracer, node: Any, frame: Frame) -> Any:
    function = t.evaluate(node.func, frame)
    args = items_of(t, node.args, frame)
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        x = t.evaluate(keyword.value, frame)
        if keyword.arg is not None:
            keywords[keyword.arg] = x
        elif isinstance(x, dict):
            keywords.update(x)
        else:
            t.refuse("unsupported_type", name=shown(keyword.value), type=kind_name(x))
    t.line = node.lineno
    return call(t, function, tuple(args), keywords)


@evaluates(ast.Lambda)
def _lambda(t: Tracer, node: Any, frame: Frame) -> LocalFunction:
    return local_function(t, node, frame)


_inner: dict[ast.AST, Any] = {}


def local_function(t: Tracer, node: Any, frame: Frame) -> LocalFunction:
    """A function defined here; its text is analysed once."""
    text = _inner.get(node)
    if text is None:
        text = text_of(node, frame.text.file)
        _inner[node] = text
    defaults = tuple(t.evaluate(x, frame) for x in node.args.defaults)
    names = [a.arg for a in node.args.kwonlyargs]
    pairs = zip(names, node.args.kw_defaults)
    keyword = {name: t.evaluate(x, frame) for name, x in pairs if x is not None}
    return LocalFunction(text, frame, defaults, keyword)


# Comprehensions

COMPREHENSION = "<comprehension>"


@evaluates(ast.ListComp)
def _list_comprehension(t: Tracer, node: Any, frame: Frame) -> list[Any]:
    return [t.evaluate(node.elt, inner) for inner in _rounds(t, node, frame)]


@evaluates(ast.GeneratorExp)
def _generator(t: Tracer, node: Any, frame: Frame) -> list[Any]:
    return [t.evaluate(node.elt, inner) for inner in _rounds(t, node, frame)]


@evaluates(ast.SetComp)
def _set_comprehension(t: Tracer, node: Any, frame: Frame) -> set[Any]:
    found = [t.concrete(t.evaluate(node.elt, inner)) for inner in _rounds(t, node, frame)]
    return concretely(t, set, found)


@evaluates(ast.DictComp)
def _dict_comprehension(t: Tracer, node: Any, frame: Frame) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for inner in _rounds(t, node, frame):
        key = t.concrete(t.evaluate(node.key, inner), "a key")
        found[key] = t.evaluate(node.value, inner)
    return found


def _rounds(t: Tracer, node: Any, frame: Frame) -> Any:
    """One activation for each round of a comprehension, innermost loop last."""
    from tailorbird.dataclass import replace

    text = replace(frame.text, name=COMPREHENSION, locals=frozenset())
    inner = Frame(text, frame.globals, frame.function, frame.source, frame)
    yield from _nested(t, node.generators, inner)


def _nested(t: Tracer, generators: list[ast.comprehension], frame: Frame) -> Any:
    from tailorbird.capture.execute import bind

    if not generators:
        yield frame
        return
    head, *rest = generators
    for item in iterate(t, t.evaluate(head.iter, frame), shown(head.iter)):
        bind(t, head.target, item, frame)
        if all(truth(t, t.evaluate(test, frame), shown(test)) for test in head.ifs):
            yield from _nested(t, rest, frame)
