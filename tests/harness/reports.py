"""Reports made by hand, for tests of what shows them."""

from typing import Any

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
    return RunReport(probe=probe, loss=loss, outcome=outcome, **(given | rest))


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
