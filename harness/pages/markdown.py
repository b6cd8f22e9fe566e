"""Markdown text, with the line in the file of each part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.core.finding import Finding


@dataclass(frozen=True)
class Heading:
    """A heading's level, plain text, and line in the file."""

    level: int
    text: str
    line: int


@dataclass(frozen=True)
class Text:
    """Markdown that starts at `line` of the file at `path`."""

    path: str
    body: str
    line: int

    @cached_property
    def tokens(self) -> list[Token]:
        """CommonMark's block tokens; inline ones are their children."""
        return MarkdownIt("commonmark").parse(self.body)

    @cached_property
    def headings(self) -> tuple[Heading, ...]:
        """Every heading, in order."""
        return tuple(
            Heading(int(token.tag[1]), _plain(inline), self.line_of(inline))
            for token, inline in zip(self.tokens, self.tokens[1:], strict=False)
            if token.type == "heading_open"
        )

    @property
    def sections(self) -> list[Heading]:
        """The second-level headings."""
        return [heading for heading in self.headings if heading.level == 2]

    def line_of(self, token: Token, words: str = "") -> int:
        """The line of the file where a block starts, or its first line that contains `words`."""
        start, end = token.map or (0, 0)
        rows = self.body.splitlines()[start:end]
        return self.line + start + next((i for i, row in enumerate(rows) if words in row), 0)

    def finding(self, line: int, problem: str, remedy: str) -> Finding:
        """Return a finding in this text."""
        return Finding(self.path, line, problem, remedy)


def _plain(inline: Token) -> str:
    return "".join(part.content for part in inline.children or ()).strip()
