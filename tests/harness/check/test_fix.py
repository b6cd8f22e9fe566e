"""`harness new --from-diff`: a fix, turned round, is the draft of a break or of an operator."""

import ast
import difflib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.check.fix import Fix, read_fix
from harness.check.template import draft_hunk
from harness.core.errors import BreaklabError
from harness.engines.engine import find_engine
from harness.experiment.patching import put
from harness.patch import apply_patch, parse_patch
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness

FIX = """\
From 1a2b3c4 Mon Sep 17 00:00:00 2001
From: Somebody <somebody@example.com>
Subject: [PATCH] Multiply by the weight

---
 docs/notes.md     | 2 +-
 ops.py            | 9 ++++++---
 tests/test_ops.py | 2 +-
diff --git a/docs/notes.md b/docs/notes.md
index 1111111..2222222 100644
--- a/docs/notes.md
+++ b/docs/notes.md
@@ -1 +1 @@
-old
+new
diff --git a/tests/test_ops.py b/tests/test_ops.py
--- a/tests/test_ops.py
+++ b/tests/test_ops.py
@@ -1 +1,2 @@
-a = 1
+a = 2
+b = 3
diff --git a/ops.py b/ops.py
index 1111111..2222222 100644
--- a/ops.py
+++ b/ops.py
@@ -1,5 +1,6 @@
 import numpy as np
+import math
 # comment
-# old
+# new

 x = 1
@@ -10,9 +11,11 @@ class Mul(Function):
     @staticmethod
     def backward(ctx, grad_output):
         x, w = ctx.saved_tensors
-        grad_x = grad_output
+        grad_x = grad_output * w
         grad_w = (
             grad_output
-            * x
+            * scale(x, w=x.w)
         )
+        if x.ndim > 1:
+            grad_w = grad_w.sum(dim=0)
         return grad_x, grad_w
\\ No newline at end of file
"""
FIX += "-- \n2.40.1\n"


def fix_of(folder: Path, text: str, *, as_operator: bool = False) -> Fix:
    path = folder / "fix.patch"
    path.write_text(text)
    return read_fix(path, as_operator=as_operator)


def notation(fix: Fix) -> str:
    return "\n".join(map(draft_hunk, fix.hunks))


def test_a_fix_of_several_files_and_hunks(tmp_path: Path) -> None:
    fix = fix_of(tmp_path, FIX)
    assert notation(fix).splitlines() == [
        "@@ Mul.backward @@",
        "-grad_x = grad_output * w",
        "+grad_x = grad_output",
        "@@ Mul.backward @@",
        " grad_w = (",
        "     grad_output",
        "-    * scale(x, w=x.w)",
        "+    * x",
        " )",
        "@@ Mul.backward @@",
        "-if x.ndim > 1:",
        "-    grad_w = grad_w.sum(dim=0)",
    ]
    assert [str(reason) for reason in fix.left_out] == [
        "docs/notes.md is not Python",
        "tests/test_ops.py is a test",
        f"{tmp_path / 'fix.patch'}:27: only comments or imports change",
    ]


def test_an_operator_has_wildcards_for_names_but_not_for_attributes(tmp_path: Path) -> None:
    fix = fix_of(tmp_path, FIX, as_operator=True)
    assert notation(fix).splitlines()[:9] == [
        "@@ rule.backward @@",
        "-$grad_x = $cotangent * $w",
        "+$grad_x = $cotangent",
        "@@ rule.backward @@",
        " $grad_w = (",
        "     $cotangent",
        "-    * scale($x, w=$x.w)",
        "+    * $x",
        " )",
    ]


def test_a_fix_that_only_removes_code_becomes_an_insertion_with_context(tmp_path: Path) -> None:
    text = (
        "--- ops.py\n+++ ops.py\n@@ -3,4 +3,3 @@ def backward(g):\n     k = 2\n-    g = -g\n"
        "     return g\n \n"
    )
    assert notation(fix_of(tmp_path, text)).splitlines() == [
        "@@ backward @@",
        "+g = -g",
        " return g",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "skip-unbroadcast",
        "sub-sign",
        "mul-swapped-operands",
        "unbroadcast-mean",
        "tanh-uses-input",
        "matmul-no-transpose",
        "assign-not-accumulate",
    ],
)
def test_a_fix_of_the_engine_becomes_its_break(name: str, tmp_path: Path) -> None:
    engine = find_engine()
    broken = put(CATALOGUE.page(name), engine).sources
    rows = [
        row
        for file, text in broken.items()
        for row in difflib.unified_diff(
            text.splitlines(keepends=True),
            engine.sources[file].splitlines(keepends=True),
            f"a/{file}",
            f"b/{file}",
        )
    ]
    fix = fix_of(tmp_path, "".join(rows))
    assert fix.left_out == ()
    patched = apply_patch(parse_patch(notation(fix), path="page", line=1), engine.sources)
    trees = [[ast.dump(ast.parse(text)) for text in s.values()] for s in (patched.sources, broken)]
    assert trees[0] == trees[1]


def test_the_output_of_git(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    code = "def mul(a, b):\n    def vjp(g):\n        x = 1\n        y = 2\n        z = 3\n"
    for folder, last in (("old", "g * a"), ("new", "g * b")):
        (tmp_path / folder).mkdir()
        text = f"{code}        w = 4\n        return {last}\n\n    return vjp\n"
        (tmp_path / folder / "ops.py").write_text(text)
    command = ["git", "diff", "--no-index", "old", "new"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    fix = fix_of(tmp_path, done.stdout)
    assert notation(fix).splitlines()[1:] == ["-return g * b", "+return g * a"]


def test_a_long_file_with_many_changes_and_all_of_its_lines(tmp_path: Path) -> None:
    old = [f"x{number} = f({number})" for number in range(1000)]
    new = [f"{row} + 1" if number % 20 == 0 else row for number, row in enumerate(old)]
    rows = difflib.unified_diff(old, new, "a/ops.py", "b/ops.py", n=1000, lineterm="")
    fix = fix_of(tmp_path, "\n".join(rows))
    assert [hunk.rows for hunk in fix.hunks[:2]] == [
        ("-x0 = f(0) + 1", "+x0 = f(0)"),
        ("-x20 = f(20) + 1", "+x20 = f(20)"),
    ]
    assert len(fix.hunks) == 50


ONLY_TESTS = "--- a/test_ops.py\n+++ b/test_ops.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
PART = "--- a/ops.py\n+++ b/ops.py\n@@ -4,3 +4,3 @@\n     g,\n-    axis=0,\n+    axis=1,\n     x,\n"
BAD = {
    "": "it is not a unified diff",
    "def f():\n    return 1\n": "it is not a unified diff",
    "*** a.py\n--- b.py\n*** 1,2 ****\n": "it is not a unified diff",
    "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a = 1\n": "the hunk of line 3 is not complete",
    "--- a/a.py\n+++ b/a.py\n@@@ -1,3 -1,3 +1,3 @@@\n": "the combined diff of a merge",
    ONLY_TESTS: "test_ops.py is a test",
    ONLY_TESTS.replace("a/test_ops.py", "/dev/null").replace("test_ops", "ops"): "adds or removes",
    PART: "only a part of a statement",
    "Binary files a/x.so and b/x.so differ\n@@ -0,0 +0,0 @@\n": "a binary file",
    "Binary files a/x.so and b/x.so differ\n": "a binary file",
    f"--- a/a.py\n+++ b/a.py\n@@ -1,{'9' * 5000} +1 @@\n a = 1\n": "it is not a unified diff",
}


@pytest.mark.parametrize(("text", "problem"), BAD.items())
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BreaklabError) as raised:
        fix_of(tmp_path, text)
    assert problem in str(raised.value)
    assert "fix.patch" in str(raised.value)
    assert raised.value.remedy


# ----- The command -----


def new(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "fix.patch").write_text(FIX)
    fix = ("--from-diff", str(folder / "fix.patch"))
    return harness("new", "mine", "--breaks", str(folder / "pages"), *fix, *arguments)


def test_the_page_is_written_with_the_nearest_code(tmp_path: Path) -> None:
    done = new(tmp_path, "--family", "op-formulas")
    assert done.returncode == 1
    assert "left out: tests/test_ops.py is a test" in done.stdout
    assert "this hunk matches nothing in this engine" in done.stdout
    text = (tmp_path / "pages/op-formulas/mine.md").read_text()
    assert "@@ Mul.backward @@\n-grad_x = grad_output * w\n+grad_x = grad_output\n" in text


def test_an_operator_is_complete_but_for_its_texts(tmp_path: Path) -> None:
    done = new(tmp_path, "--family", "operators", "--kind", "operator", "--json")
    assert done.returncode == 0
    table = json.loads(done.stdout)
    assert "docs/notes.md is not Python" in table["left_out"]
    assert "-$grad_x = $cotangent * $w" in Path(table["path"]).read_text()
    checked = harness("check", "mine", "--breaks", str(tmp_path / "pages"))
    assert "the patch has no site in the rule" in checked.stdout
    assert "`TODO` is left" in checked.stdout
    assert "cannot be read" not in checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--before", "a"], "--before cannot be combined with --from-diff"),
        (["--scope", "a"], "--scope cannot be combined with --from-diff"),
        (["--kind", "myth"], "--kind myth has no patch"),
        (["--again"], "--from-diff cannot be combined with --again"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: list[str], problem: str) -> None:
    family = () if "--again" in options else ("--family", "op-formulas")
    done = new(tmp_path, *family, *options)
    assert done.returncode == 2
    assert problem in done.stderr
    assert not list(tmp_path.rglob("mine.md"))
