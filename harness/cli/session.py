"""The session of one command: catalogue, engine, cache, console and language, each opened once."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from harness.core.errors import BreaklabError, DoesNotApply, EnvironmentProblem, UsageError
from harness.core.message import message, some, verbatim
from harness.core.vocabulary import PageKind
from harness.sandbox.signals import Terminated

if TYPE_CHECKING:
    from harness.core.message import Message
    from harness.diagnostics import Diagnostic
    from harness.engines.engine import Engine
    from harness.experiment.baseline import Baseline, Context
    from harness.learn.events import Journal
    from harness.learn.progress import LearnerProgress
    from harness.pages.catalogue import Catalogue
    from harness.pages.page import Page
    from harness.report.language import Language
    from harness.report.terminal import Screen
    from harness.runs.cache import Cache

Result = TypeVar("Result")

_POLL = 0.1
"""Seconds between two checks of a background function, and of signals: a wait without a time-out
would not notice them."""

MOST_OTHERS = 5
"""How many breaks with a site in an engine are named in place of one without a site."""

walking = ContextVar("walking", default=False)
"""Whether `harness start` runs the pages: it says itself which one comes next."""

_PATIENCE = 5.0
"""Seconds to wait for a background function whose processes have been ended."""


class Count:
    """How many runs have ended, and what is being done."""

    def __init__(self) -> None:
        self.done = 0
        self.library = ""
        """The library that is being loaded, or in which the last run ended."""
        self.probe = ""
        """The probe of the last run; empty while the library is being loaded."""

    def add(self, library: str, probe: str) -> None:
        """Note that a run has ended, or that a library is being loaded."""
        self.done, self.library, self.probe = self.done + bool(probe), library, probe

    @property
    def progress(self) -> Message:
        """Both in words."""
        if not self.library:
            return message("Running ...")
        if not self.probe:
            return message(
                "Running ... {done} done, loading {library}", done=self.done, library=self.library
            )
        last = f"{self.library}: {self.probe}"
        return message("Running ... {done} done, {last}", done=self.done, last=last)


class Background(Generic[Result]):
    """A function call in a thread of its own.

    Processes that the function starts end with the thread.

    Parameters
    ----------
    function : callable
        Its argument is a function that takes a first version of the result.
    """

    def __init__(self, function: Callable[[Callable[[Result], None]], Result]) -> None:
        self.first: Result | None = None
        """The first version of the result, if the function has given one."""
        self.count = Count()
        self._function = function
        self._results: list[Result] = []
        self._error: BaseException | None = None
        # If a signal interrupts `join`, Python reports that the thread has ended.
        self._ended = threading.Event()
        # A daemon: a command that is stopped does not wait for it.
        threading.Thread(target=self._call, daemon=True).start()

    def is_running(self) -> bool:
        """Wait for a moment, and return whether the function is still running."""
        return not self._ended.wait(_POLL)

    def result(self) -> Result:
        """Return what the function returned, or raise what it raised; it must have ended."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def stop(self) -> None:
        """End the parallel processes, if there are any, and wait for the thread to end."""
        from multiprocessing import active_children  # slow to import

        children = active_children()
        for child in children:
            child.terminate()
        if children:
            self._ended.wait(_PATIENCE)

    def _call(self) -> None:
        from harness.runs.isolated import watching  # slow to import

        try:
            with watching(self.count.add):
                self._results.append(self._function(self._announce))
        except BaseException as error:  # raised again in the thread that waits
            self._error = error
        finally:
            self._ended.set()

    def _announce(self, first: Result) -> None:
        self.first = first


@dataclass(frozen=True)
class CommandSession:
    """The resources of a command, each opened when it is first used."""

    breaks: Sequence[Path] | None = None
    """Folders with more pages."""
    engine_name: str | None = None
    """None for the engine of the nearest harness.toml, or else minigrad."""
    variant_id: str | None = None
    """The variant that the break is put into."""
    lang: str | None = "en"
    """A language; None for the locale's."""
    json: bool = False
    cached: bool = True
    """Whether results are read from and stored in the user's cache."""
    strict: bool = True
    """Whether a diagnostic of the catalogue that cannot be used is an error."""

    @cached_property
    def catalogue(self) -> Catalogue:
        """The bundled pages and those of `breaks`. Raises UsageError for a missing folder."""
        from harness.pages.catalogue import open_catalogue

        return open_catalogue(self.breaks or ())

    @cached_property
    def cache(self) -> Cache:
        """The user's cache; in memory with `--no-cache`, or if the file cannot be used."""
        from harness.runs.cache import open_cache

        return open_cache(self.cached)

    @cached_property
    def engine(self) -> Engine:
        """The engine of the command: `engine_name`, that of harness.toml, or minigrad.

        Raises UsageError for a variant of an engine that is not minigrad, and what `explore` raises
        for an engine that cannot be used.
        """
        from harness.engines import nearest_settings
        from harness.engines.engine import find_engine

        name = self.engine_name if self.engine_name is not None else nearest_settings(Path())
        if name is None:
            return find_engine()
        from harness.experiment.exploration import explore

        engine = explore(name, self.cache, self.catalogue.conventions).engine
        if self.variant is not None and engine.foreign and not self.variant.is_about(engine.name):
            raise UsageError(
                message(
                    "--on {variant}: this variant is not a rewrite of {engine}",
                    variant=self.variant_id,
                    engine=engine.name,
                ),
                message(
                    "leave --on out, or write a variant with ```diff engine={engine} blocks",
                    engine=engine.name,
                ),
            )
        return engine

    @cached_property
    def variant(self) -> Page | None:
        """The variant that the break is put into. Raises UsageError if it does not exist."""
        return None if self.variant_id is None else self.page(self.variant_id, "variant")

    @cached_property
    def baseline(self) -> Baseline:
        """The baseline, which is computed once for all pages of the command."""
        from harness.experiment.baseline import Baseline

        return Baseline(self.cache, own=self.own_diagnostics)

    @cached_property
    def own_diagnostics(self) -> list[Diagnostic]:
        """The diagnostics that the catalogue brings.

        Raises PageError for the first one that cannot be used; if not `strict`, it is left out.
        """
        if not self.catalogue.diagnostic_files:
            return []
        from harness.diagnostics.own import from_catalogue, read_own

        found, mistakes = read_own(self.catalogue)
        if mistakes and self.strict:
            raise mistakes[0]
        return [from_catalogue(own) for own in found]

    def show_mistakes(self) -> None:
        """Print on standard error why pages in the folders of `breaks` cannot be read."""
        if self.breaks:
            for mistake in self.catalogue.mistakes_in(self.breaks):
                complain(mistake, self.language)

    def context_for(self, page: Page) -> Context:
        """Return the context of a page: this session, or minigrad for a training break.

        Raises UsageError for a training break on another engine.
        """
        from harness.pages.front_matter import TrainingBreak

        if not isinstance(page.front, TrainingBreak):
            return self
        from harness.engines.engine import find_engine
        from harness.experiment.baseline import OpenContext

        if self.engine_name is not None:
            raise UsageError(
                message(
                    "`{page}` is a complete training run with minigrad's layers and optimizers",
                    page=page.id,
                ),
                "leave --engine out",
            )
        return OpenContext(self.catalogue, find_engine(), self.baseline)

    @cached_property
    def journal(self) -> Journal:
        """The learner's journal, in the user's data folder."""
        from harness.learn.events import open_journal

        return open_journal()

    @property
    def progress(self) -> LearnerProgress:
        """What the learner has done so far."""
        from harness.learn.progress import LearnerProgress

        return LearnerProgress(self.journal.events).with_current_ids(self.catalogue)

    @cached_property
    def language(self) -> Language:
        """The language of the output; with `json` English, unless another is set."""
        from harness.report.language import open_language

        language = open_language("en" if self.json and self.lang is None else self.lang)
        return language.with_translations(self.catalogue.phrases(language.code))

    @cached_property
    def console(self) -> Screen:
        """The console on standard output."""
        from harness.report.terminal import open_console

        return open_console(self.language)

    @property
    def is_interactive(self) -> bool:
        """Whether the command runs on a terminal and can prompt."""
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Show on a terminal that something is being done."""
        if self.json:
            yield
            return
        with self.console.status(self.console.say("Reading the engine ...")):
            yield

    def wait(self, background: Background[Result], *, first: bool = False) -> Result:
        """Return the result; until then, show on a terminal how many runs are done.

        With `first`, return the first version of the result as soon as there is one.
        """
        try:
            console = self.console
            with console.status(console.say("Running ...")) as status:
                while background.is_running():
                    if first and background.first is not None:
                        return background.first
                    status.update(console.say(background.count.progress))
        except Terminated:
            background.stop()
            raise
        return background.result()

    def run(self, function: Callable[[], Result]) -> Result:
        """Return what the function returns; on a terminal, show how many of its runs are done."""
        return function() if self.json else self.wait(Background(lambda _: function()))

    def each(self, items: Iterable[Result]) -> Iterator[Result]:
        """Yield the items; until the next one comes, show on a terminal how many runs are done.

        They are computed in this thread, with which the processes end that compute them.
        """
        if self.json:
            yield from items
            return
        iterator, count = iter(items), Count()
        while item := self._next(iterator, count):
            yield item[0]

    def _next(self, iterator: Iterator[Result], count: Count) -> list[Result]:
        """Return the next item, or nothing at the end."""
        with self.console.status(self.console.say(count.progress)) as status:
            from harness.runs.isolated import watching  # slow to import

            def note(library: str, probe: str) -> None:
                count.add(library, probe)
                status.update(self.console.say(count.progress))

            with watching(note):
                return list(islice(iterator, 1))

    def show(self, report: object, **details: object) -> None:
        """Print a report: as JSON, or with the renderer of its kind."""
        if self.json:
            print_json(report)
        else:
            from harness.report import show

            show(self.console, report, **details)

    def show_introduction(self, page: Page) -> None:
        """Before a page of the track, say where its words come from, unless page 0 was read."""
        if walking.get() or page.id not in self.catalogue.track:
            return
        from harness.learn.progress import Way

        if Way(self.catalogue, self.progress).begins_with_primer:
            line = self.console.say(
                "`harness start` begins with page 0, which introduces the words in 22 lines of "
                "code; `harness explain WORD` explains one."
            )
            self.console.print(f"{line}\n")

    def show_next(self, page: Page) -> None:
        """If the page is on the track, print the command for what follows it."""
        if not self.json and (following := self.following(page)):
            self.console.print(self.console.say("Next on the track: {command}", command=following))

    def place(self, page: Page) -> str:
        """Return where the page is on the track; empty if it is not."""
        track = list(self.catalogue.track)
        if page.id not in track:
            return ""
        number = track.index(page.id) + 1
        return self.console.say("track: page {number}/{count}", number=number, count=len(track))

    def following(self, page: Page) -> str:
        """Return the command for what follows a page of the track, as `harness start` decides it.

        It is empty for a page that is not on the track, and while `harness start` runs the pages.
        """
        if walking.get() or page.id not in self.catalogue.track:
            return ""
        from harness.learn.progress import Way, first_step

        step = first_step(Way(self.catalogue, self.progress).with_done(page.id))
        return f"{step.command}  ({self.console.say(step.why)})"

    def without_site(self, page: Page) -> DoesNotApply:
        """Return the error for a break without a site in the engine; it names breaks with one.

        What was searched for is for authors of pages, and is left to `harness break --full`.
        """
        from harness.experiment.lab import breaks_for
        from harness.experiment.patching import applies

        able = [other for other in breaks_for(self.catalogue) if applies(other, self.engine)]
        able.sort(key=lambda other: other.front.family != page.front.family)
        reason = message(
            "`{page}` cannot be put into {engine}: no code in it is written like the code that "
            "the break changes",
            page=page.id,
            engine=self.engine.name,
        )
        remedy = message(
            "{count} others can: {some}; `harness break {page} --full` shows what was searched for",
            count=len(able),
            some=some([f"`{other.id}`" for other in able], MOST_OTHERS),
            page=page.id,
        )
        return DoesNotApply(str(reason), lambda: (reason, remedy))

    def page(self, page_id: str, kind: PageKind | None = None) -> Page:
        """Return the page with that id. Raises UsageError for none or another kind."""
        return self.catalogue.page(page_id, kind)

    def titled(self, page: Page) -> Page:
        """Return the page with its title in the session's language, if it is translated."""
        path = self.catalogue.translations(page.id).get(self.language.code)
        if path is None:
            return page
        from dataclasses import replace

        from harness.core import read_text
        from harness.pages.page import read_title, split_front

        _, body, line = split_front(read_text(path), str(path))
        return replace(page, title=read_title(body, str(path), line))

    def translated(self, page: Page) -> Page:
        """Return the page in the session's language; the page itself if it is not translated.

        The console then shows the page's questions, `why` and `beware` in that language too.
        """
        path = self.catalogue.translations(page.id).get(self.language.code)
        if path is None:
            return page
        from harness.pages.translation import phrases, translated  # slow, and not for English

        shown = translated(page, path)
        self.console.say = self.console.say.with_translations(phrases(page, shown))
        return shown


def print_json(value: object) -> None:
    """Print a record or a table as JSON."""
    from harness.report import to_json

    print(to_json(value))


def collision_problem() -> EnvironmentProblem | None:
    """Return the error if another distribution has replaced, removed or hidden files of ours."""
    from breaklab import REMEDY, collision  # only where something looks wrong, or is checked

    found = collision()
    return EnvironmentProblem(verbatim(found.problem), verbatim(REMEDY)) if found else None


def complain(error: BreaklabError, say: Callable[[Message], str] = str) -> None:
    """Print problem and remedy on standard error, in English or another language."""
    text = f"harness: {say(error.complaint)}"
    if sys.stderr.isatty():
        width = _width_of_errors()
        text = "\n".join(part for line in text.split("\n") for part in _wrapped(line, width))
    print(text, file=sys.stderr)


def _width_of_errors() -> int:
    """Return the width of the terminal that shows errors, even if the output is in a pipe."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


_CODE = "    "
"""The indentation of code in an error."""

_UNBROKEN = "\0"
"""Stands for a space at which a line is not broken."""


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line of an error as lines that fit the window, broken between words.

    Code, and text between backticks, stays in one piece, so that it can be copied.
    """
    if len(line) <= width or line.startswith(_CODE):
        return [line]
    joined = re.sub(r"`[^`]*`", lambda quoted: quoted[0].replace(" ", _UNBROKEN), line)
    parts = textwrap.wrap(
        joined, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [part.replace(_UNBROKEN, " ") for part in parts]


def page_entry(page: Page) -> dict[str, object]:
    """Return the entry of a page in a list of pages, for JSON."""
    front = page.front
    return {
        "id": front.id,
        "kind": front.kind,
        "family": front.family,
        "level": front.level,
        "title": page.title,
        "path": page.path,
    }
