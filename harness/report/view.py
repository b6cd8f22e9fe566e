"""What is shown of a break: the rows, the words and the marks, decided once for every renderer.

The terminal and HTML draw what this module returns; it does not depend on how they draw it.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from harness.core.message import Kind, Message, shortened
from harness.core.report import EngineReport, PredictionReport, Report, RunReport, SiteReport
from harness.core.vocabulary import OUTCOMES, Loss, Outcome
from harness.pages.probe import Probe
from harness.report.language import Language

if TYPE_CHECKING:
    from harness.experiment.patching import PatchedEngine

# ----- Outcomes and results in few words -----

STYLES: dict[Outcome, tuple[str, str]] = {
    "silent-corruption": ("≠", "bold magenta"),
    "crash": ("✗", "bold red"),
    "disguised-correct": ("=", ""),
    "convention": ("~", ""),
    "not-reached": ("·", ""),
    "misplaced": ("?", "bold red"),
    "does-not-apply": ("-", ""),
}
"""The sign and style of each outcome, legible on dark and light backgrounds, and without colour."""

WORDS: dict[Outcome, str] = {
    "silent-corruption": "{mark} SILENT",
    "disguised-correct": "{mark} hidden",
    "crash": "{mark} crash",
}
"""Each outcome in one word that fits a column, after a sign or a number."""

IN_PLACE_HEADING, NARROW_HEADING = "with grad +=", "grad +="
"""The heading of the outcomes in the variant that adds gradients in place, and a shorter one."""

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
"""What a table shows instead of sentences of these kinds."""


def marked(outcome: Outcome, say: Language) -> str:
    """Return an outcome after its sign."""
    return f"{STYLES[outcome][0]} {say(outcome)}"


def table_word(outcome: Outcome, mark: str, say: Language) -> str:
    """Return an outcome as the table shows it, after a sign or a number."""
    if outcome in WORDS:
        return say(WORDS[outcome], mark=mark)
    return f"{mark} {say(outcome)}"


def brief(sentence: Message) -> Message:
    """Return a sentence of the whole report in the short wording of the table."""
    arguments = {
        name: brief(value) if isinstance(value, Message) else value
        for name, value in sentence.arguments.items()
    }
    template = BRIEF.get(sentence.kind) if sentence.kind else None
    return Message(template or sentence.template, arguments)


def stated(outcome: str | None, say: Language) -> str:
    """Return what the page says about a run that ended differently."""
    return say("the page says {outcome}", outcome=say(outcome or ""))


def engine_name(engine: EngineReport, say: Language) -> str:
    """Return which engine was tested: its name and its variant."""
    if engine.variant:
        return say("{engine} with {variant}", engine=engine.name, variant=engine.variant)
    return engine.name


def some(names: Iterable[str], say: Language, most: int = 4) -> str:
    """Return the first few names, and the total number."""
    listed = list(names)
    first = ", ".join(listed[:most])
    if len(listed) <= most:
        return first
    return say("{first}, ... ({count} in all)", first=first, count=len(listed))


def reason_here(run: RunReport, report: Report, say: Language, formula: str = "") -> str:
    """Return why a run ends as it does on its input.

    The page's own words come first, then what the changed expressions were, and then what the
    outcome rests on. `formula` is what the probe computes.
    """
    asked = (q for q in report.questions if q.probe == run.probe and q.answer in OUTCOMES)
    own = next((q.because for q in asked if q.because and q.loss in (None, run.loss)), "")
    if own:
        return say(own)
    if run.outcome == "not-reached":
        scopes = dict.fromkeys(site.scope for site in report.sites if site.scope)
        if not scopes:
            return say(run.reason)
        places = ", ".join(f"`{scope}`" for scope in scopes)
        if formula:
            return say(
                "{formula} never runs the changed code, in {places}", formula=formula, places=places
            )
        return say("this probe never runs the changed code, in {places}", places=places)
    if not run.because:
        return say(run.reason)
    if run.outcome in WRONG:
        return say("{evidence}. {because}", evidence=run.reason, because=run.because)
    return say(run.because)


# ----- The change -----


@dataclass(frozen=True)
class Change:
    """Consecutive changed lines in the engine."""

    file: str
    line: int
    scope: str
    """Empty for the module."""
    code: list[str]
    """Each line after its sign and a space, without the common indentation."""


def changes_of(change: PatchedEngine | Report) -> list[Change]:
    """Return the blocks of consecutive changed lines in a unified diff."""
    blocks: list[tuple[str, int, list[str]]] = []
    for file, start, rows in _hunks(change.diff):
        number, inside = start, False
        for row in rows:
            is_changed = row.startswith(("-", "+"))
            if is_changed and not inside:
                blocks.append((file, number, []))
            if is_changed:
                blocks[-1][2].append(row)
            number, inside = number + (not row.startswith("+")), is_changed
    return [_change(change, *block) for block in blocks]


def surroundings_of(change: PatchedEngine | Report) -> list[Change]:
    """Return the changed lines of the engine with the lines around them, as the diff has them."""
    return [_change(change, *hunk) for hunk in _hunks(change.diff)]


def _hunks(diff: str) -> list[tuple[str, int, list[str]]]:
    """Return the hunks of a unified diff: the file, the first line in it, and the rows."""
    found: list[tuple[str, int, list[str]]] = []
    file = ""
    for row in diff.splitlines():
        if row.startswith("+++ b/"):
            file = row.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -(\d+)", row):
            found.append((file, int(hunk[1]), []))
        elif found and not row.startswith("--- a/"):
            found[-1][2].append(row or " ")
    return found


def _change(change: PatchedEngine | Report, file: str, line: int, rows: Sequence[str]) -> Change:
    return Change(file, line, _scope_at(change.sites, file, line), _dedented(rows))


def _dedented(code: Sequence[str]) -> list[str]:
    """Return the lines without their common indentation; changed lines that are empty are left
    out.
    """
    written = [row for row in code if row[1:].strip() or row[0] == " "]
    texts = textwrap.dedent("\n".join(row[1:] for row in written)).split("\n")
    return [f"{row[0]} {text}".rstrip() for row, text in zip(written, texts, strict=True)]


def _scope_at(sites: Sequence[SiteReport], file: str, line: int) -> str:
    near = [site for site in sites if site.file == file]
    return min(near, key=lambda site: abs(site.line - line)).scope if near else ""


def places(sites: Sequence[SiteReport]) -> Iterator[tuple[str, str, str]]:
    """Yield the sites by file and scope, each with its lines; the scope of a module is empty."""
    for (file, scope), group in groupby(sites, key=lambda site: (site.file, site.scope)):
        yield file, scope, ", ".join(dict.fromkeys(str(site.line) for site in group))


# ----- The table of probes -----

MOST_OF_AN_INPUT = 26
"""The maximum number of characters to show of what a probe computes."""


@dataclass(frozen=True)
class Row:
    """A row of the table: a probe, or a probe with one loss if the outcome depends on the loss."""

    run: RunReport
    name: str
    """What the probe computes, or its name."""
    in_place: Outcome | None
    """The outcome in the variant that adds gradients in place."""
    loss: str = ""
    """The loss, if the row is for one of several losses; otherwise empty."""
    mark: str = ""
    """What was predicted, if the prediction was wrong; "ok" if it was right."""

    def label(self, width: int | None = None) -> str:
        """Return the name and the loss; a long name is cut to fit the width."""
        loss = f", {self.loss}" if self.loss else ""
        return (shortened(self.name, width - len(loss)) if width else self.name) + loss

    @property
    def signature(self) -> tuple[object, ...]:
        """What this row shows: rows with equal signatures show the same."""
        run = self.run
        telling = run.outcome, self.in_place, run.kind, run.loss is None, run.better_than_correct
        return *telling, self.mark not in ("", "ok")


def rows_of(
    report: Report, probes: Sequence[Probe], predictions: Sequence[PredictionReport], say: Language
) -> list[Row]:
    """Return the rows of all runs; losses of a probe with equal outcomes share a row."""
    in_place, names = _in_place(report), names_of(report, probes)
    rows = []
    for probe, group in groupby(report.runs, key=lambda run: run.probe):
        runs = list(group)
        ends = {(run.outcome, in_place.get((probe, run.loss))) for run in runs}
        for merged in [runs] if len(ends) == 1 else [[run] for run in runs]:
            run = merged[-1]
            loss = say(run.loss or "") if len(ends) > 1 else ""
            mark = _mark(probe, [run.loss for run in merged], predictions, say)
            rows.append(Row(run, names[probe], in_place.get((probe, run.loss)), loss, mark))
    return rows


def worst_rows(report: Report, probes: Sequence[Probe]) -> list[Row]:
    """Return one row for each probe: the row of a wrong run, if there is one."""
    in_place, names = _in_place(report), names_of(report, probes)
    worst: dict[str, RunReport] = {}
    for run in report.runs:
        old = worst.setdefault(run.probe, run)
        if run.outcome in WRONG and old.outcome not in WRONG:
            worst[run.probe] = run
    return [
        Row(run, names[run.probe], in_place.get((run.probe, run.loss))) for run in worst.values()
    ]


WRONG = ("crash", "silent-corruption")
"""The outcomes that are errors of the engine."""


def _in_place(report: Report) -> dict[tuple[str, Loss | None], Outcome]:
    return {(run.probe, run.loss): run.outcome for run in report.in_place}


def names_of(report: Report, probes: Sequence[Probe]) -> dict[str, str]:
    """Return what each probe that ran computes.

    It is the probe's name if that is long, not unique, or needs helpers.
    """
    names = {run.probe: "" for run in report.runs}
    for probe in probes:
        if probe.name in names and not probe.takes_lib:
            names[probe.name] = probe.formula
    counts = Counter(names.values())
    fitting = {f for f, count in counts.items() if count == 1 and 0 < len(f) <= MOST_OF_AN_INPUT}
    return {name: f if f in fitting else name for name, f in names.items()}


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


# ----- What is said about all runs -----


def left_out_by_reason(report: Report, say: Language) -> Iterator[str]:
    """Yield a line for each reason why probes cannot be used to judge the engine."""
    by_reason = dict[Message, list[str]]()
    for probe, reason in report.left_out.items():
        by_reason.setdefault(reason, []).append(probe)
    for reason, probes in by_reason.items():
        names = ", ".join(probes)
        yield say("Left out: {probes}, because {reason}", probes=names, reason=reason)


def unexplained(report: Report, say: Language) -> str:
    """Return how the runs end, if they do not end as the page explains."""
    if not report.unexplained:
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


MOST_GROUPS = 3
"""The maximum number of groups of diagnostics to name."""


def verdicts(report: Report, say: Language) -> tuple[str, str]:
    """Return which diagnostics caught silent corruption, and which missed it on every probe."""
    silent = [run for run in report.runs if run.outcome == "silent-corruption"]
    if not silent:
        return _noticed(report, say), ""
    names = dict.fromkeys(name for run in silent for name in (*run.caught_by, *run.missed_by))
    counts = {name: _caught_and_judged(name, silent) for name in names}
    caught = {name: (seen, judged) for name, (seen, judged) in counts.items() if seen}
    missed = {name: (n, n) for name, (seen, n) in counts.items() if not seen and name != "crash"}
    first = {name: pair for name, pair in missed.items() if name == "loss-falls"}
    count = len({run.probe for run in silent})
    return (
        _tally(caught, count, say) or say("by nothing"),
        _tally(first | missed, count, say),
    )


def _noticed(report: Report, say: Language) -> str:
    """Return what noticed the break if no run is silent: at most the errors themselves."""
    crashed = [run for run in report.runs if run.outcome == "crash"]
    count = sum(bool(run.caught_by) for run in crashed)
    if not crashed:
        return ""
    if not count:  # a refusal is expected here, and no check knows which
        return say("by nothing")
    if count == len(crashed):
        return say("the error itself")
    return say("the error itself: {count} of {total} crashes", count=count, total=len(crashed))


def _caught_and_judged(name: str, runs: Sequence[RunReport]) -> tuple[int, int]:
    """Return the number of probes that a diagnostic caught, and of those that it could judge."""
    caught = {run.probe for run in runs if name in run.caught_by}
    return len(caught), len(caught | {run.probe for run in runs if name in run.missed_by})


def _tally(counts: Mapping[str, tuple[int, int]], silent: int, say: Language) -> str:
    """Return the diagnostics with their numbers of probes, grouped by equal numbers.

    If a diagnostic can judge only some of the silent probes, its numbers refer to those.
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
        for names in [some(groups[seen, judged], say)]
    ]
    return "; ".join(parts)


# ----- Series -----

MANY_SIZES = 20
"""A scale is logarithmic if the largest number is more than this many times the smallest."""


def is_logarithmic(numbers: Sequence[float]) -> bool:
    """Whether these finite numbers are drawn on a logarithmic scale."""
    return 0 < MANY_SIZES * min(numbers) < max(numbers)
