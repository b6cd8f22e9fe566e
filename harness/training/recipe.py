"""Recipes, and a page's patch in one: what to run, and what the page expects of it.

Recipes are complete training programs, read without being run.

A recipe is a generator function in `recipes/NAME.py` of a folder of pages, named like its file:

    def classify(lib, seed=0):
        '''What is learned, in one line.'''
        ...
        yield {"loss": ..., "validation_loss": ...}      # an entry of the log: names and numbers

`lib` is the engine's module, and everything random comes from `seed`. The recipe is added to the
source files of the engine under test, so a page's patch applies to it as to any other file.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.core import read_text
from harness.core.errors import EnvironmentProblem, PageError
from harness.core.message import message
from harness.engines.engine import Engine
from harness.experiment.patching import PatchedEngine, apply_first, clean_engine, patches
from harness.pages.catalogue import Catalogue, nearest
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Page
from harness.pages.probe import Probe, parse_python
from harness.patch import Patch, Patched

FOLDER = "recipes"


@dataclass(frozen=True)
class Recipe:
    """The name and the text of a recipe."""

    name: str
    text: str

    @property
    def file(self) -> str:
        """The path among an engine's source files."""
        return f"{FOLDER}/{self.name}.py"

    def beside(self, engine: Engine) -> Engine:
        """Return the engine with the recipe as an additional source file."""
        files = {f"{FOLDER}/__init__.py": "", self.file: self.text}
        return replace(engine, sources={**engine.sources, **files})

    def probe(self, seed: int) -> Probe:
        """Return the recipe with one seed, as a probe of steps."""
        source = (
            f"from {FOLDER}.{self.name} import {self.name}\n\n\n"
            f"def seed_{seed}(lib):\n    yield from {self.name}(lib, seed={seed})\n"
        )
        return Probe(
            name=f"seed-{seed}",
            doc=f"The recipe with the seed {seed}.",
            kind="steps",
            leaves=(),
            function=f"seed_{seed}",
            source=source,
            path=f"<seed {seed}>",
            line=1,
            takes_lib=True,
        )


def find_recipe(page: Page, roots: Sequence[Path]) -> Recipe:
    """Return the recipe that a page names, from the first root that has it.

    Raises PageError if no root has it, or if it is not a valid recipe.
    """
    name = page.front_as(TrainingBreak).recipe
    files: dict[str, Path] = {}
    for root in roots:
        for path in sorted((root / FOLDER).glob("*.py")):
            files.setdefault(path.stem, path)
    if name not in files:
        remedy = message(
            "{question}a recipe is a file `{folder}/NAME.py` in a folder of pages; there "
            "are {names}",
            question=nearest(name, files),
            folder=FOLDER,
            names=", ".join(sorted(files)) or message("none"),
        )
        raise page.mistake(
            ("recipe",), message("names `{name}`, which does not exist", name=name), remedy
        )
    return read_recipe(name, read_text(files[name]), str(files[name]))


def read_recipe(name: str, text: str, path: str) -> Recipe:
    """Return the recipe with that name. Raises PageError if the text does not define it."""
    module = parse_python(text, path, 1, "recipe")
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    function = functions.get(name)
    remedy = message(
        "define `def {name}(lib, seed=0):`, with a docstring, and `yield` entries of its log",
        name=name,
    )
    if function is None:
        raise PageError(path, 1, message("the recipe has no function `{name}`", name=name), remedy)
    arguments = [argument.arg for argument in function.args.args]
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    for is_wrong, problem in (
        (
            arguments != ["lib", "seed"],
            message(
                "the recipe `{name}` takes ({arguments}), not (lib, seed)",
                name=name,
                arguments=", ".join(arguments),
            ),
        ),
        (not yields, message("the recipe `{name}` yields no log", name=name)),
        (
            not ast.get_docstring(function),
            message("the recipe `{name}` has no docstring", name=name),
        ),
    ):
        if is_wrong:
            raise PageError(path, function.lineno, problem, remedy)
    return Recipe(name, text)


# ----- The patch in the recipe -----

MetricMove = Literal["lower", "higher", "same"]
Crash = Literal["never", "sometimes", "always"]


class Expectation(msgspec.Struct, frozen=True):
    """What a page expects of its metrics, and how often the broken training crashes."""

    moves: Mapping[str, MetricMove]
    crash: Crash = "never"


@dataclass(frozen=True)
class TrainingExperiment(PatchedEngine):
    """An engine beside a recipe, one of them patched, and what the page expects of the metrics."""

    recipe: Recipe
    expectation: Expectation


def prepare_training(
    page: Page, catalogue: Catalogue, engine: Engine, *, variant: Page | None = None
) -> TrainingExperiment:
    """Put the page's patch into its recipe; nothing is executed.

    Raises PageError and HunkError for a page that cannot be used, DoesNotApply if the patch has no
    site, EnvironmentProblem without SciPy.
    """
    if not find_spec("scipy"):
        raise EnvironmentProblem(
            message(
                "`{page}` is judged over many seeds with SciPy, which is not installed",
                page=page.id,
            ),
            "pip install 'breaklab[training]'",
        )
    expectation = read_expectation(page)
    recipe = find_recipe(page, catalogue.roots)
    clean = recipe.beside(clean_engine(engine, variant))
    patched = _put(page, recipe, clean)
    return TrainingExperiment(
        page=page,
        recipe=recipe,
        expectation=expectation,
        variant=variant.id if variant else None,
        clean=clean,
        broken=clean.patched(patched),
        diff=patched.diff(),
    )


def read_expectation(page: Page) -> Expectation:
    """Return the table `[expect]` of a page, whose keys are metrics and `crash`.

    Raises PageError for an invalid value, UsageError for a page of another kind.
    """
    expect = dict(page.front_as(TrainingBreak).expect)
    crash = _convert(page, "crash", expect.pop("crash", "never"), Crash)
    moves = {metric: _convert(page, metric, word, MetricMove) for metric, word in expect.items()}
    return Expectation(moves, crash)


def _convert(page: Page, key: str, word: object, kind: Any) -> Any:
    try:
        return msgspec.convert(word, kind)
    except msgspec.ValidationError as error:
        allowed = '"sometimes" or "always"' if key == "crash" else '"lower", "higher" or "same"'
        raise page.mistake(
            ("expect", key),
            message("is wrong: {error}", error=error),
            message("write {allowed}", allowed=allowed),
        ) from None


def _put(page: Page, recipe: Recipe, engine: Engine) -> Patched:
    """Return the patched sources; a hunk that names no file applies to the recipe."""
    candidates = patches(page, engine)
    if not candidates:
        remedy = "write the change as a ```diff block under `## The break`"
        raise PageError(page.path, page.body_line, "no patch", remedy)
    return apply_first([_in_recipe(patch, recipe.file) for patch in candidates], engine.sources)


def _in_recipe(patch: Patch, file: str) -> Patch:
    hunks = []
    for hunk in patch.hunks:
        scopes = hunk.scope.alternatives
        named = tuple(scope if scope.file else replace(scope, file=file) for scope in scopes)
        hunks.append(replace(hunk, scope=replace(hunk.scope, alternatives=named)))
    return replace(patch, hunks=tuple(hunks))
