"""The report on a break: what the lab found, as one record. Renderers show it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from harness.core.message import EMPTY, Kind, Message
from harness.core.vocabulary import Loss, Outcome, Stage


class SiteReport(msgspec.Struct, frozen=True):
    """A place in the engine that the patch changed."""

    file: str
    line: int
    scope: str


class EngineReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which engine was tested."""

    name: str
    variant: str | None
    foreign: bool = False
    """Whether the page is about another engine: then its statements are compared, not required."""
    like: str | None = None
    """The variant of minigrad whose expected outcomes it is compared with."""


class DrawnNumbers(msgspec.Struct, frozen=True):
    """The numbers of a small array, or of a series, to be drawn."""

    shape: tuple[int, ...]
    values: list[float]
    """In the order of rows; null in JSON for a number that is not finite."""


class DrawnComparison(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the broken engine gives, beside what is correct."""

    actual: DrawnNumbers
    expected: DrawnNumbers
    wrong: list[bool] = []
    """Whether each entry of an array differs beyond rounding; empty if the shapes differ."""


class GraphNode(msgspec.Struct, frozen=True):
    """A node of a probe's graph, to be drawn."""

    number: int
    """Its place in the order of the forward pass, from 1: operands come before their results."""
    name: str
    """The name of a leaf, or an op; empty for a leaf without a name."""
    shape: tuple[int, ...]
    operands: list[tuple[int, str] | None]
    """Number and name of each operand; None for a constant, which has no gradient."""
    inserted: bool = False
    """Whether only the broken engine has it."""


class Graph(msgspec.Struct, frozen=True):
    """The graph of a probe on the unbroken engine, with the nodes that only the broken one has, and
    where the two first differ."""

    nodes: list[GraphNode]
    """In the order of the forward pass; of a large graph, those near the difference."""
    size: int
    """The number of nodes of the whole graph."""
    node: int
    """The number of the node at which the two differ."""
    operand: int | None
    """The position of the operand to which it passes a wrong gradient; None if the node itself is
    wrong."""
    in_backward: bool
    """Whether the backward pass is wrong, rather than a value."""


class RunReport(msgspec.Struct, frozen=True):
    """What the break did to one probe under one loss, and which diagnostics caught it.

    A run that never reached the patched code says nothing about diagnostics: only its alarms are
    listed, which the clean engine raises too, in `wrong_reason`.
    """

    probe: str
    loss: Loss | None
    outcome: Outcome
    kind: str | None
    evidence: Message
    stage: Stage | None
    """How far the fault got; None if it was not computed because many probes were run."""
    why: Message
    """The stage as a sentence for the learner; empty if it was not computed."""
    fingerprint: Message | None
    first_divergence: Message | None
    better_than_correct: bool
    expected: Outcome | None
    agrees: bool | None
    """None where the page states nothing."""
    caught_by: list[str]
    missed_by: list[str]
    """The diagnostics that looked at a wrong run and raised no alarm; empty if nothing is wrong."""
    skipped: dict[str, Message]
    """The diagnostics that did not look at this run, with the reason."""
    alarms: dict[str, Message]
    """The message of each diagnostic in `caught_by`."""
    wrong_reason: dict[str, Message]
    """Alarms of diagnostics that also raise one on the clean engine; these do not count."""
    margins: dict[str, float]
    """For each diagnostic in `caught_by` that measures a deviation: its orders of magnitude above
    the clean engine's own noise. In JSON, null stands for infinity."""
    repeatable: bool = True
    """Whether another run would give the same result; False if it depends on the machine, such as
    after a time limit."""
    declined: dict[str, Message] = {}
    """The diagnostics that looked at this run but could not judge it, with the reason."""
    no_alarm: list[str] = []
    """The diagnostics that looked at this run and raised no alarm, whether it is wrong or not."""
    inside: Message = EMPTY
    """Why a right result is right although the changed code ran, also if a diagnostic noticed the
    break; empty if it was not computed."""
    because: Message = EMPTY
    """Why it ends like this on this input: what the changed expressions were; empty if their values
    were not recorded, or do not say."""
    array: DrawnComparison | None = None
    """The array that differs, if it has at most two axes of at most eight entries."""
    losses: DrawnComparison | None = None
    """The loss at the steps of a training run that is silently wrong, at most 64 of them."""
    graph: Graph | None = None
    """The graph around the first divergence, if it is at one place."""

    @property
    def reason(self) -> Message:
        """What shows the outcome, or why a right result is right."""
        if self.inside.kind is Kind.NOTHING or self.stage is None:
            return self.evidence
        return self.inside


class ClaimReport(msgspec.Struct, frozen=True):
    """A page's claim about a diagnostic, compared with what was observed."""

    diagnostic: str
    claim: str
    agrees: bool | None
    """None if the diagnostic could not check any run."""
    evidence: Message


class QuestionReport(msgspec.Struct, frozen=True):
    """A question of a page about a run, and the answer that was observed."""

    probe: str
    loss: Loss | None
    question: str
    answer: str | None
    """As it is shown: numbers have three significant digits. None if there is a problem."""
    because: str
    choices: list[str] = []
    problem: str | None = None
    """Why the expression has no value, or its value is not one of the choices."""


class InPlaceRun(msgspec.Struct, frozen=True):
    """What the break does in the variant of minigrad that adds gradients in place."""

    probe: str
    loss: Loss | None
    outcome: Outcome
    evidence: Message
    repeatable: bool = True
    """As in `RunReport`."""


class PredictionReport(msgspec.Struct, frozen=True):
    """What a learner predicted, and what was observed."""

    page: str
    probe: str
    """A metric, for a page with a recipe."""
    loss: Loss | None
    """None if the prediction is about all losses of the probe."""
    predicted: str
    """An outcome, or what was typed as the answer to a question."""
    actual: str
    right: bool
    question: str = ""
    """The page's question; empty for the prediction of an outcome."""


class Report(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: int
    break_: str = msgspec.field(name="break")
    kind: str
    engine: EngineReport
    sites: list[SiteReport]
    diff: str
    headline: Outcome
    agrees: bool
    """Whether the page states every outcome, and nothing differs from it."""
    seconds: float
    runs: list[RunReport]
    claims: list[ClaimReport]
    missing: dict[str, Message] = {}
    """Diagnostics that could not run because a library is not installed or does not load."""
    left_out: dict[str, Message] = {}
    """Probes that cannot be used to judge the engine, and why."""
    path: Literal["swapped", "reloaded"] | None = None
    """How the patch was applied: by replacing the code of functions in a loaded engine, or by
    loading the patched text. None if nothing was run."""
    misplaced: Message | None = None
    """Why the patch is not the change that the page describes; then nothing is judged."""
    partial: Message | None = None
    """Set if the patch changes only some of the branches that store a gradient."""
    unjudged: list[str] = []
    """If the break does not show on another engine: the probes that would show it, according to
    the page, but that this engine cannot run."""
    resembles: list[str] = []
    """The probes on which the unbroken engine already gives the break's wrong results."""
    why: str = ""
    """Why the break does what it does, in the page's words; empty if the page has none, or
    none about these runs: see `harness.experiment.statements`."""
    beware: str = ""
    """Where it hides, in the page's words."""
    invariant: str = ""
    """The last assertion of the page's invariant; empty if it cannot notice anything here."""
    test: str = ""
    """The page's invariant as a test that runs on its own, in a file for pytest; empty if
    `invariant` is."""
    unexplained: tuple[int, int] | None = None
    """The number of runs that do not end as on the engine that the page explains, and the number
    that it covers; None if they all do, or if the page explains nothing."""
    blind_to: list[str] = []
    """The silently wrong probes on which that assertion holds, if it can be evaluated on probes."""
    questions: list[QuestionReport] = []
    """The page's questions, if its own probes ran on the reference engine without a variant."""
    in_place: list[InPlaceRun] = []
    """The same probes on the variant that adds gradients in place; empty if the patch has no site
    there, on any other engine, and outside `harness break`."""

    @property
    def repeatable(self) -> bool:
        """Whether another run would give the same report, so that it may be cached."""
        return all([run.repeatable for run in self.runs] + [r.repeatable for r in self.in_place])

    @property
    def judged(self) -> bool:
        """Whether some run executed the patched code, so that anything is known about the break.

        If no input that shows it can be run, nothing is known.
        """
        return not self.unjudged and any(run.outcome != "not-reached" for run in self.runs)

    def without(self, diagnostics: Collection[str]) -> Report:
        """Return the report as if these diagnostics caught nothing."""
        if not diagnostics:
            return self
        runs = [
            msgspec.structs.replace(
                run, caught_by=[name for name in run.caught_by if name not in diagnostics]
            )
            for run in self.runs
        ]
        return msgspec.structs.replace(self, runs=runs)

    @property
    def agreement(self) -> tuple[int, int]:
        """The number of runs that end as the page says, and the number that the page covers."""
        stated = [run for run in self.runs if run.agrees is not None]
        return sum(bool(run.agrees) for run in stated), len(stated)

    @property
    def unstated(self) -> list[str]:
        """The probes for which the page does not state every outcome."""
        return list(dict.fromkeys(run.probe for run in self.runs if run.agrees is None))
