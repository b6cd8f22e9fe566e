"""Patches that change only some of the branches that store a gradient."""

from pathlib import Path

import pytest

from harness.engines.engine import Dialect, Engine
from harness.experiment.placement import partial_change
from harness.patch import apply_patch, parse_patch
from tests.harness.command import harness
from tests.harness.engines.texts import changed, written

ELSE = """
def receive(self, g):
    if self.grad is None:
        self.grad = fold(g)
    else:
        self.grad += {later}
"""
RETURN = """
def receive(self, g):
    if self.grad is None:
        self.grad = fold(g)
        return
    self.grad += {later}
"""
TABLE = """
def receive(self, g):
    if self in grads:
        grads[self] = grads[self] + {later}
    else:
        grads[self] = fold(g)
"""
SKIP = "@@ receive @@\n-fold($g)\n+$g"


def partial(text: str, hunk: str = SKIP) -> str:
    engine = Engine("e", Dialect("e"), Path(), {"e.py": text}, foreign=True)
    patched = apply_patch(parse_patch(hunk, path="page.md", line=1), engine.sources)
    return str(partial_change(engine, patched.sites) or "")


@pytest.mark.parametrize("text", [ELSE, RETURN, TABLE])
def test_a_patch_that_changes_one_of_two_branches_says_so(text: str) -> None:
    target = "grads[self]" if text == TABLE else "self.grad"
    found = partial(text.format(later="other(g)"))
    assert found == f"it changes 1 of 2 branches that store `{target}` in receive"


@pytest.mark.parametrize("text", [ELSE, RETURN, TABLE])
def test_a_patch_that_changes_both_branches_is_whole(text: str) -> None:
    assert partial(text.format(later="fold(g)")) == ""


def test_a_branch_that_becomes_the_other_one_leaves_nothing_unchanged() -> None:
    hunk = "@@ receive @@\n-self.grad += fold($g)\n+self.grad = fold($g)"
    assert partial(ELSE.format(later="fold(g)"), hunk) == ""


def test_branches_about_something_else_do_not_count() -> None:
    text = ELSE.replace("self.grad is None", "self.leaf").format(later="other(g)")
    assert partial(text) == ""


def test_the_report_and_the_check_say_so(tmp_path: Path) -> None:
    before = "self.grad = part if self.grad is None else self.grad + part"
    branches = """if self.grad is None:
            self.grad = part
        else:
            self.grad = np.add(self.grad, 1.0 * part)
"""
    path = written(tmp_path, changed((before, branches)))
    page = """
+++
id     = "halved"
kind   = "break"
family = "accumulation"
level  = 1

[expect]
add-same-shape = "silent-corruption"
+++
# Halve what is added

## The break

```diff
@@ walk @@
-accumulate(parent, totals.get(parent), arriving)
+accumulate(parent, None, arriving)
```

## On other engines

```diff portable
@@ receive @@
-1.0 * part
+0.5 * part
```
"""
    written(tmp_path, page.lstrip(), "mine/accumulation/halved.md")
    words = "it changes 1 of 2 branches that store `self.grad` in Tensor.receive"
    for command in ("break", "check"):
        done = harness(command, "halved", "--breaks", "mine", "--engine", path, cwd=tmp_path)
        assert words in " ".join(done.stdout.split()), done
    json = harness("break", "halved", "--breaks", "mine", "--engine", path, "--json", cwd=tmp_path)
    assert f'"partial":"{words}"' in json.stdout.replace('": "', '":"')
