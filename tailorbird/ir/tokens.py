"""The tokens of graph text, and a reader that steps through them.

In: text. Out: tokens with their places, and the small steps a recursive descent is made of. What
cannot be read raises `ParseError` with line and caret. The grammar is in docs/ir.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from tailorbird.dataclass import dataclass
from tailorbird.errors import ParseError

TOKEN = re.compile(
    r"""(?P<space>[ \t]+)|(?P<comment>\#[^\n]*)|(?P<newline>\n)
    |(?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<value>%[\w.]+)|(?P<float>\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)|(?P<int>\d+)
    |(?P<name>[^\W\d]\w*(?:\.\w+)*)|(?P<sign>:=|<-|>=|==|!=|[-+*()\[\]{},:;=@])""",
    re.VERBOSE,
)
T = TypeVar("T")


@dataclass(frozen=True)
class Token:
    """One token: its kind, its text and where it stands, lines and columns from 1."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        ends = {"newline": "the end of the line", "end": "the end of the text"}
        return ends.get(self.kind) or repr(self.text)


def tokenize(text: str) -> list[Token]:
    """Every token but spaces, with an `end` after the last."""
    tokens = []
    line = 1
    start = 0
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ParseError(f"{text[at]!r} is no part of a graph", text, line, at - start + 1)
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(Token(kind, match.group(), line, at - start + 1))
        at = match.end()
        if kind == "newline":
            line += 1
            start = at
    return [*tokens, Token("end", "", line, at - start + 1)]


class Reader:
    """Steps through tokens; comments and line ends are skipped only by `skip_lines`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0

    @property
    def next(self) -> Token:
        """The token that comes next, not taken."""
        return self.tokens[self.at]

    @property
    def second(self) -> Token:
        """The token after the next."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raises, with a caret under a token (else the next)."""
        place = token or self.next
        raise ParseError(message, self.text, place.line, place.column)

    def take(self, kind: str) -> Token:
        """The next token, which must be of a kind."""
        token = self.next
        if token.kind != kind:
            self.fail(f"expected a {kind}, found {token}")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Whether the next token is this sign or word; if so it is taken."""
        if self.next.text != text or self.next.kind not in ("sign", "name"):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """Takes a sign or word, which must come next."""
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.next}")

    def closed(self, part: Callable[[], T], end: str) -> list[T]:
        """Parts separated by commas, up to and with the closing sign; a comma may come last."""
        parts: list[T] = []
        while not self.accept(end):
            parts.append(part())
            if not self.accept(","):
                self.expect(end)
                break
        return parts

    def series(self, part: Callable[[], T]) -> list[T]:
        """One part or more, separated by commas."""
        parts = [part()]
        while self.accept(","):
            parts.append(part())
        return parts

    def end_line(self) -> str:
        """Takes what ends a line and returns the comment on it."""
        comment = self.take("comment").text[1:].strip() if self.next.kind == "comment" else ""
        if self.next.kind != "end":
            self.take("newline")
        self.skip_lines()
        return comment

    def skip_lines(self) -> None:
        """Skips empty lines and lines that are comments."""
        while self.next.kind in ("newline", "comment"):
            self.at += 1
