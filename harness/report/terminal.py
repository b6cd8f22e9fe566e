"""Reports, pages and listings on a terminal: 80 columns, and readable without colour."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harness.core.message import Kind, Message
from harness.core.report import EngineReport, PredictionReport, Report, RunReport, SiteReport
from harness.core.vocabulary import OUTCOMES, Loss, Outcome, shortened, visible
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.language import ENGLISH, Language
from harness.sandbox.signals import broken_pipe

if TYPE_CHECKING:
    from harness.experiment.patching import PatchedEngine
    from harness.training.record import TrainingReport

WIDTH = 80
"""The largest width that is used: short lines are easier to read."""

MOST_REASONS = 2
"""If more probes than this are left out, only `--full` shows the reasons."""

MOST_OF_A_REASON = 60
"""The number of characters to show of the reason why a diagnostic declined."""

STYLES: dict[Outcome, tuple[str, str]] = {
    "silent-corruption": ("≠", "bold magenta"),
    "crash": ("✗", "bold red"),
    "disguised-correct": ("=", ""),
    "convention": ("~", ""),
    "not-reached": ("·", ""),
    "misplaced": ("?", "bold red"),
    "does-not-apply": ("-", ""),
}
"""The sign and the style of each outcome: legible on dark and on light, and without colour."""


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
        file=file or sys.stdout, highlight=False, soft_wrap=False, markup=False, emoji=False
    )
    if console.is_dumb_terminal:  # Rich assumes 80 columns
        columns, rows = shutil.get_terminal_size()
        console.size = ConsoleDimensions(columns, rows)
    console.width = min(console.width or WIDTH, WIDTH)
    console.say = language
    return console


def outcome_text(outcome: Outcome, say: Language = ENGLISH) -> Text:
    """Return an outcome with its sign and style."""
    sign, style = STYLES[outcome]
    return Text(f"{sign} {say(outcome)}", style)


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 page`, `2 pages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show_place(console: Screen, page: Page, engine: EngineReport) -> None:
    """Print which page is put into which engine."""
    say = console.say
    where = engine.name
    if engine.variant:
        where = say("{engine} with {variant}", engine=engine.name, variant=engine.variant)
    line = say("{page}, on {engine}", page=page.id, engine=where)
    console.print(Text(f"{line}\n"))


def show_first_words(
    console: Screen, page: Page, place: str = "", *, hypothesis: bool = True
) -> None:
    """Print what is known before anything is computed: the title.

    If questions follow, also print the hypothesis and the page's change.
    """
    show_title(console, page, place)
    if not hypothesis:
        return
    console.print()
    show_first_section(console, page)
    if changes := page.diffs("minigrad"):
        show_code(console, "\n".join(change.text.rstrip() for change in changes), "diff")


def show_first_section(console: Console, page: Page) -> None:
    """Print the first section of a page, in any language."""
    if heading := next(iter(page.headings), None):
        show_section(console, heading, page.section(heading))


def show_section(console: Console, heading: str, markdown: str) -> None:
    """Print a section: its heading, and its Markdown indented."""
    console.print(Text(heading, "bold"))
    console.print(Padding(_markdown(markdown), (0, 0, 1, 2)))


def show_section_like(console: Console, heading: str, page: Page, original: Page) -> None:
    """Print the section of a page that has this heading in the original; nothing if it is empty."""
    title, text = page.section_like(heading, original)
    if text:
        show_section(console, title, text)


def _markdown(text: str) -> RenderableType:
    """Return Markdown as it is shown; of a link to a file only the text, since nothing opens it."""
    from rich.markdown import Markdown  # slow to import, and not needed by most commands

    shown = Markdown(text)
    for token in shown.parsed:
        kept, closed = [], set[int]()
        for child in token.children or ():
            to_file = not str(child.attrs.get("href", "https:")).startswith(("https:", "http:"))
            if child.type == "link_open" and to_file:
                closed.add(child.level)
            elif child.type == "link_close" and child.level in closed:
                closed.discard(child.level)
            else:
                kept.append(child)
        token.children = kept if token.children is not None else None
    return shown


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
    from rich.syntax import Syntax  # slow to import, and not needed for pipes

    text = Syntax(code, lexer, theme="ansi_dark", background_color="default").highlight(code)
    text.rstrip()
    for line in text.split("\n"):
        for part in _wrapped(console, line, indent):
            console.print(part)
    console.print()


def _wrapped(console: Console, line: Text, indent: int) -> Iterator[Text]:
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


def encodable(console: Console, text: str, instead: str) -> str:
    """Return the text if the console's encoding has its characters, and otherwise the other one."""
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return instead
    return text


def places(sites: Sequence[SiteReport]) -> Iterator[tuple[str, str, str]]:
    """Yield the sites by file and scope, each with its lines; the scope of a module is empty."""
    for (file, scope), group in groupby(sites, key=lambda site: (site.file, site.scope)):
        yield file, scope, ", ".join(dict.fromkeys(str(site.line) for site in group))


# ----- The one-screen report -----

ABOVE = 24
"""The lines of a window in which the change, the table and Why have to fit."""

LONGEST = 34
"""The most lines of a report."""

MOST_OF_A_CHANGE = 6
"""The most lines of code to show of the change."""

MOST_OF_AN_INPUT = 26
"""The most characters to show of what a probe computes."""

FEWEST_ROWS = 3
"""The table always has at least this many rows."""

BRIEF = {
    Kind.SHAPE: "{actual}, not {expected}",
    Kind.ARRAY: "{actual}, not {expected}",
    Kind.ENTRIES: "{count} of {size} values wrong",
    Kind.AFTER_STEP: "{difference}",
    Kind.ENDS_LOWER: "loss {actual}, not {expected}",
    Kind.ENDS: "loss {actual}, not {expected}",
    Kind.STEPS: "{actual} steps, not {expected}",
    Kind.NO_GRADIENT: "{leaf} has no gradient",
    Kind.ONE_NOT_COMPARED: "{correct}; 1 leaf not compared",
    Kind.NOT_COMPARED: "{correct}; {count} leaves not compared",
    Kind.EXTRA_GRADIENT: "{leaf} has a gradient",
    Kind.MUTATED: "{name} was changed",
    Kind.GENERATOR: "the global generator moved",
    Kind.ACCEPTED: "no longer refused",
    Kind.REFUSED: "refused, as it should be",
    Kind.REFUSED_ELSEWHERE: "refused for another reason",
    Kind.REFUSED_AFTER: "{difference}",
    Kind.AT_KINK: "another choice at a kink",
    Kind.FAILED_SAYING: "{error} in {phase}",
    Kind.FAILED_AT: "{error} in {phase}",
    Kind.FAILED_AT_SAYING: "{error} in {phase}",
    Kind.FAILED_AFTER: "{failure}",
    Kind.FAILED_OTHERWISE: "{failure}",
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.RIGHT: "right",
    Kind.RIGHT_LOG: "right at every step",
    Kind.HIDDEN: "right: hidden here",
    Kind.CANCELLED: "right: the error cancels",
    Kind.WRONG_INSIDE: "right, but wrong inside",
    Kind.ROUNDING: "right up to rounding",
    Kind.NOTHING_TO_REFUSE: "right: nothing to refuse",
    Kind.ANOTHER_WAY: "right, computed another way",
    Kind.NOTHING_WRONG: "right",
}
"""What the table shows in place of sentences of these kinds."""


@dataclass(frozen=True)
class _Row:
    """A row of the table: a probe, or a probe under one loss if its losses end differently."""

    probe: str
    losses: tuple[Loss | None, ...]
    name: str
    """What the probe computes, or its name."""
    loss: str
    """The loss, in a row for one of several; otherwise empty."""
    run: RunReport
    in_place: Outcome | None
    mark: str
    """What was predicted, if the prediction was wrong; "ok" if it was right."""

    def label(self, width: int | None = None) -> str:
        """Return the name and the loss; of a long name, only as much as fits the width."""
        loss = f", {self.loss}" if self.loss else ""
        return (shortened(self.name, width - len(loss)) if width else self.name) + loss

    @property
    def signature(self) -> tuple[object, ...]:
        """What this row shows: rows with the same signature show the same."""
        run = self.run
        telling = run.outcome, self.in_place, run.kind, run.loss is None, run.better_than_correct
        return *telling, self.mark not in ("", "ok")


def show_report(
    console: Screen,
    report: Report,
    probes: Sequence[Probe],
    *,
    predictions: Sequence[PredictionReport] = (),
    following: str = "",
) -> None:
    """Print the report on one screen, below the title: the change, the table, and what to do next.

    `following` is what to type for the next page of the track.
    """
    show_change(console, report)
    show_outcomes(console, report, probes, predictions)
    show_lessons(console, report, predictions, following)


def show_title(console: Screen, page: Page, place: str = "") -> None:
    """Print the title of a page, and its place on the track."""
    title, where = Text(page.title, "bold"), Text(place)
    if place and title.cell_len + where.cell_len + 2 <= console.width:
        title.append(" " * (console.width - title.cell_len - where.cell_len)).append_text(where)
        where = Text()
    console.print(title)
    if where.plain:
        console.print(where)


def show_engine(console: Screen, page: Page, engine: EngineReport) -> None:
    """Print the engine, unless it is minigrad itself."""
    if engine.foreign or engine.variant:
        show_place(console, page, engine)


def show_outcomes(
    console: Screen,
    report: Report,
    probes: Sequence[Probe],
    predictions: Sequence[PredictionReport] = (),
) -> None:
    """Print the change, what it does to each probe, and why: the first 24 lines, with the title."""
    say = console.say
    change = _change(console, report)
    rows = _rows(report, probes, predictions, say)
    shown_rows = [row for row in rows if row.run.outcome != "not-reached"]
    notes = [*_notes(report, rows, say), *_problems(report, say)]
    why, beware = _advice(report, say, "why"), _advice(report, say, "beware")
    above = 2 + len(change) + 2 + _height(console, *notes) + 1 + _height(console, why)
    below = _height(console, beware) + len(ADVICE) + 3
    most = max(FEWEST_ROWS, min(ABOVE - above, LONGEST - above - below))
    kept = _most_telling(shown_rows, most)
    if kept:
        console.print(_table(kept, console, report))
    if rest := [row for row in shown_rows if row not in kept]:
        counts = Counter(row.run.outcome for row in rest)
        each = ", ".join(table_word(outcome, str(n), say) for outcome, n in counts.items())
        console.print(say("{count} more, see --full: {outcomes}", count=len(rest), outcomes=each))
    for note in notes:
        console.print(note)
    console.print()
    for advice in filter(None, (why, beware)):
        console.print(advice)


def show_lessons(
    console: Screen,
    report: Report,
    predictions: Sequence[PredictionReport] = (),
    following: str = "",
) -> None:
    """Print what caught the break and what missed it, the check to write, and what comes next."""
    say = console.say
    for problem in _unlike_claims(report, say):
        console.print(problem)
    if report.missing:  # known only here: the libraries run last
        names = _some(report.missing, say)
        console.print(Text(say("Not available, see --full: {names}", names=names)))
    lines = {label: _advice(report, say, label) for label in ("caught", "missed", "write")}
    if predictions:
        right = sum(prediction.right for prediction in predictions)
        score = say("{count} of {total} right", count=right, total=len(predictions))
        if any(not (prediction.question or prediction.right) for prediction in predictions):
            score = say("{score}; a letter before a row is a prediction that missed", score=score)
        lines["you"] = _labelled(say("You"), score, say)
    outcomes = {run.outcome for run in report.runs}
    words = (table_word(outcome, "", ENGLISH) for outcome in WORDS if outcome in outcomes)
    word = next(words, "outcome").strip().lower()  # in English, which any language accepts
    more = [
        say("--full  the whole report"),
        f"harness explain {word}",
        say("harness show {page}  the page", page=report.break_),
    ]
    room = console.width - _label_width(say)
    lines["more"] = _labelled(say("More"), "\n".join(_joined(more, room)), say)
    if following:
        lines["next"] = _labelled(say("Next"), following, say)
    for line in filter(None, lines.values()):
        console.print(line)


def show_advice(console: Screen, report: Report | TrainingReport) -> None:
    """Print what the page says in the report, which is about our own engine."""
    lines = [_advice(report, console.say, label) for label in ("why", "beware", "write")]
    for line in filter(None, lines):
        console.print(line)
    if any(lines):
        console.print()


# ----- The change -----


def show_change(console: Screen, change: PatchedEngine | Report) -> None:
    """Print the changed lines of the engine, and where they are."""
    for line in _change(console, change):
        console.print(line, no_wrap=True, overflow="ellipsis")
    console.print()


def _change(console: Screen, report: PatchedEngine | Report) -> list[Text]:
    """Return the changed lines of the engine, with the places; few lines in a wide window."""
    say = console.say
    blocks = changed_blocks(report.diff)
    lines: list[Text] = []
    others: list[str] = []
    for file, number, code in blocks:
        scope = scope_at(report.sites, file, number)
        place = f"{file}:{number} {scope}".rstrip()
        if lines and len(lines) + 1 + len(code) > MOST_OF_A_CHANGE + 1:
            others.append(scope or file)
            continue
        lines.append(Text(place))
        for row in code[:MOST_OF_A_CHANGE]:
            code_line = Text(row, "red" if row.startswith("-") else "green")
            lines += _wrapped(console, code_line, indent=2)
        if len(code) > MOST_OF_A_CHANGE:
            more = len(code) - MOST_OF_A_CHANGE
            rest = say("... 1 more line, see --full") if more == 1 else ""
            rest = rest or say("... {count} more lines, see --full", count=more)
            lines.append(Text(f"  {rest}"))
    if others:
        names = ", ".join(dict.fromkeys(others))
        lines.append(Text(say("and more in {places}, see --full", places=names)))
    return lines


def changed_blocks(diff: str) -> list[tuple[str, int, list[str]]]:
    """Return the runs of changed lines in a unified diff, each with its file and first line."""
    blocks: list[tuple[str, int, list[str]]] = []
    file, number, inside = "", 0, False
    for row in diff.splitlines():
        if row.startswith("+++ b/"):
            file = row.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -(\d+)", row):
            number, inside = int(hunk[1]), False
        elif row.startswith(("-", "+")) and not row.startswith("--- a/"):
            if not inside:
                blocks.append((file, number, []))
            blocks[-1][2].append(row)
            number, inside = number + row.startswith("-"), True
        else:
            number, inside = number + 1, False
    return [(file, number, _dedented(code)) for file, number, code in blocks]


def _dedented(code: Sequence[str]) -> list[str]:
    """Return changed lines without their common indentation, and without empty ones."""
    written = [row for row in code if row[1:].strip()]
    texts = textwrap.dedent("\n".join(row[1:] for row in written)).splitlines()
    return [f"{row[0]} {text}" for row, text in zip(written, texts, strict=True)]


def scope_at(sites: Sequence[SiteReport], file: str, line: int) -> str:
    """Return the scope of the site nearest to a line."""
    near = [site for site in sites if site.file == file]
    return min(near, key=lambda site: abs(site.line - line)).scope if near else ""


# ----- The table -----


def _rows(
    report: Report, probes: Sequence[Probe], predictions: Sequence[PredictionReport], say: Language
) -> list[_Row]:
    in_place = {(run.probe, run.loss): run.outcome for run in report.in_place}
    labels = labels_of(
        [probe for probe in probes if any(r.probe == probe.name for r in report.runs)]
    )
    rows = []
    for probe, group in groupby(report.runs, key=lambda run: run.probe):
        runs = list(group)
        ends = {(run.outcome, in_place.get((probe, run.loss))) for run in runs}
        alike = [runs] if len(ends) == 1 else [[run] for run in runs]
        for merged in alike:
            run, losses = merged[-1], tuple(run.loss for run in merged)
            name = labels.get(probe, probe)
            loss = say(run.loss or "") if len(alike) > 1 else ""
            mark = _mark(probe, losses, predictions, say)
            outcome = in_place.get((probe, run.loss))
            rows.append(_Row(probe, losses, name, loss, run, outcome, mark))
    return rows


def labels_of(probes: Sequence[Probe]) -> dict[str, str]:
    """Return what each probe computes; its name if that is long, not unique, or needs helpers."""
    formulas = {probe.name: "" if probe.takes_lib else probe.formula for probe in probes}
    counts = Counter(formulas.values())
    fitting = {f for f, count in counts.items() if count == 1 and 0 < len(f) <= MOST_OF_AN_INPUT}
    return {name: f if f in fitting else name for name, f in formulas.items()}


def _mark(
    probe: str,
    losses: Sequence[Loss | None],
    predictions: Sequence[PredictionReport],
    say: Language,
) -> str:
    for prediction in predictions:
        about = prediction.probe == probe and prediction.loss in (None, *losses)
        if about and not prediction.question:
            return "ok" if prediction.right else say(prediction.predicted)[0]
    return ""


def _most_telling(rows: Sequence[_Row], most: int) -> list[_Row]:
    """Return at most this many rows, in order, preferring rows that differ, then wrong results."""
    if len(rows) <= most:
        return list(rows)
    seen: Counter[tuple[object, ...]] = Counter()
    ranks = {}
    for position, row in enumerate(rows):
        ranks[position] = (seen[row.signature], OUTCOMES.index(row.run.outcome), position)
        seen[row.signature] += 1
    kept = sorted(sorted(ranks, key=lambda position: ranks[position])[: most - 1])
    return [rows[position] for position in kept]


def _table(rows: Sequence[_Row], console: Screen, report: Report) -> Text:
    say, in_place, engine = console.say, bool(report.in_place), report.engine
    marked = any(row.mark for row in rows)
    cells = [
        [
            *([Text(row.mark)] if marked else []),
            Text(row.label()),
            _cell(row.run.outcome, say),
            *([_cell(row.in_place, say) if row.in_place else Text()] if in_place else []),
        ]
        for row in rows
    ]
    headings = [
        *([say("you")] if marked else []),
        say("input"),
        shortened(engine.name, MOST_OF_A_NAME),
    ]
    heading = say(NARROW_HEADING if console.width < NARROW else IN_PLACE_HEADING)
    headings += [heading] if in_place else []
    widths = [
        max(len(heading), *(row[column].cell_len for row in cells))
        for column, heading in enumerate(headings)
    ]
    last, label = say("what comes out"), headings.index(say("input"))
    gap = 1 if console.width < NARROW else GAP
    rest = console.width - sum(widths) - gap * len(widths)
    cut = 0
    if rest < ENOUGH_FOR_A_RESULT:  # a narrow window
        cut = min(ENOUGH_FOR_A_RESULT - rest, max(0, widths[label] - LEAST_OF_AN_INPUT))
    room = rest + cut
    results = [_result(row.run, say, room, required=not engine.foreign) for row in rows]
    longest = max(len(last), *(result.cell_len for result in results))
    cut = max(0, min(cut, longest - rest))  # what the results do not need
    widths[label], rest = widths[label] - cut, rest + cut
    lines = [[*map(Text, headings), Text(last)]]
    for row, shown, result in zip(rows, cells, results, strict=True):
        shown[label] = Text(row.label(widths[label]))
        lines.append([*shown, result])
    widths.append(max(rest, 1))
    return Text("\n", no_wrap=True).join(_line(line, widths, gap) for line in lines)


def _line(cells: Sequence[Text], widths: Sequence[int], gap: int) -> Text:
    """Return cells side by side, each cut or padded to its width."""
    padded = []
    for cell, width in zip(cells, widths, strict=True):
        fitted = cell.copy()
        fitted.truncate(width, overflow="ellipsis", pad=True)
        padded.append(fitted)
    line = Text(" " * gap).join(padded)
    line.rstrip()
    return line


NARROW = 70
"""Below this width, headings are short and columns close together."""

IN_PLACE_HEADING, NARROW_HEADING = "with grad +=", "grad +="

MOST_OF_A_NAME = 12
"""The most characters to show of an engine's name."""

GAP = 2
"""The number of spaces between two columns."""

ENOUGH_FOR_A_RESULT = 23
"""The number of characters for the result, if what a probe computes can be cut for it."""

LEAST_OF_AN_INPUT = 14
"""The number of characters of what a probe computes that are never cut."""


def _cell(outcome: Outcome, say: Language) -> Text:
    sign, style = STYLES[outcome]
    return Text(table_word(outcome, sign, say), style)


WORDS: dict[Outcome, str] = {
    "silent-corruption": "{mark} SILENT",
    "disguised-correct": "{mark} hidden",
    "crash": "{mark} crash",
}
"""Outcomes in one word, which fits a column, after a sign or a number."""


def table_word(outcome: Outcome, mark: str, say: Language) -> str:
    """Return an outcome as the table shows it, after a sign or a number."""
    if outcome in WORDS:
        return say(WORDS[outcome], mark=mark)
    return f"{mark} {say(outcome)}"


def _result(run: RunReport, say: Language, width: int, *, required: bool) -> Text:
    """Return the result, in words that fit the width if possible.

    If what the page states is `required`, anything else is said instead.
    """
    if run.agrees is False and required:
        text = say("the page says {outcome}", outcome=say(run.expected or ""))
        return Text(text, "bold red")
    texts = [say(brief(run.reason))]
    kinds = {
        "shape": (say("wrong shape"),),
        "dtype": (say("wrong dtype"),),
        "non-finite": (say("NaN or infinite values"), say("not finite")),
        "value": (say("right shape, wrong values"), say("wrong values")),
        "state": (say("wrong state"),),
    }
    if run.outcome == "silent-corruption":
        texts += kinds.get(run.kind or "", ()) if _compares_arrays(run.reason) else ()
    elif run.outcome == "disguised-correct":
        texts.append(say("refused" if run.kind else "right"))
    return Text(next((text for text in texts if len(text) <= width), texts[-1]))


_COMPARED = {Kind.SHAPE, Kind.ARRAY, Kind.ENTRIES, Kind.SIZE, Kind.DIGEST}


def _compares_arrays(sentence: Message) -> bool:
    """Whether a sentence, or a part of it, is about an array that is there and differs."""
    parts = (part for part in sentence.arguments.values() if isinstance(part, Message))
    return sentence.kind in _COMPARED or any(map(_compares_arrays, parts))


def brief(sentence: Message) -> Message:
    """Return a sentence of the whole report in the table's words."""
    arguments = {
        name: brief(value) if isinstance(value, Message) else value
        for name, value in sentence.arguments.items()
    }
    template = BRIEF.get(sentence.kind) if sentence.kind else None
    return Message(template or sentence.template, arguments)


def _notes(report: Report, rows: Sequence[_Row], say: Language) -> Iterator[Text]:
    """Yield a line each for the probes that say nothing."""
    reached = {row.probe for row in rows if row.run.outcome != "not-reached"}
    unreached = dict.fromkeys(row.probe for row in rows if row.probe not in reached)
    if unreached:
        yield Text(say("Never run the changed code: {probes}", probes=_some(unreached, say)))
    if len(report.left_out) > MOST_REASONS:
        yield Text(say("Left out, see --full: {probes}", probes=_some(report.left_out, say)))
    else:
        yield from left_out_by_reason(report, say)


def left_out_by_reason(report: Report, say: Language) -> Iterator[Text]:
    """Yield a line for each reason for which probes cannot be used to judge the engine."""
    by_reason = dict[Message, list[str]]()
    for probe, reason in report.left_out.items():
        by_reason.setdefault(reason, []).append(probe)
    for reason, probes in by_reason.items():
        names = ", ".join(probes)
        yield Text(say("Left out: {probes}, because {reason}", probes=names, reason=reason))


def _some(names: Iterable[str], say: Language) -> str:
    """Return the first few names, and how many there are in all."""
    listed = list(names)
    first = ", ".join(listed[:4])
    if len(listed) <= 4:
        return first
    return say("{first}, ... ({count} in all)", first=first, count=len(listed))


# ----- What the page and the diagnostics say -----

ADVICE = ("caught", "missed", "write", "you", "more", "next")
"""The labels below Beware."""


def _advice(report: Report | TrainingReport, say: Language, label: str) -> Table | None:
    """Return the lines with this label; None if there is nothing to say."""
    texts = {
        "why": (say("Why"), say(report.why) or unexplained(report, say)),
        "beware": (say("Beware"), say(report.beware)),
        "write": (say("Write"), _assertion(report, say)),
    }
    if isinstance(report, Report) and label in ("caught", "missed"):
        caught, missed = _verdicts(report, say)
        texts |= {"caught": (say("Caught"), caught), "missed": (say("Missed"), missed)}
    title, text = texts[label]
    return _labelled(title, text, say) if text else None


def unexplained(report: Report | TrainingReport, say: Language) -> str:
    """Return how the runs end if not as the page explains."""
    if not isinstance(report, Report) or not report.unexplained:
        return ""
    differing, stated = report.unexplained
    counts = Counter(run.outcome for run in report.runs)
    ends = ", ".join(
        table_word(outcome, str(counts[outcome]), say) for outcome in OUTCOMES if counts[outcome]
    )
    return say(
        "Here {differing} of {stated} runs do not end as the page explains; in all: {outcomes}.",
        differing=differing,
        stated=stated,
        outcomes=ends,
    )


def _assertion(report: Report | TrainingReport, say: Language) -> str:
    """Return the check to write, and the silent probes that satisfy it."""
    blind = report.blind_to if isinstance(report, Report) else ()
    if not (blind and report.invariant):
        return report.invariant
    probes = _some(blind, say)
    return f"{report.invariant}  {say('(blind to: {probes})', probes=probes)}"


def _joined(parts: Sequence[str], width: int) -> list[str]:
    """Return parts as lines, with as many in a line as fit, so that none is wrapped."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(BETWEEN) + len(part) <= width:
            lines[-1] += BETWEEN + part
        else:
            lines.append(part)
    return lines


BETWEEN = "    "
"""What is between two commands in a line."""


def _label_width(say: Language) -> int:
    """Return the columns of a label and of the space after it."""
    labels = say("Why"), say("Beware"), say("Caught"), say("Missed"), say("Write"), say("Next")
    return max(map(len, labels)) + GAP


def _labelled(label: str, text: str, say: Language) -> Table:
    table = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
    table.add_column(width=_label_width(say) - GAP, no_wrap=True)
    table.add_column()
    table.add_row(Text(label, "bold"), Text(text))
    return table


def _verdicts(report: Report, say: Language) -> tuple[str, str]:
    """Return which diagnostics caught silent probes, and which missed all of them."""
    silent = [run for run in report.runs if run.outcome == "silent-corruption"]
    count = len({run.probe for run in silent})
    counts = {name: _caught_and_judged(name, silent) for name in _judges(silent)}
    if not silent:
        crashed = [run for run in report.runs if run.outcome == "crash"]
        noticed = [run for run in crashed if run.caught_by]
        if crashed and not noticed:  # a refusal is expected here, and no check knows which
            return say("by nothing"), ""
        if len(noticed) == len(crashed):
            return say("the error itself") if crashed else "", ""
        tally = {"count": len(noticed), "total": len(crashed)}
        return say("the error itself: {count} of {total} crashes", **tally), ""
    caught = {name: (seen, judged) for name, (seen, judged) in counts.items() if seen}
    missed = {name: (n, n) for name, (seen, n) in counts.items() if not seen and name != "crash"}
    first = {name: pair for name, pair in missed.items() if name == "loss-falls"}
    return (
        _tally(caught, count, say) or say("by nothing"),
        _tally(first | missed, count, say),
    )


def _tally(counts: Mapping[str, tuple[int, int]], silent: int, say: Language) -> str:
    """Return diagnostics with the number of probes, those with equal numbers together.

    A diagnostic may judge only some of the silent probes; then the numbers are about these.
    """
    groups: dict[tuple[int, int], list[str]] = {}
    for name, pair in counts.items():
        groups.setdefault(pair, []).append(name)
    first = next(iter(groups), None) if "loss-falls" in counts else None
    order = sorted(groups, key=lambda pair: (pair != first, -pair[0], -pair[1]))
    parts = [
        say("{names}: {count} of {total} silent", names=names, count=seen, total=judged)
        if judged == silent
        else say("{names}: {count} of {total} judged", names=names, count=seen, total=judged)
        for (seen, judged) in order[:MOST_GROUPS]
        for names in [_some(groups[seen, judged], say)]
    ]
    return "; ".join(parts)


MOST_GROUPS = 3
"""The most groups of diagnostics to name."""


def _judges(runs: Sequence[RunReport]) -> dict[str, None]:
    return dict.fromkeys(name for run in runs for name in (*run.caught_by, *run.missed_by))


def _caught_and_judged(name: str, runs: Sequence[RunReport]) -> tuple[int, int]:
    """Return the number of probes that a diagnostic caught, and of those that it could judge."""
    caught = {run.probe for run in runs if name in run.caught_by}
    return len(caught), len(caught | {run.probe for run in runs if name in run.missed_by})


def _height(console: Screen, *renderables: RenderableType | None) -> int:
    """Return the number of lines that these take."""
    shown = [item for item in renderables if item is not None]
    return sum(len(console.render_lines(item, pad=False)) for item in shown)


# ----- Problems -----


def _unlike_claims(report: Report, say: Language) -> Iterator[Text]:
    """Yield the claims of the page about diagnostics that are not as observed."""
    for claim in report.claims:
        if claim.agrees is False:
            verb = say("caught by") if claim.claim == "caught_by" else say("missed by")
            line = say(
                "the page says {claim} {diagnostic}: {evidence}",
                claim=verb,
                diagnostic=claim.diagnostic,
                evidence=claim.evidence,
            )
            yield Text(line, "bold red")
    differ = any(claim.agrees is False for claim in report.claims)
    if differ and all(run.agrees is not False for run in report.runs):
        yield Text(say("Some results are not as the page says."), "bold red")


def show_problems(console: Screen, report: Report) -> None:
    """Print what differs from the page, and what could not be judged."""
    say = console.say
    for line in (*_problems(report, say), *_unlike_claims(report, say)):
        console.print(line)


def show_resemblance(console: Screen, report: Report) -> None:
    """Print the probes on which the unbroken engine already behaves like the break."""
    console.print(_resemblance(report, console.say))


def _resemblance(report: Report, say: Language) -> Text:
    probes = ", ".join(f"`{probe}`" for probe in report.resembles)
    line = say(
        "Your engine already behaves like this break on {probes}: it gives the same wrong results "
        "without it.",
        probes=probes,
    )
    return Text(line, "bold red")


def _problems(report: Report, say: Language) -> Iterator[Text]:
    """Yield what differs from the page, and what could not be judged; nothing if all is well."""
    if report.resembles:
        yield _resemblance(report, say)
    if report.misplaced:
        yield Text(say(report.misplaced), "bold red")
    elif report.engine.foreign:
        yield _comparison(report, say)
        if report.partial:
            yield Text(say("The patch applies only in part: {reason}.", reason=report.partial))
    elif report.left_out and not report.runs:
        yield Text(say("No probe can be judged."))
    elif not report.runs:
        yield Text(say("Nothing was run: the page names no probe. Choose one with --probe NAME."))
    elif all(run.agrees is None for run in report.runs):
        yield Text(say("The page states nothing about these probes."))
    elif any(run.agrees is False for run in report.runs):
        yield Text(say("Some results are not as the page says."), "bold red")
    elif any(run.agrees is None for run in report.runs):
        line = say(
            "{same} of {count} runs are as the page says; not stated: {probes}.",
            same=report.agreement[0],
            count=len(report.runs),
            probes=", ".join(report.unstated),
        )
        yield Text(line)


def _comparison(report: Report, say: Language) -> Text:
    """Return how a foreign engine's outcomes compare with those that the page states."""
    same, stated = report.agreement
    if not report.runs:
        line = say("Nothing was judged: no probe of this page can run on this engine.")
        return Text(line, "bold red")
    if not report.judged:
        return Text(say("Nothing was judged: no probe runs the changed code."), "bold red")
    if not stated:
        return Text(say("The page states nothing about these probes."))
    how = say("in place") if report.engine.like else say("out of place")
    line = say(
        "{same} of {stated} runs end as the page says for engines that accumulate gradients {how}.",
        same=same,
        stated=stated,
        how=how,
    )
    return Text(line, "green" if same == stated else "yellow")


def show_page(console: Screen, page: Page, *, translated: bool = False) -> None:
    """Print a whole page; if the language is not English, say if it is not translated."""
    say, front = console.say, page.front
    about = say(
        "{page}  {kind}, {family}, level {level}",
        page=page.id,
        kind=say(front.kind),
        family=front.family,
        level=front.level,
    )
    console.print(Text(about, "dim"))
    if say.code != ENGLISH.code and not translated:
        console.print(Text(say("This page is not translated."), "dim"))
    console.print(_markdown(page.body))
