"""What a diagnostic may say of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Alarm:
    """Something is wrong, and this is the sentence that says what."""

    message: str
    deviation: float | None = None
    """How far off, relative to what is right, where a number can say it; infinite for NaN."""


@dataclass(frozen=True)
class Silent:
    """Nothing is wrong among the `compared` things that were looked at."""

    compared: int
    deviation: float | None = None
    """As in `Alarm`: what was let pass as rounding."""

    def __post_init__(self) -> None:
        """A check that compared nothing has not passed."""
        if self.compared < 1:
            raise ValueError("a diagnostic that compared nothing cannot be silent")


@dataclass(frozen=True)
class Skipped:
    """Nothing was checked, for this reason; never counted as silent."""

    reason: str
    repeatable: bool = True
    """Whether it would be skipped another time; False where a library could not be run."""


Verdict = Alarm | Silent | Skipped
