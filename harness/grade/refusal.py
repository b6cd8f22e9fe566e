"""Why a suite cannot be graded: one sentence for the instructor, and what a student reads of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """Text that a run may have chosen, and what a student reads in its place."""

    text: str
    shown: str


class NotGradable(Exception):
    """The suite cannot be graded; the message says why.

    `template` is our own sentence, and the arguments are our own words as well, unless they are
    `Said`.
    """

    def __init__(self, template: str, **arguments: Said | str | int) -> None:
        whole = {k: v.text if isinstance(v, Said) else v for k, v in arguments.items()}
        stated = {k: v.shown if isinstance(v, Said) else v for k, v in arguments.items()}
        super().__init__(template.format(**whole))
        self.stated = template.format(**stated)
        """The message that a student may read."""
