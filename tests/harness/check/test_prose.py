"""What is found in a page's text without a run, and on which line."""

import re
from pathlib import Path

import pytest

from harness.check import Finding
from harness.check.prose import check_prose
from harness.pages.page import read_page
from harness.pages.translation import translated
from tests.harness.bundled import CATALOGUE
from tests.harness.sound_page import SOUND, VARIANT, sound_with, write_page

MYTH = """\
+++
id = "a-myth"
kind = "myth"
family = "f"
sources = ["seeds/004"]
+++
# A myth

## The claim

A claim.

## The program

```python
print(1)
```

## What happens

It prints 1.

## When it would be true

Never.

## Lesson

Run it.

## References

- None but the program.
"""


CONVENTIONS = CATALOGUE.conventions


def found(folder: Path, text: str, name: str = "log-slope-one.md") -> list[Finding]:
    return check_prose(read_page(write_page(folder, text, name)), CONVENTIONS)


def line_with(text: str, words: str) -> int:
    return next(i for i, row in enumerate(text.splitlines(), start=1) if words in row)


def test_nothing_is_wrong_with_a_sound_page_a_sound_myth_and_a_variant(tmp_path: Path) -> None:
    assert found(tmp_path, SOUND) == []
    assert found(tmp_path, MYTH, "a-myth.md") == []
    variant = VARIANT.replace('sources = ["std"]\n', "")
    assert found(tmp_path, variant[: variant.index("## References")]) == []


@pytest.mark.parametrize(
    ("old", "new", "at", "words"),
    [
        # sections
        ("## Lesson\n\nOnes are a bad test.\n\n", "", "# Hand", "no section `Lesson`"),
        ("## Lesson\n", "## Notes\n\nA.\n\n## Lesson\n", "## Notes", "unknown section `Notes`"),
        ("Ones are a bad test.\n", "", "## Lesson", "the section `Lesson` is empty"),
        ("## Lesson", "## Diagnostic\n\nA.\n\n## Lesson", "## Diagnostic\n\nA", "a second sec"),
        (
            "## Diagnostic\n\nThe gradient times `a` is 1.\n\n## Lesson",
            "## Lesson\n\nThe gradient times `a` is 1.\n\n## Diagnostic",
            "## Diagnostic",
            "the section `Diagnostic` comes after `Lesson`",
        ),
        ("```python", "```text", "## Probes", "the section `Probes` has no ```python block"),
        (
            "Every entry",
            "```python\n1\n```\nEvery entry",
            "```python\n1",
            "outside the section `Pro",
        ),
        ("Every entry", "```diff\n-1\n```\nEvery entry", "```diff\n-1", "outside the section `The"),
        # the question
        ("What is it here?", "It is not.", "## Hypothesis", "the hypothesis asks no question"),
        ("at 4 is 0.25", "is known", "## Hypothesis", "the hypothesis contains no number"),
        # said of every input
        ("Every entry", "The loss falls. Every entry", "The loss falls", "`The loss falls.` is s"),
        ("Every entry", "It is at most one. Every", "It is at", "`It is at most one.` is said of"),
        ("sources", 'why = "It still learns."\nsources', "why =", "`It still learns.` is said of"),
        # what a template leaves
        ("Every entry", "TODO: every entry", "TODO", "`TODO` is left"),
        ('"The logarithm of p', '"FIXME The logarithm of p', "FIXME", "`FIXME` is left"),
        ('["std"]', '["std"]  # TBD', "TBD", "`TBD` is left"),
        ("Every entry is 1.", "...", "...", "a placeholder `...` is left"),
        ("Every entry is 1.", "| a | ... |\n| ... | ... |", "| ... | ...", "a placeholder `|"),
        ("Every entry is 1.", "It is\n<...>.", "It is", "a placeholder `<...>` is left"),
        ("Every entry", "<what is seen>\nEvery entry", "<what", "`<what is seen>` is read as HTML"),
        ("Every entry", "<!-- Write. -->\n\nEvery", "<!-- W", "the comment `<!-- Write. -->` is"),
        ("[expect]\n", "[expect]\n# observed: x\n", "# observed", "comments `# observed: ...`"),
        # links
        (
            "Every entry",
            "[E](other.md) entry",
            "[E]",
            "the link `other.md` does not lead to a file",
        ),
        (
            "Every entry",
            "[E](#lessons) entry",
            "[E]",
            "the link `#lessons` does not lead to a heading",
        ),
        ("Every entry", "![E](e.png) entry", "![E]", "the link `e.png` does not lead to a file"),
        ("Every entry", "[E](/etc/passwd) entry", "[E]", "does not work on another computer"),
        ("Every entry", "[E](ftp://a.org/b) entry", "[E]", "does not work on another computer"),
        ("https://en.wikipedia.org", "https://wikipedia", "https", "is not a well-formed address"),
        ("https://en.w", "https:/en.w", "https", "`https:/en.wikipedia.org/wiki/Derivative` is no"),
        ("Every entry", "see http://x/y. Every entry", "see http", "`http://x/y` is not a well-f"),
        # sources
        ('sources = ["std"]\n', "", "+++", "no sources"),
        ('["std"]', '["std", "a blog"]', "sources", "the source `a blog` has an unknown form"),
    ],
)
def test_each_mistake_is_found_at_its_line(
    tmp_path: Path, old: str, new: str, at: str, words: str
) -> None:
    text = sound_with(old, new)
    findings = found(tmp_path, text)
    assert words in findings[0].problem
    assert len(findings) == 1
    line = text[: text.index(at)].count("\n") + 1
    assert (findings[0].line, findings[0].exit_status) == (line, 1)
    assert findings[0].remedy


@pytest.mark.parametrize(
    "prose",
    [
        "It goes on ... and ends. | ... then | a cell |",
        "`<...>` and `a < b`",
        "An indented line:\n\n    assert a < b ...  # as text",
        "[L](#lesson) and [the title](#hand-the-cotangent-of-log-on-as-it-came)",
        "[the page](log-slope-one.md#what-happens), <https://a.org/x?y=(1)>, http://a.org:80/b.",
        "2 < 3 > 1, f(a)[0][1]",
        "Where `a` is positive, the loss falls. Does the loss fall? It falls to 0.2 at least.",
    ],
)
def test_prose_that_only_looks_like_a_mistake_is_none(tmp_path: Path, prose: str) -> None:
    assert found(tmp_path, sound_with("Every entry is 1.", prose)) == []


def test_every_mistake_is_found_not_only_the_first(tmp_path: Path) -> None:
    text = sound_with("Every entry is 1.", "TODO\n\n[E](e.md)").replace(
        "Ones are", "<!-- a --> Ones"
    )
    assert len(found(tmp_path, text)) == 3


def test_a_long_page_is_only_a_warning(tmp_path: Path) -> None:
    (long,) = found(tmp_path, sound_with("Every entry is 1.", "Every entry is 1.\n\n" * 60))
    assert "lines are too many to read in one sitting" in long.problem
    assert long.exit_status == 0


@pytest.mark.parametrize(
    "source",
    [
        *("std", "seeds/003", "pytorch/pytorch", "pytorch/pytorch#1787", "openai/evals@1a2b3c4"),
        *("dlfaults/deepcrime:ARM", "karpathy-2018#4"),
        *("callummcdougall/ARENA_3.0#122", "https://example.org/post?id=1#top"),
    ],
)
def test_a_source_that_can_be_followed_is_not_a_mistake(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, sound_with('["std"]', f'["{source}"]')) == []


@pytest.mark.parametrize(
    "source", ["", "PT1787", "seeds/3", "pytorch#1787", "pytorch/pytorch#", "course-08", "http://x"]
)
def test_a_source_that_cannot_be_followed_is_one(tmp_path: Path, source: str) -> None:
    (finding,) = found(tmp_path, sound_with('["std"]', f'["{source}"]'))
    assert "unknown form" in finding.problem


def test_anchors_in_another_page_and_repeated_headings_count(tmp_path: Path) -> None:
    other = write_page(tmp_path, "# Other\n\n## Same\n\n## Same\n\n## A `b`, and c!\n", "OTHER.md")
    good = "[a](OTHER.md#same-1) [b](OTHER.md#a-b-and-c)"
    assert found(tmp_path, sound_with("Every entry is 1.", good)) == []
    (bad,) = found(tmp_path, sound_with("Every entry is 1.", "[a](OTHER.md#same-2)"))
    assert bad.problem == "the link `OTHER.md#same-2` does not lead to a heading"
    assert other.exists()


def test_a_myth_without_its_program_is_found(tmp_path: Path) -> None:
    text = MYTH.replace("```python\nprint(1)\n```", "None.")
    (finding,) = found(tmp_path, text, "a-myth.md")
    assert "the section `The program` has no ```python block" in finding.problem
    assert finding.line == line_with(text, "## The program")


def test_a_general_sentence_in_the_front_matter_is_found_where_its_key_is(tmp_path: Path) -> None:
    beware = 'beware = "A \\"good\\" loss falls."\n\n[expect]'
    text = sound_with("\n[expect]", beware)
    (finding,) = found(tmp_path, text)
    assert "is said of every input" in finding.problem
    assert finding.line == line_with(text, "beware")


COTANGENT = re.compile("cotang", re.I)
UPSTREAM = re.compile(r"upstream\s+gradient|gradiente\s+que\s+(le\s+)?llega", re.I)
EXPLAIN_BOTH = {"scalar-target-cannot-be-differentiated", "unbroadcast-n-times-upstream"}
"""An error message says *cotangent* on level 1, and notes that are quoted *upstream gradient*."""


def test_the_gradient_of_a_result_has_one_name_on_each_level() -> None:
    """*Upstream gradient* on level 1, and *cotangent* from level 2 on, in every language."""
    mixed = set()
    for page in CATALOGUE.valid_pages():
        other = COTANGENT if page.front.level == 1 else UPSTREAM
        files = CATALOGUE.translations(page.id).values()
        for shown in (page, *(translated(page, file) for file in files)):
            texts = [getattr(shown.front, key, "") for key in ("why", "beware")]
            for asked in getattr(shown.front, "ask", ()):
                texts += [asked.question, asked.because]
            text = re.sub(r"```.*?```|`[^`]*`", "", " ".join([shown.body, *texts]), flags=re.S)
            if other.search(text):
                mixed.add(page.id)
    assert mixed == EXPLAIN_BOTH
