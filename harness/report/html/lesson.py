"""What is shown of a page; all of it is from a run or from the page's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError
from html import escape
from itertools import groupby
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup
from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from harness.core.report import Report, RunReport
from harness.core.run import CREATED
from harness.core.vocabulary import Outcome
from harness.diagnostics import DIAGNOSTICS
from harness.experiment.description import RunPair
from harness.experiment.lab import Recorded
from harness.pages.page import Page
from harness.report.html.charts import Tiles, compare, loss_curves
from harness.report.html.graph import Picture, Scene, draw, make_scene
from harness.report.language import ENGLISH, Language
from harness.report.view import (
    Change,
    Row,
    changes_of,
    engine_name,
    reason_here,
    unexplained,
    worst_rows,
)

LARGEST = 200_000
"""Characters of all pictures of a page; the other probes are in its table."""

MOST_NODES, MOST_VISITS = 40, 80
"""The most nodes and visits of a walk that is drawn."""

PREDICTED: tuple[Outcome, ...] = ("crash", "silent-corruption", "disguised-correct")
"""The outcomes that a learner predicts."""


@dataclass(frozen=True)
class Stage:
    """A probe to step through."""

    row: Row
    scene: Scene
    pictures: tuple[Picture, Picture]
    tiles: Sequence[Tiles]

    @property
    def size(self) -> int:
        """The characters that its pictures take."""
        drawn = [picture.base + "".join(picture.steps) for picture in self.pictures]
        return sum(map(len, drawn)) + sum(
            len(tiles.expected + tiles.actual + tiles.difference) for tiles in self.tiles
        )


@dataclass(frozen=True)
class Lesson:
    """A page with everything that is shown of it."""

    recorded: Recorded
    page: Page
    """The page, in the reader's language."""
    say: Language = ENGLISH
    place: str = ""
    """Its place on the track."""

    @property
    def report(self) -> Report:
        """The report on it."""
        return self.recorded.report

    @property
    def elsewhere(self) -> str:
        """The engine that was tested; empty if it is the one that the page is about."""
        engine = self.report.engine
        return engine_name(engine, self.say) if engine.foreign or engine.variant else ""

    @property
    def unexplained(self) -> str:
        """How the runs end, if not as the page explains."""
        return unexplained(self.report, self.say)

    @property
    def lang(self) -> Markup:
        """The attribute that marks the page's prose as English, if it is not translated."""
        original = self.page is self.recorded.page and self.say.code != "en"
        return Markup(' lang="en"' if original else "")

    def reason(self, run: RunReport) -> str:
        """Return why a run ends as it does on its input."""
        probe = next(probe for probe in self.recorded.probes if probe.name == run.probe)
        return reason_here(run, self.report, self.say, "" if probe.takes_lib else probe.formula)

    def code(self, run: RunReport) -> str:
        """Return the code of a run's probe."""
        return next((p.code for p in self.recorded.probes if p.name == run.probe), "")

    @cached_property
    def changes(self) -> list[tuple[Change, list[tuple[str, str]]]]:
        """The changed lines: where they are, and each line as its sign and HTML."""
        return [(change, _highlighted(change.code)) for change in changes_of(self.report)]

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each probe: that of its worst run."""
        return worst_rows(self.report, self.recorded.probes)

    @cached_property
    def stages(self) -> list[Stage]:
        """The probes that can be stepped through, the most telling first."""
        stages = filter(None, map(self._stage, self.rows))
        return _fitting(sorted(stages, key=lambda stage: stage.scene.parts_at < 0))

    def _stage(self, row: Row) -> Stage | None:
        run = row.run
        pair = self.recorded.pairs[run.probe, run.loss]
        if not pair.clean.trace or not pair.broken.trace:
            return None
        scene = make_scene(pair.clean.trace, pair.broken.trace, pair.clean.leaves)
        try:
            nodes = len(scene.clean.by_index), len(scene.broken.by_index)
        except CycleError:  # there is nothing to draw
            return None
        if max(nodes) > MOST_NODES or scene.backward > MOST_VISITS:
            return None
        pictures = draw(scene, f"{self.page.id}-{run.probe}")
        return Stage(row, scene, pictures, self._tiles(pair))

    def _tiles(self, pair: RunPair) -> list[Tiles]:
        tiles = []
        for name, right in pair.clean.gradients.items():
            wrong = pair.broken.gradients.get(name)
            if right is None or wrong is None or (right == wrong and CREATED.fullmatch(name)):
                continue
            tiles.append(compare(name, right.numpy(), wrong.numpy(), self.say))
        return tiles

    @cached_property
    def trainings(self) -> list[tuple[str, str]]:
        """The probes that train: what each computes, and both curves of its loss."""
        trainings = []
        names = self.say("unbroken"), self.say("broken")
        for row in self.rows:
            pair = self.recorded.pairs[row.run.probe, row.run.loss]
            expected, actual = pair.clean.losses, pair.broken.losses
            if min(len(expected), len(actual)) > 2:
                trainings.append((row.name, loss_curves(expected, actual, names)))
        return trainings

    @cached_property
    def caught(self) -> list[tuple[str, str]]:
        """The diagnostics that raised an alarm: name, and the first message."""
        alarms: dict[str, str] = {}
        for run in self.report.runs:
            for name in run.caught_by:
                alarms.setdefault(name, self.say(run.alarms[name]))
        return [(d.name, alarms[d.name]) for d in DIAGNOSTICS if d.name in alarms]

    @cached_property
    def missed(self) -> list[tuple[str, str]]:
        """The diagnostics that looked at a wrong run and saw nothing: name, and what it sees."""
        caught = {name for name, _ in self.caught}
        missed = {name for run in self.report.runs for name in run.missed_by} - caught
        return [(d.name, self.say(d.sees)) for d in DIAGNOSTICS if d.name in missed]

    @cached_property
    def sections(self) -> list[tuple[str, str]]:
        """The sections of the page, as headings and HTML."""
        headings = self.page.headings
        return [(heading, markdown(self.page.section(heading))) for heading in headings]


def markdown(text: str) -> str:
    """Return Markdown as HTML; HTML in it stays text, and links to other files are left out."""
    html = str(_parser().render(text))
    return html.replace("<pre>", '<pre tabindex="0">')  # it scrolls, with the keyboard too


def inline(text: str) -> str:
    """Return a sentence as HTML, with what is between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parser.add_render_rule("link_open", _link_open)
    return parser


def _link_open(_: RendererHTML, tokens: Sequence[Token], index: int, *__: object) -> str:
    """Return the start of a link: to a page in this file, or to an address on the web."""
    target = str(tokens[index].attrs.get("href", ""))
    if target.startswith(("https://", "http://")):
        return f'<a href="{escape(target)}" rel="noreferrer">'
    return f'<a href="#{escape(Path(target).stem)}">' if target.endswith(".md") else "<a>"


def _highlighted(change: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sign and the code of changed lines; old and new code are highlighted apart."""
    html = {
        sign: iter(highlight([row[2:] for row in change if row[0] == sign])) for sign in ("-", "+")
    }
    return [(row[0], next(html[row[0]])) for row in change]


def _fitting(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages whose pictures a page has room for, chosen in this order."""
    room, fitting = LARGEST, []
    for stage in stages:
        if stage.size <= room:
            room -= stage.size
            fitting.append(stage)
    return fitting


# ----- Code, with its syntax marked for the style sheet -----

CLASSES = (
    (Keyword, "key"),
    (Operator.Word, "key"),
    (String, "str"),
    (Number, "lit"),
    (Comment, "com"),
    (Name.Builtin, "def"),
    (Name.Class, "def"),
    (Name.Decorator, "def"),
    (Name.Function, "def"),
)
"""The kinds of tokens that are marked, with the class of each."""


def highlight(lines: Sequence[str]) -> list[str]:
    """Return lines of code as HTML, in which the only tags are `span`s with a class.

    The lines need not be whole statements, nor valid Python; none contains a line break.
    """
    html = [""]
    for name, pieces in groupby(_pieces("\n".join(lines)), key=lambda piece: piece[0]):
        first, *others = escape("".join(text for _, text in pieces)).split("\n")
        html[-1] += _marked(first, name)
        html += [_marked(line, name) for line in others]
    return html


def _pieces(code: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each token."""
    for _, kind, text in _lexer().get_tokens_unprocessed(code):
        yield next((name for ancestor, name in CLASSES if kind in ancestor), ""), text


def _marked(text: str, name: str) -> str:
    return f'<span class="{name}">{text}</span>' if name and text else text


@cache
def _lexer() -> Lexer:
    return PythonLexer()
