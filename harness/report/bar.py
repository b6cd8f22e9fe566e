"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from harness.core.vocabulary import visible
from harness.report.terminal import open_console


class ProgressBar:
    """The number of finished items, the estimated time for the rest, and the last item's name."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self._bar = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}", markup=False),
            console=open_console(file=sys.stderr),
            transient=True,
            auto_refresh=False,  # its thread would interfere with forks
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=0)

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal to show it on."""
        return not self._bar.disable

    def watch(self, done: int, total: int, name: str = "") -> None:
        """Show that `done` of `total` items are finished, and that `name` was the last one."""
        self.done, self.total = done, total
        self._bar.update(self._task, completed=done, total=total, description=visible(name))
        if self.is_shown:
            self._bar.refresh()

    def __enter__(self) -> ProgressBar:
        """Start the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        """Remove the bar."""
        if self.is_shown:  # older versions of rich also end a line that was never started
            self._bar.stop()
