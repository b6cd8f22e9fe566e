"""A finding: something wrong with a page, where it is, and the remedy."""

from __future__ import annotations

import msgspec

from harness.core.errors import BreaklabError


class Finding(msgspec.Struct, frozen=True):
    """What a check lists; unlike a `PageError`, it does not end the check."""

    path: str
    line: int
    problem: str
    remedy: str
    exit_status: int = 1
    """Its part in the exit status of the check; 0 is a warning."""


def finding_from(error: BreaklabError, path: str, line: int = 1) -> Finding:
    """An error as a finding, at its own place or else at `line` of the page at `path`."""
    where = error.place or (path, line)
    return Finding(*where, error.problem, error.remedy, error.exit_status)
