"""A finding: something about a page that is not as it should be, where it is, and the remedy."""

from __future__ import annotations

import re

import msgspec

from harness.core.errors import BreaklabError, PageError


class Finding(msgspec.Struct, frozen=True):
    """Like a PageError, but not alone: a check lists every one."""

    path: str
    line: int
    problem: str
    remedy: str
    exit_status: int = 1
    """What it makes of the check's exit status; 0 is a warning."""


def finding_from(error: BreaklabError, path: str, line: int = 1) -> Finding:
    """An error as a finding on the page at `path`, unless it says itself where it belongs."""
    if isinstance(error, PageError):
        return Finding(error.path, error.line, error.problem, error.remedy, error.exit_status)
    problem, _, remedy = str(error).partition("\n  remedy: ")
    if place := re.match(r"(.+?\.md):(\d+): ", problem):
        path, line, problem = place[1], int(place[2]), problem[place.end() :]
    return Finding(path, line, problem, remedy, error.exit_status)
