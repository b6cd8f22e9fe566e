"""What a student may read of a suite's run: names in the submission, and our own sentences.

A run can put anything that it has read into a message, or into the name of a test or of an
exception type. So text of a run is wrapped in `Said`, together with what a student reads instead.
That is made only from the submitted files, a fixed list of exceptions, and numbers.
"""

from __future__ import annotations

import builtins
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from harness.core.vocabulary import visible
from harness.grade.files import SubmittedFiles
from harness.grade.protocol import MOST_TESTS, Collected, Raised
from harness.grade.refusal import Said

EXCEPTIONS = {
    name
    for name, item in vars(builtins).items()
    if isinstance(item, type) and issubclass(item, BaseException)
} | {"Failed", "Exit", "LinAlgError", "AxisError", "FlakyFailure", "Unsatisfiable"}
"""The exceptions that are named to students: those of Python, NumPy, pytest and Hypothesis."""

OTHER_EXCEPTION = "an exception of another type"
ENDED = "it ended its process, or reached a limit of time, memory or processes"
WITHHELD = "your instructor can see the reason"
"""What a student reads in place of other text."""

_BESIDE = " (a file is graded without those beside it: grade its folder instead)"

_MOST_SCOPES = 2
"""A test and its class; a longer path of known names could spell anything."""


class SubmissionWords:
    """The words in the Python files of a submission: written by its author, not by a run."""

    def __init__(self, submitted: SubmittedFiles) -> None:
        self.files, self.beside = submitted.files, submitted.beside

    @cached_property
    def _words(self) -> frozenset[str]:
        texts = (data.decode(errors="replace") for f, data in self.files.items() if f[-3:] == ".py")
        return frozenset(
            word
            for text in texts
            # Python compares identifiers in this form.
            for dotted in re.findall(r"[\w.]+", unicodedata.normalize("NFKC", text))
            for word in (dotted, *dotted.split("."))
        )

    def has(self, name: str) -> bool:
        """Whether a name, such as `helpers.sums`, occurs in the files as a whole.

        A name made of several words that occur could spell anything.
        """
        return name in self._words

    def names(self, tests: Sequence[str]) -> list[str]:
        """Return the name of each test as a student may read it.

        `tests` are their ids. A name that occurs in the files is kept, with that of its class.
        Parameters are created at run time, so a number replaces them: `test_sub[2]`. A test with
        any other name is `test number 7`.
        """
        counts: Counter[str] = Counter()
        names = []
        for number, test in enumerate(tests, 1):
            static, bracket, _ = test.partition("[")
            file, *scopes = static.split("::")
            known = file in self.files and 1 <= len(scopes) <= _MOST_SCOPES
            if not known or not all(map(self.has, scopes)):
                names.append(f"test number {number}")
                continue
            counts[static] += 1
            names.append(visible(f"{static}[{counts[static]}]" if bracket else static))
        return names

    def raised(self, raised: Raised) -> Said:
        """Return how a test or an import has failed."""
        shown = raised.type if raised.type in EXCEPTIONS else OTHER_EXCEPTION
        if raised.name and self.has(raised.name):
            if raised.type == "ModuleNotFoundError":
                shown = f"{shown}: No module named '{raised.name}'"
            elif raised.type == "FixtureLookupError":
                shown = f"fixture '{raised.name}' not found"
        hint = self._hint(raised)
        return Said(raised.text + hint, shown + hint)

    def _hint(self, raised: Raised) -> str:
        known = raised.name in self.beside and self.has(raised.name)
        return _BESIDE if known and raised.type == "ModuleNotFoundError" else ""

    def collection(self, collected: Collected) -> Said:
        """Return the reason why a suite has no tests."""
        match collected.kind:
            case "empty":
                return Said(collected.problem, "it has no tests")
            case "many":
                return Said(collected.problem, f"it has more than {MOST_TESTS} tests")
            case "raised":
                how = self.raised(collected.raised).shown
                what = visible(collected.file) if collected.file in self.files else "it"
                text = collected.problem + self._hint(collected.raised)
                return Said(text, f"{what} cannot be imported: {how}")
            case _:
                return Said(collected.problem, f"its tests cannot be collected: {ENDED}")
