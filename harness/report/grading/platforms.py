"""A grade for other programs: Gradescope and PrairieLearn, which list parts of it with points, and
SARIF, which shows each break that is not killed at its line in the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.core.message import Message, message, shortened, verbatim
from harness.grade.feedback import DisclosedBreak, Grade
from harness.report import to_json
from harness.report.grading.text import exclusions, lines, refusals, sentence


@dataclass(frozen=True)
class GradePart:
    """A line with points: a break, a level, or the cost of the tests that were left out."""

    name: str
    description: str
    message: Message
    points: float
    max_points: float


def rows(grade: Grade) -> Iterator[GradePart]:
    """Yield one row per break if breaks may be named, else one row per level.

    If a suite is graded without some tests, the first row is what they cost, so that the
    points of all rows add up to those of the suite.
    """
    if grade.partial:
        earned = sum(score.points for score in grade.levels.values())
        cost = round((grade.points or 0.0) - earned, 6)
        yield GradePart(
            "Tests that fail on a correct engine",
            "",
            verbatim(" ".join(exclusions(grade))),
            cost,
            0.0,
        )
    if grade.feedback != "names":
        for level, score in grade.levels.items():
            said = message("{killed} of {total} breaks killed", killed=score.killed, total=score.of)
            yield GradePart(f"Level {level}", "", said, score.points, score.max_points)
    for shown in (grade.breaks or ()) if grade.feedback == "names" else ():
        if shown.fate != "does-not-apply":
            yield GradePart(
                f"{shown.break_}",
                shown.title or "",
                sentence(shown),
                shown.points or 0.0,
                shown.max_points or 0.0,
            )


# ----- Gradescope -----


def to_gradescope(grade: Grade) -> str:
    """Return the `results.json` of an autograder on Gradescope.

    On Gradescope, every submission has a score: a suite that cannot be graded gets 0 points there,
    its output begins with the reason, and `extra_data` says that it is not gradable.

    The format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
    """
    table = {
        "score": grade.points or 0.0,
        "execution_time": grade.seconds,
        "output": "\n".join(lines(grade)),
        "stdout_visibility": "hidden",
        "extra_data": {
            "gradable": grade.gradable,
            "killed": grade.killed,
            "of": grade.of,
            "score": grade.score,
        },
        "tests": [
            {
                "name": row.name,
                "score": row.points,
                "max_score": row.max_points,
                "output": f"{row.description}: {row.message}".removeprefix(": "),
            }
            for row in rows(grade)
        ],
    }
    return to_json(table)


# ----- PrairieLearn -----

LARGEST = 1_000_000
"""The number of bytes that PrairieLearn accepts."""

SHORT = 10_000
"""The number of characters of output in a file that would be too large otherwise."""


def to_prairielearn(grade: Grade) -> str:
    """Return the `results.json` of an external grader of PrairieLearn.

    The list of tests is left out if the file would be too large.

    The format: https://prairielearn.readthedocs.io/en/latest/externalGrading/
    """
    if not grade.gradable:
        return to_json({"gradable": False, "format_errors": list(refusals(grade))})
    output = "\n".join(lines(grade))
    text = to_json(_prairielearn(grade, output, rows(grade)))
    if len(text.encode()) > LARGEST:
        text = to_json(_prairielearn(grade, shortened(output, SHORT), ()))
    return text


def _prairielearn(grade: Grade, output: str, listed: Iterable[GradePart]) -> dict[str, Any]:
    assert grade.score is not None  # it is gradable
    return {
        "gradable": True,
        "score": min(1.0, round((grade.points or 0.0) / grade.max_points, 4)),
        "message": f"{grade.killed} of {grade.of} breaks killed",
        "output": output,
        "tests": [
            {
                "name": row.name,
                "description": row.description,
                "points": max(row.points, 0.0),  # a cost is only described
                "max_points": row.max_points,
                "message": str(row.message),
            }
            for row in listed
        ],
    }


# ----- SARIF -----

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def to_sarif(grade: Grade) -> str:
    """Return SARIF 2.1.0: a rule for each break or operator, and a result for each one not killed.

    The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    breaks = [shown for shown in grade.breaks or () if shown.fate != "does-not-apply"]
    rules = {_id(shown): _rule(shown) for shown in breaks}
    run = {
        "tool": {"driver": {"name": "breaklab", "rules": list(rules.values())}},
        "invocations": [_invocation(grade)],
        "results": _results(breaks, list(rules), Path(grade.root or ".")),
        "columnKind": "unicodeCodePoints",
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _invocation(grade: Grade) -> dict[str, Any]:
    if grade.gradable:
        return {"executionSuccessful": True}
    notes = [{"level": "error", "message": {"text": text}} for text in refusals(grade)]
    return {"executionSuccessful": False, "toolExecutionNotifications": notes}


def _id(shown: DisclosedBreak) -> str:
    """Return the id of the break, or of the operator, which mutants share."""
    return shown.change.operator if shown.change else f"{shown.break_}"


def _rule(shown: DisclosedBreak) -> dict[str, Any]:
    name = _id(shown)
    title = shown.title or name
    where = "your rule" if shown.change else "the engine"
    command = f"`harness show {name}`" if shown.change else f"`harness break {name}`"
    return {
        "id": name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"The tests pass although {where} has this bug: {title}"},
        "help": {"text": f"{command} shows what the bug does."},
        "properties": {"tags": [shown.family, f"level-{shown.level}"]},
    }


def _results(
    breaks: Sequence[DisclosedBreak], rules: Sequence[str], root: Path
) -> list[dict[str, Any]]:
    return [
        {
            "ruleId": _id(shown),
            "ruleIndex": rules.index(_id(shown)),
            "level": "warning",
            "message": {"text": _message(shown)},
            "locations": [_location(shown, root)],
            **_baseline(shown),
        }
        for shown in breaks
        if shown.fate != "killed"
    ]


def _baseline(shown: DisclosedBreak) -> dict[str, Any]:
    """Return the keys for what the user's baseline says."""
    if not shown.baseline:
        return {}
    state = {"baselineState": "unchanged" if shown.is_accepted else "new"}
    if shown.baseline != "equivalent":
        return state
    return state | {
        "suppressions": [
            {"kind": "external", "status": "accepted", "justification": shown.justification}
        ]
    }


def _message(shown: DisclosedBreak) -> str:
    text = f"No test notices `{shown.break_}` here: {sentence(shown)}."
    if not shown.change:
        return text
    code = f"`{shown.change.before}` became `{shown.change.after}`"
    return f"{text} {code}. Test to write: {shown.change.write}"


def _location(shown: DisclosedBreak, root: Path) -> dict[str, Any]:
    path = root / (shown.file or "")
    return {
        "physicalLocation": {
            "artifactLocation": {
                "uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())
            },
            "region": {"startLine": max(shown.line or 1, 1)},
        }
    }
