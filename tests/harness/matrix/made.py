"""Evaluations made by hand, for tests of what is made of them."""

from collections.abc import Callable
from typing import Any

from harness.core.report import EngineReport, RunReport
from harness.core.vocabulary import Outcome, Silent
from harness.diagnostics import Diagnostic
from harness.matrix.evaluation import Evaluation, Evaluations, Size
from harness.matrix.records import Difference, FalseAlarm, Matrix
from harness.matrix.verdict import build_matrix
from harness.pages.conventions import Controls, Conventions
from harness.pages.front_matter import Pardon
from tests.harness.reports import report_with, run_of

SHARED = {
    "small": Size("gradient", 2),
    "large": Size("gradient", 40),
    "train": Size("steps", 0),
    "layer": Size("module", 6),
}


def diagnostic(name: str, passes: Callable[[int], float] = float, **rest: Any) -> Diagnostic:
    words = {"sees": "things", "blind": "others", "cost": "P"}
    return Diagnostic(name=name, passes=passes, check=lambda _: Silent(1), **(words | rest))


SHAPE, GRADCHECK, TORCH = (
    diagnostic("shape", lambda _: 3.0),
    diagnostic("gradcheck", lambda elements: 2.0 * elements + 3),
    diagnostic("torch", lambda _: 3.0, library="torch"),
)
ALL = (SHAPE, GRADCHECK, TORCH)
NAMES = [d.name for d in ALL]


def seen(
    probe: str = "small",
    by: str = "",
    outcome: Outcome = "silent-corruption",
    *,
    skipped: dict[str, str] | None = None,
    declined: dict[str, str] | None = None,
    wrong: str = "",
    **rest: Any,
) -> RunReport:
    """A run under the weighted loss, caught `by` these diagnostics; all others raise no alarm."""
    skipped, declined, false = skipped or {}, declined or {}, wrong.split()
    silent = [n for n in NAMES if n not in (*by.split(), *false, *skipped, *declined)]
    given = {
        "caught_by": by.split(),
        "no_alarm": silent,
        "missed_by": silent if outcome in ("silent-corruption", "crash") else [],
        "alarms": {name: f"{name} on {probe}" for name in by.split()},
        "wrong_reason": {name: f"{name} on {probe}" for name in false},
        "skipped": skipped,
        "declined": declined,
        "why": f"why {probe}",
    }
    return run_of(probe, rest.pop("loss", "weighted"), outcome, **(given | rest))


def evaluation(
    name: str, *runs: RunReport, family: str = "f", pardon: str = "", **own: Size
) -> Evaluation:
    return Evaluation(
        family=family,
        report=report_with(list(runs), break_=name),
        pardon=Pardon("equivalent", pardon) if pardon else None,
        own=own,
    )


NO_OP = evaluation("no-op", seen(outcome="disguised-correct"), seen("large", "", "not-reached"))
SABOTAGE = evaluation("sabotage", seen("small", "shape gradcheck torch"))


CONVENTIONS = Conventions(controls=Controls("no-op", "sabotage"))


def evaluations(
    *breaks: Evaluation,
    variants: tuple[Evaluation, ...] = (),
    controls: tuple[Evaluation, ...] = (NO_OP, SABOTAGE),
    diagnostics: tuple[Diagnostic, ...] = ALL,
    clean: tuple[FalseAlarm, ...] = (),
) -> Evaluations:
    engine = EngineReport("minigrad", None)
    return Evaluations(engine, diagnostics, breaks, variants, controls, clean, SHARED, CONVENTIONS)


def everything() -> Matrix:
    """A matrix in which everything happens that can be shown."""
    return build_matrix(
        evaluations(
            evaluation("caught", seen("small", "shape gradcheck"), seen("large", "shape")),
            evaluation("alone", seen("large", "gradcheck", margins={"gradcheck": 7.2}), family="g"),
            evaluation("lost", seen("small", wrong="gradcheck"), family="g"),
            evaluation("same", seen(outcome="disguised-correct"), pardon="Equivalent | here."),
            evaluation("unreached", seen(outcome="not-reached")),
            evaluation("elsewhere"),
            variants=(evaluation("variant", seen("small", "shape", "disguised-correct")),),
            clean=(FalseAlarm("clean", "gradcheck", "small", "uniform", "noise"),),
        ),
        differences=[
            Difference("caught", "-", "shape no longer catches it with train"),
            Difference("gone", "-", "is in the committed matrix, but has no page"),
        ],
    )
