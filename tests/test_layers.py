"""Imports point one way: read from the syntax trees, nothing is imported.

`ROOMS` is the order of DESIGN: a module may import its own room and the rooms of rows above it.
Optional packages are imported inside functions, so that a user without them notices nothing; heavy
ones may also be imported at the top of a module that is itself loaded only when used (`AT_TOP`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "tailorbird"

ROOMS = (
    ("dataclass", "errors", "knobs", "reasons", "events"),
    ("ir",),
    ("capture",),
    ("profile",),
    ("rewrite",),
    ("hardware",),
    ("store",),
    ("model",),
    ("place",),
    ("fuse",),
    ("lower",),
    ("emit",),
    ("assemble",),
    ("dispatch",),
    ("codelets",),
    ("fleet",),
    ("accelerators",),
    ("fronts",),
    ("pipeline",),
    ("explain",),
    ("api",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}

OPTIONAL = {
    *("torch", "triton", "onnx", "duckdb", "pyarrow", "ray", "fastapi", "sklearn", "lightgbm"),
    *("cupy", "pyopencl", "numba", "jax", "numexpr", "matplotlib", "psycopg"),
}
AT_TOP = {
    "llvmlite": {"assemble"},
    "scipy": {"assemble"},
    "rich": {"demo", "cli"},
    "typer": {"cli"},
}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    """The room a module lives in: the first part of its path below the package."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module imported anywhere in a file, as (dotted name, line)."""
    folder = ("tailorbird", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            yield module, node.lineno
            if module == "tailorbird":
                yield from ((f"tailorbird.{alias.name}", node.lineno) for alias in node.names)


def top_imports(path: Path) -> Iterator[tuple[str, int]]:
    """The packages imported when the module is loaded, as (first part of the name, line)."""
    pending: list[ast.AST] = list(ast.parse(path.read_text()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0], node.lineno
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    room = room_of(path)
    assert room in RANK, f"{room} has no row in ROOMS"
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] != "tailorbird" or len(parts) == 1 or parts[1] not in RANK:
            continue
        message = f"{path.name}:{line} imports {name}, which comes after {room}"
        assert RANK[parts[1]] <= RANK[room], message


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_optional_packages_are_imported_where_used(path):
    room = room_of(path)
    for name, line in top_imports(path):
        assert name not in OPTIONAL, f"{path.name}:{line}: import {name} inside the function"
        allowed = room in AT_TOP.get(name, {room})
        assert allowed, f"{path.name}:{line}: import {name} inside the function"


def test_a_wrong_import_would_be_found(tmp_path, monkeypatch):
    module = tmp_path / "ir" / "bad.py"
    module.parent.mkdir()
    module.write_text("from ..emit import llvm\nfrom tailorbird import api\nimport torch\n")
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    found = {name for name, _ in imports(module)}
    assert {"tailorbird.emit", "tailorbird.api", "torch"} <= found
    assert ("torch", 3) in set(top_imports(module))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_classes_are_made_by_our_own_dataclass(path):
    for name, line in imports(path):
        found = f"{path.name}:{line}: take it from tailorbird.dataclass, which is quick to import"
        assert name != "dataclasses", found
