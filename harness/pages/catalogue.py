"""The catalogue: where pages and shared probes are found.

Pages come from the bundled package `breaks`, from folders given with `--breaks`, and from installed
packages that name a package of pages under the entry point group `breaklab.breaks`. A root holds
pages at any depth (`family/id.md`) and shared probes in `probes/*.py`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from harness.core import PACKAGES, read_text, require_utf8
from harness.core.errors import EnvironmentProblem, PageError, Sentence, UsageError, as_message
from harness.core.message import EMPTY, Message, either, message, verbatim
from harness.core.vocabulary import PageKind
from harness.pages.front_matter import KINDS, TrainingBreak
from harness.pages.page import Page, read_page, read_table
from harness.pages.probe import Probe, read_probes

if TYPE_CHECKING:
    from harness.pages.conventions import Conventions, Unit

BUNDLED = PACKAGES / "breaks"
"""The folder of the bundled pages."""

ENTRY_POINTS = "breaklab.breaks"


@dataclass(frozen=True)
class Catalogue:
    """Folders of pages, in the order in which they are searched; a page is read on request."""

    roots: tuple[Path, ...]

    @cached_property
    def files(self) -> dict[str, Path]:
        """The page file of each id. Raises PageError if two files have the same id."""
        files: dict[str, Path] = {}
        for path in self._markdown():
            if "." in path.stem:
                continue  # a translation
            if path.stem in files:
                raise PageError(
                    str(path),
                    1,
                    message(
                        "the id `{id}` is taken by {file}", id=path.stem, file=files[path.stem]
                    ),
                    "rename one of the two files, and its `id`",
                )
            files[path.stem] = path
        return files

    @cached_property
    def translated(self) -> dict[str, dict[str, Path]]:
        """The translations, `ID.LANG.md`, by the id of their page and then by language.

        Raises PageError if two files translate one page into one language.
        """
        translated: dict[str, dict[str, Path]] = {}
        for path in self._markdown():
            page_id, dot, language = path.stem.partition(".")
            if not dot:
                continue
            files = translated.setdefault(page_id, {})
            if language in files:
                raise PageError(
                    str(path),
                    1,
                    message(
                        "`{page}` is also translated in {file}", page=page_id, file=files[language]
                    ),
                    "keep one of the two files",
                )
            files[language] = path
        return translated

    def translations(self, page_id: str) -> dict[str, Path]:
        """Return the files that translate a page, by language: `{"es": .../ID.es.md}`."""
        return self.translated.get(page_id, {})

    def phrases(self, language: str) -> dict[str, str]:
        """First lines of probes' docstrings, and the ideas of the track, in another language.

        They are in `probes/es.toml`, by the English line, and in `track.es.toml`, by the page.
        Raises PageError for a file that is not a TOML table of strings.
        """
        phrases: dict[str, str] = {}
        for root in self.roots:
            path, ideas = root / "probes" / f"{language}.toml", root / f"track.{language}.toml"
            if os.path.lexists(path):
                phrases |= read_table(path)
            if os.path.lexists(ideas):
                translated = read_table(ideas).items()
                phrases |= {
                    self.track[current]: idea
                    for page, idea in translated
                    if (current := self.current_id(page)) in self.track
                }
        return phrases

    @cached_property
    def track(self) -> dict[str, str]:
        """The pages for beginners, in order, each with the idea that it adds."""
        files = [root / "track.toml" for root in self.roots]
        return {
            self.current_id(page): idea
            for file in files
            if os.path.lexists(file)
            for page, idea in read_table(file).items()
        }

    @cached_property
    def page_0(self) -> dict[str, tuple[int, str]]:
        """By the letter of a slip of page 0: the number and id of the track's page about it."""
        files = [root / "page-0.toml" for root in self.roots]
        track = list(self.track)
        return {
            letter: (track.index(page) + 1, page)
            for file in files
            if os.path.lexists(file)
            for letter, earlier in read_table(file).items()
            if (page := self.current_id(earlier)) in track
        }

    @cached_property
    def course(self) -> dict[str, Unit]:
        """The units of the course, in order, by name.

        Raises PageError for a `course.toml` that cannot be read, and UsageError for a page in it
        that does not exist.
        """
        from harness.pages.conventions import read_course

        files = [root / "course.toml" for root in self.roots]
        units = {
            name: unit.with_ids(self.current_id)
            for file in files
            if os.path.lexists(file)
            for name, unit in read_course(file).items()
        }
        for unit in units.values():
            for page in (*unit.listed, *unit.exercises):
                self.path(page)
        return units

    def course_phrases(self, language: str) -> dict[str, str]:
        """Return titles and ideas of the course's units in another language, by the English ones.

        They are in `course.es.toml`. Raises PageError for a file that cannot be read.
        """
        from harness.pages.conventions import read_unit_texts

        files = [root / f"course.{language}.toml" for root in self.roots]
        return {
            english: other
            for file in files
            if os.path.lexists(file)
            for name, text in read_unit_texts(file).items()
            if (unit := self.course.get(name))
            for english, other in ((unit.title, text.title), (unit.idea, text.idea))
        }

    def is_bundled(self, page: Page) -> bool:
        """Whether the page is one of the bundled ones, not an instructor's own."""
        return Path(page.path).is_relative_to(BUNDLED)

    def path(self, page_id: str, what: str = "page") -> Path:
        """The file of that id, or of the page that had it earlier.

        Raises UsageError, with the nearest ids, if there is none.
        """
        current = self.current_id(page_id)
        if current not in self.files:
            raise unknown(what, page_id, self.files, "`harness list` shows them all")
        return self.files[current]

    def current_id(self, page_id: str) -> str:
        """Return the id of the page that has this id, or had it earlier; else the id itself."""
        if page_id in self.files:
            return page_id
        return self.conventions.renamed.get(page_id, page_id)

    def ids_in(self, folders: Sequence[Path]) -> frozenset[str]:
        """Return the ids of the pages, and of the translations, in these folders."""
        within = [folder.resolve() for folder in folders]
        return frozenset(
            path.stem.partition(".")[0]
            for path in self._markdown()
            if any(path.resolve().is_relative_to(folder) for folder in within)
        )

    def mistakes_in(self, folders: Sequence[Path]) -> list[PageError]:
        """Return the errors about the pages in these folders that cannot be read."""
        mistakes = []
        for page_id in sorted(self.ids_in(folders) & self.files.keys()):
            try:
                read_page(self.files[page_id])
            except PageError as error:
                mistakes.append(error)
        return mistakes

    def page(self, page_id: str, kind: PageKind | None = None) -> Page:
        """The page of that id.

        Raises UsageError, with the nearest ids, if there is none or it is of another kind.
        """
        page = read_page(self.path(page_id, kind or "page"))
        if kind is not None and page.front.kind != kind:
            raise page.unlike(next(front for front in KINDS if front.kind == kind))
        return page

    @cached_property
    def pages(self) -> tuple[tuple[Page, ...], tuple[PageError, ...]]:
        """Every page that can be read, by kind and family, and the errors about the others."""
        pages, mistakes = [], []
        for path in self.files.values():
            try:
                pages.append(read_page(path))
            except PageError as error:
                mistakes.append(error)
        order = {name: place for place, name in enumerate(get_args(PageKind))}
        pages.sort(
            key=lambda page: (order[page.front.kind], page.front.family, page.front.level, page.id)
        )
        return tuple(pages), tuple(mistakes)

    def valid_pages(self) -> tuple[Page, ...]:
        """Return every page. Raises the first PageError if one cannot be read."""
        pages, mistakes = self.pages
        if mistakes:
            raise mistakes[0]
        return pages

    @cached_property
    def conventions(self) -> Conventions:
        """What the folders state in their `catalogue.toml`. Raises PageError for an invalid one."""
        from harness.pages.conventions import read_conventions  # few commands need them

        return read_conventions(self.roots)

    @cached_property
    def in_place(self) -> Page | None:
        """The variant that adds gradients in place, if the conventions name one.

        Raises UsageError if they name a page that is not a variant.
        """
        name = self.conventions.in_place
        return None if name is None else self.page(name, "variant")

    @cached_property
    def many_seeded(self) -> frozenset[str]:
        """The ids of the pages that need many seeds; see `harness.training`."""
        pages = self.pages[0]
        return frozenset(page.id for page in pages if isinstance(page.front, TrainingBreak))

    @cached_property
    def shared_probes(self) -> dict[str, Probe]:
        """The probes that every page may use, by name."""
        bundled = BUNDLED / "probes"
        probes = (
            replace(probe, shared=path.parent == bundled)
            for path, text in self.probe_texts.items()
            for probe in read_probes(text, str(path))
        )
        return _by_name(probes)

    @cached_property
    def probe_texts(self) -> dict[Path, str]:
        """The text of each file of shared probes."""
        return {
            path: read_text(path)
            for root in self.roots
            for path in sorted((root / "probes").glob("*.py"))
        }

    @cached_property
    def diagnostic_files(self) -> tuple[Path, ...]:
        """The files of the diagnostics that the folders bring: see `harness.pages.checks`."""
        return tuple(
            path for root in self.roots for path in sorted((root / "diagnostics").glob("[!_]*.py"))
        )

    @cached_property
    def diagnostic_texts(self) -> list[tuple[str, str]]:
        """The path and the text of each of these files. Raises PageError if one cannot be read."""
        return [(str(path), read_text(path)) for path in self.diagnostic_files]

    def diagnostics_elsewhere(self, page: Page) -> frozenset[str]:
        """Return the names of the diagnostics that other folders than the page's bring.

        What the page states, its pardon included, is not about them.
        """
        homes = [root for root in self.roots if Path(page.path).is_relative_to(root)]
        return frozenset(
            diagnostic_name(path)
            for path in self.diagnostic_files
            if not any(path.is_relative_to(root) for root in homes)
        )

    def probes_for(self, page: Page, wanted: Sequence[str] = ()) -> tuple[Probe, ...]:
        """Return the probes that a page runs on: those it states outcomes for, or those `wanted`.

        Raises UsageError for a name that is neither one of the page's own probes nor a shared one,
        and PageError for such a name in the page's front matter, or for a probe of the page that
        has the name of a shared one.
        """
        own = _by_name(page.probes)
        self._refuse_shadows(own, page)
        available = self.shared_probes | own
        for name in wanted:
            if name not in available:
                raise unknown("probe", name, available, "leave --probe out to run the page's own")
        if wanted:
            return tuple(available[name] for name in dict.fromkeys(wanted))
        for variant in filter(None, page.expect):
            if variant not in self.files:
                remedy = message(
                    "{question}a table below `expect` is for a variant",
                    question=nearest(variant, self.files),
                )
                raise page.mistake(("expect", variant), "names no variant", remedy)
        names = dict.fromkeys(name for table in page.expect.values() for name in table)
        for name in names:
            if name not in available:
                where = "a probe is a function in `probes/*.py` or in the page's section Probes"
                remedy = message(
                    "{question}{where}", question=nearest(name, available), where=as_message(where)
                )
                raise page.mistake(("expect", name), "names no probe", remedy)
        return tuple(available[name] for name in names)

    def _refuse_shadows(self, own: Mapping[str, Probe], page: Page) -> None:
        """Raise PageError for a probe with the name of a bundled probe or of one in its folder.

        A shared probe in another folder does not concern the page.
        """
        homes = [root for root in self.roots if Path(page.path).is_relative_to(root)]
        for name in own.keys() & self.shared_probes.keys():
            shared = self.shared_probes[name]
            if shared.shared or any(Path(shared.path).is_relative_to(root) for root in homes):
                raise _taken(own[name], shared)

    def _markdown(self) -> Iterator[Path]:
        """Pages and translations. Raises PageError for a path that is not UTF-8."""
        for root in self.roots:
            for path in sorted(root.rglob("*.md")):
                require_utf8(path)
                if path.stem.partition(".")[0] != "README":
                    yield path


def open_catalogue(folders: Iterable[Path] = ()) -> Catalogue:
    """Return the catalogue of the bundled pages, the installed packages' and those in `folders`.

    Raises UsageError for a folder that does not exist.
    """
    roots = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                message("no folder {folder}", folder=folder),
                "name a folder of pages (Markdown files)",
            )
        roots.append(folder)
    roots.append(BUNDLED)
    roots += [_package_folder(point.value) for point in entry_points(group=ENTRY_POINTS)]
    # `--breaks breaks` in a clone of this repository names the bundled folder once more.
    resolved = {root.resolve(): root for root in roots}
    return Catalogue(
        tuple(root for path, root in resolved.items() if resolved.keys().isdisjoint(path.parents))
    )


def diagnostic_name(path: Path) -> str:
    """Return the name of the diagnostic in a file: `same_twice.py` is `same-twice`."""
    return path.stem.replace("_", "-")


def _package_folder(package: str) -> Path:
    top, *inner = package.split(".")  # finding a module inside a package would run the package
    spec = find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentProblem(
            message("the package of pages `{package}` is not installed", package=package),
            "install it again",
        )
    return Path(next(iter(spec.submodule_search_locations)), *inner)


def _by_name(probes: Iterable[Probe]) -> dict[str, Probe]:
    named: dict[str, Probe] = {}
    for probe in probes:
        if probe.name in named:
            raise _taken(probe, named[probe.name])
        named[probe.name] = probe
    return named


def _taken(probe: Probe, other: Probe) -> PageError:
    """Return the error about a probe with the name of another one."""
    problem = message(
        "the probe `{probe}` is also defined in {file}", probe=probe.name, file=other.path
    )
    return PageError(probe.path, probe.line, problem, "give one of the two another name")


def unknown(what: Sentence, name: str, names: Iterable[str], otherwise: Sentence) -> UsageError:
    """Return the error about a name that does not exist, with the nearest names that do."""
    problem = message("no {what} `{name}`", what=as_message(what), name=name)
    if not name:
        problem = message("no name is given for the {what}", what=as_message(what))
    return UsageError(
        problem,
        message(
            "{question}{otherwise}", question=nearest(name, names), otherwise=as_message(otherwise)
        ),
    )


def nearest(name: str, names: Iterable[str]) -> Message:
    """Return a question with the names similar to an unknown one; empty if there are none."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    if not near:
        return EMPTY
    return message("did you mean {names}? ", names=either(verbatim(f"`{n}`") for n in near))
