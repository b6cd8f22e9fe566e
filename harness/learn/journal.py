"""The learner's journal: events are read and recorded, and no command fails because of it."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from harness.core.files import data_folder
from harness.learn.database import NotUsable, ProgressDatabase
from harness.learn.events import AnyEvent
from harness.learn.progress import Progress


class Journal:
    """The events in a database; if it cannot be used, those of this process.

    The first problem is one line on standard error, and there is none after it.
    """

    def __init__(self, database: ProgressDatabase) -> None:
        self.database = database
        self._unsaved: list[AnyEvent] = []
        self._has_warned = False

    @property
    def progress(self) -> Progress:
        """The progress so far."""
        try:
            saved = self.database.read()
        except NotUsable as problem:
            self._warn(problem)
            saved = []
        return Progress((*saved, *self._unsaved))

    def record(self, *events: AnyEvent) -> None:
        """Add the events, or remember them as long as this process lasts."""
        try:
            self.database.add(events)
        except NotUsable as problem:
            self._warn(problem)
            self._unsaved += events

    def _warn(self, problem: NotUsable) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(f"harness: progress is not saved: {problem.problem}", file=sys.stderr)


def open_journal() -> Journal:
    """Return the user's journal; nothing is read or created yet."""
    return _open(data_folder())


@cache
def _open(folder: Path) -> Journal:
    """Return this process's only journal: all commands share the events that cannot be saved."""
    return Journal(ProgressDatabase(folder / "progress.sqlite"))
