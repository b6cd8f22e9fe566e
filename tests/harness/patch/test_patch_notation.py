"""Mistakes in a diff block: each is reported with the page's line and a remedy."""

from __future__ import annotations

import pytest

from harness.core.errors import HunkError
from harness.patch import parse_patch

DEEP = "not " * 9000
LONG = "x" + ".a" * 400


@pytest.mark.parametrize(
    ("text", "line", "problem", "remedy"),
    [
        (f"@@ @@\n-{DEEP}x\n+y\n", 6, "the - side is not Python: nested too deeply", "must be"),
        (f"@@ @@\n-{LONG}\n+y\n", 6, "the - side is not Python: nested too deeply", "must be"),
        ("", 5, "the diff block is empty", "write a hunk"),
        (
            "-a\n+b\n",
            5,
            "`-a` comes before the first `@@` header",
            "begin every hunk with `@@ scope @@`",
        ),
        ("@@ @@\n a\n", 5, r"neither a `-` nor a `\+` line", "begin the changed lines with"),
        (
            "@@ @@\n*a\n",
            6,
            r"`\*a` begins with neither a space, `-`, `\+` nor `@@`",
            "begin context",
        ),
        ("@@ @@\n+a()\n", 5, "this hunk only adds", "add a context line"),
        ("@@ @@\n ...\n+a()\n", 5, "this hunk only adds", "add a context line"),
        (
            "@@ @@\n a()\n ...\n+b()\n",
            8,
            "the position of these lines is ambiguous",
            "write a context line",
        ),
        ("@@ -1,3 +1,3 @@\n-a\n", 5, "line numbers are not allowed", "write `@@ add.vjp @@`"),
        ("@@ a b @@\n-a\n", 5, "`a b` is not a dotted path", "write `@@ add.vjp @@`"),
        ("@@ a | @@\n-a\n", 5, "`` is not a dotted path", "write `@@ add.vjp @@`"),
        ("@@ ::add @@\n-a\n", 5, "a file is missing in front of `::`", "write `@@ add.vjp @@`"),
        ("@@ add @@ x\n-a\n", 5, "`x` follows the second `@@`", "write `@@ add.vjp @@`"),
        (
            "@@ @@\n-a\n-if x\n+b\n",
            7,
            "the - side is not Python: expected ':'",
            "must be valid Python",
        ),
        (
            "@@ @@\n-a\n+f(\n",
            7,
            r"the \+ side is not Python: '\(' was never closed",
            "must be valid Python",
        ),
        (
            "@@ @@\n-a\n+$x $y\n",
            7,
            r"the \+ side is not Python: invalid syntax",
            "must be valid Python",
        ),
        ("@@ @@\n-else:\n-    a\n", 6, "the - side is not Python", "write the whole statement"),
        (
            "@@ @@\n-@property\n",
            6,
            "the - side is not Python",
            "write the `def` below the decorator",
        ),
        (
            "@@ @@\n-if x:\n     a()\n",
            7,
            r"the \+ side is not Python: unexpected indent",
            "once as `-`",
        ),
        (
            "@@ @@\n if x:\n+    a()\n",
            6,
            "the - side .* expected an indented block",
            "a line `...`",
        ),
        ("@@ @@\n-f($x)\n+g($y)\n", 7, r"`\$y` is used on the \+ side", r"\(`\$x`\)"),
        ("@@ @@\n-f()\n+g($y)\n", 7, r"`\$y` is used on the \+ side", r"\(none\)"),
        ("@@ @@\n-f($...x)\n+g($x)\n", 7, r"`\$x` is used on the \+ side", r"\(`\$\.\.\.x`\)"),
        ("@@ @@\n-f($x, $...x)\n+g($x)\n", 5, r"`\$x` and `\$\.\.\.x` cannot both", "another name"),
        ("@@ @@\n-f($)\n+g()\n", 6, r"`\$` is not followed by a name", "write `\\$name`"),
        ("@@ @@\n-f($1)\n+g()\n", 6, r"`\$` is not followed by a name", "write `\\$name`"),
        (
            "@@ @@\n-x = $...y\n+x = 1\n",
            6,
            r"`\$\.\.\.y` is used where a run",
            "write `\\$name` for one",
        ),
        (
            "@@ @@\n-f(\n ...\n-)\n+g()\n",
            7,
            "`...` stands for whole statements, not",
            "a run of",
        ),
        (
            "@@ @@\n-def f():\n-    ...\n",
            7,
            "`-...`: `...` stands for unchanged statements",
            "a space",
        ),
        (
            "@@ @@\n a()\n-for x in (\n+f(\n     1,\n-): pass\n+)\n",
            9,
            "this context line would have to move",
            "write such lines as `-`",
        ),
        ("@@ @@\n-a()\n+...\n", 7, r"`\+...`: `...` stands for unchanged statements", "a space"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_a_remedy(
    text: str, line: int, problem: str, remedy: str
) -> None:
    with pytest.raises(HunkError) as caught:
        parse_patch(text, path="breaks/x.md", line=5)
    error = caught.value
    assert (error.path, error.line) == ("breaks/x.md", line)
    assert str(error).startswith(f"breaks/x.md:{line}: ")
    with pytest.raises(HunkError, match=rf"{problem}[\s\S]*remedy: .*{remedy}"):
        raise error


def test_strings_and_comments_have_no_metavariables() -> None:
    text = '@@ @@\n-f(\'$a\', """$b""", $c)  # $d\n+g($c, \'$e\')\n'
    (hunk,) = parse_patch(text, path="page.md", line=1).hunks
    assert set(hunk.before.holes) == set(hunk.after.holes) == {"c"}


def test_one_block_holds_several_hunks_and_remembers_their_lines() -> None:
    text = "@@ f @@\n-a\n+b\n\n@@\n-c()\n@@ g|h.* @@\n x()\n+y()\n"
    patch = parse_patch(text, path="page.md", line=10)
    assert [(hunk.line, hunk.scope.text) for hunk in patch.hunks] == [
        (10, "f"),
        (14, ""),
        (16, "g|h.*"),
    ]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("-a\n+b\n", True),
        ("-f(\n-    a)\n+g(a)\n", True),
        (" f(\n-    a\n+    b\n )\n", True),
        ("-a\n", False),
        ("-a\n+b\n+c\n", False),
        ("-a\n+b = 1\n", False),
        ("-a\n+del b\n", False),
        (" a\n+b\n", False),
    ],
)
def test_two_sides_of_one_expression_each_are_an_expression_hunk(
    text: str, expression: bool
) -> None:
    (hunk,) = parse_patch(f"@@ @@\n{text}", path="page.md", line=1).hunks
    assert hunk.is_expression is expression


def test_many_runs_in_invalid_code_are_refused_quickly() -> None:
    """Each run has four forms; all combinations of twelve would take an hour."""
    runs = ", ".join(f"$...a{i}" for i in range(12))
    with pytest.raises(HunkError, match="never closed"):
        parse_patch(f"@@ @@\n-f({runs}\n+y\n", path="page.md", line=5)


def test_many_runs_are_read_where_all_but_few_are_arguments_of_calls() -> None:
    calls = " + ".join(f"f($...a{i})" for i in range(10))
    patch = parse_patch(f"@@ @@\n-{calls} + g({{1: 2, $...b}})\n+y\n", path="page.md", line=5)
    assert len(patch.hunks[0].before.holes) == 11
