"""How far a fault gets in a suite that does not notice it, and why no test does.

This comes after all verdicts, which it cannot change. The reason of a survivor is measured in a
process that is not blind (see `Processes.compare`). A suite that behaves differently there, since
it can see where it is, spoils its own explanation and nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from harness.answer_key.stage import Infection, infection_of
from harness.core.vocabulary import Stage
from harness.grade.files import NotGradable
from harness.grade.mutants import Mutant
from harness.grade.plan import GradingPlan, Marked
from harness.grade.processes import Processes
from harness.grade.protocol import Ended
from harness.grade.reasons import reason_of
from harness.grade.suite import BreakResult, Reason, ReasonKind
from harness.runs.facts import Fact, is_possible

PATIENCE = 30.0
"""Seconds that finding all reasons may take, in addition to what the grading took. Afterwards, the
reason is "not measured"."""

STAGES: Mapping[ReasonKind, Stage] = {
    "assertion": "not-revealed",
    "inputs": "not-infected",
    "same": "not-infected",
}
"""How far the fault got, by the reason; another one says nothing about that."""

WORDS, MOST_POSITIONS = ("returned", "saved_tensors", "global", "keys"), 10
"""Words, and the number of positions, that occur in names beside those of the engine."""

_WORD, _NAME = re.compile(r"\w+"), re.compile(r"[\w.,'\[\]{} ]*")
"""A word, and the name of an argument: `a`, `ctx.saved[0]`, `self.cache['x']`, or two of these."""

_MOST_TRACED, _FIRST_TRACED = 50, 3
"""The number of tests in which the values inside are compared, and how many of them come first."""


class Explaining:
    """Says why breaks are not killed.

    Parameters
    ----------
    plan, processes
        The breaks, and the processes of the suite.
    names : sequence of str
        The ids of all tests.
    counted : mapping from int to Ended
        The tests that count, with what they did on the engine without a break.
    start : float
        When the grading began, as `time.perf_counter` says.
    """

    def __init__(
        self,
        plan: GradingPlan,
        processes: Processes,
        names: Sequence[str],
        counted: Mapping[int, Ended],
        start: float,
    ) -> None:
        self.plan, self.processes, self.names, self.counted = plan, processes, names, counted
        self.mutants = {mutant.id: mutant for mutant in plan.breaks}
        texts = " ".join(plan.engine.sources.values())
        self.words = {*_WORD.findall(texts), *WORDS, *map(str, range(MOST_POSITIONS))}
        """The words that the name of an argument may consist of."""
        now = time.perf_counter()
        self.end = now + (now - start) + PATIENCE

    def explained(self, result: BreakResult) -> BreakResult:
        """Return a result with how far the fault got, and why it survives; None if not known."""
        match result.fate:
            case "not-reached":
                stage: Stage | None = "not-reached"
            case "killed":
                stage = "revealed"
            case "survived":
                return self._survivor(result)
            case _:
                stage = None
        return msgspec.structs.replace(result, stage=stage)

    def _survivor(self, result: BreakResult) -> BreakResult:
        mutant, reaching = self.mutants[result.break_], set(result.reached_by)
        tests = sorted(test for test in self.counted if self.names[test] in reaching)
        reason = self._reason(mutant, tests)
        stage = STAGES.get(reason.kind)
        if stage is None and result.path == "swapped":
            stage = self._traced_stage(mutant, tests)
        return msgspec.structs.replace(result, stage=stage, reason=reason)

    def _reason(self, mutant: Mutant, tests: Sequence[int]) -> Reason:
        seconds, codes = self.end - time.perf_counter(), self.plan.compared(mutant)
        if seconds <= 0 or codes is None:
            return reason_of(None, self.names)
        comparison = self.processes.compare(codes, tests, seconds)
        if comparison is not None and comparison.common:
            comparison.common = {fact for fact in comparison.common if self._is_own(fact)}
        return reason_of(comparison, self.names, is_bug=True)

    def _is_own(self, fact: Fact) -> bool:
        """Whether calls can have a property, of an argument named by words in the engine's files.

        A suite may have put others there: see `harness.grade.feedback`.
        """
        argument = fact[1]
        is_name = is_possible(fact) and _NAME.fullmatch(argument)
        return bool(is_name) and all(word in self.words for word in _WORD.findall(argument))

    # ----- Where the reason is not known -----
    #
    # These runs contain the published break, and are made by the process that is blind.

    def _traced_stage(self, mutant: Mutant, tests: Sequence[int]) -> Stage | None:
        """Return how far the fault got, from the numbers that changed functions take and return."""
        marked = self.plan.marked(mutant)
        chosen = sorted(tests, key=lambda test: self.counted[test].seconds)[:_MOST_TRACED]
        infections: list[Infection] = []
        # Most wrong numbers are found by the quickest tests; then the others are not needed.
        for some in (chosen[:_FIRST_TRACED], chosen[_FIRST_TRACED:]):
            observed = self._traced(marked, some) if some else {}
            if observed is None:
                return None
            infections += observed.values()
            if stage_of_survivor(infections) == "not-revealed":
                return "not-revealed"
        return stage_of_survivor(infections) if len(infections) == len(tests) else None

    def _traced(self, marked: Marked, tests: Sequence[int]) -> dict[int, Infection] | None:
        """Return what the numbers inside tests show, by test; None if they cannot be observed."""
        try:
            broken, clean = (
                self.processes.observe(codes, tests, trail=True)
                for codes in (marked.broken, marked.clean)
            )
        except NotGradable:  # too late to matter
            return None
        if "reloaded" in (broken.path, clean.path):
            return None
        return {
            test: infection_of(broken.ended[test].trail, clean.ended[test].trail)
            for test in tests
            if test in broken.ended and test in clean.ended
        }


def stage_of_survivor(infections: Sequence[Infection]) -> Stage | None:
    """Return where a fault was lost in tests that pass; None if that is not known."""
    values = {infection.values for infection in infections}
    if "wrong" in values:
        return "not-revealed"
    return None if "unknown" in values or not values else "not-infected"
