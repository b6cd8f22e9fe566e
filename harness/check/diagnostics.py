"""The check of a diagnostic that a catalogue brings: it is controlled like ours.

It can be read; it judges runs, without errors of its own; it raises no alarm on the unbroken
engine, on any correct rewrite of it, or on a patch that changes nothing; and it raises one on an
engine that is wrong everywhere. All shared probes are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.core.errors import BreaklabError
from harness.core.finding import Finding, finding_from
from harness.core.report import Report
from harness.core.run import Run
from harness.diagnostics.own import from_catalogue, read_own
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.experiment.lab import run_lab
from harness.grade.probes import prepare_bare
from harness.pages.catalogue import Catalogue
from harness.pages.diagnostic import OwnDiagnostic
from harness.pages.front_matter import Variant
from harness.pages.page import Page
from harness.pages.probe import Probe

_WRONG = "change the diagnostic: on a correct engine, it must raise no alarm"


def check_diagnostic(path: Path, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the diagnostic in a file."""
    found, mistakes = read_own(context.catalogue)
    for error in mistakes:
        if error.path == str(path):
            yield finding_from(error, error.path)
    for own in found:
        if own.path == str(path):
            yield from _Trial(own, context).findings()


class _Trial:
    """A diagnostic alone, on the shared probes that it applies to."""

    def __init__(self, own: OwnDiagnostic, context: Context) -> None:
        self.own, self.context = own, context
        self.baseline = Baseline(
            context.baseline.cache,
            (),
            context.baseline.limits,
            select=True,
            own=[from_catalogue(own)],
        )

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, up to the first control that it violates."""
        catalogue, name = self.context.catalogue, self.own.name
        probes = [p for p in catalogue.shared_probes.values() if p.kind in self.own.kinds]
        clean = self.baseline.clean(self.context.engine, probes)
        runs = [key.run for key in clean.values() if name in key.run.measured]
        yield from self._errors(runs)
        judged = [run for run in runs if _is_verdict(run, name)]
        alarms = {probe: str(k.alarms[name]) for (probe, _), k in clean.items() if name in k.alarms}
        if alarms:
            yield self._false_alarms("the unbroken engine", alarms)
            return
        if not judged:
            reasons = dict.fromkeys(str(run.measured[name].problem) for run in runs)
            problem = f"judges no run of any shared probe: {'; '.join(list(reasons)[:2]) or 'none'}"
            yield self._finding(problem, "correct `KINDS`, or let it judge more")
            return
        usable = [probe for probe in probes if any(run.probe == probe.name for run in judged)]
        for page in _correct_rewrites(catalogue, self.context):
            report = self._report(page, usable)
            if isinstance(report, Finding):
                yield report
                continue
            alarms = {
                run.probe: str(run.alarms[name])
                for run in report.runs
                if name in run.alarms and run.outcome != "convention"
            }
            if alarms:
                yield self._false_alarms(f"the correct engine `{page.id}`", alarms)
                return
        yield from self._sabotage(usable)

    def _sabotage(self, probes: Sequence[Probe]) -> Iterator[Finding]:
        sabotage = self.context.catalogue.conventions.controls.sabotage
        if sabotage is None:
            return
        report = self._report(self.context.catalogue.page(sabotage, "control"), probes)
        if isinstance(report, Finding):
            yield report
        elif not any(self.own.name in run.caught_by for run in report.runs):
            problem = f"raises no alarm on `{sabotage}`, an engine that is wrong everywhere"
            yield self._finding(problem, "correct the diagnostic: it cannot fail")

    def _errors(self, runs: Iterable[Run]) -> Iterator[Finding]:
        """Yield a finding about the errors that its own code raises, or the limits it exceeds."""
        name = self.own.name
        failures = {
            run.probe: measured.failure
            for run in runs
            if (measured := run.measured[name]).failure and measured.ours
        }
        if failures:
            probe, first = next(iter(failures.items()))
            problem = f"fails on the probe `{probe}`{_others(failures)}: {first}"
            remedy = "correct the code; where it cannot judge, return the reason as a text"
            yield self._finding(problem, remedy)

    def _report(self, page: Page, probes: Sequence[Probe]) -> Report | Finding:
        try:
            return run_lab(prepare_bare(page, probes, self.context), self.baseline)
        except BreaklabError as error:
            return finding_from(error, page.path)

    def _false_alarms(self, engine: str, alarms: dict[str, str]) -> Finding:
        probe, text = next(iter(alarms.items()))
        problem = f"raises a false alarm on {engine} with `{probe}`{_others(alarms)}: {text}"
        return self._finding(problem, _WRONG)

    def _finding(self, problem: str, remedy: str) -> Finding:
        return Finding(self.own.path, self.own.line, problem, remedy)


def _is_verdict(run: Run, name: str) -> bool:
    measured = run.measured[name]
    return not measured.problem and not (measured.failure and measured.ours)


def _others(probes: dict[str, str]) -> str:
    more = len(probes) - 1
    return f" and {more} more" if more else ""


def _correct_rewrites(catalogue: Catalogue, context: Context) -> list[Page]:
    """Return the variants of the engine, and the control that changes nothing."""
    pages = [page for page in catalogue.pages[0] if isinstance(page.front, Variant)]
    pages = [page for page in pages if not page.is_about_another(context.engine.name)]
    no_op = catalogue.conventions.controls.no_op
    return [*pages, *([catalogue.page(no_op, "control")] if no_op else [])]
