"""Hunks of statements: their matches, and that all other bytes are unchanged."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

from harness.core.errors import DoesNotApply, HunkError
from harness.patch import Patched

PatchFile = Callable[[str, str], str]


def case(name: str, hunk: str, source: str, expected: str) -> object:
    return pytest.param("@@ @@\n" + hunk, source, expected, id=name)


@pytest.mark.parametrize(
    ("hunk", "source", "expected"),
    [
        case("remove", "-b()\n", "a()\n\n# of b\nb()  # b\n\nc()\n", "a()\n\n# of b\n\nc()\n"),
        case("remove-run", "-a()\n-b()\n", "a()\n# of b\nb()\nc()\n", "c()\n"),
        case("remove-with-context", " a()\n-b()\n", "b()\na()\nb()\n", "b()\na()\n"),
        case("remove-compound", "-if x:\n-    a()\n", "if x:\n  a()  # a\n\nb()\n", "\nb()\n"),
        case("remove-last-line", " a()\n-b()\n", "a()\nb()", "a()\n"),
        case("remove-whole-module", "-a()\n", "a()\n", ""),
        case("replace", "-a($x)\n+b = $x\n+c($x)\n", "a(1)  # a\n", "b = 1\nc(1)  # a\n"),
        case("replace-run", "-a()\n-b()\n+c()\n", "a()\nb()\n", "c()\n"),
        case("replace-nested", "-a()\n+b()\n+c()\n", "if x:\n\ta()\n", "if x:\n\tb()\n\tc()\n"),
        case("add-behind", " a()\n+b()\n", "a()  # a\n# c\nc()\n", "a()  # a\nb()\n# c\nc()\n"),
        case("add-before", "+b()\n c()\n", "a()\n# c\nc()\n", "a()\n# c\nb()\nc()\n"),
        case("add-at-the-end", " a()\n+b()\n", "a()", "a()\nb()"),
        case("add-behind-compound", " if x:\n     a()\n+b()\n", "if x: a()\n", "if x: a()\nb()\n"),
        case(
            "add-compound",
            " a()\n+if x:\n+    b()\n+    # of c\n+    c()\n",
            "def f():\n\ta()\n",
            "def f():\n\ta()\n\tif x:\n\t\tb()\n\t\t# of c\n\t\tc()\n",
        ),
        case(
            "add-text-of-several-lines",
            ' a()\n+b("""\n+  x\n+""")\n',
            "if x:\n    a()\n",
            'if x:\n    a()\n    b("""\n  x\n""")\n',
        ),
        case(
            "decorator-among-others",
            " @$...above\n-@b\n @$...below\n def f():\n     ...\n",
            "@a(1)\n@b\n@c\n@d\ndef f(): pass\n",
            "@a(1)\n@c\n@d\ndef f(): pass\n",
        ),
        case(
            "decorator-alone",
            " @$...above\n-@b\n @$...below\n def f():\n     ...\n",
            "@b\ndef f(): pass\n",
            "def f(): pass\n",
        ),
        case(
            "header",
            "-if $c:\n+if not $c:\n     ...\n",
            "if x : # c\n  a()\n",
            "if not x: # c\n  a()\n",
        ),
        case(
            "header-one-line", "-if x:\n+if y:\n     a()\n", "if x:   a() ; \n", "if y:   a() ; \n"
        ),
        case(
            "header-for",
            "-for $i in $n:\n+for $i in g($n):\n     ...\n",
            "for i in a,b: c()\n",
            "for i in g((a,b)): c()\n",
        ),
        case(
            "header-while",
            "-while x:\n+while not x:\n     a()\n",
            "while x:\n\n    a()  # a\n",
            "while not x:\n\n    a()  # a\n",
        ),
        case("header-kind", "-if x:\n+while x:\n     a()\n", "if x:\n  a()\n", "while x:\n  a()\n"),
        case(
            "header-with",
            "-with $a as $b:\n+with $a:\n     ...\n",
            "with (x as y): z()\n",
            "with x: z()\n",
        ),
        case(
            "header-def",
            "-def $f($...a, $k=$v):\n+def $f($...a):\n     ...\n",
            "@d\ndef f(a, k=1):  # f\n    pass\n",
            None,
        ),
        case(
            "header-def",
            " @d\n-def $f($...a, $k=$v):\n+def $f($...a):\n     ...\n",
            "@d\n# of f\ndef f(a, k=1):  # f\n    pass\n",
            "@d\n# of f\ndef f(a):  # f\n    pass\n",
        ),
        case(
            "header-class",
            "-class $c($...b):\n+class $c:\n     ...\n",
            "class A(B, metaclass=M):\n\n  x = 1\n",
            "class A:\n\n  x = 1\n",
        ),
        case(
            "header-elif",
            " if x:\n     ...\n-elif y:\n+elif z:\n     ...\n",
            "if x:\n    a()\nelif y:  # y\n    b()\n",
            "if x:\n    a()\nelif z:  # y\n    b()\n",
        ),
        case(
            "header-elif-to-else",
            " if x:\n     ...\n-elif y:\n+else:\n     ...\n",
            "if x:\n    a()\nelif y:  # y\n    b()\n",
            "if x:\n    a()\nelse:  # y\n    b()\n",
        ),
        case(
            "header-except",
            " try:\n     ...\n-except $e:\n+except Exception:\n     ...\n",
            "try: a()\nexcept ValueError: pass\n",
            "try: a()\nexcept Exception: pass\n",
        ),
        case(
            "header-case",
            " match x:\n-    case 1:\n+    case 2:\n         ...\n     case _:\n         ...\n",
            "match x:\n  case 1: a()\n  case _: b()\n",
            "match x:\n  case 2: a()\n  case _: b()\n",
        ),
        case(
            "remove-first-clause",
            "-if x:\n-    a()\n-elif y:\n+if y:\n     ...\n",
            "if x:\n  a()\nelif y:\n  b()\n",
            "if y:\n  b()\n",
        ),
        case(
            "remove-else",
            " if x:\n     ...\n-else:\n-    b()\n",
            "if x:\n  a()\nelse:  # e\n  b()\nc()\n",
            "if x:\n  a()\nc()\n",
        ),
        case(
            "add-else",
            " if x:\n     ...\n+else:\n+    b()\n",
            "def f():\n  if x:\n    a()  # a\n  c()\n",
            "def f():\n  if x:\n    a()  # a\n  else:\n    b()\n  c()\n",
        ),
        case(
            "remove-decorator",
            "-@$d\n def f():\n     ...\n",
            "@d(1)  # d\ndef f(): pass\n",
            "def f(): pass\n",
        ),
        case(
            "add-decorator",
            "+@e\n def f():\n     ...\n",
            "@d\ndef f(): pass\n",
            "@d\n@e\ndef f(): pass\n",
        ),
        case(
            "change-decorator",
            "-@d\n+@e\n def f():\n     ...\n",
            "@d # d\ndef f(): pass\n",
            "@e # d\ndef f(): pass\n",
        ),
        case(
            "nested",
            " def f($...a):\n     ...\n-    return $x\n+    return -$x\n",
            "def f(a):\n    # of b\n    b()\n    return a + 1  # r\n",
            "def f(a):\n    # of b\n    b()\n    return -(a + 1)  # r\n",
        ),
        case(
            "two-places",
            " def f():\n-    a()\n     ...\n+    z()\n     return\n",
            "def f():\n    a()\n    b()\n    return\n",
            "def f():\n    b()\n    z()\n    return\n",
        ),
        case("gap-shortest", " a()\n ...\n-b()\n", "a()\nc()\nb()\nb()\n", "a()\nc()\nb()\n"),
        case("gap-backtracks", "-a($x)\n ...\n b($x)\n", "a(1)\na(2)\nb(2)\n", "a(1)\nb(2)\n"),
        case("gap-empty", " a()\n...\n-b()\n", "a()\nb()\n", "a()\n"),
        case(
            "gap-at-any-depth",
            " if x:\n ...\n-    b()\n",
            "if x:\n    a()\n    b()\n",
            "if x:\n    a()\n",
        ),
        case("gap-at-the-ends", " ...\n-b()\n ...\n", "a()\nb()\nc()\n", "a()\nc()\n"),
        case(
            "append-to-block",
            " def f():\n     ...\n+    z()\n",
            "def f():\n  a()\n\nb()\n",
            "def f():\n  a()\n  z()\n\nb()\n",
        ),
        case("blank-lines", " a()\n\n \n-b()\n", "a()\nb()\n", "a()\n"),
        case("shared-first", "-a()\n", "a(); b(); c()\n", "b(); c()\n"),
        case("shared-first-indented", "-a()\n", "if x:\n    a(); b()\n", "if x:\n    b()\n"),
        case("shared-middle", "-b()\n", "a(); b(); c()\n", "a(); c()\n"),
        case("shared-last", "-c()\n", "a(); b(); c() ;  # x\n", "a(); b() ;  # x\n"),
        case("shared-all", "-$x()\n", "if x:\n    a(); b()\n    c()\n", "if x:\n    pass\n"),
        case("shared-line-goes", "-$x()\n", "x = 1\na(); b()\ny = 2\n", "x = 1\ny = 2\n"),
        case("shared-across-lines", "-b()\n-c()\n", "a(); b()\nc(); d()\n", "a(); d()\n"),
        case(
            "shared-replace",
            "-b()\n+x = 1\n+y = 2\n",
            "a(); b(); c()\n",
            "a(); x = 1; y = 2; c()\n",
        ),
        case("shared-add", " a()\n+x()\n", "a(); b()\n", "a(); x(); b()\n"),
        case("shared-add-before", "+x()\n b()\n", "a(); b()\n", "a(); x(); b()\n"),
        case(
            "shared-compound",
            "-b()\n+if x:\n+    b()\n",
            "a(); b(); c()\n",
            "a()\nif x:\n    b()\nc()\n",
        ),
        case(
            "suite",
            "-return x\n+return y\n",
            "def f(): return x  # f\n",
            "def f(): return y  # f\n",
        ),
        case("suite-only", "-return x\n", "def f(): return x\n", "def f(): pass\n"),
        case("suite-add", " a()\n+b()\n", "if x: a()\n", "if x: a(); b()\n"),
        case(
            "suite-compound",
            " a()\n+if y:\n+    b()\n",
            "if x: a()\n",
            "if x:\n    a()\n    if y:\n        b()\n",
        ),
        case(
            "emptied-block", "-a()\n", "if x:\n    a()  # a\nb()\n", "if x:\n    pass  # a\nb()\n"
        ),
        case(
            "emptied-inside",
            " if x:\n-    a()\n b()\n",
            "if x:\n  a()\nb()\n",
            "if x:\n  pass\nb()\n",
        ),
        case(
            "emptied-but-for-docstring",
            "-a()\n",
            'def f():\n    "d"\n    a()\n',
            'def f():\n    "d"\n',
        ),
        case(
            "docstring-skipped",
            " def f():\n-    a()\n+    b()\n",
            'def f():\n    "d"\n    a()\n',
            'def f():\n    "d"\n    b()\n',
        ),
        case(
            "docstring-stays-first",
            " def f():\n+    b()\n     ...\n",
            'def f():\n    "d"\n    a()\n',
            'def f():\n    "d"\n    b()\n    a()\n',
        ),
        case(
            "annotations-and-decorators-in-context",
            " def f(x):\n-    a()\n+    b()\n",
            "@d\ndef f(x: int) -> None:\n    a()\n",
            "@d\ndef f(x: int) -> None:\n    b()\n",
        ),
        case(
            "crlf",
            " a()\n-b()\n+if x:\n+    c()\n",
            "a()\r\nb()\r\n",
            "a()\r\nif x:\r\n    c()\r\n",
        ),
        case("crlf-remove", "-b()\n", "a()\r\nb()\r\nc()\r\n", "a()\r\nc()\r\n"),
        case("form-feed", "-b()\n", "a()\n\x0c\nb()\nc()\n", "a()\n\x0c\nc()\n"),
        case("indented-hunk", "     a()\n-    b()\n", "a()\nb()\n", "a()\n"),
        case(
            "context-only-moves-nothing",
            " a()\n+b()\n c()\n",
            "a()\n\n# c\nc()\n",
            "a()\nb()\n\n# c\nc()\n",
        ),
        case("swap", "-a()\n b()\n+a()\n", "a()\nb()  # b\n", "b()  # b\na()\n"),
        case(
            "call-over-several-lines",
            " f(\n-    a,\n+    b,\n )\n+g()\n",
            "if x:\n  f(a)\n",
            "if x:\n  f(\n      b,\n  )\n  g()\n",
        ),
    ],
)
def test_statements(patch_file: PatchFile, hunk: str, source: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(DoesNotApply):
            patch_file(hunk, source)
    else:
        assert patch_file(hunk, source) == expected


@pytest.mark.parametrize(
    ("hunk", "source"),
    [
        (" if x:\n-    a()\n+    z()\n", "if x:\n    a()\n    b()\n"),
        (" if x:\n-    a()\n+    z()\n", "if x:\n    a()\nelse:\n    b()\n"),
        ("-a()\n-b()\n", "a()\nc()\nb()\n"),
        (" @d\n def f():\n-    a()\n+    z()\n", "def f():\n    a()\n"),
        ("-def f():\n-    a()\n", "@d\ndef f():\n    a()\n"),
        ("-def f():\n-    a()\n", "def f() -> int:\n    a()\n"),
        ("-def f():\n-    a()\n", 'def f():\n    "d"\n    a()\n'),
        ("-return $x\n+return\n", "def f():\n    return\n"),
        ("-async def f():\n-    a()\n", "def f():\n    a()\n"),
        ("-x = 1\n", "x: int = 1\n"),
        ("-x += 1\n", "x -= 1\n"),
    ],
)
def test_a_block_or_header_that_differs_does_not_match(
    patch_file: PatchFile, hunk: str, source: str
) -> None:
    with pytest.raises(DoesNotApply):
        patch_file("@@ @@\n" + hunk, source)


@pytest.mark.parametrize(
    ("hunk", "line"),
    [
        (" if a:\n     x()\n+if b:\n     y()\n", 5),
        (" if a:\n-    if b:\n-        x()\n+    x()\n+if c:\n     y()\n", 7),
        (" f()\n-if a:\n-    x()\n     y()\n+    z()\n", 5),
        ("-f(\n+h(\n     x\n-)\n-g(\n+,\n     y\n )\n", 8),
        ("+with z:\n     a()\n", 3),
    ],
)
def test_context_that_would_move_is_refused_with_the_remedy(
    patch_file: PatchFile, hunk: str, line: int
) -> None:
    with pytest.raises(HunkError, match=rf"page.md:{line}: .*\n.*as `-` and .*`\+`"):
        patch_file("@@ @@\n" + hunk, "pass\n")


@pytest.mark.parametrize(
    ("pattern", "same", "other"),
    [
        ("1", "(1)", "2"),
        ("1, $x", "[1, y]", "[2, y]"),
        ("[1, *$x]", "(1, *y)", "(1, y)"),
        ("1 | 2", "1 | (2)", "1 | 3"),
        ("{'k': $x}", '{"k": y,}', "{'k': y, **z}"),
        ("A($x, b=2)", "A(y, b = 2)", "A(y, c=2)"),
        ("A.b", "A . b", "A.c"),
        ("[$x, _] as $z", "(y, _) as z", "(y, _)"),
        ("None", "(None)", "True"),
    ],
)
def test_a_case_matches_the_same_pattern_in_any_layout(
    patch_file: PatchFile, pattern: str, same: str, other: str
) -> None:
    hunk = f"@@ @@\n match v:\n-    case {pattern}:\n+    case 0:\n         ...\n"
    source = "match v:\n  case {}: a()\n"
    assert patch_file(hunk, source.format(same)) == source.format("0")
    with pytest.raises(DoesNotApply):
        patch_file(hunk, source.format(other))


def test_the_code_of_pages_and_engines_gives_no_warning(patch_file: PatchFile) -> None:
    source = "a('\\q', 1 is 1)\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert patch_file("@@ @@\n-a('\\q', $x)\n+b('\\w', $x)\n", source) == ("b('\\w', 1 is 1)\n")


def test_a_site_has_its_place_code_and_definition(patched: Callable[..., Patched]) -> None:
    source = "class T:\n    def f(self):\n        a()\n        b()\n"
    hunk = "@@ T.f @@\n def f(self):\n-    a()\n     ...\n+    c()\n"
    first, second = patched(hunk, source).sites
    assert (first.file, first.line, first.scope, first.kind) == ("ops.py", 3, "T.f", "deletion")
    assert (first.before, first.after) == ("        a()\n", "")
    assert (second.line, second.scope, second.kind) == (4, "T.f", "statements")
    assert (second.before, second.after) == ("", "\n        c()")


def test_a_context_header_over_several_lines_keeps_its_comment(patch_file: PatchFile) -> None:
    source = "if (a or  # why\n        b):\n    c()\n"
    hunk = "@@ @@\n if (a or\n         b):\n-    c()\n+    d()\n"
    assert patch_file(hunk, source) == source.replace("c()", "d()")


def test_the_diff_is_that_of_the_real_code(patched: Callable[..., Patched]) -> None:
    result = patched("@@ @@\n-b($x)\n+c($x)\n", "a()\nb(1)  # b\nd()")
    assert result.diff() == (
        "--- a/ops.py\n+++ b/ops.py\n@@ -1,3 +1,3 @@\n a()\n-b(1)  # b\n+c(1)  # b\n d()\n"
        "\\ No newline at end of file\n"
    )
