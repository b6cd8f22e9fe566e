"""The errors that a user can act on, one class for each kind.

    BreaklabError                 a problem, its remedy, and an exit status
    ├── UsageError            2   the command asks for something that does not exist
    ├── PageError             2   a page or another text file that cannot be read (file, line, key)
    │   └── HunkError         2   ... because of its diff
    ├── DoesNotApply          1   a valid patch that matches nothing in this engine
    ├── NotAccepted           1   a matrix that must not be committed
    ├── EnvironmentProblem    3   an engine that does not import, a missing library
    └── InternalError         3   a bug in breaklab: for example, its own engine fails

The command line prints problem and remedy on standard error and exits with the status.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property


class BreaklabError(Exception):
    """A problem that the user can solve.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    remedy : str
        What to do about it.
    """

    exit_status = 2

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self._problem, self._remedy = problem, remedy

    @property
    def problem(self) -> str:
        """What is wrong."""
        return self._problem

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self._remedy

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and line (1-based) of the problem, or None."""
        return None

    def __str__(self) -> str:
        """The message for standard error."""
        where = f"{self.place[0]}:{self.place[1]}: " if self.place else ""
        return f"{where}{self.problem}\n  remedy: {self.remedy}"


class UsageError(BreaklabError):
    """An unknown id, probe, variant or option value, or a folder that does not exist."""


class PageError(BreaklabError):
    """A page, or another text file, that cannot be read; the message starts with ``file:line:``."""

    def __init__(self, path: str, line: int, problem: str, remedy: str) -> None:
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
    """

    exit_status = 1

    def __init__(
        self,
        reason: str,
        explain: Callable[[], tuple[str, str]],
        place: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(reason, "")
        self.reason, self._explain, self._place = reason, explain, place

    @cached_property
    def _explanation(self) -> tuple[str, str]:
        return self._explain()

    @property
    def problem(self) -> str:
        """What was searched for, and the nearest code."""
        return self._explanation[0]

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self._explanation[1]

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
