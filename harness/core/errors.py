"""The errors that a user can act on, one class for each kind.

    BreaklabError                 a problem, its remedy, and an exit status
    ├── UsageError            2   the command asks for something that does not exist
    ├── PageError             2   a page or another text file that cannot be read (file, line, key)
    │   └── HunkError         2   ... because of its diff
    ├── DoesNotApply          1   a valid patch that matches nothing in this engine
    ├── NotAccepted           1   a matrix that must not be committed
    ├── EnvironmentProblem    3   an engine that does not import, a missing library
    └── InternalError         3   a bug in breaklab: for example, its own engine fails

The command line prints problem and remedy on standard error, in the reader's language, and exits
with the status. Both are messages; a string given for one is a template without fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from harness.core.message import Message, message

Sentence = Message | str
"""A message, or a template without fields."""


def as_message(sentence: Sentence) -> Message:
    """Return a message, or a template without fields as a message."""
    return sentence if isinstance(sentence, Message) else Message(sentence, {})


class BreaklabError(Exception):
    """A problem that the user can solve.

    Parameters
    ----------
    problem : Message or str
        What is wrong, and where.
    remedy : Message or str
        What to do about it.
    """

    exit_status = 2

    def __init__(self, problem: Sentence, remedy: Sentence) -> None:
        super().__init__(problem, remedy)
        self._sentences = as_message(problem), as_message(remedy)

    @property
    def sentences(self) -> tuple[Message, Message]:
        """The problem and the remedy, as messages."""
        return self._sentences

    @property
    def problem(self) -> str:
        """What is wrong, in English."""
        return str(self.sentences[0])

    @property
    def remedy(self) -> str:
        """What to do about it, in English."""
        return str(self.sentences[1])

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and line (1-based) of the problem, or None."""
        return None

    @property
    def complaint(self) -> Message:
        """The message for standard error."""
        problem, remedy = self.sentences
        if self.place:
            file, line = self.place
            problem = message("{file}:{line}: {problem}", file=file, line=line, problem=problem)
        return message("{problem}\n  remedy: {remedy}", problem=problem, remedy=remedy)

    def __str__(self) -> str:
        """The message for standard error, in English."""
        return str(self.complaint)


class UsageError(BreaklabError):
    """An unknown id, probe, variant or option value, or a folder that does not exist."""


class PageError(BreaklabError):
    """A page, or another text file, that cannot be read; the message starts with ``file:line:``."""

    def __init__(self, path: str, line: int, problem: Sentence, remedy: Sentence) -> None:
        super().__init__(problem, remedy)
        self.path, self.line = path, line

    @property
    def place(self) -> tuple[str, int]:
        """The file and line (1-based) of the mistake."""
        return self.path, self.line


class HunkError(PageError):
    """A hunk that the patch notation cannot read, or that is ambiguous in this engine."""


class DoesNotApply(BreaklabError):
    """A valid hunk that matches nothing in this engine.

    Parameters
    ----------
    reason : str
        Why, in a few words.
    explain : callable
        Returns the full problem and the remedy. Finding the nearest code takes time, so it is
        called only when the message is read.
    place : tuple of str and int, optional
        File and line of the hunk.
    absent : bool
        Whether the engine has no definition with the name of the hunk's scope; otherwise the code
        in it is different.
    """

    exit_status = 1

    def __init__(
        self,
        reason: str,
        explain: Callable[[], tuple[Sentence, Sentence]],
        place: tuple[str, int] | None = None,
        *,
        absent: bool = False,
    ) -> None:
        super().__init__(reason, "")
        self.reason, self._explain, self._place = reason, explain, place
        self.absent = absent

    @cached_property
    def _explanation(self) -> tuple[Message, Message]:
        problem, remedy = self._explain()
        return as_message(problem), as_message(remedy)

    @property
    def sentences(self) -> tuple[Message, Message]:
        """What was searched for with the nearest code, and the remedy."""
        return self._explanation

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and line of the hunk."""
        return self._place


class NotAccepted(BreaklabError):
    """A matrix whose controls fail, so it must not be committed."""

    exit_status = 1


class EnvironmentProblem(BreaklabError):
    """Something outside the catalogue is missing or broken: an engine, a library."""

    exit_status = 3


class InternalError(BreaklabError):
    """Something is wrong in breaklab itself, so no result can be trusted."""

    exit_status = 3
