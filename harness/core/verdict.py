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
class Declined:
    """The diagnostic looked at the run and could not judge it, for this reason."""

    reason: Message
    repeatable: bool = True
    """Whether it would decline another run too; False if that depends on the machine."""


@dataclass(frozen=True)
class Skipped:
    """The diagnostic did not look: it does not apply to this probe, or a library is missing."""

    reason: Message
    repeatable: bool = True
    """Whether it would be skipped in another run too; False if a library could not be run."""


Verdict = Alarm | Silent | Declined | Skipped
"""Only `Silent` means that nothing wrong was found; the last two compared nothing."""
