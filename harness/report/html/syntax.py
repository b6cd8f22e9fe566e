"""Python code as HTML, with its syntax marked for the style sheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from itertools import groupby

from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

CLASSES = (
    (Keyword, "key"),
    (Operator.Word, "key"),
    (String, "str"),
    (Number, "lit"),
    (Comment, "com"),
    (Name.Builtin, "def"),
    (Name.Class, "def"),
    (Name.Decorator, "def"),
    (Name.Function, "def"),
)
"""The kinds of tokens that are marked, with the class of each."""


def highlight(lines: Sequence[str]) -> list[str]:
    """Return lines of code as HTML, in which the only tags are `span`s with a class.

    The lines need not be whole statements, nor valid Python; none contains a line break.
    """
    html = [""]
    for name, pieces in groupby(_pieces("\n".join(lines)), key=lambda piece: piece[0]):
        first, *others = escape("".join(text for _, text in pieces)).split("\n")
        html[-1] += _marked(first, name)
        html += [_marked(line, name) for line in others]
    return html


def _pieces(code: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each token."""
    for _, kind, text in _lexer().get_tokens_unprocessed(code):
        yield next((name for ancestor, name in CLASSES if kind in ancestor), ""), text


def _marked(text: str, name: str) -> str:
    return f'<span class="{name}">{text}</span>' if name and text else text


@cache
def _lexer() -> Lexer:
    return PythonLexer()
