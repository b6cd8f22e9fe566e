"""Breaks on a foreign engine, page by page: where they apply, and what happens there.

The results are compared with what each page states. A difference is not a failure, since pages are
written about minigrad, unless it shows that the patch is not the change that the page describes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness.core.errors import BreaklabError, DoesNotApply, InternalError
from harness.core.report import Report
from harness.experiment.context import Context
from harness.experiment.lab import report_absence, run_lab
from harness.experiment.patching import prepare
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page


def breaks_for(catalogue: Catalogue, ids: Sequence[str] = ()) -> list[Page]:
    """Return the breaks with these ids, or all breaks.

    Raises UsageError for an id that no break has, PageError for a page that cannot be read.
    """
    if ids:
        return [catalogue.page(page_id, "break") for page_id in ids]
    return [page for page in catalogue.valid_pages() if isinstance(page.front, Break)]


def compare_pages(pages: Sequence[Page], context: Context) -> Iterator[Report]:
    """Yield a report on each break: `does-not-apply` if no site gives valid Python."""
    for page in pages:
        try:
            yield run_lab(prepare(page, context.catalogue, context.engine), context.baseline)
        except DoesNotApply:
            yield report_absence(page, context.engine, None)
        except InternalError:
            raise
        except BreaklabError as error:
            reason = {"the patch": error.problem.splitlines()[0]}
            absence = report_absence(page, context.engine, None)
            yield msgspec.structs.replace(absence, left_out=reason)
