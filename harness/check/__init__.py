"""Comparing every kind of page with what is observed, and starting a new page.

A check yields findings: what is wrong with a page, where it is, and the remedy.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

import msgspec

from harness.core.errors import BreaklabError


class Finding(msgspec.Struct, frozen=True):
    """One result of a check; unlike a `PageError`, it does not end the check."""

    path: str
    line: int
    problem: str
    remedy: str
    exit_status: int = 1
    """The exit status that it causes: 0 for a warning, 3 if something could not be checked here."""


UNCHECKED = 3
"""The exit status if a library is missing, so that it is not known whether the page is true."""

_SEVERITY = (0, UNCHECKED, 1, 2)


def worst(statuses: Iterable[int]) -> int:
    """Return the exit status of a check; a failure takes precedence over an unchecked page."""
    return max(statuses, key=_SEVERITY.index, default=0)


def finding_from(error: BreaklabError, path: str, line: int = 1) -> Finding:
    """Return an error as a finding, at its own place if it has one, else at `line` of `path`."""
    place = error.place or (path, line)
    return Finding(*place, error.problem, error.remedy, error.exit_status)


def finding_from_bug(error: Exception, path: str) -> Finding:
    """Return an exception in our own code as a finding; the other pages are still checked.

    Raises the exception again if the cause is the environment.
    """
    if isinstance(error, (OSError, MemoryError)):
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1]
    problem = f"the check itself failed: {type(error).__name__}: {error}"
    remedy = f"please report this as a bug of breaklab, at {place.filename}:{place.lineno}"
    return Finding(path, 1, problem, remedy)
