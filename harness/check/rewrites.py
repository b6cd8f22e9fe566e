"""The correct rewrites of an engine, on which nothing may raise an alarm or fail."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from harness.core.errors import DoesNotApply
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.experiment.patching import Experiment
from harness.grade.probes import prepare_bare
from harness.pages.front_matter import Variant
from harness.pages.page import Page


@dataclass(frozen=True)
class Rewrites:
    """The experiments of the variants that apply to an engine."""

    texts: list[tuple[str, str]]
    """The path and the text of each variant's page."""
    baseline: Baseline
    """A selective one, since most variants do not change code that a program runs."""
    experiments: list[Experiment]


def rewrites(context: Context) -> Rewrites:
    """Return the variants that apply to the engine, prepared once for all pages of a check."""
    baseline, pages = context.baseline, variants(context)
    texts = [(page.path, page.toml + page.body) for page in pages]
    known: Rewrites | None = baseline.memo.get(rewrites)
    if known is None or known.texts != texts:
        experiments = []
        for page in pages:
            with contextlib.suppress(DoesNotApply):
                experiments.append(prepare_bare(page, (), context))
        selective = Baseline(baseline.cache, baseline.diagnostics, baseline.limits, select=True)
        known = baseline.memo[rewrites] = Rewrites(texts, selective, experiments)
    return known


def variants(context: Context) -> list[Page]:
    """Return the pages of all variants of the engine."""
    pages = context.catalogue.pages[0]
    return [
        page
        for page in pages
        if isinstance(page.front, Variant) and _is_about(page, context.engine)
    ]


def _is_about(page: Page, engine: Engine) -> bool:
    if engine.foreign:
        return page.is_about(engine.name)
    return not page.is_about_another(engine.name)
