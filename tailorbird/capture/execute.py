"""Simple statements: one function for each kind of syntax node; control flow is in `control.py`.

In: a statement and the activation it stands in. Out: None when it ends normally, else how it was
left: ("break",) or ("continue",).
"""

from __future__ import annotations

import ast
import importlib
import sys
from typing import Any

from tailorbird.capture.arith import BINARY, binary
from tailorbird.capture.assign import assign, augment, augmented_item
from tailorbird.capture.branches import BREAK, CONTINUE
from tailorbird.capture.containers import item_of, iterate, set_item, unfrozen
from tailorbird.capture.evaluate import local_function, look_up, readable, shown
from tailorbird.capture.heap import arrays
from tailorbird.capture.objects import attribute_of
from tailorbird.capture.registry import executes
from tailorbird.capture.source import is_library
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, BorrowedList, Frame
from tailorbird.capture.views import reshaped_in_place

MISSING = object()


@executes(ast.Expr)
def _expression(t: Tracer, node: Any, frame: Frame) -> Any:
    if not isinstance(node.value, ast.Constant):
        t.evaluate(node.value, frame)


@executes(ast.Pass)
def _pass(t: Tracer, node: Any, frame: Frame) -> Any:
    return None


@executes(ast.Break)
def _break(t: Tracer, node: Any, frame: Frame) -> Any:
    return BREAK


@executes(ast.Continue)
def _continue(t: Tracer, node: Any, frame: Frame) -> Any:
    return CONTINUE


# Binding


@executes(ast.Assign)
def _assign(t: Tracer, node: Any, frame: Frame) -> Any:
    value = t.evaluate(node.value, frame)
    for target in node.targets:
        bind(t, target, value, frame)


@executes(ast.AnnAssign)
def _annotated(t: Tracer, node: Any, frame: Frame) -> Any:
    if node.value is not None:
        bind(t, node.target, t.evaluate(node.value, frame), frame)


def bind(t: Tracer, target: ast.expr, value: Any, frame: Frame) -> None:
    """Gives a target its value: a name, a tuple of targets, or a part of an array or container."""
    if isinstance(target, ast.Name):
        frame.names[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(t, target.elts, value, frame)
    elif isinstance(target, ast.Subscript):
        owner = t.evaluate(target.value, frame)
        key = t.evaluate(target.slice, frame)
        if isinstance(owner, Arr):
            assign(t, owner, key, value)
        else:
            set_item(t, owner, key, value)
    elif isinstance(target, ast.Starred):
        bind(t, target.value, value, frame)
    else:
        _set_attribute(t, target, value, frame)


def _set_attribute(t: Tracer, target: Any, value: Any, frame: Frame) -> None:
    """`z.imag = ...`, and `x.shape = ...` of an array that only names of this activation refer to.

    An `Arr` is the Python object, so that all names that have it get the new one.
    """
    x = t.evaluate(target.value, frame)
    if target.attr != "shape":
        assign(t, _part_of(t, x, target), ..., value)
        return
    if not isinstance(x, Arr) or _is_elsewhere(t, x, frame):
        t.refuse("attribute_write", name=shown(target))
    made = reshaped_in_place(t, x, value)
    if made is None:
        t.refuse("attribute_write", name=shown(target))
    for name, y in frame.names.items():
        if y is x:
            frame.names[name] = made


def _is_elsewhere(t: Tracer, x: Arr, frame: Frame) -> bool:
    """Whether something beside the names of an activation refers to an array object."""
    if x is x.buffer.handle or x.buffer.choice is not None:
        return True
    inside = [y for y in frame.names.values() if y is not x]
    outside = [y for other in t.frames if other is not frame for y in other.names.values()]
    return any(a is x for a in arrays((inside, outside)))


def _unpack(t: Tracer, targets: list[ast.expr], value: Any, frame: Frame) -> None:
    stars = [k for k, target in enumerate(targets) if isinstance(target, ast.Starred)]
    items = _known_items(t, value, len(targets), bool(stars))
    if stars:
        at = stars[0]
        after = len(targets) - at - 1
        if len(items) < len(targets) - 1:
            t.raises("ValueError: not enough values to unpack")
        middle = items[at : len(items) - after]
        items = [*items[:at], middle, *items[len(items) - after :]]
    if len(items) != len(targets):
        t.raises("ValueError: wrong number of values to unpack")
    for target, item in zip(targets, items):
        bind(t, target, item, frame)


def _known_items(t: Tracer, value: Any, count: int, star: bool) -> list[Any]:
    known = isinstance(value, Arr) and value.shape and not star
    if known and not t.same(value.shape[0], count):
        t.raises("ValueError: wrong number of values to unpack")
    return iterate(t, value, "what is unpacked")


@executes(ast.AugAssign)
def _augmented(t: Tracer, node: Any, frame: Frame) -> Any:
    name = BINARY[type(node.op)]
    target = node.target
    if isinstance(target, ast.Name):
        _augment_name(t, name, node, frame)
    elif isinstance(target, ast.Subscript):
        owner = t.evaluate(target.value, frame)
        key = t.evaluate(target.slice, frame)
        value = t.evaluate(node.value, frame)
        if isinstance(owner, Arr):
            augmented_item(t, name, owner, key, value)
        else:
            _augment_item(t, name, owner, key, value)
    else:
        part = _part_of(t, t.evaluate(target.value, frame), target)
        augment(t, name, part, t.evaluate(node.value, frame))


def _part_of(t: Tracer, x: Any, target: ast.Attribute) -> Arr:
    """The part of complex numbers that an attribute shows, which may be assigned."""
    if not isinstance(x, Arr) or x.dtype.kind != "c" or target.attr not in ("real", "imag"):
        t.refuse("attribute_write", name=shown(target))
    found = attribute_of(t, x, target.attr)
    assert isinstance(found, Arr)
    return found


def _augment_name(t: Tracer, name: str, node: Any, frame: Frame) -> None:
    found = frame.names.get(node.target.id, MISSING)
    current = look_up(t, node.target.id, frame) if found is MISSING else readable(t, found)
    value = t.evaluate(node.value, frame)
    if isinstance(current, Arr):
        augment(t, name, current, value)
    elif isinstance(current, list) and name == "add":
        if isinstance(current, BorrowedList):
            t.refuse("in_place_write", name=node.target.id)
        unfrozen(t, current)
        current.extend(iterate(t, value, shown(node.value)))
    else:
        frame.names[node.target.id] = binary(t, name, current, value)


def _augment_item(t: Tracer, name: str, owner: Any, key: Any, value: Any) -> None:
    current = item_of(t, owner, key)
    if isinstance(current, Arr):
        augment(t, name, current, value)
        changed: Any = current
    else:
        changed = binary(t, name, current, value)
    set_item(t, owner, key, changed)


@executes(ast.Delete)
def _delete(t: Tracer, node: Any, frame: Frame) -> Any:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            t.refuse("unsupported_syntax", name=f"del {shown(target)}")
        if frame.names.pop(target.id, MISSING) is MISSING:
            t.raises(f"NameError: {target.id}")


@executes(ast.FunctionDef)
def _def(t: Tracer, node: Any, frame: Frame) -> Any:
    if node.decorator_list:
        t.refuse("unsupported_syntax", name="a decorator")
    frame.names[node.name] = local_function(t, node, frame)


@executes(ast.Import)
def _import(t: Tracer, node: Any, frame: Frame) -> Any:
    for alias in node.names:
        if not is_library(alias.name):
            t.refuse("unsupported_syntax", name=f"import {alias.name}")
        module = importlib.import_module(alias.name)
        t.looked[module.__name__, "__name__"] = module.__name__
        top = sys.modules[alias.name.split(".")[0]]
        frame.names[alias.asname or alias.name.split(".")[0]] = module if alias.asname else top


@executes(ast.ImportFrom)
def _import_from(t: Tracer, node: Any, frame: Frame) -> Any:
    if node.level or not is_library(node.module):
        t.refuse("unsupported_syntax", name=f"import from {node.module}")
    module = importlib.import_module(node.module)
    for alias in node.names:
        if not hasattr(module, alias.name):
            t.raises(f"ImportError: {alias.name}")
        t.looked[module.__name__, alias.name] = getattr(module, alias.name)
        frame.names[alias.asname or alias.name] = getattr(module, alias.name)


@executes(ast.Raise)
def _raise(t: Tracer, node: Any, frame: Frame) -> Any:
    t.raises(shown(node))
