"""Corrupted texts: real ones, with a few changes such as typing errors and disk errors cause.

Random text would be rejected at its first line, and test nothing after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

import breaks

CATALOGUE = Path(breaks.__file__).parent

MEANINGFUL = [
    *("+++", "```", "```diff", "```python", "~~~", "## The break", "# ", "---", "> ", "- ", "    "),
    *(
        "@@ @@",
        "@@",
        "@@ a|b.* @@",
        "@@ x.py::f @@",
        "$",
        "$x",
        "$...x",
        "...",
        "+",
        "-",
        " ",
        "\t",
    ),
    *(
        '"',
        "'",
        '"""',
        "'''",
        "\\",
        "\\\n",
        "#",
        ";",
        ":",
        ",",
        ".",
        "=",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    ),
    *("lambda: 0", "yield", "return", "def f():", "class C:", "if x:", "else:", "@f", "*a", "**k"),
    *("[expect]", "[[expect]]", "[pardon]", "id = 1", "a.b.c = 1", "{}", "{0}", "{x}", "%s", "\\d"),
    *("[a](b)", "![a](\0)", "[a](http://[)", "<b>", "<!--", "&amp;", "|", "https://x", "[a]: b"),
    *("0", "-1", "1e999", "nan", "9" * 30, "9" * 5000, "0x", "1_000", "1979-05-27", "true", "'a'"),
    *(
        "\0",
        "\ufeff",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\u2028",
        "\r",
        "\u0301",
        "\U0001f600",
        "é",
        "ß",
    ),
]
"""Fragments with a meaning for some of the readers."""

NESTS = [
    *(
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("-", ""),
        ("not ", ""),
        ("a.", "a"),
        ("", "+1"),
        ("", "[0]"),
    ),
    *(("> ", ""), ("- ", ""), ("a = ", "1"), ("*", "*"), ("`", "`"), ("[", "](b)"), ("", "()")),
    *(
        ("lambda: ", "0"),
        ("", ".a"),
        ('f"{', '}"'),
        ("a.", " = 1"),
        ("", " if a else b"),
        ("$x, ", ""),
    ),
]
"""Constructs that can be nested: the text before and after."""

Draw = Callable[[st.SearchStrategy[int]], int]
Change = Callable[[st.DataObject, list[str]], None]


@cache
def texts(pattern: str) -> list[tuple[str, str]]:
    """The catalogue's files, each with its text."""
    files = sorted(CATALOGUE.glob(pattern))
    assert files, f"no file {pattern}"
    return [(str(file.relative_to(CATALOGUE)), file.read_text("utf-8")) for file in files]


def originals(pattern: str) -> st.SearchStrategy[tuple[str, str]]:
    """One of the catalogue's files, and its text."""
    return st.sampled_from(texts(pattern))


def changed(data: st.DataObject, text: str, others: Sequence[str] = ()) -> str:
    """The text with a few changes; `others` are texts that lines may come from."""
    lines = text.split("\n")
    for _ in range(data.draw(st.sampled_from([1, 1, 2, 3, 5]), label="changes")):
        if not lines:
            lines = [""]
        if others and data.draw(st.integers(0, 9)) == 0:
            lines.insert(_place(data, lines), data.draw(st.sampled_from(_all_lines(tuple(others)))))
            continue
        data.draw(st.sampled_from(CHANGES))(data, lines)
    return "\n".join(lines)


@cache
def _all_lines(texts: tuple[str, ...]) -> list[str]:
    return sorted({line for text in texts for line in text.split("\n")})


def _place(data: st.DataObject, items: Sequence[object]) -> int:
    return data.draw(st.integers(0, max(0, len(items) - 1)))


def _delete(data: st.DataObject, lines: list[str]) -> None:
    start = _place(data, lines)
    del lines[start : start + data.draw(st.sampled_from([1, 1, 2, 5, 100]))]


def _repeat(data: st.DataObject, lines: list[str]) -> None:
    start = _place(data, lines)
    block = lines[start : start + data.draw(st.sampled_from([1, 1, 3, 10]))]
    at = _place(data, lines)
    lines[at:at] = block * data.draw(st.sampled_from([1, 1, 2, 50]))


def _swap(data: st.DataObject, lines: list[str]) -> None:
    one, other = _place(data, lines), _place(data, lines)
    lines[one], lines[other] = lines[other], lines[one]


def _indent(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    lines[at] = data.draw(st.sampled_from([" ", "    ", "\t", "  \t", "> "])) + lines[at]


def _dedent(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    lines[at] = lines[at][data.draw(st.integers(1, 4)) :]


def _insert(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    column = _place(data, lines[at] + " ")
    piece = data.draw(st.one_of(st.sampled_from(MEANINGFUL), st.text(_CHARACTERS, max_size=4)))
    lines[at] = lines[at][:column] + piece + lines[at][column:]


def _cut(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    column = _place(data, lines[at] + " ")
    length = data.draw(st.integers(1, 10))
    lines[at] = lines[at][:column] + lines[at][column + length :]


def _break(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    column = _place(data, lines[at] + " ")
    lines[at : at + 1] = [lines[at][:column], lines[at][column:]]


def _join(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    lines[at : at + 2] = [
        data.draw(st.sampled_from(["", " ", "\r", "; "])).join(lines[at : at + 2])
    ]


def _lengthen(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    column = _place(data, lines[at] + " ")
    piece = data.draw(st.one_of(st.sampled_from(MEANINGFUL), st.text(_CHARACTERS, max_size=2)))
    many = piece * data.draw(st.sampled_from([20, 300, 2000]))
    lines[at] = lines[at][:column] + many[:10_000] + lines[at][column:]


def _nest(data: st.DataObject, lines: list[str]) -> None:
    at = _place(data, lines)
    start = _place(data, lines[at] + " ")
    end = start + data.draw(st.integers(0, 20))
    opening, closing = data.draw(st.sampled_from(NESTS))
    depth = data.draw(st.sampled_from([1, 3, 30, 300, 3000]))
    inside = lines[at][start:end]
    lines[at] = lines[at][:start] + opening * depth + inside + closing * depth + lines[at][end:]


def _nest_blocks(data: st.DataObject, lines: list[str]) -> None:
    """Python code nested deeper with every line."""
    at, depth = _place(data, lines), data.draw(st.sampled_from([5, 99, 120]))
    sign = data.draw(st.sampled_from(["", " ", "-", "+"]))
    head = data.draw(st.sampled_from(["if x:", "def f():", "class C:", "for x in x:", "with x:"]))
    lines[at:at] = [f"{sign}{' ' * i}{head}" for i in range(depth)] + [f"{sign}{' ' * depth}pass"]


CHANGES: list[Change] = [
    *(_delete, _repeat, _swap, _indent, _dedent, _insert, _insert, _insert, _cut, _cut),
    *(_break, _join, _lengthen, _nest, _nest_blocks),
]

_CHARACTERS = st.characters(codec="utf-8")


def spoiled(data: st.DataObject, whole: bytes, most: int = 6) -> bytes:
    """The bytes with a few of them changed, removed, repeated or inserted."""
    for _ in range(data.draw(st.integers(1, most), label="spoiled places")):
        at = data.draw(st.integers(0, max(0, len(whole) - 1)))
        length = data.draw(st.sampled_from([0, 1, 1, 2, 8, 1000]))
        fresh = data.draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from(
                    [b"\0", b"\xff" * 8, b"\xc1", b"\xdf\xff\xff\xff\xff", b"\x91" * 1200]
                ),
                st.just(whole[at : at + 100]),
            )
        )
        whole = whole[:at] + fresh + whole[at + length :]
    return whole
