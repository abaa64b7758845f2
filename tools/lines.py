"""Counts lines of Python per folder, so that growth is seen.

In: the tracked folders of this repository. Out: one row per folder with files, lines, lines of code
(neither blank, nor comment, nor docstring) and the longest file. Run by `make test`; it fails
nothing. The limit on the length of a file is held by tests/test_style.py.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tailorbird", "tests", "bench", "tools", "examples")
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
SKIPPED |= {tokenize.ENCODING, tokenize.ENDMARKER}


def count_code(text: str) -> int:
    """Lines that hold code: a token that is neither a comment nor part of a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines: set[int] = set()
    for token in tokens:
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(text)))


def docstring_lines(tree: ast.Module) -> set[int]:
    """The line numbers covered by docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def main() -> None:
    """Print the table."""
    groups: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            row = (text.count("\n"), count_code(text), path.name)
            groups[str(path.parent.relative_to(ROOT))].append(row)
    print(f"{'folder':28}{'files':>7}{'lines':>8}{'code':>8}   longest")
    for name in sorted(groups):
        show(name, groups[name])
    show("all", [row for rows in groups.values() for row in rows])


def show(name: str, rows: list[tuple[int, int, str]]) -> None:
    """Print one row of the table."""
    lines = sum(row[0] for row in rows)
    code = sum(row[1] for row in rows)
    longest = max(rows)
    print(f"{name:28}{len(rows):>7}{lines:>8}{code:>8}   {longest[2]} ({longest[0]})")


if __name__ == "__main__":
    main()
