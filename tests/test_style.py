"""How the code must read, as far as a program can see it: STYLE in one file.

Formatting, unused names and one statement a line are ruff's; types are mypy's. Here: the length of
files and functions, docstrings, and words that say that something was left undone.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tailorbird", "bench", "tools", "tests", "examples")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
LIBRARY = [path for path in FILES if path.relative_to(ROOT).parts[0] != "tests"]

LONGEST_FILE = 500
LONGEST_FUNCTION = 80
UNDONE = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|Not" + r"ImplementedError)\b")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_short(path):
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST_FILE, f"{lines} lines: split it by what its parts do"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_left_undone(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert not UNDONE.search(line), f"{name_of(path)}:{number}: {line.strip()}"


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_modules_say_what_they_are(path):
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert len(text) >= 20, "open the module with what comes in, what goes out, what holds"


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_functions_can_be_seen_whole(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{node.name} at line {node.lineno}: {lines} lines"


@pytest.mark.parametrize("folder", ("tailorbird", "bench", "examples"))
def test_every_folder_opens_with_a_docstring(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert (path.parent / "__init__.py").exists(), f"{name_of(path.parent)} has no __init__.py"


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text
