"""The sections of each kind of page, in order, each with the hint that a new page has for it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.vocabulary import PageKind

_LESSON = "What is true beyond this page, in a sentence or two."
_REFERENCES = "Where it was found, and where it is explained."

BREAK_SECTIONS: Mapping[str, str] = {
    "Hypothesis": "What the code is for, in two sentences. Then ask for a prediction: which probe "
    "crashes, which is silently wrong, which is right? Give shapes and a correct value to start "
    "from.",
    "The break": "What was changed, and how one might come to write it. Probes of your own go into "
    "a `python` block in the section `Probes` after this one, which starts with the imports that "
    "they need, such as `import numpy as np`.",
    "Probes": "",
    "What happens": "Probe by probe, or case by case, with the numbers you saw. Why some "
    "probes do not show it.",
    "Diagnostic": "How to see it from logs alone; what the invariant above cannot see; the "
    "stronger check. The invariant holds on every correct engine, and fails on the broken one. If "
    'there is none, remove the block, and write `no_invariant = "the reason"` in the front matter.',
    "Lesson": _LESSON,
    "References": _REFERENCES,
    "On other engines": "",
}
VARIANT_SECTIONS: Mapping[str, str] = {
    **BREAK_SECTIONS,
    "The break": "Not a break: an equally correct rewrite. What was changed, and who writes it.",
    "Diagnostic": "Nothing may raise an alarm. What it means for your own engine.",
}
MYTH_SECTIONS: Mapping[str, str] = {
    "The claim": "What is taught, in your own words, and where.",
    "The program": "What it does, line by line where that is not obvious.",
    "What happens": BREAK_SECTIONS["What happens"],
    "When it would be true": "The case, the library or the year in which the claim is true.",
    "Lesson": _LESSON,
    "References": _REFERENCES,
}
EXERCISE_SECTIONS: Mapping[str, str] = {
    "The suite": "The tests as a course would write them, with one blind spot.",
    "The break": "Which break passes, in words, with a link to its page; what the suite catches.",
    "Your task": "What to write, and what to predict before it runs.",
    "Hints": "A list, starting with a gentle hint.",
    "Answer": "Why it kills the break, with the numbers you saw; why the suite could not.",
    "Lesson": "What is true beyond this suite, in a sentence or two.",
    "References": _REFERENCES,
}
PYTHON_SECTIONS = ("Probes", "The program", "The suite", "Answer")
"""Sections with a Python block that runs."""


def sections_of(kind: PageKind) -> Mapping[str, str]:
    """Return the second-level sections that a page of that kind may have, and their hints."""
    tables = {"variant": VARIANT_SECTIONS, "myth": MYTH_SECTIONS, "exercise": EXERCISE_SECTIONS}
    return tables.get(kind, BREAK_SECTIONS)


def optional_sections(kind: PageKind) -> frozenset[str]:
    """Return the sections that a page of that kind may omit."""
    if kind in ("myth", "exercise"):
        return frozenset()
    optional = frozenset({"Probes", "On other engines"})
    return optional if kind == "break" else optional | {"References"}
