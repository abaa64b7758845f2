"""Paths to live values, and the syntax trees of functions.

In: function and code objects. Out: `Source` (where the value of a graph parameter is found at each
call) and `FunctionText` (the syntax tree of a function, with its file and lines).

Invariants: a path is data, found again in every call by `Source.find`; a tree is parsed once for
each code object and never changed; a tree that does not match its code object counts as no
source.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from tailorbird.dataclass import dataclass, replace
from tailorbird.errors import Refused
from tailorbird.ir.draws import token
from tailorbird.reasons import why

LIBRARIES = ("numpy", "math", "cmath", "scipy", "operator", "itertools", "functools", "builtins")
FunctionNode = ast.FunctionDef | ast.Lambda
GENERATORS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def is_library(name: str | None) -> bool:
    """Whether a module is one whose functions are known to the tables here."""
    return (name or "").split(".")[0] in LIBRARIES


def is_text(name: str | None) -> bool:
    """Whether a module is a library's, or holds programs that stand for a library's functions."""
    return is_library(name) or name == "tailorbird.capture.texts"


@dataclass(frozen=True)
class Source:
    """Where a value is found at each call.

    `root` is ("arg", name), ("global", name), ("cell", name), ("module", module, name) or
    ("static", index into the constants). `steps` lead on from there: ("attr", name), ("item", key),
    and the questions ("type",), ("len",), ("keys",) and ("draws",). `kind` is "zero_d" for an array
    of rank 0.

    >>> str(Source(("arg", "self")).attr("layers").item(0))
    'self.layers[0]'
    """

    root: tuple[Any, ...]
    steps: tuple[tuple[Any, ...], ...] = ()
    kind: str = ""

    def attr(self, name: str) -> Source:
        return replace(self, steps=(*self.steps, ("attr", name)))

    def item(self, key: Any) -> Source:
        return replace(self, steps=(*self.steps, ("item", key)))

    def ask(self, question: str) -> Source:
        """The path of a property: a `type`, a `len`, `keys`, the `draws` from a generator."""
        return replace(self, steps=(*self.steps, (question,)))

    def find(self, function: Any, args: Mapping[str, Any], constants: Sequence[Any] = ()) -> Any:
        """The live value at the end of the path."""
        value = _root(self.root, function, args, constants)
        for step in self.steps:
            value = _STEPS[step[0]](value, *step[1:])
        return value

    def __str__(self) -> str:
        text = str(self.root[-1])
        for kind, *rest in self.steps:
            text = _TEXTS[kind].format(text, *(r if kind == "attr" else repr(r) for r in rest))
        return text


_STEPS: Mapping[str, Any] = {
    "attr": getattr,
    "item": lambda value, key: value[key],
    "type": type,
    "len": len,
    "keys": tuple,
    "draws": token,
}
_TEXTS = {
    "attr": "{}.{}",
    "item": "{}[{}]",
    "type": "type({})",
    "len": "len({})",
    "keys": "keys of {}",
    "draws": "{}",
}


def _root(
    root: tuple[Any, ...], function: Any, args: Mapping[str, Any], constants: Sequence[Any]
) -> Any:
    kind, name = root[0], root[-1]
    if kind == "arg":
        return args[name]
    if kind == "global":
        return function.__globals__[name]
    if kind == "module":
        return getattr(sys.modules[root[1]], name)
    if kind == "cell":
        return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
    return constants[name]


@dataclass(frozen=True)
class FunctionText:
    """A function's syntax tree, where it was written, and the names that are local to it."""

    name: str
    tree: FunctionNode
    file: str
    locals: frozenset[str]
    loads: frozenset[str]

    @property
    def body(self) -> list[ast.stmt]:
        """The statements; of a lambda, the return of its value."""
        if isinstance(self.tree, ast.Lambda):
            statement = ast.Return(self.tree.body)
            return [ast.copy_location(statement, self.tree.body)]
        return self.tree.body


_texts: dict[CodeType, FunctionText] = {}
_files: dict[str, tuple[list[str], ast.Module]] = {}


def read_function(function: FunctionType) -> FunctionText:
    """The text of a Python function, or Refused."""
    code = function.__code__
    known = _texts.get(code)
    if known is None:
        known = _read(code, function.__globals__)
        _texts[code] = known
    return known


def lines_of(code: CodeType, names: dict[str, Any]) -> list[str]:
    """The lines of the file that holds a code object, `names` being its globals."""
    file = code.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, names)
    if code.co_firstlineno > len(lines):
        raise OSError("there is no source, or it is shorter than it was")
    return lines


def text_of(tree: FunctionNode, file: str) -> FunctionText:
    """The text of a function defined inside another one."""
    name = tree.name if isinstance(tree, ast.FunctionDef) else "<lambda>"
    for node in _walk_scope(tree):
        if isinstance(node, GENERATORS):
            raise Refused(why("generator", file=file, line=node.lineno, name=name))
        if isinstance(node, ast.Global | ast.Nonlocal):
            what = type(node).__name__.lower()
            raise Refused(why("unsupported_syntax", file=file, line=node.lineno, name=what))
    return FunctionText(name, tree, file, _locals(tree), _loads(tree))


def parameter_names(arguments: ast.arguments) -> list[str]:
    """Every parameter's name, in the order of the signature."""
    plain = [*arguments.posonlyargs, *arguments.args]
    star = [arguments.vararg] if arguments.vararg else []
    double = [arguments.kwarg] if arguments.kwarg else []
    return [a.arg for a in (*plain, *star, *arguments.kwonlyargs, *double)]


def _read(code: CodeType, names: dict[str, Any]) -> FunctionText:
    try:
        lines = lines_of(code, names)
        is_lambda = code.co_name == "<lambda>"
        tree = _lambda_tree(code, lines) if is_lambda else _def_tree(code, lines)
    except (OSError, SyntaxError, IndentationError, ValueError) as error:
        line = code.co_firstlineno
        reason = why("no_source", file=code.co_filename, line=line, name=code.co_name)
        raise Refused(reason) from error
    if isinstance(tree, ast.AsyncFunctionDef):
        line = code.co_firstlineno
        raise Refused(why("generator", file=code.co_filename, line=line, name=code.co_name))
    return text_of(tree, code.co_filename)


def _def_tree(code: CodeType, lines: list[str]) -> Any:
    first = code.co_firstlineno - 1
    tree = _parsed(block_of(code, lines))
    if tree is None:  # a last statement without code whose lines stand further out
        tree = _parsed(inspect.getblock(lines[first:]))
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef) or not _matches(tree, code):
        raise OSError("the file no longer holds this function")
    ast.increment_lineno(tree, first)
    return tree


def _parsed(block: list[str]) -> ast.stmt | None:
    """The first statement of a block; None if it does not parse."""
    try:
        return ast.parse(textwrap.dedent("".join(block))).body[0]
    except (SyntaxError, IndexError):
        return None


def block_of(code: CodeType, lines: Sequence[str]) -> list[str]:
    """The lines of a function: to the last one with code, and those below it that stand further in
    than its first.
    """
    first = code.co_firstlineno - 1
    end = max(last_line(code), first + 1)
    margin = _margin(lines[first])
    while end < len(lines) and (not lines[end].strip() or _margin(lines[end]) > margin):
        end += 1
    return list(lines[first:end])


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def last_line(code: CodeType) -> int:
    """The last line that code was made from, that of functions inside included."""
    inside = [last_line(x) for x in code.co_consts if isinstance(x, CodeType)]
    return max([0, *inside, *(end for _, end, _, _ in code.co_positions() if end is not None)])


def _lambda_tree(code: CodeType, lines: list[str]) -> ast.Lambda:
    known = _files.get(code.co_filename)
    if known is None or known[0] is not lines:
        known = (lines, ast.parse("".join(lines)))
        _files[code.co_filename] = known
    first = code.co_firstlineno
    found = [
        node
        for node in walk(known[1])
        if isinstance(node, ast.Lambda) and node.lineno == first and _matches(node, code)
    ]
    columns = {p[2] for p in code.co_positions() if p[0] == first and p[2] is not None and p[3]}
    if len(found) > 1:
        found = [node for node in found if columns and _covers(node, columns)]
    if len(found) != 1:
        raise OSError("no lambda, or more than one, stands there")
    return found[0]


def _covers(node: ast.Lambda, columns: set[int]) -> bool:
    body = node.body
    end = body.end_col_offset if body.end_lineno == node.lineno else sys.maxsize
    return all(body.col_offset <= column <= (end or 0) for column in columns)


def _matches(tree: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether a tree can be what the code object was compiled from."""
    if not isinstance(tree, ast.Lambda) and tree.name != code.co_name:
        return False
    a = tree.args
    count = code.co_argcount + code.co_kwonlyargcount
    plain = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    if plain != list(code.co_varnames[:count]):
        return False
    nodes = walk(tree)
    words = {word for node in nodes for word in _words(node)}
    if set(code.co_names) - _IMPLIED <= words and set(code.co_freevars) - _IMPLIED <= words:
        return True
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in nodes
        if isinstance(node, ast.Attribute | ast.Name)
    }
    return used <= _names_in(code)  # test runners rewrite assertions and add names of their own


def walk(tree: ast.AST) -> list[ast.AST]:
    """`ast.walk` as a list: every node of a tree, in the same order, in a third of the time."""
    found = [tree]
    for node in found:
        for name in node._fields:
            x = getattr(node, name, None)
            if isinstance(x, ast.AST):
                found.append(x)
            elif type(x) is list:
                found += [item for item in x if isinstance(item, ast.AST)]
    return found


_IMPLIED = {"__annotations__", "AssertionError", "__name__", "__module__", "__class__", "super"}


def _names_in(code: CodeType) -> set[str]:
    """Every name in a code object and in those inside it."""
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _names_in(inner)
    return names


def _words(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.keyword | ast.arg):
        return [node.arg or ""]
    if isinstance(node, ast.alias):
        return [node.name, *node.name.split("."), node.asname or ""]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    return []


def _walk_scope(tree: FunctionNode) -> list[ast.AST]:
    """The nodes of a function that belong to its own scope."""
    body = tree.body if isinstance(tree.body, list) else [tree.body]
    pending: list[ast.AST] = list(body)
    found: list[ast.AST] = []
    while pending:
        node = pending.pop()
        found.append(node)
        if isinstance(node, ast.comprehension):
            pending.extend([node.iter, *node.ifs])
        elif not isinstance(node, SCOPES):
            pending.extend(ast.iter_child_nodes(node))
    return found


def _locals(tree: FunctionNode) -> frozenset[str]:
    names = set(parameter_names(tree.args))
    for node in _walk_scope(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
    return frozenset(names)


def _loads(tree: FunctionNode) -> frozenset[str]:
    """Every name that is read anywhere in the function or in a function inside it."""
    return frozenset(node.id for node in walk(tree) if isinstance(node, ast.Name))


def forget_sources() -> None:
    """Reads every source again when next asked; for interactive work on changing files."""
    _texts.clear()
    _files.clear()
    linecache.checkcache()
