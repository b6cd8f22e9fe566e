"""The grader of one submission, and how a process gets it.

A process opens the grader once, from data that can be sent to it, and grades many submissions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.core.folders import cache_folder
from harness.grade.files import write_files
from harness.grade.suite import SuiteReport
from harness.sandbox.scratch import scratch_folder

COPIES = cache_folder() / "submissions"
"""The folder with the copies being graded, which a submission must not read."""

GradeSuite = Callable[[Path], SuiteReport]
"""Grades the suite in a file or folder.

Raises PageError or UsageError if that is to blame."""


class Grader(NamedTuple):
    """What grades, once it is prepared."""

    grade: GradeSuite
    settings: Mapping[str, str]
    """A value or digest for each thing that a result depends on besides the seed, by its name."""
    prepare: Callable[[], None]
    """Computes what all submissions need, which may take a minute, before any fork."""


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the names of the settings that are not the same."""
    return sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))


class GraderOpening(msgspec.Struct, frozen=True):
    """How a grader is made."""

    function: str
    """`module:function`, called with the arguments and the seed; it returns a Grader."""
    arguments: dict[str, Any]
    """Values that JSON can hold."""
    seed: bytes

    def open(self) -> Grader:
        """Make the grader. Raises what its function raises."""
        module, _, name = self.function.partition(":")
        grader = getattr(import_module(module), name)(self.arguments, self.seed)
        assert isinstance(grader, Grader)
        return grader


def grade_files(
    grade: GradeSuite, name: str, files: Mapping[str, bytes], left_out: Sequence[str] = ()
) -> SuiteReport:
    """Grade a copy of a submission, in a folder that contains nothing else.

    So what is graded is what was hashed, even if its author replaces a file meanwhile. `left_out`
    is not in the copy.
    """
    COPIES.mkdir(parents=True, exist_ok=True)
    with scratch_folder(COPIES) as folder:
        write_files(folder, files)
        report = grade(folder / next(iter(files)).partition("/")[0])
        return msgspec.structs.replace(
            report,
            suite=[name],
            reason=_lasting(report.reason),
            left_out=[*left_out, *report.left_out],
        )


def _lasting(reason: str) -> str:
    """Return a reason without the parts that differ between runs: scratch folders, addresses."""
    return _ADDRESS.sub("0x...", _SCRATCH.sub("", reason))


_SCRATCH = re.compile(r"/[\w/.-]*/breaklab-[\w-]+/")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")


def rejection(name: str, reason: str, stated: str = "") -> SuiteReport:
    """Return the report of a submission that could not be graded.

    `stated` is the reason as a student may read it.
    """
    return SuiteReport(
        schema=1,
        suite=[name],
        engine="",
        gradable=False,
        reason=reason,
        tests=0,
        breaks=[],
        claims={},
        seconds=0.0,
        stated=stated,
    )
