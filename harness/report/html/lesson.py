"""What is shown of a page; all of it is from a run or from the page's text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from harness.core.report import Report, RunReport
from harness.core.run import CREATED
from harness.core.vocabulary import Outcome
from harness.diagnostics import DIAGNOSTICS
from harness.experiment.description import RunPair
from harness.experiment.lab import Recorded
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.html.comparison import Tiles, compare
from harness.report.html.curves import curves
from harness.report.html.drawing import Picture, draw
from harness.report.html.scene import Scene, make_scene
from harness.report.html.syntax import highlight
from harness.report.language import ENGLISH, Language
from harness.report.terminal import (
    STYLES,
    brief,
    changed_blocks,
    labels_of,
    scope_at,
    unexplained,
)

LARGEST = 200_000
"""Characters of all pictures of a page; the other probes are in its table."""

MOST_NODES, MOST_VISITS = 40, 80
"""The most nodes and visits of a walk that is drawn."""

PREDICTED: tuple[Outcome, ...] = ("crash", "silent-corruption", "disguised-correct")
"""The outcomes that a learner predicts."""


@dataclass(frozen=True)
class Row:
    """A probe in the table: one outcome for both engines, and what comes out."""

    probe: str
    label: str
    outcome: Outcome
    sign: str
    word: str
    in_place: str
    result: str
    reason: str
    code: str
    asked: bool
    """Whether the learner predicts it."""


@dataclass(frozen=True)
class Stage:
    """A probe to step through."""

    probe: str
    label: str
    loss: str
    code: str
    pictures: tuple[Picture, Picture]
    scene: Scene
    tiles: Sequence[Tiles]
    fingerprint: str
    divergence: str
    sentences: tuple[Sequence[str], Sequence[str]]
    parts_at: int
    """The step at which the two pictures first differ; -1 if they never do."""
    mark: str
    """The node, or the node and the operand (`2.1`), to mark."""

    @property
    def size(self) -> int:
        """The characters that its pictures take."""
        drawn = [picture.base + "".join(picture.steps) for picture in self.pictures]
        return sum(map(len, drawn)) + sum(
            len(tiles.expected + tiles.actual + tiles.difference) for tiles in self.tiles
        )

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.scene.forward + self.scene.backward


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
        if engine.variant:
            return self.say("{engine} with {variant}", engine=engine.name, variant=engine.variant)
        return engine.name if engine.foreign else ""

    @property
    def unexplained(self) -> str:
        """How the runs end, if not as the page explains."""
        return unexplained(self.report, self.say)

    @property
    def lang(self) -> Markup:
        """The attribute that marks the page's prose as English, if it is not translated."""
        original = self.page is self.recorded.page and self.say.code != "en"
        return Markup(' lang="en"' if original else "")

    @cached_property
    def _probes(self) -> dict[str, Probe]:
        return {probe.name: probe for probe in self.recorded.probes}

    @cached_property
    def _labels(self) -> dict[str, str]:
        return labels_of(self.recorded.probes)

    def _label(self, run: RunReport) -> str:
        return self._labels.get(run.probe, run.probe)

    def _code(self, run: RunReport) -> str:
        return self._probes[run.probe].code if run.probe in self._probes else ""

    @cached_property
    def change(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """The changed lines: file and line, scope, and each line with its sign, as HTML."""
        return [
            (f"{file}:{number}", scope_at(self.report.sites, file, number), _highlighted(code))
            for file, number, code in changed_blocks(self.report.diff)
        ]

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each probe: that of its worst run."""
        in_place = {(run.probe, run.loss): run.outcome for run in self.report.in_place}
        rows = []
        for run in _worst(self.report.runs):
            other = in_place.get((run.probe, run.loss))
            rows.append(
                Row(
                    probe=run.probe,
                    label=self._label(run),
                    outcome=run.outcome,
                    sign=STYLES[run.outcome][0],
                    word=self.say(run.outcome),
                    in_place=f"{STYLES[other][0]} {self.say(other)}" if other else "",
                    result=self.say(brief(run.reason)),
                    reason=self.say(run.evidence),
                    code=self._code(run),
                    asked=run.outcome in PREDICTED,
                )
            )
        return rows

    @cached_property
    def stages(self) -> list[Stage]:
        """The probes that can be stepped through, the most telling first."""
        stages = filter(None, map(self._stage, _worst(self.report.runs)))
        return _fitting(sorted(stages, key=lambda stage: stage.parts_at < 0))

    def _stage(self, run: RunReport) -> Stage | None:
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
        parting = scene.parting
        mark = "" if parting is None else str(parting.node)
        if parting is not None and parting.operand is not None:
            mark += f".{parting.operand}"
        prefix = f"{self.page.id}-{run.probe}"
        return Stage(
            probe=run.probe,
            label=self._label(run),
            loss=run.loss or "",
            code=self._code(run),
            pictures=draw(scene, prefix),
            scene=scene,
            tiles=self._tiles(pair),
            fingerprint=self.say(run.fingerprint) if run.fingerprint else "",
            divergence=self.say(run.first_divergence) if run.first_divergence else "",
            sentences=(
                [self.say(scene.clean.told(i)) for i in range(len(scene.clean.steps))],
                [self.say(scene.broken.told(i)) for i in range(len(scene.broken.steps))],
            ),
            parts_at=_parts_at(scene),
            mark=mark,
        )

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
        for run in _worst(self.report.runs):
            pair = self.recorded.pairs[run.probe, run.loss]
            expected, actual = pair.clean.losses, pair.broken.losses
            if min(len(expected), len(actual)) > 2:
                picture = curves(expected, actual, names)
                trainings.append((self._label(run), picture))
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


def _worst(runs: Sequence[RunReport]) -> list[RunReport]:
    """Return one run for each probe: a wrong one if there is any."""
    chosen: dict[str, RunReport] = {}
    for run in runs:
        old = chosen.get(run.probe)
        if old is None or (_is_wrong(run) and not _is_wrong(old)):
            chosen[run.probe] = run
    return list(chosen.values())


def _is_wrong(run: RunReport) -> bool:
    return run.outcome in ("crash", "silent-corruption")


def _parts_at(scene: Scene) -> int:
    parting = scene.parting
    if parting is None:
        return -1
    nodes = list(scene.clean.by_index)
    if not parting.in_backward:
        return nodes.index(parting.node)
    visits = [step.index for step in scene.clean.steps]
    return scene.forward + visits.index(parting.node)
