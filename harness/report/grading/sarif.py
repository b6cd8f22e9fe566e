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
    """Return a log with a rule for each break, and a result for each one that is not killed."""
    breaks = [shown for shown in grade.breaks or () if shown.fate != "does-not-apply"]
    run = {
        "tool": {"driver": {"name": "breaklab", "rules": [_rule(shown) for shown in breaks]}},
        "invocations": [_invocation(grade)],
        "results": _results(breaks, Path(grade.root or ".")),
        "columnKind": "unicodeCodePoints",
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _invocation(grade: Grade) -> dict[str, Any]:
    if grade.gradable:
        return {"executionSuccessful": True}
    notes = [{"level": "error", "message": {"text": text}} for text in refusals(grade)]
    return {"executionSuccessful": False, "toolExecutionNotifications": notes}


def _rule(shown: DisclosedBreak) -> dict[str, Any]:
    title = shown.title or f"{shown.break_}"
    return {
        "id": shown.break_,
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"The tests pass although the engine has this bug: {title}"},
        "help": {"text": f"`harness break {shown.break_}` shows what the bug does."},
        "properties": {"tags": [shown.family, f"level-{shown.level}"]},
    }


def _results(breaks: Sequence[DisclosedBreak], root: Path) -> list[dict[str, Any]]:
    return [
        {
            "ruleId": shown.break_,
            "ruleIndex": index,
            "level": "warning",
            "message": {"text": f"No test notices `{shown.break_}` here: {sentence(shown)}."},
            "locations": [_location(shown, root)],
        }
        for index, shown in enumerate(breaks)
        if shown.fate != "killed"
    ]


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
