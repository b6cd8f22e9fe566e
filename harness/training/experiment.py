"""A page's patch in its recipe: what to run, and what the page expects of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

import msgspec

from harness.core.errors import EnvironmentProblem, PageError
from harness.core.message import message
from harness.engines.engine import Engine
from harness.experiment.patching import PatchedEngine, apply_first, clean_engine, patches
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Page
from harness.patch import Patch, Patched
from harness.training.recipe import Recipe, find_recipe

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
