"""The correct rewrites of an engine, on which nothing may raise an alarm or fail."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DoesNotApply
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.experiment.patching import Experiment
from harness.grade.submission import prepare_bare
from harness.pages.front_matter import Variant
from harness.pages.page import Page


@dataclass(frozen=True)
class Rewrites:
    """The experiments of the variants that apply to an engine."""

    roots: tuple[Path, ...]
    """The roots of their catalogue."""
    baseline: Baseline
    """A selective one, since most variants do not change code that a program runs."""
    experiments: list[Experiment]


def rewrites(context: Context) -> Rewrites:
    """Return the variants that apply to the engine, prepared once for all pages of a check."""
    catalogue, baseline = context.catalogue, context.baseline
    known: Rewrites | None = baseline.memo.get(rewrites)
    if known is None or known.roots != catalogue.roots:
        experiments = []
        for page in catalogue.pages[0]:
            with contextlib.suppress(DoesNotApply):
                if isinstance(page.front, Variant) and _is_about(page, context.engine):
                    experiments.append(prepare_bare(page, (), context))
        selective = Baseline(baseline.cache, baseline.diagnostics, baseline.limits, select=True)
        known = baseline.memo[rewrites] = Rewrites(catalogue.roots, selective, experiments)
    return known


def _is_about(page: Page, engine: Engine) -> bool:
    if engine.foreign:
        return page.is_about(engine.name)
    return not page.is_about_another(engine.name)
