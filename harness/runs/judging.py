"""In the child: the check of a diagnostic that a catalogue brings, and its verdict as a record.

The check gets the trial and the run of the engine at hand. Like a test, it raises an alarm by
failing an `assert`; it returns how many numbers it compared, or a text that says why it could not
judge the run.
"""

from __future__ import annotations

import traceback
from types import FrameType

from harness.core.run import (
    Measured,
    Measurement,
    MeasurementForm,
    Quantity,
    Run,
    is_repeatable,
    message_of,
)
from harness.pages.checks import CHECK
from harness.runs.trial import Trial, compile_at, line_within

COMPARED = "compared"
"""The number of a verdict without an alarm."""

FORM = MeasurementForm(numbers=(Quantity(COMPARED),), judges=True)
"""What the check of a catalogue's diagnostic may return."""

MOST = 2**53
"""No larger number is sent: a float would round it."""


def judge(measurement: Measurement, trial: Trial, run: Run) -> Measured:
    """Return the verdict on a run. Raises what the engine or the check raises."""
    names: dict[str, object] = {"__name__": measurement.name}
    exec(compile_at(measurement.text, measurement.path, 1), names)  # noqa: S102  it is code
    answer = names[CHECK](trial, run)  # type: ignore[operator]
    if isinstance(answer, str):
        return Measured(problem=str(answer) or "it gives no reason")
    if isinstance(answer, bool) or not hasattr(answer, "__index__"):
        text = f"`check` returned {type(answer).__name__}, not the number of compared entries"
        return Measured(failure=text, ours=True)
    count = int(answer)
    if count < 1:
        return Measured(problem="it compared nothing")
    return Measured(numbers={COMPARED: float(min(count, MOST))})


def verdict_of_error(measurement: Measurement, error: BaseException) -> Measured:
    """Return what the check's own code raised: an alarm, or an error with its line."""
    path, text = measurement.path, message_of(error)
    if isinstance(error, AssertionError):
        line = line_within(measurement.text, path, 1, error)
        return Measured(alarm=text or f"it does not hold: {line}")
    lines = [n for frame, n in traceback.walk_tb(error.__traceback__) if _file(frame) == path]
    line_number = lines[-1] if lines else getattr(error, "lineno", None) or 1
    text = f"{type(error).__name__} in line {line_number} of {path}: {text}"
    return Measured(failure=text, ours=True, repeatable=is_repeatable(error))


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename
