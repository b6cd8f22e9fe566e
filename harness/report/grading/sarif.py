"""The breaks that a suite does not kill as SARIF 2.1.0, each at its line in the engine.

The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.grade.feedback import DisclosedBreak, Grade
from harness.report import to_json
from harness.report.grading.sentences import refusals, sentence

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def render(grade: Grade) -> str:
    """Return a log with a rule for each break or operator, and a result for each one not killed."""
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
        }
        for shown in breaks
        if shown.fate != "killed"
    ]


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
