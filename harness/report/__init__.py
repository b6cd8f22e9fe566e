"""Reports in every format: terminal, JSON, Markdown, JUnit."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.report.terminal import Screen

RENDERERS: Mapping[str, str] = {
    "Report": "terminal:show_report",
    "TrainingReport": "training:show_training",
    "MythReport": "myth:show_myth",
    "ExerciseReport": "exercise:show_exercise",
    "PageCheck": "findings:show_check",
    "Matrix": "matrix:show_matrix",
    "Diagnosis": "doctor:show_diagnosis",
}
"""The renderer, as `module:function` below `harness.report`, by the name of the report's type: a
command imports only the one that it needs."""


def show(console: Screen, report: object, **details: object) -> None:
    """Print a report; `details` are arguments of its renderer besides the report."""
    module, _, function = RENDERERS[type(report).__name__].partition(":")
    renderer = getattr(import_module(f"harness.report.{module}"), function)
    renderer(console, report, **details)
