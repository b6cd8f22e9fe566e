"""Marked code: each site is recorded when it runs, and nothing else changes."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

import pytest

from harness.core.site import Hooks, Site
from harness.engines.instrumentation import compile_marked
from harness.patch import apply_patch, parse_patch

MARKER = "mark__"


def run_marked(hunks: str, source: str, then: str = "") -> tuple[list[int], dict[str, object]]:
    """Patch, compile with marks, execute and then execute `then`; the marks in their order."""
    result = apply_patch(parse_patch(hunks, path="p.md", line=1), {"m.py": source})
    return execute(result.sources["m.py"], result.sites, then)


def execute(text: str, sites: tuple[Site, ...], then: str) -> tuple[list[int], dict[str, object]]:
    marks: list[int] = []

    def mark(number: int) -> bool:
        marks.append(number)
        return True

    names: dict[str, object] = {MARKER: mark}
    exec(compile_marked(text, "m.py", list(enumerate(sites)), Hooks(MARKER)), names)  # noqa: S102
    exec(then, names)  # noqa: S102
    return marks, names


@pytest.mark.parametrize(
    ("hunk", "source", "then", "marks"),
    [
        # expressions
        ("-a\n+1\n", "def f(x):\n    return x and a\n", "f(1); f(0)", [0]),
        ("-a($x)\n+$x\n", "def f(x):\n    return a(x) + a(2)\n", "f(1)", [0, 1]),
        (
            "-a\n+1 / 0\n",
            "def f():\n    try: return a\n    except ZeroDivisionError: pass\n",
            "f()",
            [0],
        ),
        ("-a\n+x\n", "def f(x):\n    return [a for y in (1, 2) if y]\n", "f(1)", [0, 0]),
        ("-a\n+1\n", "f = lambda: a\n", "f(); f()", [0, 0]),
        ("-a\n+1\n", "def f(x=a):\n    'doc'\n    return x\n", "f(); f()", [0, 0]),
        ("-a\n+str\n", "@a\ndef f():\n    return 1\n", "", []),
        ("-a\n+object\n", "class C(a):\n    x = 1\n    def m(self): pass\n", "C().m()", [0]),
        ("-a\n+object\n", "class C(a):\n    x = 1\n", "", [0]),
        ("-a\n+b\n", "def f():\n    a = 1\n    return 2\n", "f()", [0]),
        ("-a\n+b\n", "def f():\n    x = 1\n    return f'é{a}' if x else 0\nb = 1\n", "f()", [0]),
        ("-a\n+int\n", "def f():\n    y: a = 1\n    return y\n", "f()", [0]),
        ("-1\n+2\n", "def f(x):\n    match x:\n        case 1: return 3\n", "f(2)", [0]),
        ("-a\n+1\n", "def f(x):\n    if x: pass\n    elif a: return 1\n", "f(1); f(0)", [0]),
        (
            "-a\n+ValueError\n",
            "def f(x):\n    try: int(x)\n    except a: pass\n",
            "f('1'); f('x')",
            [0],
        ),
        ("-a\n+x, x\n", "def f(x):\n    return a\n", "assert f(1) == (1, 1)", [0]),
        ("-a\n+x if x else 2\n", "def f(x):\n    return a * 3\n", "assert f(0) == 6", [0]),
        ("-a\n+x\n", "def f(x): 'é'; y = {'ü': a}; return y\n", "assert f(1) == {'ü': 1}", [0]),
        ("-a\n+x\n", "def f(x):\n    z = 'é\x0c∇'; return [\n        'ü', a]\n", "f(1)", [0]),
        # statements
        ("-a()\n+pass\n", "def f(x):\n    if x:\n        a()\n", "f(0); f(1)", [0]),
        (" a()\n+b = 1\n", "def f(x):\n    a()\n    return x\ndef a(): pass\n", "f(0)", [0]),
        ("-a()\n+def g(): pass\n", "def f():\n    a()\n    g()\n    g()\n", "f()", [0, 0]),
        ("-a()\n+def g():\n+    'doc'\n", "a()\n", "assert g.__doc__ == 'doc'; g()", [0]),
        ("-a()\n+class C:\n+    def m(self): pass\n", "a()\n", "C().m()", [0]),
        (
            " if x:\n     ...\n+else:\n+    y = 1\n",
            "def f(x):\n    if x: pass\n",
            "f(0); f(1)",
            [0],
        ),
        ("-return a\n", "def f(): return a\n", "assert f() is None", [0]),
        # headers
        ("-if $c:\n+if not $c:\n     ...\n", "def f(x):\n    if x: pass\n", "f(0); f(1)", [0, 0]),
        ("-while x:\n+while not x:\n     ...\n", "def f(x):\n    while x: x = 1\n", "f(1)", [0]),
        (
            " if x:\n     ...\n-elif y:\n+else:\n     ...\n",
            "def f(x, y):\n    if x: pass\n    elif y: pass\n",
            "f(1, 0); f(0, 0)",
            [0],
        ),
        (
            " if x:\n     ...\n-else:\n+elif not y:\n     ...\n",
            "def f(x, y):\n    if x: pass\n    else: pass\n",
            "f(1, 0); f(0, 0)",
            [0],
        ),
        ("-def f(x):\n+def f(y):\n     ...\n", "x = 0\ndef f(x):\n    return x\n", "f(1)", [0]),
        (
            " try:\n     ...\n-except KeyError:\n+except ValueError:\n     ...\n",
            "def f(x):\n    try: int(x)\n    except KeyError: pass\n",
            "f('1'); f('x')",
            [0],
        ),
        (
            " try:\n     ...\n-except KeyError:\n+except:\n     ...\n",
            "def f(x):\n    try: int(x)\n    except KeyError: pass\n",
            "f('1'); f('x')",
            [0],
        ),
        (
            " match x:\n-    case 1:\n+    case 2:\n         ...\n",
            "def f(x):\n    match x:\n        case 1: pass\n",
            "f(5)",
            [0],
        ),
        ("+@str\n def f(x):\n     ...\n", "def f(x): pass\n", "", []),
        ("+@staticmethod\n def f(x):\n     ...\n", "class C:\n    def f(x): pass\n", "C.f(1)", [0]),
        ("-@str\n def f(x):\n     ...\n", "@str\ndef f(x): pass\n", "f(1)", [0]),
        # deletions
        ("-a()\n", "def f(x):\n    if x:\n        a()\n        x = 2\n", "f(0); f(1)", [0]),
        (
            "-a()\n",
            "def f(x):\n    if x:\n        x = 2\n        a()\n    x = 3\n",
            "f(0); f(1)",
            [0],
        ),
        ("-a()\n", "def f(x):\n    if x: x = 2; a()\n", "f(0); f(1)", [0]),
        ("-a()\n", "def f(x):\n    if x:\n        a()\n", "f(0); f(1)", [0]),
        ("-a()\n", "def f(x):\n    a()\n    def g(): pass\n", "f(0)", [0]),
        ("-a()\n", "a()\n", "", [0]),
        (
            "-a()\n",
            "'doc'\nfrom __future__ import annotations\na()\n",
            "assert __doc__ == 'doc'",
            [0],
        ),
        (
            " if x:\n     ...\n-else:\n-    pass\n",
            "def f(x):\n    if x: pass\n    else: pass\n",
            "f(1)",
            [0],
        ),
    ],
)
def test_a_site_is_marked_when_it_is_executed(
    hunk: str, source: str, then: str, marks: list[int]
) -> None:
    assert run_marked("@@ @@\n" + hunk, source, then)[0] == marks


def test_nothing_is_put_before_an_import_from_the_future() -> None:
    source = '"""Doc."""\nfrom __future__ import annotations\nimport a\n'
    hunk = "@@ @@\n-import a\n+import sys\n"
    marks, names = run_marked(hunk, source)
    assert marks == [0]
    assert names["__doc__"] == "Doc."


def test_marked_code_inherits_no_import_from_the_future() -> None:
    source = "def f(x: int):\n    return a\n"
    run_marked("@@ @@\n-a\n+x\n", source, "assert f.__annotations__ == {'x': int}")


def test_a_changed_docstring_stays_a_docstring() -> None:
    marks, names = run_marked('@@ @@\n-"a"\n+"b"\n', 'def f():\n    "a"\n    return 1\n', "f()")
    assert marks == [0]
    assert names["f"].__doc__ == "b"  # type: ignore[attr-defined]


def test_tracebacks_are_those_of_the_unmarked_code() -> None:
    source = "def f(x):\n    y = 1; é = a(x)(\n        2); return é\n\ndef a(x):\n    b()\n"
    hunk = "@@ @@\n-a($x)\n+g($x)\n@@ a @@\n-b()\n+return {}[\n+    0]\n"
    result = apply_patch(parse_patch(hunk, path="p.md", line=1), {"m.py": source})
    text = result.sources["m.py"] + "\ng = a\nf(0)\n"
    frames_seen = []
    for sites in ([], list(enumerate(result.sites))):
        code = compile_marked(text, "m.py", sites, Hooks(MARKER))
        with pytest.raises(KeyError) as caught:
            exec(code, {MARKER: lambda *_: True})  # noqa: S102
        frames = traceback.extract_tb(caught.tb)[1:]
        frames_seen.append([(f.lineno, f.end_lineno, f.colno, f.end_colno, f.name) for f in frames])
    assert frames_seen[0] == frames_seen[1]
    assert len(frames_seen[0]) == 3


def test_lines_are_traced_as_before() -> None:
    source = "def f(n):\n    t = 0\n    for i in range(n):\n        t += g(i)\n    return t\n"
    patch = parse_patch("@@ @@\n-g($x)\n+$x\n", path="p.md", line=1)
    result = apply_patch(patch, {"m.py": source})
    text = result.sources["m.py"]
    assert traced(text, ()) == traced(text, result.sites) == [2, 3, 4, 3, 4, 3, 5]


def traced(text: str, sites: tuple[Site, ...]) -> list[int]:
    """The lines that `f(2)` runs through."""
    lines: list[int] = []

    def trace(frame: FrameType, event: str, _: object) -> object:
        if event == "line":
            lines.append(frame.f_lineno)
        return trace if frame.f_code.co_filename == "m.py" else None

    _, names = execute(text, sites, "")
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        names["f"](2)  # type: ignore[operator]
    finally:
        sys.settrace(previous)
    return lines


def test_a_marker_that_a_class_would_mangle_is_refused() -> None:
    with pytest.raises(ValueError, match="the hook name '__mark' is not an identifier"):
        compile_marked("a = 1\n", "m.py", [], Hooks("__mark"))
