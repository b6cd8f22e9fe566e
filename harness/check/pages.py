"""The whole check of a page: prose, names, patch, outcomes, claims, survival, translations.

Of a myth, the program and what it prints take the place of the patch and all that follows from it;
of an exercise, its suite and its answer.

A page's mistakes become findings, and never hide one another or those of another page.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator, Sequence

import msgspec

from harness.check.exercises import check_exercise
from harness.check.expectations import check_observed
from harness.check.myths import check_myth
from harness.check.names import check_names
from harness.check.prose import check_prose
from harness.check.training import check_training
from harness.check.translations import check_probe_lines, check_translation
from harness.core.errors import BreaklabError, PageError
from harness.core.finding import Finding, finding_from
from harness.core.report import Report
from harness.engines.engine import Engine
from harness.experiment.baseline import Bench
from harness.experiment.blocks import check_blocks
from harness.experiment.lab import prepare, run_lab
from harness.grade.exercise import read_answer
from harness.pages.catalogue import Catalogue, nearest
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.store import open_store
from harness.training.record import TrainingReport


class PageCheck(msgspec.Struct, frozen=True):
    """What the check of one page found."""

    page: str
    path: str
    findings: list[Finding]
    reports: list[Report | TrainingReport]
    """One an engine: the bare one, and each variant that the page speaks of."""
    seconds: float

    @property
    def exit_status(self) -> int:
        """The worst of the findings'; 0 where there are none but warnings."""
        return max((finding.exit_status for finding in self.findings), default=0)


def check_pages(
    catalogue: Catalogue, engine: Engine, ids: Sequence[str] = (), *, training: bool = False
) -> Iterator[PageCheck]:
    """Check the pages of these ids; without any, all pages, and translations of no page.

    Of all pages those that need many seeds are left out; with `training` it is only them.

    Raises UsageError for an id that is not there, before anything is checked.
    """
    for page_id in ids:
        catalogue.path(page_id)
    bench = Bench(open_store())
    many = catalogue.many_seeded
    if not ids and not training:
        _prepare_bench(bench, catalogue, engine)
    for page_id in ids or sorted(many if training else catalogue.files.keys() - many):
        yield check_page(page_id, catalogue, engine, bench)
    if not ids and not training:
        for page_id in sorted(catalogue.translated.keys() - catalogue.files.keys()):
            yield _check_orphans(page_id, catalogue)


def _prepare_bench(bench: Bench, catalogue: Catalogue, engine: Engine) -> None:
    """Ask the clean engine and the libraries once for all pages, which only saves time.

    Two pages may have probes of one name; those are left to the pages.
    """
    probes: dict[str, list[Probe]] = {}
    for page in catalogue.pages()[0]:
        with contextlib.suppress(PageError):  # a finding, when it is that page's turn
            for probe in (*catalogue.probes_for(page), *read_answer(page)):
                known = probes.setdefault(probe.name, [])
                known += [probe] if probe not in known else []
    bench.clean(engine, [known[0] for known in probes.values() if len(known) == 1])


def check_page(page_id: str, catalogue: Catalogue, engine: Engine, bench: Bench) -> PageCheck:
    """Hold one page against everything that can be known of it.

    Raises UsageError where there is no such page; whatever is wrong with it is a finding.
    """
    start = time.perf_counter()
    path = str(catalogue.path(page_id))
    findings: list[Finding] = []
    reports: list[Report | TrainingReport] = []
    try:
        page = catalogue.page(page_id)
        findings += check_prose(page)
        for translation in catalogue.translations(page_id).values():
            findings += check_translation(translation, page)
        if page.front.kind == "myth":
            findings += check_myth(page)
        elif page.front.kind == "exercise":
            findings += check_exercise(page, catalogue, engine, bench)
        elif page.front.recipe:
            findings += check_training(page, catalogue, engine, bench.store, reports)
        else:
            findings += [finding_from(error, page.path) for error in check_blocks(page)]
            known, unknown = check_names(page, catalogue)
            for language, translation in catalogue.translations(page_id).items():
                lines = catalogue.phrases(language)
                findings += check_probe_lines(translation, catalogue.probes_for(known), lines)
            observed, unrun = _run(known, catalogue, engine, bench)
            reports += observed
            findings += [*unknown, *unrun, *check_observed(known, observed)]
    except BreaklabError as error:
        findings.append(finding_from(error, path))
    except Exception as error:
        findings.append(_accident(error, path))
    listed = sorted(dict.fromkeys(findings), key=lambda one: (one.path != path, one.path, one.line))
    return PageCheck(page_id, path, listed, reports, round(time.perf_counter() - start, 3))


def _run(
    page: Page, catalogue: Catalogue, engine: Engine, bench: Bench
) -> tuple[list[Report], list[Finding]]:
    """Reports on the engine and on every variant that the page speaks of, and why there are not."""
    reports: list[Report] = []
    findings: list[Finding] = []
    for variant in dict.fromkeys([None, *page.expect, *page.claims]):
        on = catalogue.page(variant, "variant") if variant else None
        try:
            reports.append(run_lab(prepare(page, catalogue, engine, variant=on), bench))
        except BreaklabError as error:
            findings.append(finding_from(error, page.path, page.body_line))
        except Exception as error:
            findings.append(_accident(error, page.path))
    return reports, findings


def _accident(error: Exception, path: str) -> Finding:
    """A mistake of ours, which is no reason to say nothing of the other pages."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    problem = f"the check itself failed: {type(error).__name__}: {error}"
    remedy = f"please report it as a mistake of breaklab, at {place.filename}:{place.lineno}"
    return Finding(path, 1, problem, remedy)


def _check_orphans(page_id: str, catalogue: Catalogue) -> PageCheck:
    remedy = f"{nearest(page_id, catalogue.files)}name it after its page, or delete it"
    problem = f"a translation of `{page_id}`, and there is no such page"
    paths = [str(path) for path in catalogue.translated[page_id].values()]
    return PageCheck(
        page_id, paths[0], [Finding(path, 1, problem, remedy) for path in paths], [], 0
    )
