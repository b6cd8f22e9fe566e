"""Diagnostics that a catalogue brings: their text runs in a child, and this process reads verdicts.

The answer of `check` is a measurement like any other: the child sends an alarm, the number of
compared entries, or why it could not judge, and `MeasurementForm` says which of these is valid.
"""

from __future__ import annotations

from functools import partial

from harness.core.errors import PageError
from harness.core.measurement import Measurement
from harness.core.message import message, verbatim
from harness.core.vocabulary import Alarm, Silent, Verdict
from harness.diagnostics import DIAGNOSTICS
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.pages.catalogue import Catalogue
from harness.pages.checks import CHECK, OwnDiagnostic, read_diagnostic
from harness.runs.protocol import COMPARED, VERDICT_FORM


def from_catalogue(own: OwnDiagnostic) -> Diagnostic:
    """Return a catalogue's diagnostic as one that can be used beside ours."""
    return Diagnostic(
        name=own.name,
        sees=own.sees,
        blind=own.blind,
        check=partial(_read_verdict, own.name),
        cost=f"{own.passes:g}",
        passes=lambda _: own.passes,
        kinds=own.kinds,
        judged=Measurement(own.name, CHECK, own.kinds, VERDICT_FORM, own.text),
    )


def read_own(catalogue: Catalogue) -> tuple[list[OwnDiagnostic], list[PageError]]:
    """Return the diagnostics that the catalogue brings, and the errors about the others.

    A diagnostic cannot have the name of one of ours, or of another one in the catalogue.
    """
    found: list[OwnDiagnostic] = []
    mistakes: list[PageError] = []
    taken = {diagnostic.name: "harness/diagnostics" for diagnostic in DIAGNOSTICS}
    for path in catalogue.diagnostic_files:
        try:
            own = read_diagnostic(path)
        except PageError as error:
            mistakes.append(error)
            continue
        if own.name in taken:
            problem = message(
                "the diagnostic `{name}` is also defined in {file}",
                name=own.name,
                file=taken[own.name],
            )
            mistakes.append(PageError(own.path, 1, problem, "rename the file"))
            continue
        taken[own.name] = own.path
        found.append(own)
    return found, mistakes


def _read_verdict(name: str, observation: Observation) -> Verdict:
    measured = observation.run.measured[name]
    if measured.alarm is not None:
        return Alarm(verbatim(measured.alarm))
    return Silent(int(measured.numbers[COMPARED]))
