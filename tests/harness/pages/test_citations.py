"""docs/citations.md lists the issues and pull requests that pages and documents cite."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.bundled import bundled_pages

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "citations.md"

THREAD = re.compile(r"(?<![\w#/.-])([A-Za-z0-9][\w-]*/[\w.-]+)?#(\d+)\b")
"""`owner/repo#123`, or `#123` for another thread of the repository that was named before."""


def citations(text: str) -> set[str]:
    """Return the threads that a text cites. `#123` must follow a repository in its list item."""
    return {thread for item in re.split(r"\n- |\n\n|\|", text) for thread in _threads(item)}


def _threads(item: str) -> Iterator[str]:
    repository = ""
    for match in THREAD.finditer(item):
        repository = match[1] or repository
        if repository:
            yield f"{repository}#{match[2]}"


def cited() -> set[tuple[str, str]]:
    """Return every pair of a page or document and a thread that it cites."""
    documents = [path for path in (ROOT / "docs").glob("*.md") if path != TABLE]
    paths = [Path(page.path) for page in bundled_pages()] + documents
    return {(path.stem, thread) for path in paths for thread in citations(path.read_text("utf-8"))}


def listed(heading: str) -> list[tuple[str, str]]:
    """Return the pairs in the table under a heading: the stem of each link, and the thread."""
    section = TABLE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if "#" in line]
    return [
        (page, thread)
        for thread_cell, pages, *_ in rows
        for thread in citations(thread_cell.removeprefix("| "))
        for page in re.findall(r"\[([\w-]+)\]", pages)
    ]


def test_the_table_lists_every_citation_and_no_other() -> None:
    table = listed("Cited")
    assert sorted(cited() - set(table)) == []
    assert sorted(set(table) - cited()) == []
    assert len(table) == len(set(table))


def test_what_was_cut_is_not_cited_again() -> None:
    cut = listed("Replaced or cut")
    assert cut
    assert sorted(cited() & set(cut)) == []


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ("- a/b.c#1 and #2: the bug", {"a/b.c#1", "a/b.c#2"}),
        ("- a/b#1: x; #3 too. c/d#4", {"a/b#1", "a/b#3", "c/d#4"}),
        ("- a/b#1\n- see #2", {"a/b#1"}),
        ('sources = ["a/b#1", "karpathy-2018#2"]', {"a/b#1"}),
        ("[here](x.md#12) and a/b:OCG", set()),
    ],
)
def test_a_bare_number_is_a_thread_of_the_repository_before_it(
    text: str, threads: set[str]
) -> None:
    assert citations(text) == threads
