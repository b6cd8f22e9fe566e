"""The check of pages: one loop for every kind, and a table of what each kind adds.

The prose, the translations and the names in the front matter of every page are checked; then the
parts specific to its kind, against what is observed. Mistakes become findings, and no mistake hides
another one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.check import UNCHECKED, Finding, finding_from, finding_from_bug, worst
from harness.check.controls import check_diagnostic, prepare_invariants
from harness.check.expectations import check_probed_page
from harness.check.kinds import check_exercise, check_myth, check_training
from harness.check.operators import check_operator
from harness.check.prose import check_prose
from harness.check.static import check_completeness, check_names
from harness.check.translations import check_translations
from harness.core.errors import BreaklabError, PageError, UsageError
from harness.core.message import message
from harness.core.report import Report
from harness.experiment.baseline import Context
from harness.grade.exercise import read_answer
from harness.pages.catalogue import diagnostic_name, nearest
from harness.pages.front_matter import (
    Break,
    Control,
    Exercise,
    Myth,
    Operator,
    PageFront,
    TrainingBreak,
    Variant,
)
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.sandbox.hosts import close_hosts
from harness.sandbox.parallel import available_cores, map_sharing
from harness.training.comparison import TrainingReport

CheckItem = Finding | Report | TrainingReport
"""A finding, or a report that a check made."""

PAGES_A_PROCESS = 8
"""With fewer pages, another process takes longer to start than it saves."""

CHECKS: Mapping[type[PageFront], Callable[[Page, Context], Iterator[CheckItem]]] = {
    Break: check_probed_page,
    Variant: check_probed_page,
    Control: check_probed_page,
    TrainingBreak: check_training,
    Myth: check_myth,
    Exercise: check_exercise,
    Operator: check_operator,
}
"""The check that each kind of page adds."""


class PageCheck(msgspec.Struct, frozen=True):
    """The result of the check of one page."""

    page: str
    path: str
    findings: list[Finding]
    reports: list[Report | TrainingReport]
    """One per engine: the reference engine, and each variant that the page names."""
    seconds: float

    @property
    def exit_status(self) -> int:
        """The worst exit status of the findings; 0 if there are only warnings."""
        return worst(finding.exit_status for finding in self.findings)

    @property
    def holds(self) -> bool | None:
        """Whether everything passes; None if a library that the check needs is missing."""
        return None if self.exit_status == UNCHECKED else self.exit_status == 0


def check_pages(
    context: Context,
    ids: Sequence[str] = (),
    *,
    training: bool = False,
    only: Sequence[Path] = (),
) -> Iterator[PageCheck]:
    """Check the pages with these ids; without ids all pages, and translations that have no page.

    Without ids, pages that need many seeds are left out; with `training`, only those are checked.
    With `only`, only what is in these folders is checked.

    Raises UsageError for an id that does not exist or for folders without a page, before anything
    is checked.
    """
    catalogue = context.catalogue
    own = {diagnostic_name(path): path for path in catalogue.diagnostic_files}
    for page_id in ids:
        if page_id not in own:
            catalogue.path(page_id)
    if ids:
        for page_id in ids:
            yield (
                check_own(own[page_id], context) if page_id in own else check_page(page_id, context)
            )
        return
    everything = catalogue.files.keys() | catalogue.translated.keys()
    chosen = catalogue.ids_in(only) if only else everything
    if training:
        pages, orphans = chosen & catalogue.many_seeded, frozenset[str]()
    else:
        orphans = frozenset(chosen - catalogue.files.keys())
        pages = frozenset(chosen - orphans - catalogue.many_seeded)
    folders_of_own = [folder.resolve() for folder in only]
    brought = [
        path
        for path in catalogue.diagnostic_files
        if not training
        and (not only or any(path.resolve().is_relative_to(f) for f in folders_of_own))
    ]
    if only and not (pages or orphans or brought):
        folders = ", ".join(map(str, only))
        remedy = "`harness new` writes a page; --training checks those that need many seeds"
        raise UsageError(message("no page to check in {folders}", folders=folders), remedy)
    if training:  # these run their seeds in parallel
        yield from (check_page(page_id, context) for page_id in sorted(pages))
        return
    yield from (check_own(path, context) for path in brought)
    _prepare_baseline(context, [page for page in catalogue.pages[0] if page.id in pages])
    with contextlib.closing(_check_in_parallel(sorted(pages), context)) as checks:
        yield from checks
    yield from (_check_orphans(page_id, context) for page_id in sorted(orphans))


def _prepare_baseline(context: Context, pages: Sequence[Page]) -> None:
    """Run all correct engines and the libraries once for all of these pages, to save time.

    Probes of two pages may share a name; these are left to the check of each page.
    """
    probes: dict[str, list[Probe]] = {}
    for page in pages:
        with contextlib.suppress(PageError):  # becomes a finding when that page is checked
            for probe in (*context.catalogue.probes_for(page), *read_answer(page)):
                namesakes = probes.setdefault(probe.name, [])
                namesakes += [probe] if probe not in namesakes else []
    unique = [namesakes[0] for namesakes in probes.values() if len(namesakes) == 1]
    context.baseline.complete(context.engine, unique)
    prepare_invariants(pages, context)


def _check_in_parallel(ids: Sequence[str], context: Context) -> Generator[PageCheck, None, None]:
    """Check pages in as many processes as there are cores, and yield the checks in order.

    The processes are forked once the baseline is complete, so that none of them repeats it.
    """
    processes = min(available_cores(), len(ids) // PAGES_A_PROCESS)
    if processes > 1:
        close_hosts()  # a forked process cannot use them
    yield from map_sharing(check_page, context, ids, processes)


def check_page(page_id: str, context: Context) -> PageCheck:
    """Check one page. Every mistake becomes a finding.

    Raises UsageError if there is no such page.
    """
    path = str(context.catalogue.path(page_id))
    return _checked(page_id, path, lambda: _check(page_id, context))


def check_own(path: Path, context: Context) -> PageCheck:
    """Check one diagnostic that the catalogue brings."""
    return _checked(diagnostic_name(path), str(path), lambda: check_diagnostic(path, context))


def _checked(name: str, path: str, check: Callable[[], Iterator[CheckItem]]) -> PageCheck:
    """Return the result of a check; an error that ends it becomes a finding."""
    start = time.perf_counter()
    findings: list[Finding] = []
    reports: list[Report | TrainingReport] = []
    try:
        for item in check():
            if isinstance(item, Finding):
                findings.append(item)
            else:
                reports.append(item)
    except BreaklabError as error:
        findings.append(finding_from(error, path))
    except Exception as error:
        findings.append(finding_from_bug(error, path))
    unique = dict.fromkeys(findings)
    listed = sorted(unique, key=lambda finding: (finding.path != path, finding.path, finding.line))
    return PageCheck(name, path, listed, reports, round(time.perf_counter() - start, 3))


def _check(page_id: str, context: Context) -> Iterator[CheckItem]:
    """Yield the findings and reports of a page, up to the first error that ends its check."""
    page = context.catalogue.page(page_id)
    yield from check_prose(page, context.catalogue.conventions)
    valid, unknown_names = check_names(page, context.catalogue)
    yield from unknown_names
    yield from check_translations(page, valid, context.catalogue)
    yield from check_completeness(page)
    yield from CHECKS[type(page.front)](valid, context)


def _check_orphans(page_id: str, context: Context) -> PageCheck:
    catalogue = context.catalogue
    remedy = f"{nearest(page_id, catalogue.files)}name it after its page, or delete it"
    problem = f"a translation of `{page_id}`, which does not exist"
    paths = [str(path) for path in catalogue.translated[page_id].values()]
    return PageCheck(
        page_id, paths[0], [Finding(path, 1, problem, remedy) for path in paths], [], 0
    )
