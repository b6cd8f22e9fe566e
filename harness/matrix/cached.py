"""Evaluations of pages, and whole matrices, cached by everything that they depend on.

An evaluation depends on the page, the engine, the variant and the shared probes, and on Python, the
libraries and all of our own code. Most runs never reach the patch and are the same for every page:
these common reports are stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from harness.core.report import RunReport
from harness.engines.engine import Engine
from harness.experiment.cached import engine_facts, page_facts
from harness.matrix.evaluation import Evaluation
from harness.matrix.records import Matrix
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.runs.cache import Cache, ResultKind, key_of


class StoredEvaluation(msgspec.Struct, frozen=True):
    """An evaluation as it is stored and sent between processes."""

    evaluation: Evaluation
    """Its report has no runs."""
    runs: list[int | RunReport]
    """A number is a position among the common reports."""
    repeatable: bool


EVALUATIONS: ResultKind[StoredEvaluation] = ResultKind("evaluation", StoredEvaluation)
COMMON: ResultKind[list[RunReport]] = ResultKind(
    "common reports",
    list[RunReport],
    is_repeatable=lambda runs: bool(runs) and all(run.repeatable for run in runs),
)
MATRICES: ResultKind[Matrix] = ResultKind("matrix", Matrix)
"""Whole matrices, so that no evaluation has to be read if nothing has changed."""


def pack(evaluation: Evaluation, common: Sequence[RunReport]) -> StoredEvaluation:
    """Return the evaluation as it is stored beside these common reports."""
    positions = {(run.probe, run.loss): position for position, run in enumerate(common)}
    runs: list[int | RunReport] = []
    for run in evaluation.report.runs:
        position = positions.get((run.probe, run.loss))
        runs.append(run if position is None or common[position] != run else position)
    report = msgspec.structs.replace(evaluation.report, runs=[])
    return StoredEvaluation(replace(evaluation, report=report), runs, evaluation.report.repeatable)


def unpack(stored: StoredEvaluation, common: Sequence[RunReport]) -> Evaluation:
    """Return the evaluation that was packed with the same common reports.

    Raises IndexError if there are fewer of them.
    """
    runs = [common[run] if isinstance(run, int) else run for run in stored.runs]
    report = msgspec.structs.replace(stored.evaluation.report, runs=runs)
    return replace(stored.evaluation, report=report)


def shared_key(catalogue: Catalogue, engine: Engine, variant: Page | None) -> bytes:
    """Return the key of the common reports: of what every page's evaluation depends on."""
    facts = (
        engine_facts(engine),
        page_facts(variant) if variant else None,
        [probe.identity for probe in catalogue.shared_probes.values()],
        catalogue.diagnostic_texts,
    )
    return key_of(COMMON, facts)


def page_key(shared: bytes, page: Page) -> bytes:
    """Return the key of a page's evaluation."""
    return key_of(EVALUATIONS, (shared, page_facts(page)))


def cached_common(cache: Cache, shared: bytes) -> list[RunReport]:
    """Return the common reports; empty if they are not cached."""
    return cache.get(COMMON, [shared]).get(shared, [])


def cached_evaluations(
    cache: Cache, keys: Iterable[bytes], common: Sequence[RunReport]
) -> dict[bytes, Evaluation]:
    """Return the cached evaluations that need no other common reports than these."""
    return {
        key: unpack(stored, common)
        for key, stored in cache.get(EVALUATIONS, list(keys)).items()
        if all(run < len(common) for run in stored.runs if isinstance(run, int))
    }
