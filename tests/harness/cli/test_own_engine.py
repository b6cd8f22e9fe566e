"""An instructor's engine as the reference: pages, a variant and probes about it alone."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.harness.command import Completed, harness
from tests.harness.engines.texts import written

pytestmark = pytest.mark.usefixtures("without_oracles", "few_pages", "one_host")

ROOT = Path(__file__).parents[3]
CLOSURES = (ROOT / "tests" / "engines" / "closures.py").read_text(encoding="utf-8")
CUBE = """\
    def cube(self):
        out = Tensor(self.data**3, (self,))

        def _backward():
            self.grad += 3 * self.data**2 * out.grad

        out._backward = _backward
        return out

    def zero_grad"""
"""A method that minigrad does not have."""

PAGE = """\
+++
id     = "cube-without-factor"
kind   = "break"
family = "op-formulas"
level  = 3
sources = ["std"]
no_invariant = "Finite differences are the shortest check of a formula."

[expect]
cube-of-numbers = "silent-corruption"
cube-of-zero    = "disguised-correct"

[expect.cube-by-products]
cube-of-numbers = "silent-corruption"

[diagnostics]
caught_by = ["gradcheck"]
missed_by = ["crash", "shape"]
+++
# Forget the factor of a cube

## Hypothesis

The derivative of `x ** 3` is `3 * x ** 2`; here the factor 3 is missing. For `[1, 2]` the correct
gradient of the sum is `[3, 12]`. Predict it with the break, and for `[0, 0]`.

## The break

```diff engine=engine
@@ Tensor.cube @@
-3 * $square * out.grad
+$square * out.grad
```

The factor is easily forgotten.

## What happens

Every gradient is a third of what it should be. At 0 it is 0 in both cases.

## Diagnostic

Finite differences show it wherever the number is not 0.

## Lesson

Test a formula at a number that is neither 0 nor 1.

## References

- Any table of derivatives.
"""

VARIANT = """\
+++
id     = "cube-by-products"
kind   = "variant"
family = "variants"
level  = 1

[expect]
cube-of-numbers = "disguised-correct"

[diagnostics]
missed_by = ["gradcheck"]
+++
# Square by a product

## Hypothesis

A product of two equal numbers is their square. Which gradient do you expect for `[1, 2]`, if it
was `[3, 12]`?

## The break

```diff engine=engine
@@ Tensor.cube @@
-self.data**2
+(self.data * self.data)
```

The rule computes the square in another way.

## What happens

The numbers are the same.

## Diagnostic

Nothing may raise an alarm.

## Lesson

The two are equally right.
"""

PROBES = '''\
def cube_of_numbers(a=[1.0, 2.0]):
    """The cubes of 1 and 2."""
    return a.cube()


def cube_of_zero(a=[0.0, 0.0]):
    """The cube of 0."""
    return a.cube()
'''


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """An instructor's folder."""
    written(tmp_path, CLOSURES.replace("    def zero_grad", CUBE), "engine.py")
    written(tmp_path, '[engine]\ntarget = "engine.py:Tensor"\n', "harness.toml")
    written(tmp_path, PAGE, "my-breaks/op-formulas/cube-without-factor.md")
    written(tmp_path, VARIANT, "my-breaks/variants/cube-by-products.md")
    written(tmp_path, PROBES, "my-breaks/probes/cubes.py")
    return tmp_path


def run(course: Path, *arguments: str) -> Completed:
    return harness(*arguments, cwd=course)


def test_true_pages_about_the_engine_pass(course: Path) -> None:
    done = run(course, "check", "--only", "my-breaks")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "passed cube-without-factor  on engine, cube-by-products" in done.stdout
    assert "passed cube-by-products  on engine" in done.stdout


FALSE = {
    "an outcome": ('cube-of-zero    = "disguised-correct"', 'cube-of-zero = "silent-corruption"'),
    "a diagnostic that is silent": ('"gradcheck"]\nmissed', '"gradcheck", "finite"]\nmissed'),
    "a diagnostic that raises an alarm": ('missed_by = ["crash", ', 'missed_by = ["directional", '),
    "an outcome on a variant": (
        '[expect.cube-by-products]\ncube-of-numbers = "silent-corruption"',
        '[expect.cube-by-products]\ncube-of-numbers = "crash"',
    ),
}


REPEATED = ("a diagnostic that raises an alarm", "an outcome on a variant")


@pytest.mark.parametrize(
    "claim",
    [pytest.param(claim, marks=[pytest.mark.slow] * (claim in REPEATED)) for claim in FALSE],
)
def test_a_false_claim_about_the_engine_is_a_failure(course: Path, claim: str) -> None:
    file = "my-breaks/op-formulas/cube-without-factor.md"
    assert FALSE[claim][0] in PAGE
    written(course, PAGE.replace(*FALSE[claim]), file)
    done = run(course, "check", "--only", "my-breaks", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [page["holds"] for page in found["pages"]] == [False, True]
    assert {finding["path"].endswith(file) for finding in found["findings"]} == {True}


def test_a_variant_that_changes_a_result_is_a_failure(course: Path) -> None:
    wrong = VARIANT.replace("(self.data * self.data)", "(self.data * 2)")
    written(course, wrong, "my-breaks/variants/cube-by-products.md")
    done = run(course, "check", "cube-by-products", "--breaks", "my-breaks")
    assert done.returncode == 1
    assert "says disguised-correct for `cube-of-numbers`" in done.stdout


def test_a_break_is_required_to_do_what_its_page_says(course: Path) -> None:
    arguments = ("break", "cube-without-factor", "--breaks", "my-breaks")
    done = run(course, *arguments, "--full")
    assert (done.returncode, "Everything is as the page says." in done.stdout) == (0, True)
    on_variant = run(course, *arguments, "--on", "cube-by-products")
    assert (on_variant.returncode, "engine with cube-by-products" in on_variant.stdout) == (0, True)
    file = "my-breaks/op-formulas/cube-without-factor.md"
    written(course, PAGE.replace(*FALSE["an outcome"]), file)
    assert run(course, *arguments).returncode == 1


def test_a_new_page_is_about_the_engine_that_it_was_made_on(course: Path) -> None:
    done = run(
        course,
        *("new", "tanh-slope-one", "--family", "op-formulas", "--scope", "Tensor.tanh"),
        *("--before", "(1 - t**2) * out.grad", "--after", "out.grad", "--breaks", "my-breaks"),
        *("--engine", "engine.py"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "harness break tanh-slope-one --breaks my-breaks --engine engine.py" in done.stdout
    page = (course / "my-breaks/op-formulas/tanh-slope-one.md").read_text(encoding="utf-8")
    assert "```diff engine=engine\n@@ Tensor.tanh @@" in page
    assert re.search(r"^tanh +=.*observed: silent-corruption", page, re.M)
    again = run(course, "new", "tanh-slope-one", "--again", "--breaks", "my-breaks")
    assert again.returncode == 0


def test_minigrad_is_not_asked_about_pages_about_another_engine(course: Path) -> None:
    (course / "harness.toml").unlink()
    done = run(course, "check", "cube-without-factor", "--breaks", "my-breaks")
    assert done.returncode == 2
    assert "name the engine that the page is about with --engine" in " ".join(done.stdout.split())
    listed = run(course, "matrix", "add-missing", "--breaks", "my-breaks")
    assert "cube-without-factor" not in listed.stderr


def test_the_recipe_for_continuous_integration_runs(course: Path) -> None:
    """The commands of the guide's workflow, except the installation."""
    guide = (ROOT / "docs" / "your-engine.md").read_text(encoding="utf-8")
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```", guide, re.M | re.S)
    commands = re.findall(r"- run: (harness .*)", workflow)
    assert len(commands) >= 2
    for command in commands:
        done = run(course, *shlex.split(command)[1:])
        assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stdout}"
