"""The report of `harness break` on one screen: the change, the table, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from harness.core.message import Kind, Message, shortened
from harness.core.report import PredictionReport, Report, RunReport
from harness.core.vocabulary import OUTCOMES, Outcome
from harness.pages.probe import Probe
from harness.report.language import ENGLISH, Language
from harness.report.terminal import LabelRows, Screen, wrapped
from harness.report.view import (
    IN_PLACE_HEADING,
    NARROW_HEADING,
    STYLES,
    WORDS,
    Row,
    brief,
    changes_of,
    left_out_by_reason,
    rows_of,
    some,
    stated,
    surroundings_of,
    table_word,
    unexplained,
    verdicts,
)

if TYPE_CHECKING:
    from harness.experiment.patching import PatchedEngine
    from harness.training.comparison import TrainingReport

ABOVE = 24
"""The number of lines into which the change, the table and Why have to fit."""

LONGEST = 34
"""The maximum number of lines of a report, without the test to write."""

FEWEST_ROWS = 3
"""The table always has at least this many rows."""

MOST_LESSONS = 6
"""The lines below Beware, if each of them takes one, without the test to write."""

MOST_REASONS = 2
"""If more probes than this are left out, only `--full` shows the reasons."""


def show_report(
    console: Screen,
    report: Report,
    probes: Sequence[Probe],
    *,
    predictions: Sequence[PredictionReport] = (),
    following: str = "",
) -> None:
    """Print the report on one screen, below the title: the change, the table, and what to do next.

    `following` is the command for the next page of the track.
    """
    show_change(console, report)
    show_outcomes(console, report, probes, predictions)
    show_lessons(console, report, predictions, following)


def show_outcomes(
    console: Screen,
    report: Report,
    probes: Sequence[Probe],
    predictions: Sequence[PredictionReport] = (),
) -> None:
    """Print what the change does to each probe, and why: with it, the first 24 lines."""
    say = console.say
    rows = rows_of(report, probes, predictions, say)
    shown_rows = [row for row in rows if row.run.outcome != "not-reached"]
    notes = [*_notes(report, rows, say), *_problems(report, say)]
    why, beware, _ = _advice(report, say)
    change = len(_change(console, report))
    above = 2 + change + 2 + _height(console, *notes) + 1 + _height(console, why)
    below = _height(console, beware) + MOST_LESSONS + 3
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
    if report.missing:  # known only now: the libraries run last
        names = some(report.missing, say)
        console.print(Text(say("Not available, see --full: {names}", names=names)))
    caught, missed = verdicts(report, say)
    test: Sequence[str] = ()
    _, _, write = _advice(report, say)
    if write and report.test:
        write, test = _test_to_write(report, say)
    lines: list[RenderableType | None] = [
        _labelled(say("Caught"), caught, say),
        _labelled(say("Missed"), missed, say),
        write,
    ]
    lines += map(Text, test)
    if predictions:
        right = sum(prediction.right for prediction in predictions)
        score = say("{count} of {total} right", count=right, total=len(predictions))
        if any(not (prediction.question or prediction.right) for prediction in predictions):
            score = say("{score}; a letter before a row is a prediction that missed", score=score)
        lines.append(_labelled(say("You"), score, say))
    more = _commands(report, say, console.width - _label_width(say))
    lines += [_labelled(say("More"), more, say), _labelled(say("Next"), following, say)]
    for line in lines:
        if line is not None:
            console.print(line, soft_wrap=isinstance(line, Text))


MOST_OF_A_TEST = 6
"""The maximum number of lines of a function that is shown: of a longer one, a command is named."""


def _test_to_write(report: Report, say: Language) -> tuple[LabelRows | None, Sequence[str]]:
    """Return what is said about the test to write, and its lines, ready to be pasted."""
    imports, _, function = report.test.rpartition("\n\n\n")
    lines = function.strip("\n").splitlines()
    command = f"harness show {report.break_} --test"
    blind = ""
    if report.blind_to:
        blind = f" {say('(blind to: {probes})', probes=some(report.blind_to, say))}"
    if len(lines) > MOST_OF_A_TEST:
        text = say("the test that `{command}` prints", command=command)
        return _labelled(say("Write"), f"{text}{blind}", say), ()
    text = say("this test: `{command}`", command=command)
    return _labelled(say("Write"), f"{text}{blind}", say), [
        "",
        *imports.strip().splitlines(),
        "",
        *lines,
        "",
    ]


def _commands(report: Report, say: Language, width: int) -> str:
    """Return the commands that show more, as many per line as fit."""
    outcomes = {run.outcome for run in report.runs}
    words = (table_word(outcome, "", ENGLISH) for outcome in WORDS if outcome in outcomes)
    word = next(words, "outcome").strip().lower()  # in English, which is accepted in any language
    lines = [say("--full  the whole report")]
    for command in (
        f"harness explain {word}",
        say("harness show {page}  the page", page=report.break_),
        *([] if report.engine.foreign else [f"harness try {report.break_}"]),
    ):
        if len(lines[-1]) + len(BETWEEN) + len(command) <= width:
            lines[-1] += BETWEEN + command
        else:
            lines.append(command)
    return "\n".join(lines)


BETWEEN = "    "
"""The space between two commands on a line."""


def show_advice(console: Screen, report: Report | TrainingReport) -> None:
    """Print the advice of the page, which is about our own engine."""
    if lines := list(filter(None, _advice(report, console.say))):
        for line in lines:
            console.print(line)
        console.print()


def _advice(report: Report | TrainingReport, say: Language) -> tuple[LabelRows | None, ...]:
    """Return Why, Beware and Write; None for each that the page does not have."""
    why, check = say(report.why), report.invariant
    if isinstance(report, Report):
        why = why or unexplained(report, say)
        if check and report.blind_to:
            probes = some(report.blind_to, say)
            check = f"{check}  {say('(blind to: {probes})', probes=probes)}"
    beware = _labelled(say("Beware"), say(report.beware), say)
    return _labelled(say("Why"), why, say), beware, _labelled(say("Write"), check, say)


def _labelled(label: str, text: str, say: Language) -> LabelRows | None:
    """Return a text beside its label, or None if there is no text."""
    return LabelRows({label: text}, _label_width(say) - GAP) if text else None


def _label_width(say: Language) -> int:
    """Return the width of a label and the space after it, in columns."""
    labels = say("Why"), say("Beware"), say("Caught"), say("Missed"), say("Write"), say("Next")
    return max(map(len, labels)) + GAP


# ----- The change -----

MOST_OF_A_CHANGE = 6
"""The maximum number of lines of code to show of the change."""


def show_change(console: Screen, change: PatchedEngine | Report) -> None:
    """Print the changed lines of the engine and their places."""
    for line in _change(console, change):
        console.print(line, no_wrap=True, overflow="ellipsis")
    console.print()


def show_surroundings(console: Screen, change: PatchedEngine | Report) -> None:
    """Print the changed lines of the engine with the lines around them, and their places."""
    for one in surroundings_of(change):
        console.print(Text(f"{one.file}:{one.line} {one.scope}".rstrip()))
        for row in "\n".join(one.code).strip("\n").split("\n"):
            for part in wrapped(console, _code_line(row), indent=2):
                part.rstrip()
                console.print(part)
        console.print()


def _code_line(row: str) -> Text:
    """Return a line of code after its sign; a changed one is coloured."""
    return Text(row, {"-": "red", "+": "green"}.get(row[:1], ""))


def _change(console: Screen, report: PatchedEngine | Report) -> list[Text]:
    """Return the changed lines of the engine with their places; a wide window needs fewer lines."""
    say = console.say
    lines: list[Text] = []
    others: list[str] = []
    for change in changes_of(report):
        code = change.code
        if lines and len(lines) + 1 + len(code) > MOST_OF_A_CHANGE + 1:
            others.append(change.scope or change.file)
            continue
        lines.append(Text(f"{change.file}:{change.line} {change.scope}".rstrip()))
        for row in code[:MOST_OF_A_CHANGE]:
            lines += wrapped(console, _code_line(row), indent=2)
        if len(code) > MOST_OF_A_CHANGE:
            more = len(code) - MOST_OF_A_CHANGE
            rest = say("... 1 more line, see --full") if more == 1 else ""
            rest = rest or say("... {count} more lines, see --full", count=more)
            lines.append(Text(f"  {rest}"))
    if others:
        names = ", ".join(dict.fromkeys(others))
        lines.append(Text(say("and more in {places}, see --full", places=names)))
    return lines


# ----- The table -----

NARROW = 70
"""Below this width, headings are short and columns are close together."""

MOST_OF_A_NAME = 12
"""The maximum number of characters to show of an engine's name."""

GAP = 2
"""The number of spaces between two columns."""

ENOUGH_FOR_A_RESULT = 23
"""The width that a result should have: what a probe computes is cut to make room for it."""

LEAST_OF_AN_INPUT = 14
"""The minimum number of characters to show of what a probe computes."""


def _most_telling(rows: Sequence[Row], most: int) -> list[Row]:
    """Return at most `most` rows, in order, preferring rows that differ, then wrong results."""
    if len(rows) <= most:
        return list(rows)
    seen: Counter[tuple[object, ...]] = Counter()
    ranks = {}
    for position, row in enumerate(rows):
        ranks[position] = (seen[row.signature], OUTCOMES.index(row.run.outcome), position)
        seen[row.signature] += 1
    kept = sorted(sorted(ranks, key=lambda position: ranks[position])[: most - 1])
    return [rows[position] for position in kept]


def _table(rows: Sequence[Row], console: Screen, report: Report) -> Text:
    say = console.say

    def cell(outcome: Outcome | None) -> Text:
        if outcome is None:
            return Text()
        sign, style = STYLES[outcome]
        return Text(table_word(outcome, sign, say), style)

    shown = [
        (say("input"), [Text(row.label()) for row in rows]),
        (shortened(report.engine.name, MOST_OF_A_NAME), [cell(row.run.outcome) for row in rows]),
    ]
    label = 0  # the column of the inputs
    if any(row.mark for row in rows):
        shown.insert(0, (say("you"), [Text(row.mark) for row in rows]))
        label = 1
    if report.in_place:
        heading = say(NARROW_HEADING if console.width < NARROW else IN_PLACE_HEADING)
        shown.append((heading, [cell(row.in_place) for row in rows]))
    widths = [max(len(heading), *(item.cell_len for item in cells)) for heading, cells in shown]
    gap = 1 if console.width < NARROW else GAP
    rest = console.width - sum(widths) - gap * len(widths)
    cut = 0
    if rest < ENOUGH_FOR_A_RESULT:  # a narrow window
        cut = min(ENOUGH_FOR_A_RESULT - rest, max(0, widths[label] - LEAST_OF_AN_INPUT))
    required = not report.engine.foreign
    results = [_result(row.run, say, rest + cut, required=required) for row in rows]
    last = say("what comes out")
    longest = max(len(last), *(result.cell_len for result in results))
    cut = max(0, min(cut, longest - rest))  # only what the results need
    widths[label] -= cut
    shown[label] = say("input"), [Text(row.label(widths[label])) for row in rows]
    widths.append(max(rest + cut, 1))
    shown.append((last, results))
    headings = [Text(heading) for heading, _ in shown]
    lines = [headings, *zip(*(cells for _, cells in shown), strict=True)]
    return Text("\n", no_wrap=True).join(_line(line, widths, gap) for line in lines)


def _line(cells: Sequence[Text], widths: Sequence[int], gap: int) -> Text:
    """Return the cells side by side, each cut or padded to its width."""
    padded = []
    for cell, width in zip(cells, widths, strict=True):
        fitted = cell.copy()
        fitted.truncate(width, overflow="ellipsis", pad=True)
        padded.append(fitted)
    line = Text(" " * gap).join(padded)
    line.rstrip()
    return line


def _result(run: RunReport, say: Language, width: int, *, required: bool) -> Text:
    """Return the result, in words that fit the width if possible.

    If the result that the page states is `required` and did not occur, that is said instead.
    """
    if run.agrees is False and required:
        return Text(stated(run.expected, say), "bold red")
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
    """Whether a sentence, or a part of it, is about an array that exists and differs."""
    parts = (part for part in sentence.arguments.values() if isinstance(part, Message))
    return sentence.kind in _COMPARED or any(map(_compares_arrays, parts))


def _notes(report: Report, rows: Sequence[Row], say: Language) -> Iterator[Text]:
    """Yield a line each for the probes that say nothing."""
    reached = {row.run.probe for row in rows if row.run.outcome != "not-reached"}
    unreached = dict.fromkeys(row.run.probe for row in rows if row.run.probe not in reached)
    if unreached:
        yield Text(say("Never run the changed code: {probes}", probes=some(unreached, say)))
    if len(report.left_out) > MOST_REASONS:
        yield Text(say("Left out, see --full: {probes}", probes=some(report.left_out, say)))
    else:
        yield from map(Text, left_out_by_reason(report, say))


def _height(console: Screen, *renderables: RenderableType | None) -> int:
    """Return the number of lines that these renderables take."""
    shown = [item for item in renderables if item is not None]
    return sum(len(console.render_lines(item, pad=False)) for item in shown)


# ----- Problems -----


def _unlike_claims(report: Report, say: Language) -> Iterator[Text]:
    """Yield the page's claims about diagnostics that differ from what was observed."""
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
        "Your engine already has this bug: it gives the same wrong results without the break on "
        "{probes}.",
        probes=probes,
    )
    return Text(line, "bold red")


def _problems(report: Report, say: Language) -> Iterator[Text]:
    """Yield what differs from the page and what could not be judged, if anything."""
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
    """Return how a foreign engine's outcomes compare with those stated by the page."""
    same, stated = report.agreement
    if not report.runs:
        line = say("Nothing was judged: no probe of this page can run on this engine.")
        return Text(line, "bold red")
    if report.unjudged:
        line = say(
            "Not judged on the inputs that show it: this engine cannot run {probes}.",
            probes=some(report.unjudged, say),
        )
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
    differing = dict.fromkeys(run.probe for run in report.runs if run.agrees is False)
    if differing:
        line = f"{line} {say('Not so: {probes}.', probes=some(list(differing), say))}"
    return Text(line, "green" if same == stated else "yellow")
