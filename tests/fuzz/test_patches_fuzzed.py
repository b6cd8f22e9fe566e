"""The patch notation: an invalid hunk is rejected, and the result of a patch is Python."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from harness.core.site import HOOKS
from harness.engines.engine import find_engine
from harness.engines.instrumentation import compile_marked
from harness.experiment.patching import put
from harness.pages.catalogue import open_catalogue
from harness.pages.front_matter import Break, Variant
from harness.patch import Patched, apply_patch, parse_patch
from tests.fuzz.changes import MEANINGFUL, changed, texts
from tests.fuzz.sound import in_time, read

SNIPPETS = [
    "x = 1",
    "x, *y = (1,), 2",
    "x = y = z",
    "a = 1; b = 2; return_ = a",
    "if x: pass",
    "if x: a(); b()\nelif y: c()\nelse: d()",
    "if x:\n    a()\nelif y:\n    b()\n\nelse:\n    if z:\n        c()\n",
    "for i in range(3): print(i)",
    "for i in a:\n\tb(i)\n\tcontinue\nelse:\n\tpass",
    "while x:  # why\n    x -= 1\n    break",
    "try: a()\nfinally: b()",
    "try:\n    a()\nexcept (A, B) as e:\n    raise C from e\nexcept D:\n    pass\nelse:\n    b()",
    "try:\n    a()\nexcept* A:\n    b()",
    "with a as b, c: d()",
    "with (\n    a as b,\n    c,\n):\n    d()",
    "match x:\n    case [1, *r] | (r): a()\n    case {'k': v, **o} if v: b()\n"
    "    case C(d, e=f): pass\n    case _: pass",
    "def f(a, /, b=1, *c, d: int = 2, **e) -> int: return a",
    "def f(x):\n    '''Says what.'''\n    def vjp(g):\n        return g * x,\n    return x, vjp",
    "def f():\n    return\n    yield",
    "async def f():\n    async for a in b: await c\n    async with d as e: pass",
    "@a\n@b.c(1)\nclass C(B, metaclass=M):\n    x: int = 1\n\n    @property\n    def y(self): pass",
    "class C: pass",
    "class C:\n    'Doc.'\n    def add(self, other): return self + other\n    __radd__ = add",
    "lambda x, *a, y=1, **k: (yield)",
    "x = [i for i in a if i for j in i]; y = {k: v for k, v in z}; w = (q for q in r)",
    "print(f'{x!r:>{width}} {y=} {{}}' 'more' rf'\\d{z}')",
    "s = '''one\n  two\n'''\nt = 'a' \\\n    'b'",
    "s = b'\\x00' + b'''\n''' if u'' else r'\\'",
    "x[1:2, ::3, ..., None] = -x ** -y @ z // 2 if not a < b <= c is not d else a or b and c",
    "x += (yield_ := 1) + 0x1F + 1_000 + 1e5j + .5",
    "del a, b[0], c.d",
    "assert (a, b), 'always'",
    "global a\na = 1",
    "import a.b as c, d\nfrom . import (e as f, g,)",
    "return_(*a, b=c, **d)(e)[f].g",
    "x = (\n    a\n    + b  # why\n    + unbroadcast(g, a.shape)\n)",
    "if x:\n    # only a comment\n    pass\n# at the margin\n    # deeper",
    "é = 'ß' + \"\U0001f600\"; print(é)",
    "x: 'T' = a if b else c",
    "raise",
    "pass;",
    "\x0c\nx = 1\n\n\n",
    "p.grad = p.grad + g if p.grad is not None else g",
]
ADDED = [
    *("x", "x + 1", "pass", "return x", "yield", "x, y", "*x, y", "lambda: x", "(x for x in y)"),
    *("x := 1", "if x:\n    y()", "def f():\n    pass", "'''one\ntwo'''", "f'{x}'", "not x", "-x"),
    *("x = 1; y = 2", "@x", "else:", "case 1:", "", "await x", "break", "1", "x if y else z", "#"),
]


@st.composite
def modules(draw: st.DrawFn) -> str:
    """A small valid module: snippets in unusual layout, at the top level or in functions."""
    pieces = []
    for snippet in draw(st.lists(st.sampled_from(SNIPPETS), min_size=1, max_size=4)):
        piece = snippet
        for head in draw(st.lists(st.sampled_from(HEADS), max_size=2)):
            unit = draw(st.sampled_from(["    ", "  ", "\t"]))
            if "'''" in piece or "\\\n" in piece:
                break
            piece = (
                head + "\n" + "\n".join(unit + line if line else line for line in piece.split("\n"))
            )
        pieces.append(piece)
    text = draw(st.sampled_from(["\n", "\n\n", "\n# between\n", "\n\x0c\n"])).join(pieces)
    text += draw(st.sampled_from(["\n", "", "\n\n", "  # end", "\n# end", "\\\n"]))
    text = draw(st.sampled_from(["", "", "", "\ufeff", "'Doc.'\n", "# coding: utf-8\n"])) + text
    text = text.replace("\n", draw(st.sampled_from(["\n", "\n", "\n", "\r\n"])))
    return text if is_python(text) else draw(st.sampled_from(SNIPPETS[:10]))


HEADS = [
    *("def add(x, y):", "class Tensor:", "if x:", "else_ = 1\nwhile x:", "for x in y:", "with x:"),
    *("def vjp(g):", "async def backward(self):", "try:\n    pass\nfinally:"),
]


def is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.removeprefix("\ufeff"), "m", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def parts_of(text: str) -> list[str]:
    """The code of every statement and expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text.removeprefix("\ufeff"))
    found = [
        ast.get_source_segment(text.removeprefix("\ufeff"), node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.expr)
    ]
    return sorted(filter(str.strip, found)) or ["x"]


@st.composite
def hunks(draw: st.DrawFn, text: str) -> str:
    """A hunk for the module that replaces some of its code, with holes and gaps."""
    parts = st.sampled_from(parts_of(text))
    rows = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        before = draw(parts).replace("\r\n", "\n")
        for _ in range(draw(st.integers(0, 2))):
            hole = draw(st.sampled_from(["$a", "$a", "$b", "$...c", "..."]))
            inner = draw(
                st.sampled_from([part for part in parts_of(text) if part in before] or ["x"])
            )
            before = before.replace(inner, hole, draw(st.sampled_from([1, -1])))
        bound = re.findall(r"\$(?:\.\.\.)?\w+", before) or ["zz"]
        after = draw(
            st.one_of(st.sampled_from(ADDED), parts, st.just(f"zz({before})"), st.just(before))
        )
        for _ in range(draw(st.integers(0, 2))):
            after = after.replace(draw(parts), draw(st.sampled_from(bound)), 1)
        signs = draw(st.sampled_from(["-+", " +", "+ ", "- ", "- +"]))
        for sign in signs:
            code = before if sign in "-" or (sign == " " and len(signs) == 2) else after
            code = " ..." if sign == " " and len(signs) == 3 else code
            rows += [sign + row for row in code.split("\n")]
    scope = draw(st.sampled_from(["", "", "", "*", "f", "add|vjp", "m.py::", "C.y", ".f"]))
    return f"@@ {scope} @@\n" + "\n".join(rows) + "\n"


@given(st.data(), modules())
def test_a_patch_of_a_small_module_makes_python_or_is_refused(
    data: st.DataObject, text: str
) -> None:
    hunk = data.draw(hunks(text))
    if data.draw(st.booleans()):
        hunk += data.draw(hunks(text))
    if data.draw(st.integers(0, 2)) == 2:
        hunk = changed(data, hunk, MEANINGFUL)
    put_into(hunk, {"m.py": text})


@given(st.data())
def test_a_changed_hunk_of_the_catalogue_makes_python_or_is_refused(data: st.DataObject) -> None:
    hunk, file, text = data.draw(st.sampled_from(applied()))
    put_into(changed(data, hunk, MEANINGFUL), {file: text})


@given(st.data())
def test_a_hunk_of_the_catalogue_on_a_changed_module_makes_python_or_is_refused(
    data: st.DataObject,
) -> None:
    hunk, file, text = data.draw(st.sampled_from(applied()))
    put_into(hunk, {file: changed(data, text)})


@cache
def applied() -> list[tuple[str, str, str]]:
    """The catalogue's patches to one file of the engine: the notation, the file and its text."""
    engine, catalogue, found = find_engine(), open_catalogue(), []
    for name, _ in texts("*/*.md"):
        page_id = name.rpartition("/")[2].removesuffix(".md")
        if "." in page_id or len(found) > 60:
            continue
        page = catalogue.page(page_id)
        blocks = page.diffs(engine.name)
        if isinstance(page.front, Break | Variant) and len(blocks) == 1:
            files = {site.file for site in put(page, engine).sites}
            if len(files) == 1:
                (file,) = files
                found.append((blocks[0].text, file, engine.sources[file]))
    return found


def put_into(hunk: str, sources: dict[str, str]) -> None:
    patch = read(lambda: parse_patch(hunk, path="page.md", line=1), hunk)
    if patch is None:
        return
    patched = read(lambda: apply_patch(patch, sources), hunk)
    if patched is not None:
        with in_time():
            is_sound(patched)


def is_sound(patched: Patched) -> None:
    """Check that the result is other Python code, differs only at the sites, and can be marked."""
    assert patched.sites
    assert patched.diff()
    for file, text in patched.sources.items():
        sites = [site for site in patched.sites if site.file == file]
        data, before = text.encode(), patched.originals[file]
        for site in sorted(sites, key=lambda site: -site.start):
            assert data[site.start : site.end].decode() == site.after
            data = data[: site.start] + site.before.encode() + data[site.end :]
        assert data.decode() == before
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.removeprefix("\ufeff"), file, "exec", dont_inherit=True)
        compile_marked(text, file, list(enumerate(sites)), HOOKS)
        compile_marked(before, file, list(enumerate(site.undone() for site in sites)), HOOKS)
