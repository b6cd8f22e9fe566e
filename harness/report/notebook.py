"""A break in a notebook: the page of the lab, with a text form beside it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from html import escape

from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import Recorded, record
from harness.pages.catalogue import open_catalogue
from harness.report import html_room
from harness.report.one_screen import show_report
from harness.report.pages import show_title
from harness.report.terminal import open_console
from harness.runs.cache import open_cache

HEIGHT = 900
"""The height of the page in the notebook, in pixels."""


@dataclass(frozen=True)
class ShownBreak:
    """A break that was run on minigrad. A notebook shows the page, anything else the report."""

    recorded: Recorded

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, so that its style stays within it.

        Raises EnvironmentProblem if Jinja2 is not installed.
        """
        lesson = html_room("lesson").Lesson(self.recorded, self.recorded.page)
        text = html_room("document").document(self.recorded.page.title, [lesson])
        return (
            f'<iframe srcdoc="{escape(text)}" width="100%" height="{HEIGHT}" '
            f'title="{escape(self.recorded.page.title)}" style="border:0"></iframe>'
        )

    def __repr__(self) -> str:
        """Return the report on one screen, as on a terminal without colour."""
        out = io.StringIO()
        console = open_console(file=out)
        show_title(console, self.recorded.page)
        show_report(console, self.recorded.report, self.recorded.probes)
        return out.getvalue()


def show_break(page_id: str) -> ShownBreak:
    """Put a break of the bundled catalogue into minigrad, run it, and return what is shown.

    Raises UsageError for an id that does not exist, or is not a break.
    """
    catalogue = open_catalogue()
    page = catalogue.page(page_id, "break")
    baseline = Baseline(open_cache(True))
    return ShownBreak(record(page, catalogue, find_engine(), baseline))
