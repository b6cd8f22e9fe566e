"""Reports made by hand, for tests of what shows them."""

from typing import Any

from harness.core.message import verbatim
from harness.core.report import EngineReport, Report, RunReport, SiteReport
from harness.core.vocabulary import Loss, Outcome, headline

Seen = tuple[str, Loss | None, Outcome]


def run_of(probe: str, loss: Loss | None, outcome: Outcome, **rest: Any) -> RunReport:
    given: dict[str, Any] = {
        "kind": None,
        "evidence": f"what {probe} showed",
        "stage": "revealed",
        "why": "noticed",
        "fingerprint": None,
        "first_divergence": None,
        "better_than_correct": False,
        "expected": outcome,
        "agrees": True,
        "caught_by": [],
        "missed_by": [],
        "skipped": {},
        "alarms": {},
        "wrong_reason": {},
        "margins": {},
    }
    fields = {name: _with_messages(name, value) for name, value in (given | rest).items()}
    return RunReport(probe=probe, loss=loss, outcome=outcome, **fields)


def _with_messages(field: str, value: Any) -> Any:
    """The value of a field of `RunReport`, with messages for texts where it holds messages."""
    if isinstance(value, str) and field in ("evidence", "why", "fingerprint", "first_divergence"):
        return verbatim(value)
    if field in ("skipped", "declined", "alarms", "wrong_reason"):
        return {name: verbatim(text) for name, text in value.items()}
    return value


def report_of(*seen: Seen) -> Report:
    return report_with([run_of(*one) for one in seen])


def report_with(runs: list[RunReport], **rest: Any) -> Report:
    given: dict[str, Any] = {
        "schema": 1,
        "break_": "a-break",
        "kind": "break",
        "engine": EngineReport("minigrad", None),
        "sites": [SiteReport("minigrad/elementwise.py", 22, "add.vjp")],
        "diff": "--- a\n+++ b\n-x\n+y\n",
        "headline": headline({run.outcome for run in runs}),
        "agrees": all(run.agrees is not False for run in runs),
        "seconds": 0.1,
        "runs": runs,
        "claims": [],
    }
    return Report(**(given | rest))
