"""The terminal: a console, and the text, code and tables of which all reports on it are made.

Lines have at most 80 columns, and are readable without colour.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.console import (
    Console,
    ConsoleDimensions,
    ConsoleOptions,
    RenderableType,
    RenderResult,
)
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from harness.core.message import visible
from harness.core.report import SiteReport
from harness.core.vocabulary import Outcome
from harness.report.language import ENGLISH, Language
from harness.report.view import STYLES, marked, places
from harness.sandbox.signals import broken_pipe

if TYPE_CHECKING:
    from rich.syntax import Syntax

WIDTH = 80
"""The largest width that is used: short lines are easier to read."""


MOST_OF_A_REASON = 60
"""The number of characters to show of the reason why a diagnostic declined."""


class Screen(Console):
    """A console in the reader's language, on which no text can control the terminal."""

    say: Language = ENGLISH

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments of a renderable, with escapes for invisible characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return the text of segments, without trailing spaces unless it is for a terminal."""
        text = super()._render_buffer(buffer)
        return text if self.is_terminal else re.sub(" +$", "", text, flags=re.MULTILINE)

    def on_broken_pipe(self) -> None:
        """End the command if the reader of its output has ended."""
        raise broken_pipe()


def open_console(language: Language = ENGLISH, file: TextIO | None = None) -> Screen:
    """Return a console that respects NO_COLOR, pipes and narrow terminals.

    `file` is standard output by default. Markup in strings is not interpreted.
    """
    console = Screen(
        file=file or sys.stdout,
        highlight=False,
        soft_wrap=False,
        markup=False,
        emoji=False,
        theme=Theme({"markdown.code": "bold", "markdown.code_block": "none"}),
    )
    if console.is_dumb_terminal:  # Rich assumes 80 columns
        columns, rows = shutil.get_terminal_size()
        console.size = ConsoleDimensions(columns, rows)
    console.width = min(console.width or WIDTH, WIDTH)
    console.say = language
    return console


class ProgressBar:
    """A progress bar on standard error, if that is a terminal.

    It shows the number of finished items, the estimated time for the rest, and the last item.
    """

    def __init__(self) -> None:
        from rich.progress import (  # slow to import, and most commands show no bar
            BarColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

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


# ----- Text -----


def outcome_text(outcome: Outcome, say: Language = ENGLISH) -> Text:
    """Return an outcome with its sign and style."""
    return Text(marked(outcome, say), STYLES[outcome][1])


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 page`, `2 pages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def encodable(console: Console, text: str, instead: str) -> str:
    """Return the text if the console's encoding has its characters, and otherwise the other one."""
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return instead
    return text


# ----- Code -----


def show_diff(console: Screen, diff: str, sites: Sequence[SiteReport]) -> None:
    """Print the change in the engine's code, and where it is."""
    for file, scope, lines in places(sites):
        where = scope or console.say("the module")
        line = console.say("{file}, line {lines}, in {scope}:", file=file, lines=lines, scope=where)
        console.print(Text(line))
    show_code(console, diff, "diff")


CONTINUED = "↪ "
"""The mark before the rest of a line of code that is wider than the window."""


def show_code(console: Console, code: str, lexer: str, indent: int = 0) -> None:
    """Print code and an empty line: in colour on a terminal, where marks show wrapped lines."""
    if not console.is_terminal:
        console.print(Text(textwrap.indent(code.rstrip(), " " * indent)), soft_wrap=True)
        console.print()
        return
    text = highlighted(code, lexer).highlight(code)
    text.rstrip()
    for line in text.split("\n"):
        for part in wrapped(console, line, indent):
            console.print(part)
    console.print()


def highlighted(code: str, lexer: str) -> Syntax:
    """Return code in the terminal's own colours, legible on dark and light backgrounds."""
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Operator
    from rich.syntax import ANSISyntaxTheme, Syntax  # slow to import, and not needed for pipes

    styles = {
        Comment: "dim",
        Generic.Deleted: "red",
        Generic.Heading: "bold",
        Generic.Inserted: "green",
        Generic.Subheading: "bold magenta",
        Keyword: "magenta",
        Literal.String: "green",
        Name.Class: "bold",
        Name.Decorator: "magenta",
        Name.Function: "bold",
        Operator.Word: "magenta",
    }
    theme = ANSISyntaxTheme({token: Style.parse(style) for token, style in styles.items()})
    return Syntax(code, lexer, theme=theme, background_color="default", word_wrap=True, padding=1)


def wrapped(console: Console, line: Text, indent: int) -> Iterator[Text]:
    """Yield a line of code as lines that fit the window, with a mark before the rest of it."""
    mark = encodable(console, CONTINUED, "> ")
    cuts = _cuts(line.plain, console.width - indent, len(mark))
    for number, part in enumerate(line.divide(cuts)):
        yield Text(" " * indent + mark * bool(number), part.style).append_text(part)


def _cuts(line: str, width: int, mark: int) -> list[int]:
    """Return where to cut a line of code, after a space if possible; a mark is before the rest."""
    cuts, start, room = [], 0, max(width, 2 * mark)
    while len(line) - start > room:
        space = line.rfind(" ", start + room // 2, start + room)
        start = space + 1 if space >= 0 else start + room
        room = max(width, 2 * mark) - mark
        cuts.append(start)
    return cuts


# ----- Tables without lines -----


def columns(gap: int, *, headings: bool = False) -> Table:
    """Return an empty table without lines, with this many spaces between its columns."""
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=headings)


NARROW = 40
"""The width below which a text is shown below its label, where its words have room."""


@dataclass(frozen=True)
class LabelRows:
    """Texts beside their labels, or below them in a narrow window."""

    rows: Mapping[str, str]
    width: int | None = None
    """The columns of the labels; by default those of the longest."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows; a word that is too long for a line is cut, and nothing is left out."""
        if options.max_width < NARROW:
            for label, text in self.rows.items():
                yield Text(label, "bold")
                yield Padding(Text(text, overflow="fold"), (0, 0, 0, 2))
            return
        table = columns(2)
        table.add_column(style="bold", no_wrap=True, width=self.width)
        table.add_column(ratio=1, overflow="fold")
        for label, text in self.rows.items():
            table.add_row(label, Text(text))
        yield table
