"""The verdicts that a diagnostic may return on a run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.message import Message


@dataclass(frozen=True)
class Alarm:
    """Something is wrong; the message says what."""

    message: Message
    deviation: float | None = None
    """The relative error, if there is a number for it; infinite for NaN."""


@dataclass(frozen=True)
class Silent:
    """Nothing is wrong among the `compared` values."""

    compared: int
    deviation: float | None = None
    """As in `Alarm`: the error that was accepted as rounding."""

    def __post_init__(self) -> None:
        """Raise ValueError if nothing was compared: such a check has not passed."""
        if self.compared < 1:
            raise ValueError("a diagnostic that compared nothing cannot be silent")


@dataclass(frozen=True)
class Skipped:
    """Nothing was checked, for this reason; never counted as silent."""

    reason: Message
    repeatable: bool = True
    """Whether it would be skipped in another run too; False if a library could not be run."""


Verdict = Alarm | Silent | Skipped
