"""The whole course as a static site: one file a page, in each language, with one style and script.

Links are relative, so any web host serves a site from any folder, and it opens from a disk too. A
file says itself that breaklab wrote it, so no file of anyone else is ever replaced.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markupsafe import Markup

from harness.core.errors import UsageError
from harness.core.files import unwritable, write_file
from harness.core.message import message
from harness.learn.progress import PRIMER
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.report.html.document import (
    SCRIPT,
    STYLE,
    Entry,
    Group,
    Place,
    document,
    entry_of,
    families,
    primer_entry,
    static,
)
from harness.report.html.lesson import Lesson
from harness.report.html.primer import PrimerLesson
from harness.report.language import ENGLISH, Language

# ----- The folder -----

_MARK = b'content="breaklab"', b"/* breaklab"
"""What a file of a site contains near its beginning: HTML, or the style or the script."""

_BEGINNING = 2000

_OTHER_FOLDER = message("name a folder that is new or empty, or contains an earlier site")


def require_folder(folder: Path, names: Sequence[str]) -> None:
    """Check that a folder is new, empty, or a site of breaklab, before files with these names come.

    Files whose name begins with a dot may be there, such as those of Git. Raises UsageError if
    other files are there, a file has the place of a folder, or two files have one name, and
    EnvironmentProblem if the folder cannot be read or made.
    """
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise UsageError(
            message("two files of the site would have the name {name}", name=name),
            "a page cannot be called `index` or `page-0`: rename it, or name other pages",
        )
    for place in dict.fromkeys([folder, *((folder / name).parent for name in names)]):
        if os.path.lexists(place) and not place.is_dir():
            raise UsageError(message("{folder} is not a folder", folder=place), _OTHER_FOLDER)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = any(not file.name.startswith(".") for file in folder.iterdir())
    except (OSError, ValueError) as error:
        raise unwritable(folder, error) from None
    if others and not _is_own(folder / STYLE):
        raise UsageError(
            message("{folder} contains files that breaklab did not write", folder=folder),
            _OTHER_FOLDER,
        )
    for name in names:
        file = folder / name
        if os.path.lexists(file) and not _is_own(file):
            raise UsageError(
                message("{file} was not written by breaklab", file=file),
                "move it away, or name another folder",
            )


def _is_own(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            beginning = opened.read(_BEGINNING)
    except (OSError, ValueError):
        return False
    return any(mark in beginning for mark in _MARK)


def write_changed(file: Path, text: str) -> bool:
    """Write a file of a site unless it has this text already; return whether it was written."""
    data = text.encode()
    with suppress(OSError):
        if file.read_bytes() == data:
            return False
    try:
        file.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(file.parent, error) from None
    write_file(file, data)
    return True


# ----- The files -----


@dataclass(frozen=True)
class Site:
    """The files of a site, by their names below its folder."""

    catalogue: Catalogue
    pages: Sequence[Page]
    """All pages, in the order of the catalogue; those of breaks with probes have a file."""
    whole: bool
    """Whether the lists show page 0, and the pages that are read in a terminal, too."""
    languages: Mapping[str, Language]
    """By their codes; the first one is that of the folder itself, others have a folder each."""

    @cached_property
    def ids(self) -> list[str]:
        """The pages that have a file, in the order in which they follow one another."""
        known = {page.id for page in self.pages if isinstance(page.front, Break)}
        order = dict.fromkeys([*self.catalogue.track, *self._in_units])
        return [PRIMER] * self.whole + [
            *(page for page in order if page in known),
            *(page.id for page in self.pages if page.id in known and page.id not in order),
        ]

    @property
    def _in_units(self) -> list[str]:
        units = self.catalogue.course.values()
        return [page for unit in units for page in (*unit.listed, *unit.exercises)]

    @property
    def names(self) -> list[str]:
        """The names of all files; the style is first, by which an earlier site is recognised."""
        names = ["index", *self.ids]
        pages = [self.name(code, name) for name in names for code in self.languages]
        return [STYLE, SCRIPT, *pages]

    def name(self, code: str, page: str) -> str:
        """Return the name of a page's file in a language."""
        return f"{self._folder(code)}{page}.html"

    def _folder(self, code: str) -> str:
        return "" if code == next(iter(self.languages)) else f"{code}/"

    def shared(self) -> dict[str, str]:
        """Return the files that all pages use."""
        return {
            STYLE: f"/* breaklab */\n{static('lab.css')}",
            SCRIPT: f"/* breaklab */\n{static('lab.js')}",
        }

    def lesson(self, lesson: Lesson, titles: Mapping[str, Entry]) -> str:
        """Return the file of a break; `titles` are the entries of all pages in its language."""
        place = self._place(lesson.say.code, lesson.page.id, titles)
        return document(lesson.page.title, [lesson], lesson.say, place=place)

    def first_files(self, code: str, titles: Mapping[str, Entry]) -> dict[str, str]:
        """Return the list of all pages, and page 0 if the site has it."""
        say = self.languages[code].with_translations(self.catalogue.course_phrases(code))
        groups = self._groups(titles)
        place = self._place(code, "index", titles)
        index = document(say("The lab"), [], say, groups=groups, place=place)
        files = {self.name(code, "index"): index}
        if self.whole:
            primer = PrimerLesson(self.catalogue.page_0, say)
            place = self._place(code, PRIMER, titles)
            files[self.name(code, PRIMER)] = document(primer.title, [], say, primer, place=place)
        return files

    def _groups(self, titles: Mapping[str, Entry]) -> list[Group]:
        """Return the track, the units of the course, and the other pages by family."""
        track = [PRIMER, *self.catalogue.track]
        groups = [Group(_of(titles, track), message("The track"))]
        for unit in self.catalogue.course.values():
            entries = _of(titles, [*unit.listed, *unit.exercises])
            groups.append(Group(entries, unit.title, unit.idea))
        listed = {*track, *self._in_units}
        groups += families(entry for entry in titles.values() if entry.id not in listed)
        return [group for group in groups if group.entries]

    def titles(self, code: str, shown: Iterable[Page]) -> dict[str, Entry]:
        """Return the entries of the pages in a language, by id.

        `shown` are the pages with the titles in that language, in the order of `pages`.
        """
        say = self.languages[code]
        entries = [primer_entry(PrimerLesson(self.catalogue.page_0, say).title)] * self.whole
        for page, original in zip(shown, self.pages, strict=True):
            has_file = isinstance(page.front, Break)
            if has_file or self.whole:
                command = "" if has_file else f"harness {page.front.kind} {page.id}"
                lang = Markup(' lang="en"' if page is original and say is not ENGLISH else "")
                entries.append(entry_of(page, lang, command=command))
        return {entry.id: entry for entry in entries}

    def _place(self, code: str, page: str, titles: Mapping[str, Entry]) -> Place:
        ids = self.ids
        following = ids[ids.index(page) + 1 :] if page in ids else []
        root = "../" * bool(self._folder(code))
        return Place(
            frozenset(ids),
            titles[following[0]] if following else None,
            root,
            [
                (other, say("English"), f"{root}{self.name(other, page)}")
                for other, say in self.languages.items()
                if other != code
            ],
        )


def _of(titles: Mapping[str, Entry], ids: Iterable[str]) -> list[Entry]:
    return [titles[page] for page in ids if page in titles]
