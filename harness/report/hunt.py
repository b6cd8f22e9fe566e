"""A hunt on a terminal: what can be bought, what a clue shows, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.padding import Padding
from rich.text import Text

from harness.core.message import Kind, shortened
from harness.core.run import Array
from harness.diagnostics import DIAGNOSTICS
from harness.learn.clues import GRADIENTS, LOG, Check, Clue, Curve, Evidence, Gradient, HiddenBug
from harness.learn.hunt import Hunt, counted_clues, label_of, result_of
from harness.pages.probe import Probe
from harness.report.language import Language
from harness.report.one_screen import show_change
from harness.report.pictures import curves
from harness.report.terminal import LabelRows, Screen

EDGE = 2
"""The rows and columns to show at each end of a large gradient."""

VERDICT_STYLES = {"alarm": "bold red", "false alarm": "red"}


# ----- The hunt -----


def show_hunt(console: Screen, hunt: Hunt) -> None:
    """Print which hunt it is, and what has been bought."""
    say, key = console.say, hunt.key
    heading = say("Hunt: {hunt}, level {level}", hunt=label_of(key.seed), level=key.level)
    console.print(Text(heading, "bold"))
    console.print(say("A bug is hidden in minigrad. Name its family, and its line or function."))
    if not hunt.bought:
        console.print(say("Clues cost forward passes: the fewer, the better."))
        return
    clues, passes = counted_clues(len(hunt.bought)), f"{hunt.passes:g}"
    console.print(say("So far: {clues}, {passes} forward passes.", clues=clues, passes=passes))


def show_manual(console: Screen) -> None:
    """Print what can be typed at the prompt."""
    say = console.say
    rows = {
        "gradcheck PROBE": say("buy the verdict of a check on a probe; any check"),
        "log PROBE": say("buy a training log, beside the correct one"),
        "grads PROBE": say("buy the gradients of a probe, beside the correct ones"),
        "answer FAMILY PLACE": say("end the hunt; PLACE is FUNCTION or FILE.py:LINE"),
        "? checks": say("the checks and their costs; `? gradcheck` says more"),
        "? probes": say("the probes by topic; `? TOPIC` and `? PROBE` say more"),
        "? families": say("the families"),
        "? clues": say("the clues that you have bought"),
        "q": say("stop; `harness hunt` continues"),
    }
    console.print(LabelRows(rows))


def show_checks(console: Screen, clues: Iterable[Clue]) -> None:
    """Print a line for each kind of clue: its lowest and highest cost, and what it sees."""
    say = console.say
    costs: dict[str, list[float]] = {}
    for clue in clues:
        costs.setdefault(clue.kind, []).append(clue.passes)
    sees = {item.name: say(item.sees) for item in DIAGNOSTICS}
    sees |= {LOG: say("a training log, beside the correct one")}
    sees |= {GRADIENTS: say("gradients, beside the correct ones")}
    console.print(say("Cost in forward passes, for all losses of a probe:"))
    rows = [(kind, _span(passes), sees[kind]) for kind, passes in costs.items()]
    console.print(_cut(rows, console.width))


def _span(costs: Collection[float]) -> str:
    low, high = min(costs), max(costs)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def show_kind(console: Screen, check: str) -> None:
    """Print what a check sees, what it is blind to, and its cost."""
    say = console.say
    for item in DIAGNOSTICS:
        if item.name == check:
            console.print(say("It sees {what}.", what=say(item.sees)))
            console.print(say("It is blind to {what}.", what=say(item.blind)))
            console.print(say("Forward passes, for each loss: {cost}.", cost=say(item.cost)))
    if check in (LOG, GRADIENTS):
        console.print(say("It shows the result of the correct engine, and of this one."))


def show_topics(console: Screen, probes: Iterable[Probe]) -> None:
    """Print how many probes there are about each topic: the files that they are in."""
    counts = Counter(topic_of(probe) for probe in probes)
    console.print(", ".join(f"{topic} ({count})" for topic, count in sorted(counts.items())))


def show_topic(console: Screen, probes: Iterable[Probe]) -> None:
    """Print a row for each probe: its name, and the first line of its text."""
    rows = [(probe.name, console.say(probe.doc.splitlines()[0])) for probe in probes]
    console.print(_cut(rows, console.width))


def show_probe(console: Screen, probe: Probe, clues: Iterable[Clue]) -> None:
    """Print the code of a probe, and what each clue on it costs."""
    console.print(Padding(Text(probe.code), (0, 0, 0, 2), expand=False))
    costs = ", ".join(f"{clue.kind} {clue.passes:g}" for clue in clues if clue.probe == probe.name)
    console.print(console.say("Passes: {costs}", costs=costs))


def topic_of(probe: Probe) -> str:
    """Return the name of the file that a probe is in."""
    return Path(probe.path).stem


# ----- Clues -----


def show_evidence(console: Screen, evidence: Evidence) -> None:
    """Print what a clue shows."""
    say, width = console.say, console.width - 2
    heading = say("{clue}: {passes} passes", clue=evidence.clue, passes=f"{evidence.passes:g}")
    console.print(Text(heading, "bold"))
    lines = list(_checks(evidence.checks, say))
    if evidence.failure.kind is not Kind.NOTHING:
        lines.append(Text(say("the run fails: {failure}", failure=evidence.failure)))
    lines += [_curve(console, curve, width) for curve in evidence.curves]
    if evidence.gradients and evidence.loss:
        lines.append(Text(say("{loss} loss", loss=say(evidence.loss)) + ":"))
    lines += [_gradient(gradient, say, width) for gradient in evidence.gradients]
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


def evidence_entry(evidence: Evidence) -> dict[str, object]:
    """Return what a clue shows, for JSON: arrays as their shape and their values."""
    return {
        "clue": evidence.clue,
        "passes": evidence.passes,
        "checks": evidence.checks,
        "curves": evidence.curves,
        "loss": evidence.loss,
        "gradients": [
            {
                "leaf": item.leaf,
                "expected": _plain(item.expected),
                "actual": _plain(item.actual),
                "differs": item.differs,
            }
            for item in evidence.gradients
        ],
        "failure": evidence.failure,
    }


def _plain(array: Array | None) -> dict[str, object] | None:
    if array is None:
        return None
    return {"shape": array.shape, "values": array.numpy().tolist()}


def _checks(checks: Sequence[Check], say: Language) -> Iterable[Text]:
    """Yield a line for each verdict; one if the losses have the same."""
    alike = len({(check.verdict, check.text) for check in checks}) == 1
    for check in checks[:1] if alike else checks:
        label = "" if check.loss is None else say("both losses") if alike else say(check.loss)
        word = {
            "alarm": say("alarm"),
            "silent": say("no alarm"),
            "declined": say("declined"),
            "false alarm": say("alarm, as on the correct engine"),
        }[check.verdict]
        text = say(check.text)
        yield Text.assemble(
            f"{label}: " if label else "",
            (word, VERDICT_STYLES.get(check.verdict, "")),
            f"  {text}" if text else "",
        )


def _curve(console: Screen, curve: Curve, width: int) -> Text:
    """Return an entry of a log: where it parts, and both curves if it is a number that differs."""
    say = console.say
    differs = say("as it should be")
    if curve.differs_from is not None:
        differs = say("differs from step {step} on", step=curve.differs_from)
    if curve.shapes:
        actual, expected = curve.shapes
        differs += ": " + say("{actual}, not {expected}", actual=actual, expected=expected)
    head = Text.assemble((curve.entry, "bold"), f": {differs}")
    if not (curve.expected and curve.actual) or curve.differs_from is None:
        return head
    names = say("correct"), say("here")
    picture = curves(console, curve.expected, curve.actual, names, width - 2)
    return Text("\n  ").join([head, *picture.split("\n")])


def _gradient(gradient: Gradient, say: Language, width: int) -> Text:
    """Return the gradient of a leaf, and the correct one if it differs."""
    if not gradient.differs:
        return Text.assemble((f"{gradient.leaf}.grad", "bold"), f": {say('as it should be')}")
    text = Text.assemble((f"{gradient.leaf}.grad", "bold"))
    labels = {say("expected"): gradient.expected, say("got"): gradient.actual}
    wide = max(map(len, labels))
    for label, array in labels.items():
        shape = say("none") if array is None else str(array.shape)
        text.append(f"\n  {label:{wide}}  {shape}")
        for row in _array(array, width - 4):
            text.append(f"\n    {row}")
    return text


def _array(array: Array | None, width: int) -> list[str]:
    if array is None:
        return []
    shown = np.array2string(
        array.numpy(),
        precision=3,
        suppress_small=True,
        max_line_width=width,
        threshold=24,
        edgeitems=EDGE,
    )
    return [line for line in shown.splitlines() if line.strip()]


# ----- The end -----


def show_end(console: Screen, hunt: Hunt, bug: HiddenBug, par: Sequence[Clue]) -> None:
    """Print whether the answer was right, what the bug was, the score, and what to do next."""
    say, answer = console.say, hunt.answer
    assert answer is not None
    console.print(Text(_judgement(hunt, say), "bold green" if hunt.is_solved else "bold red"))
    console.print(f"{bug.suspect.family}: {bug.suspect.id}")
    show_change(console, bug.experiment)
    console.print(
        say(
            "Score {score}: {passes} passes; {par} would have been enough ({clues}).",
            score=hunt.score,
            passes=f"{hunt.passes:g}",
            par=f"{answer.par:g}",
            clues=", ".join(_with_verdict(clue, bug, say) for clue in par),
        )
    )
    console.print(say("(100 for no more, minus 10 for each doubling; half for the family alone.)"))
    console.print(Text(f"\n{say('Next')}  harness break {bug.suspect.id}"), soft_wrap=True)


def _judgement(hunt: Hunt, say: Language) -> str:
    answer = hunt.answer
    assert answer is not None
    if not answer.family:
        return say("Not solved: wrong family.")
    return {
        "line": say("Solved: right family, right line."),
        "function": say("Solved: right family, right function."),
        "no": say("Half solved: right family, wrong place."),
    }[answer.place]


def _with_verdict(clue: Clue, bug: HiddenBug, say: Language) -> str:
    """Return a clue with what its check says; a log has no verdict."""
    if clue.kind == LOG:
        return clue.name
    alarm = clue.shows & bug.suspect.caught
    return f"{clue.name} {say('alarm') if alarm else say('no alarm')}"


def summary_entry(hunt: Hunt, bug: HiddenBug, par: Sequence[Clue]) -> Mapping[str, object]:
    """Return how a hunt ended, for JSON."""
    answer = hunt.answer
    assert answer is not None
    return {
        "result": str(result_of(hunt)),
        "family": answer.family,
        "place": answer.place,
        "score": hunt.score,
        "bug": {
            "id": bug.suspect.id,
            "family": bug.suspect.family,
            "sites": bug.experiment.sites,
            "diff": bug.experiment.diff,
        },
        "par": {"passes": answer.par, "clues": [clue.name for clue in par]},
        "next": f"harness break {bug.suspect.id}",
    }


def _cut(rows: Iterable[Sequence[str]], width: int) -> Text:
    """Return rows in columns; the last one is cut to the width of the window."""
    rows = list(rows)
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for *cells, last in rows:
        head = "".join(f"{cell:{wide}}  " for cell, wide in zip(cells, widths, strict=True))
        lines.append(head + shortened(last, max(width - len(head), 1)))
    return Text("\n".join(lines))
