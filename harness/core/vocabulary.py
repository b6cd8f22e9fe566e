"""The closed vocabularies that pages, code, JSON and help texts share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from harness.core.message import Message

PageKind = Literal["break", "variant", "myth", "exercise", "operator", "control"]
Loss = Literal["uniform", "weighted"]
Outcome = Literal[
    "silent-corruption",
    "crash",
    "disguised-correct",
    "convention",
    "not-reached",
    "misplaced",
    "does-not-apply",
]
PardonReason = Literal["equivalent", "statistical", "convention", "needs-library", "not-observable"]
"""Why a break may survive every diagnostic.

`equivalent`: no program could observe the change. `statistical`: only the distribution over many
runs differs. `convention`: both answers are right where the derivative is not unique.
`needs-library`: only a library that we do not use could tell. `not-observable`: the answer key
differs, but nothing that a developer has shows which result is intended.
"""

Stage = Literal["not-reached", "not-infected", "not-propagated", "not-revealed", "revealed"]
"""How far a fault got: reach, infect, propagate, reveal (Ammann and Offutt, Introduction to
Software Testing, the RIPR model)."""

Variation = Literal["values", "layout", "written", "operands", "frozen", "graph", "needed"]
"""How the arguments of a call are changed, to see whether other ones show a wrong number.

With `needed`, they are not: a wrong number is discarded, since an operand needs no gradient.
"""

LOSSES: tuple[Loss, ...] = get_args(Loss)
VARIATIONS: tuple[Variation, ...] = get_args(Variation)


class Phase(StrEnum):
    """What was being done when a run, a survey or a program failed."""

    IMPORT = "import"
    PROBE = "probe"
    LEAVES = "leaves"
    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "step"
    LAYER = "layer"
    TRAIN = "train"
    EVAL = "eval"
    EVAL_AGAIN = "eval again"
    EVAL_FIRST_ROW = "eval, first row"
    TRAIN_AGAIN = "train again"
    TEST = "test"
    RUN = "run"
    PROGRAM = "program"
    SENDING = "sending"
    CLASS = "class"
    TENSORS = "tensors"
    ACCUMULATION = "accumulation"
    UNBROADCASTING = "unbroadcasting"


class Lack(StrEnum):
    """What is missing, if an engine cannot run."""

    NUMPY_NAME = "numpy-name"
    """A name that NumPy does not have, or no longer has."""
    OPERATION = "operation"
    """An operation that the engine does not have."""
    LIBRARY_FEATURE = "library-feature"
    """A feature that every library defines in its own way, such as layers or a tape."""


OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""Most insidious first: a break's headline is the first of these among its runs."""


def headline(outcomes: set[Outcome]) -> Outcome:
    """Return the outcome that summarizes several; without any run, the break does not apply."""
    return next((outcome for outcome in OUTCOMES if outcome in outcomes), "does-not-apply")


# ----- Verdicts of a diagnostic on a run -----


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
