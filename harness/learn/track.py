"""The learner's place on the track, and what comes after the track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from harness.core.vocabulary import PageKind
from harness.learn.progress import Progress
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page

DEEPER = 2
"""The level of the pages after the track."""


@dataclass(frozen=True)
class Misses:
    """The wrong predictions about the breaks of a family."""

    family: str
    wrong: int
    count: int


@dataclass(frozen=True)
class Way:
    """A learner on the track of a catalogue."""

    catalogue: Catalogue
    progress: Progress

    @property
    def track(self) -> tuple[str, ...]:
        """The ids of the pages on the track."""
        return tuple(self.catalogue.track)

    @property
    def done(self) -> int:
        """The number of pages of the track that are done."""
        return len(self.progress.done.intersection(self.track))

    @property
    def next_id(self) -> str | None:
        """The first page of the track that is not done; None at its end."""
        return next(self.after(None), None)

    def after(self, page_id: str | None) -> Iterator[str]:
        """Yield the pages of the track that follow a page and are not done; from the start if
        it is None."""
        start = 0 if page_id is None else self.track.index(page_id) + 1
        return (page for page in self.track[start:] if page not in self.progress.done)

    @property
    def next_repair(self) -> str | None:
        """The first break on the track that has not been repaired; None at its end."""
        left = (page for page in self.track if page not in self.progress.repaired)
        return next((page for page in left if self._is_repairable(page)), None)

    def _is_repairable(self, page_id: str) -> bool:
        """Whether probes show the break."""
        return isinstance(self.catalogue.page(page_id).front, Break)

    @property
    def is_read(self) -> bool:
        """Whether nothing is left on the track but exercises."""
        kinds = {self.catalogue.page(page).front.kind for page in self.after(None)}
        return kinds <= {"exercise"}

    def number(self, page_id: str) -> int:
        """Return the position of a page on the track, from 1."""
        return self.track.index(page_id) + 1

    # ----- After the track -----

    @cached_property
    def misses(self) -> list[Misses]:
        """The families with wrong predictions, those with most of them first."""
        files = self.catalogue.files
        pages = {event.page for event in self.progress.predictions if event.page in files}
        families = {page: self.catalogue.page(page).front.family for page in pages}
        count, wrong = Counter[str](), Counter[str]()
        for event in self.progress.predictions:
            if family := families.get(event.page):
                count[family] += 1
                wrong[family] += not event.right
        order = sorted(wrong, key=lambda family: (-wrong[family], family))
        return [Misses(name, wrong[name], count[name]) for name in order if wrong[name]]

    def count(self, kind: PageKind) -> tuple[int, int]:
        """Return how many pages of a kind are done, and how many there are."""
        pages = [page.id for page in self.catalogue.pages[0] if page.front.kind == kind]
        return len(self.progress.done.intersection(pages)), len(pages)

    def todo(self, kind: PageKind, level: int | None = None) -> list[Page]:
        """Return the pages of a kind, and of a level, that are not done."""
        return [
            page
            for page in self.catalogue.pages[0]
            if page.front.kind == kind
            and level in (None, page.front.level)
            and page.id not in self.progress.done
        ]
