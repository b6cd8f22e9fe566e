"""What can go wrong through no fault of ours, one class a kind.

    BreaklabError                 every one below: a message with its remedy, and an exit status
    ├── UsageError            2   the command asks for something that is not there
    ├── PageError             2   a page that cannot be read (file, line, key, remedy)
    │   └── HunkError         2   ... because of its diff
    ├── DoesNotApply          1   a sound patch that finds no site in this engine
    ├── NotAccepted           1   a matrix that cannot become the committed one
    └── EnvironmentProblem    3   an engine that does not import, a library that is missing

The command line prints the message on standard error and ends with the status; nothing else
catches these.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.core.vocabulary import visible


class BreaklabError(Exception):
    """A problem that the user can solve; the message says how."""

    exit_status = 2


class UsageError(BreaklabError):
    """An unknown id, probe, variant or option value, or a folder that does not exist."""


class PageError(BreaklabError):
    """A page that cannot be read: the message starts with ``file:line:``."""

    def __init__(self, path: str, line: int, problem: str, remedy: str) -> None:
        self.path, self.line, self.problem, self.remedy = path, line, visible(problem), remedy
        super().__init__(f"{visible(path)}:{line}: {self.problem}\n  remedy: {remedy}")


class HunkError(PageError):
    """A hunk that the patch notation cannot read, or that is ambiguous in this engine."""


class DoesNotApply(BreaklabError):
    """A hunk that is sound but matches nothing in this engine."""

    exit_status = 1

    def __init__(self, reason: str, explain: Callable[[], str] | None = None) -> None:
        """`reason` in a few words; `explain` looks for what comes nearest, when that is read."""
        super().__init__(reason)
        self.reason, self._explain = reason, explain

    def __str__(self) -> str:
        """The whole message."""
        return self._explain() if self._explain else self.reason


class NotAccepted(BreaklabError):
    """A matrix whose controls do not hold: it must not become what is expected."""

    exit_status = 1


class EnvironmentProblem(BreaklabError):
    """Something outside the catalogue is missing or broken: an engine, a library."""

    exit_status = 3
